// Where the time of a run went: one bar, split by what it waited for.
import { html } from "../vendor/preact.js";
import { span } from "../lib/format.js";
import { Time } from "./parts.js";

/** @type {Record<string, [string, string]>} what people call it, and its tone */
export const KINDS = {
  jitter: ["Jitter", "idle"],
  scheduler: ["Deciding", "gone"],
  waiting: ["Waiting for others", "wait"],
  queue: ["Queue", "again"],
  execution: ["Execution", "busy"],
  backoff: ["Backoff", "late"],
  snooze: ["Snoozed", "idle"],
  lost: ["Lost with its executor", "bad"],
  ended: ["Ended, until retried", "idle"],
};

/** @typedef {{kind: string, start: string, end: string, seconds: number, share: number, attempt: number, what: string}} Delay */

/** @param {number} part */
function share(part) {
  return part > 0 && part < 0.01 ? "<1 %" : `${Math.round(100 * part)} %`;
}

/** @param {{delays: Delay[]}} props */
export function Timeline({ delays }) {
  if (!delays.length) return null;
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const { kind, seconds } of delays) sums.set(kind, (sums.get(kind) ?? 0) + seconds);
  const whole = [...sums.values()].reduce((sum, one) => sum + one, 0);
  return html`<div class="timeline">
    <div class="timeline-bar" role="img" aria-label=${`It took ${span(whole)}: ${[...sums].map(([kind, seconds]) => `${span(seconds)} ${KINDS[kind]?.[0] ?? kind}`).join(", ")}`}>
      ${delays.map(({ kind, seconds, attempt, what }, i) => html`<i key=${i} class="part ${kind} ${KINDS[kind]?.[1] ?? "idle"}" style=${{ flexGrow: String(Math.max(100 * (seconds / whole || 0), 0.5)) }}
        title=${`${KINDS[kind]?.[0] ?? kind}, ${span(seconds)}${attempt ? ` (attempt ${attempt})` : ""}\n${what}`}></i>`)}
    </div>
    <div class="timeline-ends quiet"><span><${Time} at=${delays[0].start} exact /></span><span>${span(whole)}</span><span><${Time} at=${delays[delays.length - 1].end} exact /></span></div>
    <ul class="legend">${[...sums].map(([kind, seconds]) => html`<li key=${kind}><i class="part ${kind} ${KINDS[kind]?.[1] ?? "idle"}"></i>${KINDS[kind]?.[0] ?? kind}
      <b>${span(seconds)}</b><span class="quiet">${whole ? share(seconds / whole) : ""}</span></li>`)}</ul>
  </div>`;
}
