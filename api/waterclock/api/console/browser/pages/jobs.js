// All jobs: what is scheduled, paused or over, when each runs next and how its last run went.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { scheduleWords, taskWords } from "../lib/definition.js";
import { now, plural } from "../lib/format.js";
import { onChanges, onResync } from "../lib/live.js";
import { address, navigate, path, setQuery, withQuery } from "../lib/router.js";
import { narrow, throttled } from "../lib/store.js";
import { bulk } from "../parts/bulk.js";
import { CopyAs, Empty, Menu, PageHead, quoted, Skeleton, Status, StatusIcon, Tabs, Time, Trouble } from "../parts/parts.js";
import { useKeys } from "../parts/shell.js";
import { useRowFocus, VirtualList } from "../parts/virtual_list.js";

const FILTERS = ["status", "label", "q", "queue", "schedule_type", "name"];
const STATUSES = /** @type {[string, string][]} */ ([
  ["", "All"],
  ["SCHEDULED", "Scheduled"],
  ["PAUSED", "Paused"],
  ["COMPLETED", "Completed"],
  ["CANCELLED", "Cancelled"],
]);
const ORDERS = /** @type {[string, string][]} */ ([
  ["", "newest first"],
  ["next_run_at", "next to run first"],
  ["name", "by name"],
  ["-updated_at", "last changed first"],
]);
const PAGE = 100;
const LOOK_EVERY = 3000;

/** The jobs of a filter, as far as somebody scrolled; the same again when somebody comes back. */
class JobList {
  /** @param {string} url */
  constructor(url) {
    this.url = url;
    /** @type {any[]} */
    this.rows = [];
    this.cursor = /** @type {string | null} */ (null);
    this.loading = this.loadedOnce = this.whole = false;
    this.error = /** @type {any} */ (null);
    this.top = 0;
    this.changed = () => {};
    this.look = throttled(() => document.hidden || this.fetch(null), LOOK_EVERY);
  }

  /** One page, the first or a later one; rows that are there already are brought up to date. @param {string | null} cursor */
  async fetch(cursor) {
    if (this.loading) return;
    this.loading = true;
    try {
      const page = await get(`${this.url}${this.url.includes("?") ? "&" : "?"}limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
      const known = new Map(this.rows.map((job) => [job.job_id, job]));
      for (const job of page.items) if (known.has(job.job_id)) Object.assign(known.get(job.job_id), job);
      const unknown = page.items.filter((/** @type {any} */ job) => !known.has(job.job_id));
      if (cursor === null && page.next_cursor === null) this.rows = page.items;
      else this.rows = cursor === null ? unknown.concat(this.rows) : this.rows.concat(unknown);
      if (cursor !== null || !this.loadedOnce) {
        this.cursor = page.next_cursor;
        this.whole = page.next_cursor === null;
      }
      this.error = null;
      this.loadedOnce = true;
    } catch (error) {
      this.error = error;
      setTimeout(() => this.look(), LOOK_EVERY);
    } finally {
      this.loading = false;
      this.changed();
    }
  }

  more() {
    if (this.loadedOnce && !this.whole) this.fetch(this.cursor);
  }

  /** @param {import("../lib/live.js").Change[]} changes */
  take(changes) {
    const rows = new Map(this.rows.map((job) => [job.job_id, job]));
    for (const change of changes) {
      const job = rows.get(change.job_id);
      if (!job || !change.run_id || !change.status || change.run_id.includes("~")) continue;
      const before = job.last_run;
      if (before && before.run_id !== change.run_id && Date.parse(before.modified_time) > Date.parse(change.at)) continue;
      job.last_run = { ...(before?.run_id === change.run_id ? before : {}), run_id: change.run_id, status: change.status, modified_time: change.at };
    }
    if (changes.length) this.changed();
    this.look();
  }
}

/** @type {Map<string, JobList>} */
const kept = new Map();

/** @param {string} url */
function jobList(url) {
  const list = kept.get(url) ?? new JobList(url);
  kept.delete(url);
  kept.set(url, list);
  if (kept.size > 6) kept.delete(/** @type {string} */ (kept.keys().next().value));
  return list;
}

export default function Jobs() {
  const { query } = address.value;
  const filter = Object.fromEntries(FILTERS.flatMap((name) => (query.get(name) ? [[name, /** @type {string} */ (query.get(name))]] : [])));
  const sort = query.get("sort") ?? "";
  const url = withQuery("/v1/jobs", { ...filter, sort });
  const list = useMemo(() => jobList(url), [url]);
  const [, draw] = useState(0);
  const handle = useRef(/** @type {import("../parts/virtual_list.js").ListHandle | null} */ (null));

  useEffect(() => {
    list.changed = () => draw((n) => n + 1);
    list.fetch(null);
    const stops = [onChanges((changes) => list.take(changes)), onResync(() => list.look())];
    return () => {
      list.changed = () => {};
      stops.forEach((stop) => stop());
    };
  }, [list]);

  const reached = useRowFocus(handle, list, (row) => `[data-job-id="${CSS.escape(row.job_id)}"]`);
  useKeys(
    [
      { keys: "j", text: "Next job", act: reached.next },
      { keys: "k", text: "Previous job", act: reached.previous },
      { keys: "n", text: "New job", act: () => navigate("/ui/jobs/new") },
      { keys: "f", text: "Filter", act: () => document.getElementById("filter")?.focus() },
    ],
    [list],
  );
  const all = (/** @type {string} */ action) => () => bulk("jobs", action, filter, list);
  const small = narrow.value;
  const filtered = Object.keys(filter).length > 0;
  return html`<div class="fill jobs">
    <${PageHead} title="Jobs">
      <a class="button primary" href="/ui/jobs/new">New job</a>
      <${Menu} label="All of these">
        <button type="button" onClick=${all("pause")}>Pause all that match…</button>
        <button type="button" onClick=${all("resume")}>Resume all that match…</button>
        <button type="button" onClick=${all("runNow")}>Run all that match now…</button>
        <button type="button" onClick=${all("cancel")}>Cancel all that match…</button>
      <//>
      <${CopyAs} cli=${commandLine(filter)} curl=${{ path: url }} />
    <//>
    <${Filters} filter=${filter} sort=${sort} />
    ${list.error && html`<${Trouble} error=${list.error} stale=${list.loadedOnce} retry=${() => list.fetch(null)} />`}
    <div class="panel flush grow">
      ${list.rows.length
        ? html`<${VirtualList} key=${url} label="Jobs" count=${list.rows.length} height=${small ? 58 : 36} top=${list.top} handle=${handle}
            heads=${!small && html`<${Heads} />`} onScroll=${(/** @type {number} */ top) => (list.top = top)} onEnd=${() => list.more()}
            row=${(/** @type {number} */ i, /** @type {any} */ place) => html`<${Row} key=${list.rows[i].job_id} job=${list.rows[i]} place=${place} index=${i} small=${small} />`} />`
        : list.loadedOnce
          ? html`<${Nothing} filtered=${filtered} />`
          : !list.error && html`<div class="panel-body"><${Skeleton} rows=${10} /></div>`}
    </div>
    <p class="unseen" role="status">${list.loadedOnce ? `${plural(list.rows.length, "job")} shown${list.whole ? "" : ", more below"}` : ""}</p>
  </div>`;
}

function Heads() {
  return html`<div class="list-heads job-columns" role="row">${["Status", "Job", "Schedule", "Next", "Last run", "Runs", "Labels"].map(
    (name) => html`<span role="columnheader" key=${name} class=${`c-${name.toLowerCase().replace(" ", "-")}`}>${name}</span>`,
  )}</div>`;
}

/** @param {{job: any, place: any, index: number, small: boolean}} props */
function Row({ job, place, index, small }) {
  const url = path(job.task.kind === "workflow" ? "/ui/workflows" : "/ui/jobs", job.job_id);
  const open = (/** @type {MouseEvent} */ event) => {
    if (event.defaultPrevented || /** @type {Element} */ (event.target).closest("a, button") || getSelection()?.toString()) return;
    navigate(url);
  };
  const about = { role: "row", "aria-rowindex": index + 2, "data-job-id": job.job_id, "data-status": job.status, style: place, onClick: open };
  if (small)
    return html`<div class="list-row run-card" ...${about}>
      <div role="cell" class="run-card-top"><${StatusIcon} status=${job.status} /><a class="clip strong" href=${url}>${job.name}</a><span class="quiet"><${Next} job=${job} /></span></div>
      <div role="cell" class="run-card-more quiet"><span class="clip">${scheduleWords(job)}</span><${LastRun} run=${job.last_run} /></div></div>`;
  return html`<div class="list-row job-columns" ...${about}>
    <span role="cell"><${Status} status=${job.status} /></span>
    <span role="cell" class="clip"><a class="strong" href=${url} title=${job.job_id}>${job.name}</a> ${job.name !== job.job_id && html`<span class="quiet mono">${job.job_id}</span>`}</span>
    <span role="cell" class="clip c-schedule"><span class="mono">${scheduleWords(job)}</span> ${job.timezone !== "UTC" && html`<span class="quiet">${job.timezone}</span>`}</span>
    <span role="cell" class="quiet"><${Next} job=${job} /></span>
    <span role="cell" class="clip"><${LastRun} run=${job.last_run} /></span>
    <span role="cell" class="clip quiet mono c-runs" title=${taskWords(job.task)}>${taskWords(job.task)}</span>
    <span role="cell" class="clip c-labels">${Object.entries(job.labels).map(([key, value]) => html`<a key=${key} class="label" href=${withQuery("/ui/jobs", { label: `${key}=${value}` })}>${key}=${String(value)}</a> `)}</span>
  </div>`;
}

/** @param {{job: any}} props */
function Next({ job }) {
  if (!job.next_run_at) return html`–`;
  return Date.parse(job.next_run_at) < now.value - 1500 ? html`<span title="Due; the list will know in a moment">now</span>` : html`<${Time} at=${job.next_run_at} zoneName=${job.timezone} />`;
}

/** @param {{run: any}} props */
function LastRun({ run }) {
  if (!run) return html`<span class="quiet">never</span>`;
  return html`<a class="last-run" href=${path("/ui/runs", run.run_id)} data-last-status=${run.status}><${Status} status=${run.status} word="" /><span class="unseen">${run.status}</span> <${Time} at=${run.end_time ?? run.modified_time ?? run.scheduled_time} /></a>`;
}

/** @param {{filter: Record<string, string>, sort: string}} props */
function Filters({ filter, sort }) {
  const [text, setText] = useState(filter.q ?? "");
  useEffect(() => setText(filter.q ?? ""), [filter.q]);
  const apply = (/** @type {Event} */ event) => {
    event.preventDefault();
    setQuery(readFilter(text));
  };
  const shown = Object.entries(filter).filter(([name]) => name !== "status" && name !== "q");
  return html`<form class="filters" role="search" onSubmit=${apply}>
    <${Tabs} label="Status" value=${filter.status ?? ""} options=${STATUSES} onChange=${(/** @type {string} */ status) => setQuery({ status })} />
    <input id="filter" type="search" aria-label="Filter" placeholder="Name, id or command; label: queue:" value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.target.value)} onSearch=${apply} />
    <select aria-label="Order" value=${sort} onChange=${(/** @type {any} */ event) => setQuery({ sort: event.target.value })}>
      ${ORDERS.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}</select>
    ${shown.map(([name, value]) => html`<button type="button" key=${name} class="chip" aria-label=${`Remove the filter ${name} ${value}`} onClick=${() => setQuery({ [name]: null })}><span class="quiet">${name}</span> ${value} ✕</button>`)}
  </form>`;
}

/** `label:team=data queue:slow backup` as fields. @param {string} text */
function readFilter(text) {
  /** @type {Record<string, string>} */
  const found = {};
  const words = [];
  for (const word of text.trim().split(/\s+/)) {
    const [, name, value] = /^(label|queue|name|schedule_type):(.+)$/.exec(word) ?? [];
    if (name) found[name] = name === "schedule_type" ? value.toUpperCase() : value;
    else words.push(word);
  }
  return { ...found, q: words.join(" ") };
}

/** @param {Record<string, string>} filter */
function commandLine({ schedule_type: _, ...filter }) {
  return ["waterclock jobs", ...Object.entries(filter).map(([name, value]) => `--${name === "q" ? "search" : name} ${quoted(value)}`)].join(" ");
}

/** @param {{filtered: boolean}} props */
function Nothing({ filtered }) {
  if (filtered) return html`<${Empty} title="No job matches"><a href="/ui/jobs">Show all jobs</a><//>`;
  return html`<${Empty} title="There are no jobs yet" command=${'waterclock submit backup --cron "0 3 * * *" --tz Europe/Paris -- ./backup.sh'}>
    A job is what runs and when: a command, a program, an HTTP call or a Python handler. <a href="/ui/jobs/new">Fill in a form</a>, or from a terminal:<//>`;
}
