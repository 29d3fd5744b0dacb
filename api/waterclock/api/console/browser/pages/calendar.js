// What will fire: a day by the minute or a week by the hour, where many fire at once as heat, and each fire to look at
// or leave out. Times and daylight saving are the service's.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { number, ownZone, plural, zone } from "../lib/format.js";
import { onResync } from "../lib/live.js";
import { address, path, setQuery, withQuery } from "../lib/router.js";
import { instantOf, localOf, offsetAt } from "../lib/zones.js";
import { asKnown, FireNote } from "../parts/fires.js";
import { skipNext } from "../parts/job_actions.js";
import { Button, CopyAs, Empty, PageHead, Panel, quoted, Skeleton, Tabs, Time, Trouble } from "../parts/parts.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const PAGE = 1000;
const MOST = 10_000;
const LISTED = 200;
const OFTEN = 50;

/** @typedef {{time: string, local: string, job_id: string, job_name: string, note: string | null}} Fire */

export default function Calendar() {
  const { query } = address.value;
  const tz = query.get("tz") ?? zone.value;
  const from = query.get("from") ?? `${instantOf(`${localOf(Date.now(), tz).slice(0, 13)}:00:00`, tz)}`;
  const to = query.get("to") ?? new Date(Date.parse(from) + DAY).toISOString().replace(".000Z", "Z");
  const week = Date.parse(to) - Date.parse(from) > 2 * DAY;
  const filter = { job: query.get("job"), label: query.get("label") };
  const url = withQuery("/v1/upcoming", { from, to, tz, ...filter });
  const [found, setFound] = useState(/** @type {{url: string, fires: Fire[], more: boolean, done: boolean, error: any}} */ ({ url: "", fires: [], more: false, done: false, error: null }));
  const cell = query.get("cell");

  const load = async (/** @type {{stopped: boolean}} */ state = { stopped: false }) => {
    /** @type {Fire[]} */
    let fires = [];
    let cursor = null;
    try {
      do {
        const page = await get(`${url}&limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
        if (state.stopped) return;
        fires = fires.concat(page.items);
        cursor = page.next_cursor;
        setFound({ url, fires, more: cursor !== null, done: cursor === null || fires.length >= MOST, error: null });
      } while (cursor && fires.length < MOST);
    } catch (error) {
      if (!state.stopped) setFound((before) => ({ ...before, url, done: true, error }));
    }
  };
  useEffect(() => {
    const state = { stopped: false };
    load(state);
    const stop = onResync(() => load(state));
    return () => {
      state.stopped = true;
      stop();
    };
  }, [url]);

  const here = found.url === url;
  const cells = useMemo(() => heat(here ? found.fires : [], week), [found, week]);
  const move = (/** @type {number} */ by) => setQuery({ from: shifted(from, by * (week ? 7 : 1)), to: shifted(to, by * (week ? 7 : 1)), cell: null });
  const setRange = (/** @type {string} */ days) => setQuery({ to: days === "7" ? shifted(from, 7) : null, cell: null });
  const zones = [...new Set([ownZone, "UTC", zone.value, tz])];
  const chosen = cell ? found.fires.filter((fire) => cellOf(fire.local, week) === cell) : found.fires;
  return html`<${PageHead} title="Calendar" lead=${html`${here && found.done ? `${plural(found.fires.length, "fire")}${found.more ? " and more" : ""}` : "…"} from <${Time} at=${from} full /> to <${Time} at=${to} full />`}>
      <${CopyAs} cli=${["waterclock upcoming", `--from ${from}`, `--to ${to}`, `--tz ${tz}`, filter.job && `--job ${quoted(filter.job)}`, filter.label && `--label ${quoted(filter.label)}`].filter(Boolean).join(" ")} curl=${{ path: url }} /><//>
    <div class="filters"><${Tabs} label="Range" value=${week ? "7" : "1"} options=${[["1", "24 hours"], ["7", "7 days"]]} onChange=${setRange} />
      <button type="button" class="button plain" aria-label="Earlier" onClick=${() => move(-1)}>‹</button><button type="button" class="button plain" onClick=${() => setQuery({ from: null, to: week ? shifted(new Date().toISOString(), 7) : null, cell: null })}>Now</button><button type="button" class="button plain" aria-label="Later" onClick=${() => move(1)}>›</button>
      <label class="inline-label">Starting <input type="datetime-local" value=${localOf(from, tz).slice(0, 16)} onChange=${(/** @type {any} */ event) => {
        const at = instantOf(event.target.value, tz);
        if (at) setQuery({ from: at, to: shifted(at, week ? 7 : 1), cell: null });
      }} /></label>
      <select aria-label="Time zone" value=${tz} onChange=${(/** @type {any} */ event) => setQuery({ tz: event.target.value, cell: null })}>${zones.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select>
      ${Object.entries(filter).map(([name, value]) => value && html`<button type="button" key=${name} class="chip" aria-label=${`Remove the filter ${name} ${value}`} onClick=${() => setQuery({ [name]: null })}><span class="quiet">${name}</span> ${value} ✕</button>`)}</div>
    ${found.error && here && html`<${Trouble} error=${found.error} retry=${() => load()} stale=${found.fires.length > 0} />`}
    ${here && found.more && found.done && html`<p class="load quiet"><span>Only the first ${number(MOST)} fires are shown, up to <${Time} at=${found.fires[found.fires.length - 1].time} full />. Choose a shorter time, or a label.</span></p>`}
    <div class="two-columns calendar-columns"><${Panel} title=${week ? "By the hour" : "By the minute"} aside=${cells.most > 1 && html`<${Scale} most=${cells.most} />`}>
      ${here ? html`<${Heat} cells=${cells} from=${from} to=${to} tz=${tz} week=${week} chosen=${cell} />` : html`<${Skeleton} rows=${6} />`}<//>
    <${Panel} title=${cell ? cellWords(cell) : "Fires"} flush aside=${cell ? html`<button type="button" class="button link" onClick=${() => setQuery({ cell: null }, { replace: true })}>Show all</button>` : ""}>
      ${!here ? html`<div class="pad"><${Skeleton} rows=${6} /></div>` : chosen.length ? html`<${Fires} fires=${chosen} reload=${load} whole=${Boolean(cell || filter.job)} />` : html`<${Empty} title="Nothing fires" command=${'waterclock submit tick --cron "*/5 * * * *" -- date'}>${cell || filter.job ? "" : "No schedule has a fire in this time."}<//>`}<//></div>`;
}

/** @param {string} at @param {number} days */
function shifted(at, days) {
  return new Date(Date.parse(at) + days * DAY).toISOString().replace(".000Z", "Z");
}

/** `2026-11-17T03:00` of a local time: to the hour in a week, to the minute in a day. @param {string} local @param {boolean} week */
function cellOf(local, week) {
  return local.slice(0, week ? 13 : 16);
}

/** @param {string} cell */
function cellWords(cell) {
  return cell.length === 13 ? `${cell.replace("T", ", ")}:00 to ${cell.slice(11)}:59` : cell.replace("T", ", ");
}

/** How many fire at the same instant is what warms a cell: that is what makes a queue. @param {Fire[]} fires @param {boolean} week */
function heat(fires, week) {
  /** @type {Map<string, {count: number, herd: number, last: string, run: number, noted: boolean, jobs: Set<string>}>} */
  const found = new Map();
  for (const fire of fires) {
    const key = cellOf(fire.local, week);
    const cell = found.get(key) ?? { count: 0, herd: 0, last: "", run: 0, noted: false, jobs: new Set() };
    cell.count += 1;
    cell.run = cell.last === fire.time ? cell.run + 1 : 1;
    cell.last = fire.time;
    cell.herd = Math.max(cell.herd, cell.run);
    if (fire.note?.startsWith("dst")) cell.noted = true;
    if (cell.jobs.size < 6) cell.jobs.add(fire.job_name);
    found.set(key, cell);
  }
  return { found, most: Math.max(1, ...[...found.values()].map(({ herd }) => herd)) };
}

/** Jobs that fire so often that a list of it says nothing. @param {Fire[]} fires */
function frequent(fires) {
  /** @type {Map<string, {name: string, count: number}>} */
  const counts = new Map();
  for (const { job_id, job_name } of fires) counts.set(job_id, { name: job_name, count: (counts.get(job_id)?.count ?? 0) + 1 });
  return new Map([...counts].filter(([, { count }]) => count > OFTEN));
}

/** How warm a cell is, in four steps. @param {number} herd @param {number} most */
function warmth(herd, most) {
  return most < 2 ? 1 : 1 + Math.round((3 * Math.log(herd)) / Math.log(most));
}

/** @param {{most: number}} props */
function Scale({ most }) {
  return html`<span class="heat-scale">1${[1, 2, 3, 4].map((step) => html`<i key=${step} class="w${step}"></i>`)}${number(most)} at once</span>`;
}

/** The hours of a range as the zone's clocks show them: a repeated hour stands twice in `doubled`, one that is left out is
 * in `gone`. @param {string} from @param {string} to @param {string} tz */
function hours(from, to, tz) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  const gone = new Set();
  let before = offsetAt(Date.parse(from), tz);
  for (let at = Math.floor(Date.parse(from) / HOUR) * HOUR; at < Date.parse(to); at += HOUR) {
    const offset = offsetAt(at, tz);
    const key = localOf(at, tz).slice(0, 13);
    if (offset > before) for (let missing = offset - before; missing >= HOUR; missing -= HOUR) gone.add(new Date(at + offset - missing).toISOString().slice(0, 13));
    seen.set(key, (seen.get(key) ?? 0) + 1);
    before = offset;
  }
  return { seen, gone };
}

/** @param {{cells: ReturnType<typeof heat>, from: string, to: string, tz: string, week: boolean, chosen: string | null}} props */
function Heat({ cells, from, to, tz, week, chosen }) {
  const { seen, gone } = useMemo(() => hours(from, to, tz), [from, to, tz]);
  const keys = [...new Set([...seen.keys(), ...gone])].sort();
  const rows = week ? [...new Set(keys.map((key) => key.slice(0, 10)))] : keys;
  const columns = week ? 24 : 60;
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const choose = (/** @type {any} */ event) => {
    const cell = event.target.closest("[data-cell]")?.dataset.cell;
    if (cell) setQuery({ cell: cell === chosen ? null : cell }, { replace: true });
  };
  return html`<div class="heat ${week ? "week" : "day"}" onClick=${choose} role="group" aria-label="Fires as heat">
    <div class="heat-row heat-heads" aria-hidden="true"><span></span>${Array.from({ length: columns }, (_, i) => html`<i key=${i}>${week ? (i % 3 === 0 ? two(i) : "") : i % 10 === 0 ? `:${two(i)}` : ""}</i>`)}</div>
    ${rows.map((row) => {
      const doubled = (seen.get(row) ?? 0) > 1;
      return html`<div key=${row} class="heat-row ${!week && gone.has(row) ? "gone" : ""}" data-row=${row}><span class="heat-name">${week ? dayWords(row) : `${row.slice(11)}:00`}${!week && doubled && html`<b class="label dst" title="The clock goes back: this hour comes twice">twice</b>`}${!week && gone.has(row) && html`<b class="label dst" title="The clock goes forward: this hour does not exist">left out</b>`}</span>
        ${Array.from({ length: columns }, (_, i) => {
          const key = week ? `${row}T${two(i)}` : `${row}:${two(i)}`;
          const cell = cells.found.get(key);
          const strange = week && (gone.has(key) ? "gone" : (seen.get(key) ?? 0) > 1 ? "doubled" : "");
          if (!cell) return html`<i key=${i} class=${strange || ""} title=${strange === "gone" ? "The clock goes forward: this hour does not exist" : strange ? "The clock goes back: this hour comes twice" : undefined} data-dst=${strange || undefined}></i>`;
          const words = `${cellWords(key)}: ${plural(cell.count, "fire")}${cell.herd > 1 ? `, ${cell.herd} at once` : ""}${strange ? ", the clock changes" : ""}`;
          return html`<button type="button" key=${i} class="w${warmth(cell.herd, cells.most)} ${cell.noted ? "noted" : ""} ${strange || ""} ${chosen === key ? "chosen" : ""}" data-cell=${key} data-count=${cell.count} data-herd=${cell.herd} data-dst=${strange || undefined} aria-label=${words} aria-pressed=${chosen === key ? "true" : "false"} title=${`${words}\n${[...cell.jobs].join(", ")}`}></button>`;
        })}</div>`;
    })}</div>`;
}

/** @param {string} date */
function dayWords(date) {
  return new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" }).format(new Date(`${date}T00:00:00Z`));
}

/** @param {{fires: Fire[], reload: () => any, whole: boolean}} props */
function Fires({ fires: given, reload, whole }) {
  const all = asKnown(given);
  const often = whole ? new Map() : frequent(all);
  const fires = often.size ? all.filter(({ job_id }) => !often.has(job_id)) : all;
  return html`${often.size > 0 && html`<p class="often quiet">Often: ${[...often].map(([id, { name, count }], i) => html`${i ? ", " : ""}<a key=${id} href=${path("/ui/jobs", id)}>${name}</a> ${number(count)} times`)}</p>`}<ul class="short-list fire-list">${fires.slice(0, LISTED).map((fire) => html`<li key=${`${fire.job_id} ${fire.time}`} class=${fire.note === "skipped" ? "left-out" : ""} data-job-id=${fire.job_id} data-fire=${fire.time}>
    <span class="fire-time mono" title=${fire.local}>${fire.local.slice(5, 10)} ${fire.local.slice(11, 19)}</span><a class="clip strong grow" href=${path("/ui/jobs", fire.job_id)}>${fire.job_name}</a><${FireNote} note=${fire.note} />
    ${fire.note !== "skipped" && html`<${Button} kind="link" scope="operate" title="Leave this one out" onClick=${() => skipNext(fire.job_id, reload, fire)}>Skip<//>`}</li>`)}</ul>
    ${fires.length > LISTED && html`<p class="quiet pad">and ${number(fires.length - LISTED)} more; choose a cell</p>`}`;
}
