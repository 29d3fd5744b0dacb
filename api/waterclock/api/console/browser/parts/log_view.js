// A run's output: its end first, followed while it runs, with a link for every line.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { number, plural, size } from "../lib/format.js";
import { LogBuffer } from "../lib/log_buffer.js";
import { address } from "../lib/router.js";
import { pieces } from "./ansi.js";
import { Button, Trouble } from "./parts.js";
import { VirtualList } from "./virtual_list.js";

const ROW = 19;
const LONGEST = 4000;
const FOLLOW_EVERY = 1000;

/** @param {{url: string, goesOn: boolean, download: string}} props `goesOn`: more may come */
export function LogView({ url, goesOn, download }) {
  const [, draw] = useState(0);
  const [wrap, setWrap] = useState(false);
  const buffer = useRef(/** @type {LogBuffer | null} */ (null));
  const handle = useRef(/** @type {import("./virtual_list.js").ListHandle | null} */ (null));
  const wanted = Number(/^L(\d+)$/.exec(address.value.hash)?.[1] ?? 0);
  const shownFor = useRef("");

  useEffect(() => {
    const log = new LogBuffer(url, () => draw((n) => n + 1));
    buffer.current = log;
    draw((n) => n + 1);
    if (wanted) log.loadUntil(wanted);
    else log.loadTail();
    return () => log.stop();
  }, [url]);

  useEffect(() => {
    const log = buffer.current;
    if (!log || !wanted || shownFor.current === `${url}#${wanted}`) return;
    const index = wanted - (log.firstLine ?? Infinity);
    if (index >= 0 && index < log.lines.length) {
      shownFor.current = `${url}#${wanted}`;
      handle.current?.scrollTo(Math.min(log.lines.length - 1, index + 8));
      handle.current?.scrollTo(Math.max(0, index - 4));
    }
  });

  const before = useRef(goesOn);
  useEffect(() => {
    const log = buffer.current;
    if (!goesOn) {
      if (before.current) log?.loadNew(); // its last words
      before.current = false;
      return;
    }
    before.current = true;
    const timer = setInterval(() => document.hidden || log?.hasLater || log?.loadNew(), FOLLOW_EVERY);
    return () => clearInterval(timer);
  }, [goesOn, url]);

  const log = buffer.current;
  if (!log) return null;
  const earlier = async () => {
    const had = log.lines.length;
    await log.loadEarlier();
    const element = handle.current?.element;
    if (element) requestAnimationFrame(() => (element.scrollTop += (log.lines.length - had) * ROW)); // what is read stays in sight
  };
  const empty = log.lines.length === 0 && !log.loading;
  return html`<div class="log">
    <div class="log-head">
      <span class="quiet">${log.total ? `${size(log.total)}${log.hasEarlier ? `, the last ${size(log.total - log.start)} of it here` : `, ${plural(log.lines.length, "line")}`}` : ""}</span>
      ${goesOn && html`<span class="state busy">follows</span>`}
      <span class="aside">
        ${log.hasEarlier && html`<${Button} kind="link" onClick=${earlier}>Earlier<//><${Button} kind="link" onClick=${() => log.loadUntil(1).then(() => handle.current?.scrollTo(0))}>Beginning<//>`}
        ${log.hasLater && html`<${Button} kind="link" onClick=${() => log.loadTail()}>End<//>`}
        <button type="button" class="button link" aria-pressed=${wrap ? "true" : "false"} onClick=${() => setWrap(!wrap)}>${wrap ? "One line each" : "Wrap"}</button>
        <a href=${download} target="_blank" rel="noreferrer">Raw</a></span>
    </div>
    ${log.error && html`<${Trouble} error=${log.error} retry=${() => log.loadTail()} stale=${log.lines.length > 0} />`}
    <div class="log-body" data-log style=${{ height: `${Math.min(460, Math.max(4, log.lines.length + 1) * ROW)}px` }}>
      ${empty && !log.error && html`<p class="log-empty quiet">${goesOn ? "Nothing was put out yet." : "It put out nothing."}</p>`}
      ${wrap
        ? html`<div class="log-wrapped" tabindex="0" role="log" aria-live="off" aria-label="Output">${log.lines.slice(-500).map((line, i) => html`<${Line} key=${i} text=${line} line=${null} />`)}</div>`
        : !empty && html`<${VirtualList} role="region" label="Output" count=${log.lines.length} height=${ROW} atEnd=${!wanted} handle=${handle}
            onStart=${() => log.hasEarlier && !log.loading && log.lines.length > 40 && earlier()} onEnd=${() => log.hasLater && !log.loading && log.loadLater()}
            row=${(/** @type {number} */ i, /** @type {any} */ place) => html`<${Line} key=${i + (log.firstLine ?? 0)} text=${log.lines[i]} place=${place}
              line=${log.firstLine === null ? null : log.firstLine + i} marked=${log.firstLine !== null && log.firstLine + i === wanted} />`} />`}
    </div>
  </div>`;
}

/** @param {{text: string, line: number | null, place?: any, marked?: boolean}} props */
function Line({ text, line, place, marked }) {
  const cut = text.length > LONGEST;
  const shown = cut ? text.slice(0, LONGEST) : text;
  return html`<div class="log-line ${marked ? "marked" : ""}" data-line=${line ?? ""} style=${place}>${line !== null && html`<a href=${`#L${line}`} tabindex="-1" data-number=${line} aria-label=${`Line ${line}`}
      onClick=${(/** @type {Event} */ event) => {
        event.preventDefault();
        history.replaceState(history.state, "", `${location.pathname}${location.search}#L${line}`);
        address.value = { ...address.value, hash: `L${line}` };
      }}></a>`}<span>${pieces(shown).map(({ text, style }) => (style ? html`<span class=${style}>${text}</span>` : text))}${cut && html`<i class="quiet"> … ${number(text.length - LONGEST)} more characters in the raw log</i>`}</span></div>`;
}
