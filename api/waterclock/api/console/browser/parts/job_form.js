// A definition as a form: texts that people type, what they say as fields of a request, and where an error belongs.
import { html } from "../vendor/preact.js";
import { ownZone } from "../lib/format.js";
import { Tabs } from "./parts.js";

/** @typedef {Record<string, string>} Texts */

const WHEN = /** @type {[string, string][]} */ ([
  ["cron", "Cron"],
  ["every", "Every"],
  ["at", "Once, at"],
  ["delay", "Once, in"],
  ["now", "Now"],
  ["after", "After jobs"],
]);
const WHAT = /** @type {[string, string][]} */ ([
  ["shell", "Shell"],
  ["argv", "Program"],
  ["http", "HTTP call"],
  ["handler", "Handler"],
]);
const ZONES = Intl.supportedValuesOf("timeZone");
/** Fields that have an input of their own; all others stand in "Other fields". */
const OWN = ["name", "command", "http", "handler", "job_type", "env", "cron", "schedule", "timezone", "every", "interval_seconds", "schedule_time", "delay", "dependencies", "max_retries", "timeout_seconds", "priority", "tier", "queue", "overlap", "labels", "payload"];

/** @type {Texts} */
export const NEW = { name: "", job_id: "", what: "shell", command: "", argv: "", method: "GET", url: "", headers: "", body: "", handler: "", env: "", when: "cron", cron: "0 3 * * *", timezone: ownZone, every: "5m", at: "", delay: "10m", after: "", max_retries: "3", timeout: "1h", priority: "0", tier: "light", queue: "default", overlap: "skip", labels: "", payload: "", other: "" };

/** What a declaration says, as texts. @param {Record<string, any>} said @returns {Texts} */
export function textsOf(said) {
  /** @type {Texts} */
  const texts = { ...NEW, timezone: said.timezone ?? "UTC", name: said.name ?? "" };
  if (Array.isArray(said.command)) Object.assign(texts, { what: "argv", argv: said.command.join("\n") });
  else if (said.command !== undefined) Object.assign(texts, { what: "shell", command: said.command });
  else if (said.http) {
    const { method = "GET", url, headers = {}, body } = said.http;
    Object.assign(texts, { what: "http", method, url, headers: lines(headers, ": "), body: body === undefined || body === null ? "" : typeof body === "string" ? body : JSON.stringify(body, null, 2) });
  } else if (said.handler ?? said.job_type) Object.assign(texts, { what: "handler", handler: said.handler ?? said.job_type });
  else texts.what = "other";
  if (said.cron) Object.assign(texts, { when: "cron", cron: [said.cron].flat().join("\n") });
  else if (said.interval_seconds) Object.assign(texts, { when: "every", every: duration(said.interval_seconds) });
  else if (said.schedule_time) Object.assign(texts, { when: "at", at: said.schedule_time });
  else if (said.dependencies?.length) texts.when = "after";
  else texts.when = "now";
  const rest = Object.fromEntries(Object.entries(said).filter(([name]) => !OWN.includes(name)));
  return Object.assign(texts, {
    after: (said.dependencies ?? []).join(", "),
    env: lines(said.env ?? {}, "="),
    max_retries: String(said.max_retries ?? ""),
    timeout: said.timeout_seconds === undefined ? "" : duration(said.timeout_seconds),
    priority: String(said.priority ?? 0),
    tier: said.tier ?? "light",
    queue: said.queue ?? "default",
    overlap: said.overlap ?? "skip",
    labels: lines(said.labels ?? {}, "="),
    payload: said.payload === undefined ? "" : JSON.stringify(said.payload, null, 2),
    other: Object.keys(rest).length ? JSON.stringify(rest, null, 2) : "",
  });
}

export class Unreadable extends Error {
  /** @param {string} field @param {string} reason */
  constructor(field, reason) {
    super(reason);
    this.errors = [{ field, reason }];
  }
}

/** When it fires, as fields of a request: what a preview and a what-if need. @param {Texts} texts */
export function scheduleOf(texts) {
  /** @type {Record<string, any>} */
  const said = {};
  const zoned = texts.timezone === "UTC" ? {} : { timezone: texts.timezone };
  const crons = texts.cron.split("\n").map((line) => line.trim()).filter(Boolean);
  if (texts.when === "cron") Object.assign(said, { cron: crons.length > 1 ? crons : (crons[0] ?? ""), ...zoned });
  else if (texts.when === "every") Object.assign(said, { interval_seconds: seconds("every", texts.every), ...zoned });
  else if (texts.when === "at") Object.assign(said, { schedule_time: texts.at, ...zoned });
  else if (texts.when === "delay") said.delay = texts.delay;
  else if (texts.when === "now") said.schedule = "now";
  return said;
}

/** All that the form says, as a declaration. @param {Texts} texts @param {Record<string, any>} [before] fields that no input shows are kept */
export function declared(texts, before) {
  /** @type {Record<string, any>} */
  const said = { ...(texts.name.trim() ? { name: texts.name.trim() } : {}) };
  if (texts.what === "shell") said.command = texts.command;
  else if (texts.what === "argv") said.command = texts.argv.split("\n").filter((line, i, all) => line || i < all.length - 1);
  else if (texts.what === "http") said.http = { ...(before?.http ?? {}), ...callOf(texts) };
  else if (texts.what === "handler") said.handler = texts.handler.trim();
  const env = pairs("env", texts.env, "=");
  if (Object.keys(env).length && (texts.what === "shell" || texts.what === "argv")) said.env = env;
  Object.assign(said, scheduleOf(texts));
  const after = texts.after.split(/[\s,]+/).filter(Boolean);
  if (after.length) said.dependencies = after;
  if (texts.max_retries !== "") said.max_retries = whole("max_retries", texts.max_retries);
  if (texts.timeout !== "") said.timeout_seconds = seconds("timeout_seconds", texts.timeout);
  for (const [name, usual] of [["tier", "light"], ["queue", "default"], ["overlap", "skip"]]) if (texts[name] && texts[name] !== usual) said[name] = texts[name].trim();
  if (texts.priority !== "" && texts.priority !== "0") said.priority = whole("priority", texts.priority);
  const labels = pairs("labels", texts.labels, "=");
  if (Object.keys(labels).length) said.labels = labels;
  if (texts.payload.trim()) said.payload = json("payload", texts.payload);
  if (texts.other.trim()) Object.assign(said, json("other", texts.other));
  return said;
}

/** @param {Texts} texts */
function callOf(texts) {
  const headers = pairs("headers", texts.headers, ":");
  let body = /** @type {any} */ (texts.body);
  try {
    body = JSON.parse(texts.body);
  } catch {
    // a text that is sent as it is
  }
  return { ...(texts.method === "GET" ? {} : { method: texts.method }), url: texts.url.trim(), ...(Object.keys(headers).length ? { headers } : {}), ...(texts.body.trim() ? { body } : {}) };
}

/** @param {Record<string, any>} values @param {string} sign */
function lines(values, sign) {
  return Object.entries(values).map(([key, value]) => `${key}${sign}${value?.secret ? `secret:${value.secret}` : value}`).join("\n");
}

/** @param {string} field @param {string} text @param {string} sign */
function pairs(field, text, sign) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const at = line.indexOf(sign);
    if (at < 1) throw new Unreadable(field, `"${line.slice(0, 40)}" has no ${sign}`);
    const value = line.slice(at + 1).trim();
    found[line.slice(0, at).trim()] = field !== "labels" && value.startsWith("secret:") ? { secret: value.slice(7) } : value;
  }
  return found;
}

/** @param {string} field @param {string} text */
function json(field, text) {
  try {
    return JSON.parse(text);
  } catch (/** @type {any} */ error) {
    throw new Unreadable(field, `is not JSON: ${error.message}`);
  }
}

/** @param {string} field @param {string} text */
function whole(field, text) {
  if (!/^\d+$/.test(text.trim())) throw new Unreadable(field, "expected a whole number");
  return Number(text);
}

const UNITS = /** @type {Record<string, number>} */ ({ s: 1, m: 60, h: 3600, d: 86_400, "": 1 });

/** `1h30m` as seconds. @param {string} field @param {string} text */
function seconds(field, text) {
  const parts = [...text.trim().matchAll(/(\d+(?:\.\d+)?)\s*([smhd]?)\s*/gy)];
  if (!parts.length || parts.map(([part]) => part).join("") !== text.trim()) throw new Unreadable(field, "expected a duration such as 30s, 5m or 1h30m");
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * UNITS[unit], 0);
}

/** @param {number} seconds */
function duration(seconds) {
  for (const [unit, size] of Object.entries({ d: 86_400, h: 3600, m: 60 })) if (seconds && seconds % size === 0) return `${seconds / size}${unit}`;
  return `${seconds}s`;
}

const ALSO = /** @type {Record<string, string[]>} */ ({ cron: ["cron_expression", "schedule"], every: ["interval_seconds"], at: ["schedule_time"], timeout: ["timeout_seconds"], after: ["dependencies"], url: ["http.url", "http"], method: ["http.method"], headers: ["http.headers"], body: ["http.body"], argv: ["command"], handler: ["job_type"] });

/** What the service says of a field. @param {{field: string, reason: string}[]} errors @param {string} name */
function errorOf(errors, name) {
  const names = [name, ...(ALSO[name] ?? [])];
  return errors.filter(({ field }) => names.some((one) => field === one || field.startsWith(`${one}.`) || field.startsWith(`${one}[`))).map(({ reason }) => reason).join("; ");
}

/** Errors of fields that have no input. @param {{field: string, reason: string}[]} errors @param {Texts} texts */
export function elsewhere(errors, texts) {
  return errors.filter((error) => !Object.keys(texts).some((name) => errorOf([error], name)));
}

/** @param {{texts: Texts, set: (name: string, value: string) => void, errors: {field: string, reason: string}[], isNew?: boolean}} props */
export function JobForm({ texts, set, errors, isNew }) {
  const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {any} */ options = {}) => {
    const wrong = errorOf(errors, name);
    const about = { id: `f-${name}`, name, "aria-invalid": wrong ? "true" : undefined, "aria-describedby": wrong || options.hint ? `m-${name}` : undefined, spellcheck: false, autocomplete: "off" };
    const type = (/** @type {any} */ event) => set(name, event.target.value);
    const input = options.options
      ? html`<select ...${about} value=${texts[name]} onChange=${type}>${options.options.map((/** @type {string} */ value) => html`<option key=${value} value=${value}>${value.replaceAll("_", " ")}</option>`)}</select>`
      : options.rows
        ? html`<textarea ...${about} class="mono" rows=${options.rows} value=${texts[name]} placeholder=${options.placeholder} onInput=${type}></textarea>`
        : html`<input ...${about} type="text" class=${options.mono ? "mono" : ""} value=${texts[name]} placeholder=${options.placeholder} list=${options.list} onInput=${type} />`;
    return html`<div class="field ${options.wide ? "wide" : ""}"><label for=${about.id}>${label}</label>${input}
      ${(wrong || options.hint) && html`<p id=${`m-${name}`} class=${wrong ? "wrong" : "quiet"}>${wrong || options.hint}</p>`}</div>`;
  };
  const zone = () => field("timezone", "Time zone", { list: "zones", mono: true });
  const secret = "a line each; secret:NAME stands for a secret";
  return html`<fieldset class="fields"><legend>What it is</legend>
      ${field("name", "Name", { placeholder: "Nightly backup" })}
      ${isNew && field("job_id", "Id", { placeholder: "made if left empty", mono: true })}
    </fieldset>
    <fieldset class="fields"><legend>What runs</legend>
      <div class="wide"><${Tabs} label="What runs" value=${texts.what} options=${texts.what === "other" ? [...WHAT, ["other", "As it is"]] : WHAT} onChange=${(/** @type {string} */ value) => set("what", value)} /></div>
      ${texts.what === "shell" && field("command", "Command line", { rows: 2, wide: true, placeholder: "pg_dump prod > /backups/prod.sql" })}
      ${texts.what === "argv" && field("argv", "Program and arguments, one a line", { rows: 3, wide: true, placeholder: "/usr/bin/rsync\n-a\n/data\n/backup" })}
      ${texts.what === "http" && html`${field("method", "Method", { options: ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] })}${field("url", "Address", { mono: true, placeholder: "address of the call" })}
        ${field("headers", "Headers", { rows: 2, placeholder: "Authorization: secret:api-key", hint: secret })}${field("body", "Body", { rows: 2, hint: "JSON, or a text that is sent as it is" })}`}
      ${texts.what === "handler" && field("handler", "Handler", { mono: true, placeholder: "email_send", hint: "A Python function that a worker serves" })}
      ${texts.what === "other" && html`<p class="quiet wide">An artifact, or a workflow: change it in "Other fields".</p>`}
      ${(texts.what === "shell" || texts.what === "argv") && field("env", "Environment", { rows: 2, wide: true, placeholder: "PGPASSWORD=secret:db-password", hint: secret })}
    </fieldset>
    <fieldset class="fields"><legend>When</legend>
      <div class="wide"><${Tabs} label="When" value=${texts.when} options=${WHEN} onChange=${(/** @type {string} */ value) => set("when", value)} /></div>
      ${texts.when === "cron" && html`${field("cron", "Cron", { rows: 1, placeholder: "0 3 * * *", hint: "several: one a line" })}${zone()}`}
      ${texts.when === "every" && html`${field("every", "Every", { mono: true, hint: "30s, 5m, 1h30m, 2d" })}${zone()}`}
      ${texts.when === "at" && html`${field("at", "At", { mono: true, placeholder: "2026-12-31T23:59:00", hint: "without an offset it is one of the zone" })}${zone()}`}
      ${texts.when === "delay" && field("delay", "In", { mono: true, hint: "10m, 2h" })}
      ${(texts.when === "after" || texts.after) && field("after", "After these jobs", { mono: true, placeholder: "extract, transform", hint: "ids; it runs when they have ended well" })}
      <datalist id="zones">${ZONES.map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>
    </fieldset>
    <fieldset class="fields four"><legend>How</legend>
      ${field("max_retries", "Retries")}${field("timeout", "Timeout", { hint: "0s: any time" })}${field("overlap", "If still running", { options: ["skip", "allow", "queue_one", "queue_all", "cancel_previous", "terminate_previous"] })}${field("queue", "Queue")}
      ${field("priority", "Priority", { hint: "0 to 100" })}${field("tier", "Tier", { options: ["light", "medium", "heavy"] })}${field("labels", "Labels", { rows: 2, wide: true, placeholder: "team=data" })}
    </fieldset>
    <details class="more-fields" open=${Boolean(texts.payload || texts.other)}><summary>Payload and other fields</summary>
      <div class="fields">${field("payload", "Payload, JSON", { rows: 4, wide: true })}${field("other", "Other fields, JSON", { rows: 4, wide: true, placeholder: '{"jitter_seconds": 30, "pause_on_failure": 5}', hint: "Any field of a definition" })}</div>
    </details>`;
}
