// The last runs as bars: how long each took, how each ended, and a link to each.
import { html } from "../vendor/preact.js";
import { clock, now, span } from "../lib/format.js";
import { path } from "../lib/router.js";
import { STATES } from "./parts.js";

const HIGH = 72;
const LEAST = 5;

/** @param {{runs: any[], count?: number}} props newest first */
export function RunBars({ runs, count = 50 }) {
  const shown = runs.slice(0, count).reverse();
  const took = shown.map((run) => (run.start_time ? Math.max(0, ((run.end_time ? Date.parse(run.end_time) : now.value) - Date.parse(run.start_time)) / 1000) : 0));
  const most = Math.max(0.001, ...took);
  return html`<ol class="run-bars" aria-label="The last runs, oldest first">${shown.map((run, i) => {
    const words = `${STATES[run.status]?.word ?? run.status}${run.start_time ? `, ${span(took[i])}` : ""}, ${clock(run.scheduled_time ?? run.created_at)}`;
    return html`<li key=${run.run_id} data-run-id=${run.run_id} data-status=${run.status}><a href=${path("/ui/runs", run.run_id)} title=${words} aria-label=${words}>
      <i class=${STATES[run.status]?.tone ?? "idle"} style=${{ height: `${Math.max(LEAST, (took[i] / most) * HIGH)}px` }}></i></a></li>`;
  })}</ol>`;
}
