// A workflow drawn where the service says its nodes stand. All edges are one path, a thousand nodes are drawn at once.
import { html, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { plural } from "../lib/format.js";
import { STATES } from "./parts.js";

const WIDE = 168;
const HIGH = 38;
const ACROSS = 232;
const DOWN = 52;
const EDGE = 16;

/** @typedef {{id: string, layer: number, row: number, runs: string, is_map: boolean}} GraphNode */
/** @typedef {{nodes: GraphNode[], edges: {from: string, to: string, bends: number[]}[], layers: number, height: number}} Graph */

/** @param {number} layer */
const left = (layer) => EDGE + layer * ACROSS;
/** @param {number} row */
const top = (row) => EDGE + row * DOWN;

/** All edges as one path, and their heads as another. @param {Graph} graph */
function lines(graph) {
  const places = new Map(graph.nodes.map((node) => [node.id, node]));
  const parts = [];
  const heads = [];
  for (const { from, to, bends } of graph.edges) {
    const start = places.get(from);
    const end = places.get(to);
    if (!start || !end) continue;
    let x = left(start.layer) + WIDE;
    let y = top(start.row) + HIGH / 2;
    parts.push(`M${x} ${y}`);
    bends.forEach((row, i) => {
      const bendX = left(start.layer + 1 + i);
      const bendY = top(row) + HIGH / 2;
      parts.push(`C${(x + bendX) / 2} ${y} ${(x + bendX) / 2} ${bendY} ${bendX} ${bendY}H${bendX + WIDE}`);
      [x, y] = [bendX + WIDE, bendY];
    });
    const endX = left(end.layer) - 6;
    const endY = top(end.row) + HIGH / 2;
    parts.push(`C${(x + endX) / 2} ${y} ${(x + endX) / 2} ${endY} ${endX} ${endY}`);
    heads.push(`M${endX + 5} ${endY}l-7 -3.5v7z`);
  }
  return [parts.join(""), heads.join("")];
}

/** @param {{graph: Graph, states?: Record<string, any>, chosen?: string | null, onChoose?: (id: string) => void}} props
 * `states` are a run's nodes by id; without it the definition alone is drawn */
export function GraphView({ graph, states, chosen, onChoose }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const width = EDGE * 2 + (graph.layers - 1) * ACROSS + WIDE;
  const height = EDGE * 2 + Math.max(0, graph.height - 1) * DOWN + HIGH;
  const [scale, setScale] = useState(1);
  const fit = () => {
    const room = frame.current;
    if (room) setScale(Math.max(0.5, Math.min(1, (room.clientWidth - 2) / width)));
  };
  useLayoutEffect(fit, [width]);
  const [path, heads] = useMemo(() => lines(graph), [graph]);
  const choose = (/** @type {any} */ event) => {
    const node = event.target.closest("[data-node]")?.dataset.node;
    if (node) onChoose?.(node);
  };
  return html`<div class="graph"><div class="graph-tools"><span class="quiet">${plural(graph.nodes.length, "node")}</span>
      <button type="button" class="button link" aria-label="Smaller" onClick=${() => setScale(Math.max(0.15, scale / 1.3))}>−</button><button type="button" class="button link" onClick=${fit}>Fit</button>
      <button type="button" class="button link" aria-label="Larger" onClick=${() => setScale(Math.min(2, scale * 1.3))}>+</button></div>
    <div class="graph-frame" ref=${frame} tabindex="0" role="group" aria-label="Graph">
      <svg class="graph-drawing ${scale < 0.5 ? "far" : ""}" width=${width * scale} height=${height * scale} viewBox=${`0 0 ${width} ${height}`} onClick=${choose}
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), choose(event))}>
        <path class="graph-edges" d=${path} /><path class="graph-heads" d=${heads} />
        ${graph.nodes.map((node) => html`<${Node} key=${node.id} node=${node} state=${states?.[node.id]} chosen=${chosen === node.id} can=${Boolean(onChoose)} />`)}
      </svg></div></div>`;
}

/** @param {{node: GraphNode, state: any, chosen: boolean, can: boolean}} props */
function Node({ node, state, chosen, can }) {
  const shown = state ? STATES[state.status] : null;
  const map = state?.map;
  const part = map?.total ? Math.min(1, (map.done + map.failed) / map.total) : 0;
  const more = map ? `${map.done + map.failed}/${map.total ?? "?"}${map.failed ? `, ${map.failed} failed` : ""}` : state?.attempt_number > 1 ? `attempt ${state.attempt_number}` : "";
  const words = `${node.id}${shown ? `, ${shown.word}` : ""}${more ? `, ${more}` : ""}`;
  return html`<g class="node ${shown?.tone ?? "plain"} ${chosen ? "chosen" : ""}" transform=${`translate(${left(node.layer)} ${top(node.row)})`} data-node=${node.id} data-status=${state?.status}
      tabindex=${can ? 0 : undefined} role=${can ? "button" : undefined} aria-pressed=${can ? (chosen ? "true" : "false") : undefined}>
    <title>${words}${"\n"}${state?.reason ?? node.runs}</title>
    ${node.is_map && html`<rect class="node-behind" x="4" y="-4" width=${WIDE} height=${HIGH} rx="6" />`}
    <rect class="node-box" width=${WIDE} height=${HIGH} rx="6" />
    ${part > 0 && html`<rect class="node-part" x="1" y=${HIGH - 4} width=${(WIDE - 2) * part} height="3" />`}
    ${shown && html`<path class="node-icon ${shown.filled ? "filled" : ""}" transform="translate(9 11)" d=${shown.d} />`}
    <text x=${shown ? 32 : 12} y=${more ? 16 : 23}>${clipped(node.id, shown ? 19 : 22)}</text>
    ${more && html`<text class="node-more" x="32" y="30">${clipped(more, 22)}</text>`}</g>`;
}

/** @param {string} text @param {number} most */
function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
