// One run: what it is, why it is so, where its time went, what it said.
import { html, useEffect, useMemo } from "../vendor/preact.js";
import { send } from "../lib/api.js";
import { sentence, size, span } from "../lib/format.js";
import { onChanges } from "../lib/live.js";
import { address, path, setQuery } from "../lib/router.js";
import { ENDED } from "../lib/run_list.js";
import { throttled, useResource } from "../lib/store.js";
import { ask, toast } from "../parts/dialogs.js";
import { LogView } from "../parts/log_view.js";
import { Button, CopyAs, CopyButton, Facts, Json, Loaded, PageHead, Panel, Skeleton, Span, Status, Tabs, Time, Trouble } from "../parts/parts.js";
import { useKeys } from "../parts/shell.js";
import { Timeline } from "../parts/timeline.js";

/** @param {{run: string}} props */
export default function Run({ run: id }) {
  const url = path("/v1/runs", id);
  const run = useResource(url);
  const why = useResource(`${url}/why`);
  const attempts = useResource(`${url}/attempts`);
  const events = useResource(`${url}/events`);
  const data = run.data;
  const job = useResource(data ? path("/v1/jobs", data.job_id) : null);

  useEffect(() => {
    const reload = throttled(() => [run, why, attempts, events].forEach((one) => one.reload()), 700);
    return onChanges((changes) => changes.some((change) => change.run_id === id) && reload());
  }, [id]);

  const goesOn = data !== undefined && !ENDED.includes(data.status);
  const cancel = () =>
    ask({
      title: "Cancel this run?",
      danger: true,
      action: "Cancel run",
      body: html`<p>What runs is told to stop, and killed if it does not within its grace. The job's next fires stay as they are.</p>`,
      run: async () => {
        run.set(await send("POST", `${url}/cancel`, {}));
        toast("Told to stop");
      },
    });
  const retry = async () => {
    run.set(await send("POST", `${url}/retry`));
    toast("Another attempt was asked for");
  };
  useKeys(
    [
      { keys: "c", text: "Cancel this run", act: () => goesOn && cancel() },
      { keys: "t", text: "Retry this run", act: () => retryable(data) && retry().catch((error) => toast(error.message, "bad", error.advice)) },
    ],
    [goesOn, data?.status],
  );
  if (data === undefined)
    return run.error ? html`<${Trouble} error=${run.error} retry=${run.reload} />` : html`<${Skeleton} rows=${8} />`;

  return html`<div class="run" data-run-id=${id} data-status=${data.status}>
    <${PageHead} title=${html`<a class="plain-link" href=${path("/ui/jobs", data.job_id)}>${job.data?.name ?? data.job_name ?? data.job_id}</a>`}
      lead=${html`<span class="run-lead"><${Status} status=${data.status} /> <code>${id}</code> <${CopyButton} text=${id} /></span>`}>
      ${goesOn && html`<${Button} kind="danger" scope="operate" onClick=${cancel}>Cancel<//>`}
      ${retryable(data) && html`<${Button} kind="primary" scope="operate" onClick=${retry}>Retry<//>`}
      <${CopyAs} cli=${`waterclock run ${id}`} curl=${{ path: url }} />
    <//>
    ${run.error && html`<${Trouble} error=${run.error} retry=${run.reload} stale />`}
    <div class="two-columns">
      <div class="stack">
        <${Panel} title="Why" aside=${html`<code>waterclock why</code>`}>
          <${Loaded} of=${why} rows=${2}>${(/** @type {any} */ found) => html`<p class="answer">${sentence(found.answer)}</p><${Timeline} delays=${found.delays ?? []} />`}<//>
        <//>
        <${Log} id=${id} run=${data} goesOn=${goesOn} attempts=${attempts.data} />
        <${Panel} title="What happened" flush><${Loaded} of=${why}>${(/** @type {any} */ found) => html`<${Steps} steps=${found.steps} />`}<//><//>
        <${Panel} title="Events" aside="as they are in the log" flush><${Loaded} of=${events}>${(/** @type {any} */ found) => html`<${Events} events=${found.items ?? []} />`}<//><//>
      </div>
      <div class="stack side-facts">
        <${Panel} title="Run"><${RunFacts} run=${data} job=${job.data} why=${why.data} /><//>
        <${Panel} title="Attempts" flush><${Loaded} of=${attempts}>${(/** @type {any} */ found) => html`<${Attempts} attempts=${found.items ?? found} />`}<//><//>
        ${data.output !== null && data.output !== undefined && html`<${Panel} title="Output"><${Json} value=${data.output} /><//>`}
        ${payloadOf(data, job.data) !== undefined && html`<${Panel} title="Payload"><${Json} value=${payloadOf(data, job.data)} /><//>`}
      </div>
    </div>
  </div>`;
}

/** @param {any} run */
function retryable(run) {
  return run !== undefined && ENDED.includes(run.status) && run.status !== "SUCCESS";
}

/** @param {any} run @param {any} job */
function payloadOf(run, job) {
  const found = run.payload ?? job?.payload;
  return found === null || (typeof found === "object" && Object.keys(found).length === 0) ? undefined : found;
}

/** @param {{id: string, run: any, goesOn: boolean, attempts: any}} props */
function Log({ id, run, goesOn, attempts }) {
  const chosen = address.value.query.get("attempt") ?? "";
  const count = Math.max(run.attempt_number ?? 0, (attempts?.items ?? attempts ?? []).length);
  const url = path("/v1/runs", id) + `/log${chosen ? `?attempt=${encodeURIComponent(chosen)}` : ""}`;
  const options = useMemo(
    () => /** @type {[string, string][]} */ ([["", "All"], ...Array.from({ length: Math.min(count, 12) }, (_, i) => [String(count - i), String(count - i)]).reverse()]),
    [count],
  );
  const current = goesOn && (!chosen || Number(chosen) === count);
  return html`<${Panel} title="Log" flush aside=${count > 1 && html`<span>attempt</span><${Tabs} label="Attempt" value=${chosen} options=${options} onChange=${(/** @type {string} */ attempt) => setQuery({ attempt })} />`}>
    <${LogView} key=${url} url=${url} goesOn=${current} download=${url} /><//>`;
}

/** @param {{run: any, job: any, why: any}} props */
function RunFacts({ run, job, why }) {
  const zone = job?.timezone;
  const time = (/** @type {string | null} */ at) => at && html`<${Time} at=${at} full zoneName=${zone} />`;
  return html`<${Facts} items=${[
    ["Job", html`<a href=${path("/ui/jobs", run.job_id)}>${run.job_id}</a>`],
    ["Workflow run", run.workflow_run_id && html`<a href=${path("/ui/workflow-runs", run.workflow_run_id)}>${run.workflow_run_id}</a>`],
    ["Scheduled", time(run.scheduled_time)],
    ["Due", run.due_time !== run.scheduled_time && time(run.due_time)],
    ["Queued", time(run.queued_time)],
    ["Started", time(run.start_time)],
    ["Ended", time(run.end_time)],
    ["Took", run.start_time && html`<${Span} from=${run.start_time} to=${run.end_time} />`],
    ["Late by", run.attempt_number === 1 && run.start_time && run.scheduled_time && span(Math.max(0, (Date.parse(run.start_time) - Date.parse(run.scheduled_time)) / 1000))],
    ["Executor", run.executor_id && html`<a class="mono" href=${`/ui/fleet#${encodeURIComponent(run.executor_id)}`}>${run.executor_id}</a>`],
    ["Exit code", run.exit_code],
    ["Reason", run.reason],
    ["Error", run.error_message],
    ["Attempt", run.attempt_number],
    ["Crashes", run.crash_count || null],
    ["Definition", why?.definition && `version ${why.definition.version}, by ${why.definition.actor}`],
    ["Decided by", why?.owner && html`<code>${why.owner}</code>`],
  ].map(([name, value]) => [name, value === false ? null : value])} />`;
}

/** @param {{attempts: any[]}} props */
function Attempts({ attempts }) {
  if (!attempts.length) return html`<p class="quiet pad">None began yet.</p>`;
  return html`<ol class="attempts">${attempts.map(
    (one) => html`<li key=${one.attempt_number} data-status=${one.status}><a href=${`?attempt=${one.attempt_number}`}>#${one.attempt_number}</a><${Status} status=${one.status} />
      <span class="number"><${Span} from=${one.start_time} to=${one.end_time} /></span>
      <span class="quiet attempt-more">${[one.executor_id, one.exit_code !== null && one.exit_code !== undefined && `exit ${one.exit_code}`, one.cpu_seconds && `${span(one.cpu_seconds)} CPU`, one.memory_bytes && size(one.memory_bytes)].filter(Boolean).join(" · ")}</span>
      ${one.error_message && html`<span class="attempt-more">${one.error_message}</span>`}</li>`,
  )}</ol>`;
}

/** @param {{steps: any[]}} props */
function Steps({ steps }) {
  return html`<ol class="steps">${steps.map(
    (step, i) => html`<li key=${i}><span class="quiet"><${Time} at=${step.at} exact /></span><span>${step.what}${step.by && html` <span class="quiet">by ${step.by}</span>`}</span>
      <span class="quiet number">${step.after_seconds !== null && step.after_seconds !== undefined ? `+${span(step.after_seconds)}` : ""}</span></li>`,
  )}</ol>`;
}

/** @param {{events: any[]}} props */
function Events({ events }) {
  return html`<ol class="steps">${events.map(
    (event, i) => html`<li key=${i}><span class="quiet"><${Time} at=${event.at} exact /></span><span><code>${event.type}</code> <span class="quiet">${[event.attempt_number && `attempt ${event.attempt_number}`, event.executor_id, event.reason, event.error_message, event.actor && `by ${event.actor}`].filter(Boolean).join(" · ")}</span></span>
      <span class="quiet number mono">${event.position}</span></li>`,
  )}</ol>`;
}
