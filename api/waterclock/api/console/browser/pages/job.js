// One job: how it went, when it fires next, why it did or did not at a moment, how it came to be what it is.
import { html, useEffect, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { declarationOf, scheduleWords, taskWords } from "../lib/definition.js";
import { number, span, zone } from "../lib/format.js";
import { onChanges } from "../lib/live.js";
import { address, navigate, path, setQuery, withQuery } from "../lib/router.js";
import { throttled, useResource } from "../lib/store.js";
import { instantOf, localOf } from "../lib/zones.js";
import { FireTable } from "../parts/fires.js";
import { JobActions, skipNext } from "../parts/job_actions.js";
import { Button, CopyButton, Empty, Facts, Json, Loaded, PageHead, Panel, Skeleton, Span, Status, Time, Trouble } from "../parts/parts.js";
import { RunBars } from "../parts/run_bars.js";
import { Versions } from "../parts/versions.js";

const WEEK = 7 * 86_400_000;
const MONTH = 30 * 86_400_000;

/** To the hour, so that the same is asked for all the time. @param {number} ms */
const hour = (ms) => new Date(Math.ceil((Date.now() + ms) / 3_600_000) * 3_600_000).toISOString().slice(0, 19) + "Z";

/** @param {{job: string}} props */
export default function Job({ job: id }) {
  const url = path("/v1/jobs", id);
  const job = useResource(url, { every: 15_000 });
  const runs = useResource(`${url}/runs?limit=50`);
  const fires = useFires(id, job.data);
  const stats = useResource(withQuery("/v1/stats", { from: hour(-WEEK), to: hour(0), step: "1d", by: "job" }));

  useEffect(() => {
    const reload = throttled(() => [job, runs, fires].forEach((one) => one.reload()), 1500);
    return onChanges((changes) => changes.some((change) => change.job_id === id) && reload());
  }, [id]);

  const data = job.data;
  const isWorkflow = data?.task.kind === "workflow";
  useEffect(() => void (isWorkflow && navigate(path("/ui/workflows", id), { replace: true })), [isWorkflow]);
  if (data === undefined) return job.error ? html`<${PageHead} title="Job" /><${Trouble} error=${job.error} retry=${job.reload} />` : html`<${Skeleton} rows=${8} />`;
  const reload = () => Promise.all([job.reload(), runs.reload(), fires.reload()]);
  return html`<div class="job" data-job-id=${id} data-status=${data.status}>
    <${PageHead} title=${data.name} lead=${html`<span class="run-lead"><${Status} status=${data.status} /><code>${id}</code> <${CopyButton} text=${id} /><span>${scheduleWords(data)}${data.timezone === "UTC" ? "" : `, ${data.timezone}`}</span>${data.note && html`<span>“${data.note}”</span>`}</span>`}>
      <${JobActions} job=${data} reload=${reload} /><//>
    ${job.error && html`<${Trouble} error=${job.error} retry=${job.reload} stale />`}
    <div class="two-columns"><div class="stack">
      <${Panel} title="Last runs" aside=${html`<${Durations} stats=${stats.data} id=${id} /><a href=${withQuery("/ui/runs", { job: id })}>All runs</a>`}>
        <${Loaded} of=${runs}>${(/** @type {any} */ found) => html`<${LastRuns} runs=${found.items ?? found} job=${data} />`}<//><//>
      <${Panel} title="Next fires" flush aside=${data.status === "PAUSED" ? "it is paused: none of them is taken" : ""}>
        <${Loaded} of=${fires}>${(/** @type {any} */ found) => found.length
          ? html`<${FireTable} fires=${found} zoneName=${data.timezone} onSkip=${(/** @type {any} */ fire) => skipNext(id, reload, fire)} />`
          : html`<p class="quiet pad">${data.status === "SCHEDULED" ? "No fire is known: it runs when it is asked to, or after others." : "It does not fire any more."}</p>`}<//><//>
      <${WhyThen} url=${url} zoneName=${data.timezone} />
      <${Versions} key=${data.version} url=${url} current=${data} reload=${reload} />
    </div><div class="stack side-facts">
      <${Panel} title="What runs"><pre class="task">${taskWords(data.task)}</pre><${JobFacts} job=${data} /><//>
      ${data.payload !== null && html`<${Panel} title="Payload"><${Json} value=${data.payload} /><//>`}
      <${Panel} title="Definition" aside=${html`version ${data.version}`}><${Json} value=${declarationOf(data)} /><//>
    </div></div></div>`;
}

/** The next fires: with what is skipped, if there are any within a month; else whenever they are. @param {string} id @param {any} job */
function useFires(id, job) {
  const [state, setState] = useState(/** @type {any} */ ({ data: undefined, error: null, loading: true }));
  const reload = async () => {
    try {
      const coming = await get(withQuery("/v1/upcoming", { job: id, from: new Date().toISOString(), to: new Date(Date.now() + MONTH).toISOString(), limit: 12 }));
      const data = coming.items.length ? coming.items : (await get(`${path("/v1/jobs", id)}/next?n=8`)).fires;
      setState({ data, error: null, loading: false });
    } catch (error) {
      setState((/** @type {any} */ before) => ({ ...before, error, loading: false }));
    }
  };
  useEffect(() => {
    if (job) reload();
  }, [id, job?.version, job?.status, job?.next_run_at]);
  return { ...state, reload, at: 0, set: () => {} };
}

/** @param {{stats: any, id: string}} props */
function Durations({ stats, id }) {
  const own = (stats?.buckets ?? []).filter((/** @type {any} */ one) => one.job === id);
  const last = own.filter((/** @type {any} */ one) => one.p50_seconds !== null).pop();
  if (!own.length) return null;
  const ended = own.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.success + one.failed, 0);
  const good = own.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.success, 0);
  return html`<span class="durations" title="Of the last day with runs, and of the last seven">${last && html`<span>p50 <b>${span(last.p50_seconds)}</b></span><span>p95 <b>${span(last.p95_seconds)}</b></span>`}
    ${ended > 0 && html`<span><b>${((100 * good) / ended).toPrecision(3)} %</b> of ${number(ended)} well, 7 days</span>`}</span>`;
}

/** @param {{runs: any[], job: any}} props */
function LastRuns({ runs, job }) {
  if (!runs.length) return html`<${Empty} title="It has not run yet" command=${`waterclock run-now ${job.job_id}`}>${job.next_run_at ? html`It fires <${Time} at=${job.next_run_at} />.` : "Run it now, or wait for what it waits for."}<//>`;
  return html`<${RunBars} runs=${runs} /><ul class="short-list last-runs">${runs.slice(0, 5).map((run) => html`<li key=${run.run_id} data-run-id=${run.run_id} data-status=${run.status}>
    <${Status} status=${run.status} /><a class="clip" href=${path("/ui/runs", run.run_id)}><${Time} at=${run.scheduled_time} exact zoneName=${job.timezone} /></a>
    <span class="clip quiet grow">${(run.error_message || run.reason || "").trim().split("\n").pop()}</span><span class="quiet number">${run.start_time && html`<${Span} from=${run.start_time} to=${run.end_time} />`}</span></li>`)}</ul>`;
}

/** Why it ran, or did not, at a moment. @param {{url: string, zoneName: string}} props */
function WhyThen({ url, zoneName }) {
  const at = address.value.query.get("at");
  const [text, setText] = useState(() => localOf(at ?? new Date(), zone.value));
  const why = useResource(at ? withQuery(`${url}/why`, { at }) : null);
  const look = (/** @type {Event} */ event) => {
    event.preventDefault();
    const instant = instantOf(text, zone.value);
    if (instant) setQuery({ at: instant }, { replace: true });
  };
  return html`<${Panel} title="Why, at a moment" aside=${html`<code>waterclock why --at</code>`}>
    <form class="inline-form" onSubmit=${look}><label for="why-at">At, in ${zone.value}</label><input id="why-at" type="datetime-local" step="1" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
      <${Button} type="submit" onClick=${() => {}}>Explain<//></form>
    ${at && html`<${Loaded} of=${why} rows=${2}>${(/** @type {any} */ found) => html`<p class="answer" data-why=${found.reason}>${found.answer}</p>
      <p class="quiet why-more">${found.run_id && html`<a href=${path("/ui/runs", found.run_id)}>${found.run_id}</a> · `}${found.previous_fire && html`fire before: <${Time} at=${found.previous_fire} full zoneName=${zoneName} /> · `}${found.next_fire && html`fire after: <${Time} at=${found.next_fire} full zoneName=${zoneName} />`}</p>`}<//>`}<//>`;
}

/** @param {{job: any}} props */
function JobFacts({ job }) {
  const time = (/** @type {string | null} */ at) => at && html`<${Time} at=${at} full zoneName=${job.timezone} />`;
  return html`<${Facts} items=${[
    ["Schedule", html`<code>${scheduleWords(job)}</code>`],
    ["Zone", job.timezone],
    ["Next", time(job.next_run_at)],
    ["From", time(job.start_at)],
    ["Until", time(job.end_at)],
    ["Overlap", job.overlap.replaceAll("_", " ")],
    ["Catch up", `${job.catch_up.policy}${job.catch_up.policy === "none" ? "" : `, within ${span(job.catch_up.window_seconds)}`}`],
    ["Retries", String(job.max_retries)],
    ["Timeout", job.timeout_seconds ? span(job.timeout_seconds) : "none"],
    ["Queue", `${job.queue}, ${job.tier}${job.priority ? `, priority ${job.priority}` : ""}`],
    ["Delivery", job.delivery.replaceAll("_", " ")],
    ["Finish within", job.finish_within_seconds ? span(job.finish_within_seconds) : null],
    ["Labels", Object.keys(job.labels).length > 0 ? Object.entries(job.labels).map(([key, value]) => html`<a key=${key} class="label" href=${withQuery("/ui/jobs", { label: `${key}=${value}` })}>${key}=${String(value)}</a> `) : null],
    ["Created", time(job.created_at)],
    ["Changed", job.updated_at === job.created_at ? null : time(job.updated_at)],
  ]} />`;
}
