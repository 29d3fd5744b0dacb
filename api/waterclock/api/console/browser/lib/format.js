// Times, durations and sizes as people read them. The clock is the server's as far as it matters: see `skew`.
import { signal } from "../vendor/preact.js";

export const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The zone that times are shown in; the other two are on hover. */
export const zone = signal(localStorage.getItem("waterclock.zone") || ownZone);

/** @param {string} name */
export function setZone(name) {
  zone.value = name;
  if (name === ownZone) localStorage.removeItem("waterclock.zone");
  else localStorage.setItem("waterclock.zone", name);
}

/** Turns once a second while somebody looks. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) now.value = Date.now();
});

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/** @param {string} zone @param {Intl.DateTimeFormatOptions} options */
function format(zone, options) {
  const key = zone + JSON.stringify(options);
  let found = formats.get(key);
  if (!found) {
    found = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone, hourCycle: "h23" });
    formats.set(key, found);
  }
  return found;
}

const TIME = /** @type {const} */ ({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = /** @type {const} */ ({ year: "numeric", month: "short", day: "numeric" });

/** `14:03:11` today, else with its date. @param {string | Date | number} at @param {string} [inZone] */
export function clock(at, inZone = zone.value) {
  const date = new Date(at);
  const day = format(inZone, DATE).format(date);
  const time = format(inZone, TIME).format(date);
  return day === format(inZone, DATE).format(new Date()) ? time : `${day}, ${time}`;
}

/** With date, time and the zone's name. @param {string | Date | number} at @param {string} [inZone] */
export function moment(at, inZone = zone.value) {
  return format(inZone, { weekday: "short", ...DATE, ...TIME, timeZoneName: "short" }).format(new Date(at));
}

/** The same, without the date if that is today. @param {string | Date | number} at @param {string} [inZone] */
export function clockWithZone(at, inZone = zone.value) {
  const date = new Date(at);
  const today = format(inZone, DATE).format(date) === format(inZone, DATE).format(new Date());
  return format(inZone, { ...(today ? {} : DATE), ...TIME, timeZoneName: "short" }).format(date);
}

/** @param {string | Date | number} at @param {string} [scheduleZone] */
export function threeClocks(at, scheduleZone) {
  const lines = [`${moment(at, ownZone)} · yours (${ownZone})`, `${moment(at, "UTC")} · UTC`];
  if (scheduleZone && scheduleZone !== "UTC" && scheduleZone !== ownZone)
    lines.unshift(`${moment(at, scheduleZone)} · the schedule's (${scheduleZone})`);
  return lines.join("\n");
}

/** @param {number} at milliseconds @param {number} [reference] */
export function relative(at, reference = now.value) {
  const seconds = (at - reference) / 1000;
  const size = Math.abs(seconds);
  if (size < 1.5) return "now";
  const text = span(size, 1);
  return seconds < 0 ? `${text} ago` : `in ${text}`;
}

const UNITS = /** @type {const} */ ([
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
]);

/** `1 h 5 min`, `2.4 s`, `380 ms`. @param {number} seconds @param {number} [parts] @returns {string} */
export function span(seconds, parts = 2) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `−${span(-seconds, parts)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return "<1 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10 && parts > 1) return `${(Math.floor(seconds * 10) / 10).toFixed(1)} s`;
  let left = Math.floor(seconds);
  const words = [];
  for (const [size, unit] of UNITS) {
    const count = Math.floor(left / size);
    if (!count || words.length >= parts) continue;
    words.push(`${count} ${unit}`);
    left -= count * size;
  }
  return words.join(" ");
}

/** @param {string | null | undefined} from @param {string | null | undefined} [to] seconds, until now if it goes on */
export function between(from, to) {
  if (!from) return NaN;
  return ((to ? Date.parse(to) : now.value) - Date.parse(from)) / 1000;
}

/** @param {number} count */
export function number(count) {
  return count.toLocaleString("en-GB");
}

/** `12.4 k`. @param {number} count */
export function short(count) {
  if (count < 10_000) return number(count);
  return new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 }).format(count);
}

/** @param {number} bytes */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (bytes >= 1000 && i < units.length - 1) {
    bytes /= 1000;
    i += 1;
  }
  return `${i && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[i]}`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** @param {string} text */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
