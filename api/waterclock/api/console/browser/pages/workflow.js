// One workflow: its graph, its waves, when it runs next, how it came to be what it is.
import { html, useEffect } from "../vendor/preact.js";
import { declarationOf, scheduleWords } from "../lib/definition.js";
import { onChanges } from "../lib/live.js";
import { navigate, path, withQuery } from "../lib/router.js";
import { throttled, useResource } from "../lib/store.js";
import { FireTable } from "../parts/fires.js";
import { GraphView } from "../parts/graph.js";
import { JobActions, skipNext } from "../parts/job_actions.js";
import { CopyButton, Empty, Json, Loaded, PageHead, Panel, Skeleton, Span, Status, Time, Trouble } from "../parts/parts.js";
import { RunBars } from "../parts/run_bars.js";
import { Versions } from "../parts/versions.js";

/** @param {{workflow: string}} props */
export default function Workflow({ workflow: id }) {
  const url = path("/v1/workflows", id);
  const workflow = useResource(url, { every: 15_000 });
  const graph = useResource(workflow.data ? `${url}/graph` : null);
  const waves = useResource(`${path("/v1/jobs", id)}/runs?limit=50`);
  const next = useResource(workflow.data ? `${path("/v1/jobs", id)}/next?n=6` : null);
  useEffect(() => {
    const reload = throttled(() => [workflow, waves, next].forEach((one) => one.reload()), 1500);
    return onChanges((changes) => changes.some((change) => change.job_id === id && !change.run_id?.includes("~")) && reload());
  }, [id]);
  useEffect(() => void (graph.data && graph.data.version !== workflow.data?.version && graph.reload()), [workflow.data?.version]);
  const data = workflow.data;
  if (data === undefined) return workflow.error ? html`<${PageHead} title="Workflow" /><${Trouble} error=${workflow.error} retry=${workflow.reload} />` : html`<${Skeleton} rows=${8} />`;
  const reload = () => Promise.all([workflow.reload(), waves.reload(), next.reload()]);
  return html`<div class="workflow" data-job-id=${id} data-status=${data.status}>
    <${PageHead} title=${data.name} lead=${html`<span class="run-lead"><${Status} status=${data.status} /><code>${id}</code> <${CopyButton} text=${id} /><span>${scheduleWords({ dependencies: [], ...data })}${data.timezone === "UTC" ? "" : `, ${data.timezone}`}</span></span>`}>
      <${JobActions} job=${data} reload=${reload} isWorkflow /><//>
    ${workflow.error && html`<${Trouble} error=${workflow.error} retry=${workflow.reload} stale />`}
    <div class="stack">
      <${Panel} title="Graph" flush><${Loaded} of=${graph}>${(/** @type {any} */ found) => html`<${GraphView} graph=${found} />`}<//><//>
      <div class="two-columns"><div class="stack">
        <${Panel} title="Waves" aside=${html`<a href=${withQuery("/ui/runs", { job: id })}>All runs</a>`} flush>
          <${Loaded} of=${waves}>${(/** @type {any} */ found) => html`<${Waves} waves=${found.items ?? found} id=${id} />`}<//><//>
        <${Panel} title="Next waves" flush><${Loaded} of=${next}>${(/** @type {any} */ found) => found.fires.length
          ? html`<${FireTable} fires=${found.fires} zoneName=${data.timezone} onSkip=${(/** @type {any} */ fire) => skipNext(id, reload, fire)} />`
          : html`<p class="quiet pad">${data.status === "PAUSED" ? "It is paused." : "It runs when it is asked to."}</p>`}<//><//>
        <${Versions} key=${data.version} url=${url} current=${data} reload=${reload} /></div>
      <div class="stack side-facts">
        <${Panel} title="Definition" aside=${html`version ${data.version}`}><${Json} value=${declarationOf(data)} /><//></div></div>
    </div></div>`;
}

/** @param {{waves: any[], id: string}} props */
function Waves({ waves, id }) {
  if (!waves.length) return html`<${Empty} title="It has not run yet" command=${`waterclock workflow run ${id}`}>Run it now, or wait for its schedule.<//>`;
  const open = (/** @type {any} */ event) => {
    const bar = event.target.closest("[data-run-id]");
    if (!bar) return;
    event.preventDefault();
    navigate(path("/ui/workflow-runs", bar.dataset.runId));
  };
  return html`<div class="pad" onClickCapture=${open}><${RunBars} runs=${waves} /></div>
    <ul class="short-list">${waves.slice(0, 12).map((wave) => html`<li key=${wave.run_id} data-run-id=${wave.run_id} data-status=${wave.status}><${Status} status=${wave.status} />
      <a class="clip" href=${path("/ui/workflow-runs", wave.run_id)}>${wave.epoch ? `wave ${wave.epoch}` : wave.run_id}</a><span class="clip quiet grow">${wave.reason ?? ""}</span>
      <span class="quiet number"><${Time} at=${wave.scheduled_time} /></span><span class="quiet number">${wave.start_time ? html`<${Span} from=${wave.start_time} to=${wave.end_time} />` : ""}</span></li>`)}</ul>`;
}
