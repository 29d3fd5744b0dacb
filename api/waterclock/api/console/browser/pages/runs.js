// All runs, live. Every filter is in the address; what is new is counted while somebody points at the list.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { plural, sentence } from "../lib/format.js";
import { address, navigate, path, setQuery, withQuery } from "../lib/router.js";
import { ACTIVE, inWords, runList } from "../lib/run_list.js";
import { narrow } from "../lib/store.js";
import { Button, CopyAs, Empty, Menu, PageHead, quoted, Skeleton, Span, Status, StatusIcon, Tabs, Time, Trouble } from "../parts/parts.js";
import { closeShown, show, toast } from "../parts/dialogs.js";
import { useKeys } from "../parts/shell.js";
import { useRowFocus, VirtualList } from "../parts/virtual_list.js";
import { bulk } from "../parts/bulk.js";

const FILTERS = ["status", "job", "label", "q", "from", "to", "executor", "queue", "workflow_run", "trigger"];
const STATUSES = /** @type {[string, string][]} */ ([
  ["", "All"],
  [ACTIVE.join(","), "Active"],
  ["RUNNING", "Running"],
  ["FAILED,TIMED_OUT,MISSED", "Failed"],
  ["SUCCESS", "Success"],
  ["CANCELLED,SKIPPED", "Not run"],
]);
const SINCE = /** @type {[string, number][]} */ ([
  ["the last hour", 3600],
  ["the last day", 86_400],
  ["the last week", 7 * 86_400],
]);

export default function Runs() {
  const { query } = address.value;
  const filter = Object.fromEntries(FILTERS.flatMap((name) => (query.get(name) ? [[name, /** @type {string} */ (query.get(name))]] : [])));
  const key = withQuery("", filter);
  const list = useMemo(() => runList(filter), [key]);
  const [, draw] = useState(0);
  const handle = useRef(/** @type {import("../parts/virtual_list.js").ListHandle | null} */ (null));
  const frame = useRef(0);

  useEffect(() => {
    const stop = list.watch(() => {
      cancelAnimationFrame(frame.current);
      frame.current = requestAnimationFrame(() => draw((n) => n + 1));
    });
    return () => {
      cancelAnimationFrame(frame.current);
      stop();
    };
  }, [list]);

  const reached = useRowFocus(handle, list, (row) => `[data-run-id="${CSS.escape(row.run_id)}"]`);
  useKeys(
    [
      { keys: "j", text: "Next run", act: reached.next },
      { keys: "k", text: "Previous run", act: reached.previous },
      { keys: "w", text: "Why this run is as it is", act: () => list.rows[reached.at.current] && why(list.rows[reached.at.current]) },
      { keys: "n", text: "Show new runs", act: () => showNew() },
      { keys: "f", text: "Filter", act: () => document.getElementById("filter")?.focus() },
    ],
    [list],
  );
  const showNew = () => {
    list.showNew();
    handle.current?.scrollTo(0);
    draw((n) => n + 1);
  };
  const point = (/** @type {boolean} */ pointed) => {
    list.pointed = pointed;
    if (!list.held && list.fresh.length) showNew();
  };

  const small = narrow.value;
  return html`<div class="fill runs">
    <${PageHead} title="Runs">
      <${Menu} label="All of these">
        <button type="button" onClick=${() => bulk("runs", "cancel", filter, list)}>Cancel all that match…</button>
        <button type="button" onClick=${() => bulk("runs", "retry", filter, list)}>Retry all that match…</button>
      <//>
      <${CopyAs} cli=${commandLine(filter)} curl=${{ path: withQuery("/v1/runs", filter) }} />
    <//>
    <${Filters} filter=${filter} />
    ${list.error && html`<${Trouble} error=${list.error} stale=${list.loadedOnce} retry=${() => (list.loadedOnce ? list.lookForNew() : list.more())} />`}
    <div class="panel flush grow" onPointerEnter=${() => point(true)} onPointerLeave=${() => point(false)}>
      ${list.fresh.length > 0 && html`<button type="button" class="new-rows" onClick=${showNew}>${list.freshCount} new</button>`}
      ${list.rows.length
        ? html`<${VirtualList} key=${key} label="Runs" count=${list.rows.length} height=${small ? 58 : 36} top=${list.top} handle=${handle}
            heads=${!small && html`<${Heads} />`} onScroll=${(/** @type {number} */ top) => (list.top = top)} onEnd=${() => list.more()}
            row=${(/** @type {number} */ i, /** @type {any} */ place) => html`<${Row} key=${list.rows[i].run_id} run=${list.rows[i]} place=${place} index=${i} small=${small} />`} />`
        : list.loadedOnce
          ? html`<${Nothing} filtered=${key !== ""} />`
          : !list.error && html`<div class="panel-body"><${Skeleton} rows=${10} /></div>`}
    </div>
    <p class="unseen" role="status">${list.loadedOnce ? `${plural(list.rows.length, "run")} shown${list.whole ? "" : ", more below"}` : ""}</p>
  </div>`;
}

/** @param {any} run */
async function why(run) {
  try {
    const found = await get(`${path("/v1/runs", run.run_id)}/why`);
    const { Timeline } = await import("../parts/timeline.js");
    show(run.job_name || run.job_id, html`<p class="answer">${sentence(found.answer)}</p><${Timeline} delays=${found.delays ?? []} /><p><a href=${path("/ui/runs", run.run_id)} onClick=${closeShown}>All of this run</a></p>`);
  } catch (/** @type {any} */ error) {
    toast(error.message, "bad", error.advice);
  }
}

function Heads() {
  return html`<div class="list-heads run-columns" role="row">${["Status", "Job", "Scheduled", "Took", "Attempt", "Why", "Executor"].map(
    (name) => html`<span role="columnheader" key=${name} class=${`c-${name.toLowerCase()}`}>${name}</span>`,
  )}</div>`;
}

/** @param {{run: any, place: any, index: number, small: boolean}} props */
function Row({ run, place, index, small }) {
  const url = path("/ui/runs", run.run_id);
  const name = run.job_name || run.job_id;
  const open = (/** @type {MouseEvent} */ event) => {
    if (event.defaultPrevented || /** @type {Element} */ (event.target).closest("a, button") || getSelection()?.toString()) return;
    navigate(url);
  };
  if (small)
    return html`<div class="list-row run-card" role="row" aria-rowindex=${index + 2} data-run-id=${run.run_id} data-status=${run.status} style=${place} onClick=${open}>
      <div role="cell" class="run-card-top"><${StatusIcon} status=${run.status} /><a class="clip strong" href=${url}>${name}</a><span class="quiet"><${Time} at=${run.scheduled_time} /></span></div>
      <div role="cell" class="run-card-more quiet"><span class="clip">${statusWord(run)}${inWords(run)}</span><${Took} run=${run} /></div></div>`;
  return html`<div class="list-row run-columns" role="row" aria-rowindex=${index + 2} data-run-id=${run.run_id} data-status=${run.status} style=${place} onClick=${open}>
    <span role="cell"><${Status} status=${run.status} /></span>
    <span role="cell" class="clip"><a class="strong" href=${url} title=${run.run_id}>${name}</a> ${run.job_name && run.job_name !== run.job_id && html`<span class="quiet mono">${run.job_id}</span>`}</span>
    <span role="cell" class="quiet"><${Time} at=${run.scheduled_time} /></span>
    <span role="cell"><${Took} run=${run} /></span>
    <span role="cell" class="c-attempt ${run.attempt_number > 1 ? "again" : "quiet"}">${run.attempt_number > 1 ? run.attempt_number : ""}</span>
    <span role="cell" class="clip c-why ${run.status === "FAILED" || run.status === "TIMED_OUT" ? "" : "quiet"}" title=${inWords(run)}>${inWords(run)}</span>
    <span role="cell" class="clip quiet mono c-executor">${run.executor_id}</span>
  </div>`;
}

/** @param {any} run */
function statusWord(run) {
  return run.status === "SUCCESS" || run.status === "RUNNING" ? "" : `${run.status.toLowerCase().replace("_", " ")}: `;
}

/** @param {{run: any}} props */
function Took({ run }) {
  if (!run.start_time || run.status === "QUEUED") return html`<span class="quiet">–</span>`;
  return html`<${Span} from=${run.start_time} to=${run.end_time} />`;
}

/** @param {{filter: Record<string, string>}} props */
function Filters({ filter }) {
  const [text, setText] = useState(filter.q ?? "");
  useEffect(() => setText(filter.q ?? ""), [filter.q]);
  const apply = (/** @type {Event} */ event) => {
    event.preventDefault();
    setQuery(readFilter(text));
  };
  const shown = Object.entries(filter).filter(([name]) => name !== "status" && name !== "q");
  const known = STATUSES.some(([status]) => status === (filter.status ?? ""));
  return html`<form class="filters" role="search" onSubmit=${apply}>
    <${Tabs} label="Status" value=${filter.status ?? ""} options=${known ? STATUSES : [...STATUSES, [filter.status, filter.status]]} onChange=${(/** @type {string} */ status) => setQuery({ status })} />
    <input id="filter" type="search" aria-label="Filter" placeholder="Name, id or error; job: label: queue: executor:" value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.target.value)} onSearch=${apply} />
    <select aria-label="Scheduled within" value=${filter.from ? "set" : ""} onChange=${(/** @type {any} */ event) => {
      const seconds = Number(event.target.value);
      setQuery({ from: seconds ? new Date(Date.now() - seconds * 1000).toISOString().slice(0, 19) + "Z" : null, to: null });
    }}><option value="">at any time</option>${filter.from && html`<option value="set">since ${filter.from}</option>`}
      ${SINCE.map(([name, seconds]) => html`<option key=${name} value=${seconds}>${name}</option>`)}</select>
    ${shown.map(([name, value]) => html`<button type="button" key=${name} class="chip" aria-label=${`Remove the filter ${name} ${value}`} onClick=${() => setQuery({ [name]: null })}><span class="quiet">${name}</span> ${value} ✕</button>`)}
  </form>`;
}

/** `label:team=data queue:slow disk full` as fields. @param {string} text */
export function readFilter(text) {
  /** @type {Record<string, string>} */
  const found = { q: "" };
  const words = [];
  for (const word of text.trim().split(/\s+/)) {
    const [, name, value] = /^(job|label|queue|executor|status|workflow_run|trigger):(.+)$/.exec(word) ?? [];
    if (name) found[name] = name === "status" ? value.toUpperCase() : value;
    else words.push(word);
  }
  found.q = words.join(" ");
  return found;
}

/** What the command line calls a filter, where it is something else. @type {Record<string, string>} */
const FLAGS = { from: "since", to: "until", q: "search", workflow_run: "workflow-run" };

/** @param {Record<string, string>} filter */
function commandLine(filter) {
  const flags = Object.entries(filter).map(([name, value]) =>
    name === "job" ? quoted(value) : `--${FLAGS[name] ?? name} ${quoted(value)}`,
  );
  return ["waterclock runs", ...flags].join(" ");
}

/** @param {{filtered: boolean}} props */
function Nothing({ filtered }) {
  if (filtered)
    return html`<${Empty} title="No run matches">Runs that come and match appear here by themselves. <a href="/ui/runs">Show all runs</a><//>`;
  return html`<${Empty} title="Nothing has run yet" command="waterclock submit hello --wait -- echo hi">Submit a first job; its run appears here by itself.<//>`;
}
