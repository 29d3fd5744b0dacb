// Wall clocks of other zones, to show and to read what people type. Fires are the service's business, not ours.

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/** How far a zone's wall clock is ahead of UTC at an instant, in milliseconds. @param {number} at @param {string} zone */
export function offsetAt(at, zone) {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" });
    formats.set(zone, format);
  }
  const parts = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute, parts.second) - Math.floor(at / 1000) * 1000;
}

/** `2027-03-28T03:00:00`, as the clocks of a zone show it. @param {string | number | Date} at @param {string} zone */
export function localOf(at, zone) {
  const ms = new Date(at).getTime();
  return new Date(ms + offsetAt(ms, zone)).toISOString().slice(0, 19);
}

/** The instant at which a zone's clocks show it; of two the first. Null if it is no time. @param {string} local @param {string} zone */
export function instantOf(local, zone) {
  const wall = Date.parse(`${local.length === 16 ? `${local}:00` : local}Z`);
  if (Number.isNaN(wall)) return null;
  const before = wall - offsetAt(wall - 86_400_000, zone);
  const after = wall - offsetAt(wall + 86_400_000, zone);
  const found = [before, after].find((at) => at + offsetAt(at, zone) === wall) ?? before;
  return new Date(found).toISOString().replace(".000Z", "Z");
}
