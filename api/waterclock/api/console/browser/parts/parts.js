// The small parts that every page is made of: states, times, buttons that know what one may do, and what to say when
// there is nothing, or something is wrong.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { may, session } from "../lib/api.js";
import { clock, clockWithZone, now, relative, span, threeClocks, zone } from "../lib/format.js";
import { copy, toast } from "./dialogs.js";

/** Each state has a colour and a shape: one of them alone is not seen by everybody.
 * @type {Record<string, {tone: string, word: string, d: string, filled?: boolean}>} */
export const STATES = {
  SUCCESS: { tone: "good", word: "Success", d: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13zM4.8 8.3l2.2 2.2 4.2-4.6", filled: true },
  RUNNING: { tone: "busy", word: "Running", d: "M8 2a6 6 0 1 1-6 6" },
  QUEUED: { tone: "wait", word: "Queued", d: "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12" },
  WAITING: { tone: "wait", word: "Waiting", d: "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12M8 5v3.2l2 1.3" },
  RETRYING: { tone: "again", word: "Retrying", d: "M13.5 8a5.5 5.5 0 1 1-1.7-4M12.2 1.5v2.7h-2.7" },
  FAILED: { tone: "bad", word: "Failed", d: "M8 .6 15.4 8 8 15.4 .6 8zM6.2 6.2l3.6 3.6M9.8 6.2l-3.6 3.6", filled: true },
  TIMED_OUT: { tone: "late", word: "Timed out", d: "M3 1.5h10L8 8l5 6.5H3L8 8z", filled: true },
  CANCELLED: { tone: "idle", word: "Cancelled", d: "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12M3.8 3.8l8.4 8.4" },
  SKIPPED: { tone: "idle", word: "Skipped", d: "M2.5 3.5 7 8l-4.5 4.5M8.5 3.5 13 8l-4.5 4.5" },
  MISSED: { tone: "gone", word: "Missed", d: "M8 1.5 15 14H1zM8 6v3.5M8 11.3v.9", filled: true },
  SCHEDULED: { tone: "busy", word: "Scheduled", d: "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12M8 4.5V8h2.5" },
  PAUSED: { tone: "again", word: "Paused", d: "M5 2.5v11M11 2.5v11" },
  COMPLETED: { tone: "idle", word: "Completed", d: "M2.5 8.5l3.5 3.5 7.5-8" },
  SNOOZED: { tone: "idle", word: "Snoozed", d: "M4 4h8l-8 8h8" },
  RETURNED: { tone: "idle", word: "Returned", d: "M7 3 2.5 7.5 7 12M3 7.5h6a4 4 0 0 1 4 4V13" },
  LOST: { tone: "bad", word: "Lost", d: "M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12M5 8h6" },
  ACTIVE: { tone: "good", word: "Active", d: "M8 3.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9", filled: true },
  DRAINING: { tone: "again", word: "Draining", d: "M8 2v9M4 8l4 4 4-4" },
};

/** @param {{status: string}} props */
export function StatusIcon({ status }) {
  const state = STATES[status] ?? { tone: "idle", word: status, d: "M3 8h10" };
  return html`<svg class="state-icon ${state.tone} ${state.filled ? "filled" : ""} ${status === "RUNNING" ? "turns" : ""}"
    viewBox="0 0 16 16" width="14" height="14" aria-hidden="true"><path d=${state.d} /></svg>`;
}

/** @param {{status: string, word?: string}} props */
export function Status({ status, word }) {
  const state = STATES[status];
  return html`<span class="state ${state?.tone ?? "idle"}"><${StatusIcon} status=${status} />${word ?? state?.word ?? status}</span>`;
}

/** A moment: how long ago, or with `full` its date, time and zone. All clocks are on hover.
 * @param {{at: string | null | undefined, full?: boolean, exact?: boolean, zoneName?: string}} props */
export function Time({ at, full, exact, zoneName }) {
  if (!at) return html`<span class="quiet">–</span>`;
  const text = full ? clockWithZone(at, zone.value) : exact ? clock(at, zone.value) : relative(Date.parse(at), now.value);
  return html`<time datetime=${at} title=${threeClocks(at, zoneName)}>${text}</time>`;
}

/** A stretch of time; it grows while there is no end. @param {{from?: string | null, to?: string | null, seconds?: number | null}} props */
export function Span({ from, to, seconds }) {
  if (seconds === undefined || seconds === null) {
    if (!from) return html`<span class="quiet">–</span>`;
    seconds = Math.max(0, ((to ? Date.parse(to) : now.value) - Date.parse(from)) / 1000);
  }
  return html`<span title=${`${seconds} s`}>${span(seconds)}</span>`;
}

/** A button that says which scope is missing instead of failing.
 * @param {{scope?: string, kind?: "primary" | "danger" | "plain" | "link", onClick: (event: any) => any, children?: any,
 *   disabled?: boolean, title?: string, type?: string, keys?: string}} props */
export function Button({ scope, kind = "plain", onClick, children, disabled, title, type = "button", keys }) {
  const [busy, setBusy] = useState(false);
  const allowed = !scope || may(scope);
  const missing = allowed ? title : `This needs the scope ${scope}. Your token has: ${session.value?.scopes.join(", ") || "none"}.`;
  const off = disabled || busy || !allowed;
  const click = async (/** @type {any} */ event) => {
    if (off) {
      event.preventDefault();
      if (!allowed) toast(missing ?? "", "bad");
      return;
    }
    try {
      const doing = onClick?.(event);
      if (doing?.then) {
        setBusy(true);
        await doing;
      }
    } catch (/** @type {any} */ error) {
      toast(error.message, "bad", error.advice);
    } finally {
      setBusy(false);
    }
  };
  return html`<button type=${type} class="button ${kind} ${busy ? "busy" : ""}" aria-disabled=${off ? "true" : undefined}
    title=${missing} onClick=${click}>${children}${keys && html`<kbd>${keys}</kbd>`}</button>`;
}

/** The head of a page: what it is, and what can be done here.
 * @param {{title: any, lead?: any, children?: any}} props */
export function PageHead({ title, lead, children }) {
  return html`<header class="page-head">
    <div class="page-title"><h1>${title}</h1>${lead && html`<p class="quiet">${lead}</p>`}</div>
    <div class="actions">${children}</div>
  </header>`;
}

/** A part of a page with a heading. @param {{title?: any, aside?: any, children?: any, flush?: boolean, id?: string}} props */
export function Panel({ title, aside, children, flush, id }) {
  return html`<section class="panel ${flush ? "flush" : ""}" id=${id}>
    ${title && html`<header class="panel-head"><h2>${title}</h2>${aside && html`<div class="aside">${aside}</div>`}</header>`}
    <div class="panel-body">${children}</div>
  </section>`;
}

/** Nothing here yet, and what to do about it. @param {{title: string, children?: any, command?: string}} props */
export function Empty({ title, children, command }) {
  return html`<div class="empty"><p class="strong">${title}</p>${children && html`<p class="quiet">${children}</p>`}
    ${command && html`<div class="command"><code>${command}</code><${CopyButton} text=${command} /></div>`}</div>`;
}

/** @param {{error: any, retry?: () => any, stale?: boolean}} props */
export function Trouble({ error, retry, stale }) {
  return html`<div class="trouble" role="status">
    <${StatusIcon} status="FAILED" />
    <div><p class="strong">${error.message}</p>
      <p class="quiet">${stale ? "What is shown is the last that was heard. " : ""}${error.advice}</p></div>
    ${retry && html`<${Button} onClick=${retry}>Try again<//>`}
  </div>`;
}

/** What a resource has: its data, or that it is loading, or what went wrong. Old data stay.
 * @param {{of: import("../lib/store.js").Resource<any>, children: (data: any) => any, rows?: number}} props */
export function Loaded({ of, children, rows = 3 }) {
  return html`${of.error && html`<${Trouble} error=${of.error} retry=${of.reload} stale=${of.data !== undefined} />`}
    ${of.data !== undefined ? children(of.data) : of.loading && html`<${Skeleton} rows=${rows} />`}`;
}

/** @param {{rows?: number}} props */
export function Skeleton({ rows = 3 }) {
  return html`<div class="skeleton" aria-hidden="true">${Array.from({ length: rows }, (_, i) => html`<i key=${i}></i>`)}</div>`;
}

/** @param {{text: string, label?: string}} props */
export function CopyButton({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  return html`<button type="button" class="button link" aria-label=${`${label}: ${text.slice(0, 80)}`}
    onClick=${async () => {
      await copy(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    }}>${done ? "Copied" : label}</button>`;
}

/** A value as JSON, folded when it is long. @param {{value: any}} props */
export function Json({ value }) {
  const text = JSON.stringify(value, null, 2) ?? "null";
  const [open, setOpen] = useState(text.length < 4000);
  return html`<div class="code"><pre tabindex="0">${open ? text : `${text.slice(0, 4000)}…`}</pre>
    <div class="code-tools">${!open && html`<button type="button" class="button link" onClick=${() => setOpen(true)}>Show all</button>`}
      <${CopyButton} text=${text} /></div></div>`;
}

/** Name and value, in two columns. @param {{items: [string, any][]}} props */
export function Facts({ items }) {
  return html`<dl class="facts">${items
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** @param {{value: string, options: [string, any][], onChange: (value: string) => void, label: string}} props */
export function Tabs({ value, options, onChange, label }) {
  return html`<div class="tabs" role="group" aria-label=${label}>${options.map(
    ([key, text]) => html`<button type="button" key=${key} class="tab" aria-pressed=${key === value ? "true" : "false"}
      onClick=${() => onChange(key)}>${text}</button>`,
  )}</div>`;
}

/** A menu below a button. Escape and a click elsewhere close it.
 * @param {{label: any, children: any, title?: string, align?: "left" | "right"}} props */
export function Menu({ label, children, title, align = "right" }) {
  const [open, setOpen] = useState(false);
  const self = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!open) return;
    const close = (/** @type {any} */ event) => {
      if (event.type === "keydown" ? event.key === "Escape" : !self.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("keydown", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("keydown", close);
    };
  }, [open]);
  return html`<div class="menu" ref=${self}>
    <button type="button" class="button plain" aria-expanded=${open ? "true" : "false"} aria-haspopup="true" title=${title}
      onClick=${() => setOpen(!open)}>${label}</button>
    ${open && html`<div class="menu-items ${align}" onClick=${() => setOpen(false)}>${children}</div>`}
  </div>`;
}

/** The same action elsewhere: on the command line, by curl, as a declaration.
 * @param {{cli?: string, curl?: {method?: string, path: string, body?: any}, yaml?: string}} props */
export function CopyAs({ cli, curl, yaml }) {
  const copied = (/** @type {string} */ text) => async () => {
    await copy(text);
    toast("Copied", "good", text.length < 160 ? text : undefined);
  };
  return html`<${Menu} label="Copy as" title="The same on the command line, by curl or as a declaration">
    ${cli && html`<button type="button" onClick=${copied(cli)}>Command line<code>${cli}</code></button>`}
    ${curl && html`<button type="button" onClick=${copied(curlOf(curl))}>curl<code>${curl.method ?? "GET"} ${curl.path}</code></button>`}
    ${yaml && html`<button type="button" onClick=${copied(yaml)}>YAML</button>`}
  <//>`;
}

/** @param {{method?: string, path: string, body?: any}} call */
export function curlOf({ method = "GET", path, body }) {
  const parts = ["curl"];
  if (method !== "GET") parts.push("-X", method);
  parts.push("-H", `"Authorization: Bearer $WATERCLOCK_TOKEN"`);
  if (body !== undefined) parts.push("-H", "'Content-Type: application/json'", "-d", quoted(JSON.stringify(body)));
  parts.push(quoted(location.origin + path));
  return parts.join(" ");
}

/** As a shell takes it. @param {string} text */
export function quoted(text) {
  return /^[\w@%+=:,./~-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
