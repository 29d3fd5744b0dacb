// In what two definitions differ, field by field.
import { html } from "../vendor/preact.js";

/** @param {any} value */
export function text(value) {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, typeof value === "object" ? 1 : 0);
}

/** @param {{rows: import("../lib/definition.js").Difference[], before: string, after: string}} props */
export function Differences({ rows, before, after }) {
  if (!rows.length) return html`<p class="quiet pad">The definitions are the same; it was paused, resumed or cancelled.</p>`;
  return html`<div class="scroll-x"><table class="table differences"><thead><tr><th>Field</th><th>${before}</th><th>${after}</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.field} data-field=${row.field}><th scope="row"><code>${row.field}</code></th>
      <td class=${row.before === undefined ? "" : "removed"}><pre>${text(row.before)}</pre></td><td class=${row.after === undefined ? "" : "added"}><pre>${text(row.after)}</pre></td></tr>`)}</tbody></table></div>`;
}
