// What runs now, what is late, what went wrong and what comes next, on one screen.
import { html, useEffect } from "../vendor/preact.js";
import { clock, now, number, plural, short, span, zone } from "../lib/format.js";
import { health, onChanges } from "../lib/live.js";
import { path, withQuery } from "../lib/router.js";
import { throttled, useResource } from "../lib/store.js";
import { Columns, Meter } from "../parts/bars.js";
import { CopyButton, Empty, Loaded, PageHead, Panel, Span, StatusIcon, Time } from "../parts/parts.js";

const MINUTES = 60;
const FAILED = "FAILED,TIMED_OUT,MISSED";
const LATE_SECONDS = 15;

/** A whole minute, so that all of it is asked for once a minute and not once a second. @param {number} ago */
function minute(ago) {
  return new Date((Math.floor(now.value / 60_000) - ago) * 60_000).toISOString().slice(0, 19) + "Z";
}

export default function Overview() {
  const keep = { every: 10_000, keep: true };
  const stats = useResource(withQuery("/v1/stats", { from: minute(MINUTES - 1), to: minute(-1), step: "1m" }), keep);
  const queues = useResource("/v1/queues", keep);
  const executors = useResource("/v1/executors", keep);
  const failed = useResource(withQuery("/v1/runs", { status: FAILED, limit: 7 }), keep);
  const running = useResource(withQuery("/v1/runs", { status: "RUNNING", limit: 7 }), keep);
  const late = useResource(withQuery("/v1/runs", { status: "WAITING,QUEUED", to: minute(1), limit: 5 }), keep);
  const next = useResource(withQuery("/v1/upcoming", { from: minute(0), to: minute(-24 * 60), tz: zone.value, limit: 8 }), { every: 30_000, keep: true });

  useEffect(() => {
    const reload = throttled(() => [queues, failed, running].forEach((one) => one.reload()), 2000);
    const all = throttled(() => [stats, executors, late, next].forEach((one) => one.reload()), 10_000);
    return onChanges(() => (reload(), all()));
  }, []);

  const buckets = minutes(stats.data?.buckets ?? []);
  const hour = { success: sum(buckets, "success"), failed: sum(buckets, "failed") + sum(buckets, "missed") };
  const lag = Math.max(0, ...buckets.map(({ lag_p99_seconds }) => lag_p99_seconds ?? 0));
  const items = queues.data?.items ?? [];
  const nothing = [failed, running, next].every(({ data }) => data && data.items.length === 0) && hour.success === 0 && stats.data !== undefined;
  return html`<${PageHead} title="Overview" lead=${html`Now, in ${zone.value}: <time>${clock(now.value)}</time>`} />
    ${nothing && html`<${First} />`}
    <div class="tiles">
      <${Tile} name="Running" value=${sum(items, "running")} tone="busy" href="/ui/runs?status=RUNNING" note=${slots(executors.data?.items)} />
      <${Tile} name="Waiting" value=${sum(items, "waiting") + sum(items, "due")} tone="wait" href="/ui/runs?status=WAITING,QUEUED" note=${late.data?.items.length ? `${late.data.items.length}${late.data.next_cursor ? "+" : ""} longer than a minute` : "none for long"} />
      <${Tile} name="Succeeded in 1 h" value=${hour.success} tone="good" href="/ui/runs?status=SUCCESS" note=${`${rate(hour.success / MINUTES)} a minute`} />
      <${Tile} name="Failed in 1 h" value=${hour.failed} tone=${hour.failed ? "bad" : "idle"} href=${`/ui/runs?status=${FAILED}`} note=${hour.failed ? `${((100 * hour.failed) / Math.max(1, hour.failed + hour.success)).toPrecision(2)} % of runs` : "all is well"} />
      <${Tile} name="Lag, 99 % within" text=${span(lag, 1)} tone=${lag > LATE_SECONDS ? "late" : "idle"} href="/ui/fleet" note=${behind()} />
    </div>
    <div class="two-columns wide-left">
      <div class="stack">
        <${Panel} title="The last hour" aside=${html`<span class="key good">success</span><span class="key bad">failed</span>`}>
          <${Loaded} of=${stats} rows=${4}>${() => html`<${Columns} label=${`Runs of the last hour: ${number(hour.success)} succeeded, ${number(hour.failed)} failed`} buckets=${buckets.map((one) => ({
            at: one.from,
            parts: [
              { tone: "good", word: "succeeded", count: one.success },
              { tone: "bad", word: "failed", count: one.failed + one.missed },
            ],
          }))} />`}<//>
        <//>
        <${Panel} title="Went wrong" flush aside=${html`<a href=${`/ui/runs?status=${FAILED}`}>All failures</a><a href="/ui/dead-letters">Dead letters</a>`}>
          <${Loaded} of=${failed}>${(/** @type {any} */ page) => html`<${RunTable} runs=${page.items} empty="Nothing has failed." why />`}<//>
        <//>
        ${late.data?.items.length > 0 && html`<${Panel} title="Late" flush aside="due for more than a minute, and not begun"><${RunTable} runs=${late.data.items} why /><//>`}
        <${Panel} title="Running now" flush aside=${html`<a href="/ui/runs?status=RUNNING">All that run</a>`}>
          <${Loaded} of=${running}>${(/** @type {any} */ page) => html`<${RunTable} runs=${page.items} empty="Nothing runs at the moment." />`}<//>
        <//>
      </div>
      <div class="stack">
        <${Panel} title="Next" flush aside=${html`<a href="/ui/calendar">Calendar</a>`}>
          <${Loaded} of=${next}>${(/** @type {any} */ page) => html`<${Upcoming} fires=${page.items} />`}<//>
        <//>
        <${Panel} title="System" aside=${health.value?.status && html`<span>${health.value.status.ok ? "all is well" : "needs a look"}</span>`}><${System} /><//>
        <${Panel} title="Fleet" flush aside=${html`<a href="/ui/fleet">Fleet</a>`}>
          <${Loaded} of=${executors}>${(/** @type {any} */ page) => html`<${Fleet} executors=${page.items} />`}<//>
        <//>
      </div>
    </div>`;
}

/** @param {any[]} items @param {string} name */
function sum(items, name) {
  return items.reduce((total, one) => total + (one[name] ?? 0), 0);
}

/** One bucket for each minute; those in which nothing ended are not in the answer. @param {any[]} found */
function minutes(found) {
  const known = new Map(found.map((one) => [Date.parse(one.from), one]));
  const last = Math.floor(now.value / 60_000) * 60_000;
  return Array.from({ length: MINUTES }, (_, i) => {
    const at = last - (MINUTES - 1 - i) * 60_000;
    return { success: 0, failed: 0, missed: 0, lag_p99_seconds: 0, ...known.get(at), from: new Date(at).toISOString() };
  });
}

/** @param {number} count */
function rate(count) {
  return count < 10 ? String(Math.round(count * 10) / 10) : short(Math.round(count));
}

/** @param {any[] | undefined} executors */
function slots(executors) {
  return executors?.length ? `of ${plural(sum(executors, "slots"), "slot")}` : "no executor";
}

function behind() {
  const load = health.value?.status?.load;
  if (!load) return "";
  return load.behind_seconds > 1 ? `${span(load.behind_seconds, 1)} behind, ${number(load.backlog)} due` : "decided on time";
}

/** @param {{name: string, value?: number, text?: string, tone: string, href: string, note?: any}} props */
function Tile({ name, value, text, tone, href, note }) {
  return html`<a class="tile ${tone}" href=${href}><span class="tile-name">${name}</span><b class="tile-value">${text ?? short(value ?? 0)}</b><span class="tile-note">${note}</span></a>`;
}

/** @param {{runs: any[], empty?: string, why?: boolean}} props */
function RunTable({ runs, empty, why }) {
  if (!runs.length) return html`<p class="quiet pad">${empty}</p>`;
  return html`<ul class="short-list">${runs.map(
    (run) => html`<li key=${run.run_id} data-run-id=${run.run_id} data-status=${run.status}><${StatusIcon} status=${run.status} /><a class="clip strong" href=${path("/ui/runs", run.run_id)} title=${run.run_id}>${run.job_name || run.job_id}</a>
      <span class="clip quiet grow" title=${run.error_message}>${why ? (run.error_message || run.reason || "").trim().split("\n").pop() : run.executor_id}</span>
      <span class="quiet number">${why ? html`<${Time} at=${run.end_time ?? run.scheduled_time} />` : html`<${Span} from=${run.start_time} />`}</span></li>`,
  )}</ul>`;
}

/** @param {{fires: any[]}} props */
function Upcoming({ fires }) {
  if (!fires.length) return html`<p class="quiet pad">Nothing is scheduled for the next day.</p>`;
  return html`<ul class="short-list">${fires.map(
    (fire) => html`<li key=${`${fire.job_id} ${fire.time}`} data-job-id=${fire.job_id}><span class="fire-time"><${Time} at=${fire.time} exact zoneName=${fire.timezone} /></span><a class="clip strong" href=${path("/ui/jobs", fire.job_id)}>${fire.job_name ?? fire.job_id}</a>
      <span class="quiet grow number">${fire.note ? html`<span class="label">${fire.note.replace("_", " ")}</span>` : html`<${Time} at=${fire.time} />`}</span></li>`,
  )}</ul>`;
}

function System() {
  const checks = health.value?.status?.checks ?? [];
  if (!checks.length) return html`<p class="quiet">Nothing was heard yet.</p>`;
  return html`<ul class="system">${checks.map(({ name, ok, detail }) => html`<li key=${name} title=${detail}><span class="mark ${ok ? "good" : "bad"}" aria-label=${ok ? "well" : "not well"} role="img">${ok ? "✓" : "✕"}</span><b>${name}</b><span class="quiet ${ok ? "clip" : ""}">${detail}</span></li>`)}</ul>`;
}

/** @param {{executors: any[]}} props */
function Fleet({ executors }) {
  if (!executors.length) return html`<${Empty} title="Nobody runs anything" command="waterclock executor">What is due waits until an executor is there.<//>`;
  return html`<ul class="short-list">${executors.slice(0, 6).map(
    (one) => html`<li key=${one.executor_id}><${StatusIcon} status=${one.status} /><a class="clip mono" href=${`/ui/fleet#${encodeURIComponent(one.executor_id)}`}>${one.executor_id}</a>
      <span class="grow"><${Meter} used=${one.busy} of=${one.slots} label=${`${one.busy} of ${one.slots} slots`} /></span><span class="quiet number">${one.busy}/${one.slots}</span></li>`,
  )}</ul>${executors.length > 6 && html`<p class="quiet pad">and ${executors.length - 6} more</p>`}`;
}

function First() {
  const commands = /** @type {[string, string][]} */ ([
    ["Run something now", "waterclock submit hello --wait -- echo hi"],
    ["Every five minutes", 'waterclock submit tick --cron "*/5 * * * *" -- date'],
    ["As files, in a repository", "waterclock apply -f jobs.yaml"],
  ]);
  return html`<section class="panel first"><div><h2>Nothing has run yet</h2><p class="quiet">Give it something to do. What runs appears here by itself. <a href="/ui/jobs/new">Or fill in a form.</a></p></div>
    <ol>${commands.map(([what, command]) => html`<li key=${what}><span>${what}</span><div class="command"><code>${command}</code><${CopyButton} text=${command} /></div></li>`)}</ol></section>`;
}
