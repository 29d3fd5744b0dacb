// When the nodes of a run waited, ran and waited again: one row each, split by what the time went into.
import { html, useEffect, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { clock, now, span } from "../lib/format.js";
import { path } from "../lib/router.js";
import { Status } from "./parts.js";
import { KINDS } from "./timeline.js";
import { VirtualList } from "./virtual_list.js";

const ROW = 30;
const MOST_ASKED = 40;
const NOT_ITS_OWN = ["waiting", "scheduler", "jitter", "ended"];

/** @typedef {{kind: string, start: number, end: number}} Part */

/** @param {string} kind */
const words = (kind) => KINDS[kind]?.[0] ?? kind;
/** @param {string} kind */
const tone = (kind) => KINDS[kind]?.[1] ?? "idle";

/** Of a node that took one attempt, what its run says is enough. @param {any} run @returns {Part[]} */
function plainParts(run) {
  const at = (/** @type {string | null} */ time) => (time ? Date.parse(time) : null);
  const queued = at(run.queued_time) ?? at(run.due_time);
  const started = at(run.start_time);
  const ended = at(run.end_time) ?? now.value;
  const parts = [];
  if (queued !== null) parts.push({ kind: "queue", start: queued, end: started ?? ended });
  if (started !== null) parts.push({ kind: "execution", start: started, end: ended });
  return parts.filter(({ start, end }) => end >= start);
}

/** The stretches of runs that were tried more than once, as `why` tells them; asked for once each. @param {any[]} runs */
function useDelays(runs) {
  const [known, setKnown] = useState(/** @type {Record<string, {at: string, parts: Part[]}>} */ ({}));
  const needed = runs.filter((run) => (run.attempt_number > 1 || run.crash_count > 0 || run.status === "RETRYING") && known[run.run_id]?.at !== run.modified_time).slice(0, MOST_ASKED);
  const key = needed.map((run) => `${run.run_id} ${run.modified_time}`).join();
  useEffect(() => {
    let stopped = false;
    (async () => {
      for (const run of needed) {
        if (stopped) return;
        const why = await get(`${path("/v1/runs", run.run_id)}/why`).catch(() => null);
        if (!why || stopped) continue;
        const parts = why.delays.filter((/** @type {any} */ one) => !NOT_ITS_OWN.includes(one.kind)).map((/** @type {any} */ one) => ({ kind: one.kind, start: Date.parse(one.start), end: Date.parse(one.end) }));
        setKnown((before) => ({ ...before, [run.run_id]: { at: run.modified_time, parts } }));
      }
    })();
    return () => {
      stopped = true;
    };
  }, [key]);
  return known;
}

/** @param {{nodes: any[], runs: any[], chosen: string | null, onChoose: (id: string) => void}} props */
export function Gantt({ nodes, runs, chosen, onChoose }) {
  const byId = new Map(runs.map((run) => [run.run_id, run]));
  const delays = useDelays(runs);
  const rows = nodes
    .filter((node) => node.run_id)
    .map((node) => {
      const run = byId.get(node.run_id) ?? node;
      return { node, parts: delays[node.run_id]?.parts ?? plainParts(run) };
    })
    .filter(({ parts }) => parts.length)
    .sort((one, other) => one.parts[0].start - other.parts[0].start);
  if (!rows.length) return html`<p class="quiet pad">No node has begun yet.</p>`;
  const first = Math.min(...rows.map(({ parts }) => parts[0].start));
  const last = Math.max(...rows.map(({ parts }) => parts[parts.length - 1].end), first + 1);
  const kinds = [...new Set(rows.flatMap(({ parts }) => parts.map(({ kind }) => kind)))];
  const percent = (/** @type {number} */ at) => (100 * (at - first)) / (last - first);
  return html`<div class="gantt" style=${{ height: `${Math.min(420, rows.length * ROW + 4)}px` }}><${VirtualList} label="Nodes over time" count=${rows.length} height=${ROW} row=${(/** @type {number} */ i, /** @type {any} */ place) => {
      const { node, parts } = rows[i];
      return html`<div key=${node.id} class="list-row gantt-row ${chosen === node.id ? "chosen" : ""}" role="row" style=${place} data-run-id=${node.run_id} data-status=${node.status} onClick=${() => onChoose(node.id)}>
        <span role="cell" class="clip"><${Status} status=${node.status} word="" /> <button type="button" class="button link" onClick=${() => onChoose(node.id)}>${node.id}</button></span>
        <span role="cell" class="gantt-bar"><span class="unseen">${parts.map((part) => `${words(part.kind)} ${span((part.end - part.start) / 1000)}`).join(", ")}</span>${parts.map((part, n) => html`<i key=${n} class="part ${part.kind} ${tone(part.kind)}" title=${`${words(part.kind)}, ${span((part.end - part.start) / 1000)}`}
          style=${{ left: `${percent(part.start)}%`, width: `max(2px, ${percent(part.end) - percent(part.start)}%)` }}></i>`)}</span>
        <span role="cell" class="number quiet">${span((parts[parts.length - 1].end - parts[0].start) / 1000)}</span></div>`;
    }} /></div>
    <div class="gantt-foot"><ul class="legend">${kinds.map((kind) => html`<li key=${kind}><i class="part ${kind} ${tone(kind)}"></i>${words(kind)}</li>`)}</ul><span class="quiet">${clock(first)} to ${clock(last)}, ${span((last - first) / 1000)}</span></div>`;
}
