// Fires in three clocks: the schedule's as the service says it, yours, and UTC.
import { html, signal } from "../vendor/preact.js";
import { ownZone } from "../lib/format.js";
import { localOf } from "../lib/zones.js";
import { Button, Time } from "./parts.js";

const NOTES = /** @type {Record<string, [string, string]>} */ ({
  dst_gap: ["clock goes forward", "The local time that was meant does not exist on this day"],
  dst_overlap: ["clock goes back", "The local time that was meant comes twice on this day"],
  skipped: ["skipped", "Somebody asked to leave it out"],
});

/** What was left out here, until the service's lists know it: they are a moment behind. */
export const leftOut = signal(/** @type {Set<string>} */ (new Set()));

/** @template {{time: string, note: string | null, job_id?: string}} T @param {T[]} fires @returns {T[]} */
export function asKnown(fires) {
  return fires.map((fire) => (leftOut.value.has(`${fire.job_id} ${fire.time}`) ? { ...fire, note: "skipped" } : fire));
}

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/** `Sun 2027-03-28 03:00:00 +02:00`, of the text that the service gave. @param {string} local @param {boolean} [short] without seconds */
export function localWords(local, short) {
  const [, date, time, offset] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(.*)$/.exec(local) ?? [];
  if (!date) return local;
  return `${DAYS[new Date(`${date}T00:00:00Z`).getUTCDay()]} ${date} ${short ? time.slice(0, 5) : time} ${offset === "Z" || offset === "+00:00" ? "" : offset}`.trim();
}

/** @param {{note: string | null}} props */
export function FireNote({ note }) {
  if (!note) return null;
  const [word, title] = NOTES[note] ?? [note.replaceAll("_", " "), ""];
  return html`<span class="label ${note === "skipped" ? "" : "dst"}" title=${title} data-note=${note}>${word}</span>`;
}

/** @param {{fires: {time: string, local: string, note: string | null, change?: "added" | "removed" | null}[], zoneName: string,
 *   onSkip?: (fire: any) => any, compared?: boolean, compact?: boolean}} props `compact`: of the other clocks only the time of day */
export function FireTable({ fires: given, zoneName, onSkip, compared, compact }) {
  const fires = asKnown(given);
  const short = fires.every(({ time }) => /:00(\.0+)?Z$/.test(time));
  const yours = zoneName !== ownZone && ownZone !== "UTC";
  const other = (/** @type {{time: string, local: string}} */ fire, /** @type {string} */ zone) => {
    const local = localOf(fire.time, zone);
    if (!compact) return localWords(local, short);
    const days = Math.round((Date.parse(local.slice(0, 10)) - Date.parse(fire.local.slice(0, 10))) / 86_400_000);
    return `${local.slice(11, short ? 16 : 19)}${days ? ` ${days > 0 ? "+" : "−"}${Math.abs(days)} d` : ""}`;
  };
  return html`<div class="scroll-x"><table class="table fires"><thead><tr>${compared && html`<th><span class="unseen">Change</span></th>`}
      <th>${zoneName === "UTC" ? "UTC" : `Schedule's clock, ${zoneName}`}</th>${yours && html`<th title=${ownZone}>${compact ? "Yours" : `Yours, ${ownZone}`}</th>`}${zoneName !== "UTC" && html`<th>UTC</th>`}<th><span class="unseen">Note</span></th><th><span class="unseen">Actions</span></th></tr></thead>
    <tbody>${fires.map((fire) => html`<tr key=${`${fire.time} ${fire.change ?? ""}`} class=${fire.change ?? (fire.note === "skipped" ? "left-out" : "")} data-fire=${fire.time} data-change=${fire.change ?? undefined}>
      ${compared && html`<td class="mark-cell" title=${fire.change ?? "stays"}>${fire.change === "added" ? "+" : fire.change === "removed" ? "−" : ""}<span class="unseen">${fire.change ?? "stays"}</span></td>`}
      <td class="strong nowrap">${localWords(fire.local, short)}</td>
      ${yours && html`<td class="nowrap">${other(fire, ownZone)}</td>`}
      ${zoneName !== "UTC" && html`<td class="quiet nowrap">${other(fire, "UTC")}</td>`}
      <td class="quiet nowrap"><${FireNote} note=${fire.note} /> ${!compared && html`<${Time} at=${fire.time} zoneName=${zoneName} />`}</td>
      <td class="number">${onSkip && fire.note !== "skipped" && html`<${Button} kind="link" scope="operate" title="Leave this one out" onClick=${() => onSkip(fire)}>Skip<//>`}</td></tr>`)}</tbody></table></div>`;
}

/** Both lists of an edit as one, in order. @param {any[]} before @param {any[]} after */
export function compare(before, after) {
  const old = new Map(before.map((fire) => [fire.time, fire]));
  const next = new Map(after.map((fire) => [fire.time, fire]));
  const times = [...new Set([...old.keys(), ...next.keys()])].sort((one, other) => Date.parse(one) - Date.parse(other));
  return times.map((time) => ({ ...(next.get(time) ?? old.get(time)), change: !old.has(time) ? "added" : !next.has(time) ? "removed" : null }));
}
