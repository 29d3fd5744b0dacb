// Search, or go to: every page, every key's action, and jobs and runs by name or id.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { navigate, path, withQuery } from "../lib/router.js";
import { StatusIcon } from "./parts.js";
import { knownKeys, NAVIGATION, paletteOpen } from "./shell.js";

/** @typedef {{group: string, text: string, more?: string, status?: string, keys?: string, act: () => void}} Choice */

const PAUSE = 150;

/** @param {string} text @returns {Choice[]} */
function ownChoices(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (/** @type {string} */ name) => words.every((word) => name.toLowerCase().includes(word));
  const pages = NAVIGATION.flatMap(({ question, pages }) =>
    pages.map(({ name, url, keys }) => ({ group: "Go to", text: name, more: question, keys: keys && `g ${keys}`, act: () => navigate(url) })),
  );
  /** @type {Choice[]} */
  const actions = knownKeys()
    .filter(({ keys }) => !keys.startsWith("g ") && keys !== "/")
    .map(({ keys, text, act }) => ({ group: "Do", text, keys, act: () => act(/** @type {any} */ (null)) }));
  return [...actions, ...pages].filter((choice) => matches(`${choice.text} ${choice.more ?? ""}`));
}

/** @param {string} text @param {AbortSignal} signal @returns {Promise<Choice[]>} */
async function found(text, signal) {
  const ask = (/** @type {string} */ url) => get(withQuery(url, { q: text, limit: 6 }), { signal }).catch(() => ({ items: [] }));
  const [jobs, runs] = await Promise.all([ask("/v1/jobs"), ask("/v1/runs")]);
  return [
    ...jobs.items.map((/** @type {any} */ job) => ({ group: "Jobs", text: job.name, more: job.job_id, status: job.status, act: () => navigate(path("/ui/jobs", job.job_id)) })),
    ...runs.items.map((/** @type {any} */ run) => ({ group: "Runs", text: run.job_name ?? run.job_id, more: run.run_id, status: run.status, act: () => navigate(path("/ui/runs", run.run_id)) })),
  ];
}

export default function Palette() {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [more, setMore] = useState(/** @type {Choice[]} */ ([]));
  const close = () => (paletteOpen.value = false);
  const choices = [...ownChoices(text), ...more];

  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  useEffect(() => {
    setMore([]);
    if (text.trim().length < 2) return;
    const given = new AbortController();
    const timer = setTimeout(() => found(text.trim(), given.signal).then((items) => given.signal.aborted || setMore(items)), PAUSE);
    return () => {
      clearTimeout(timer);
      given.abort();
    };
  }, [text]);

  const choose = (/** @type {Choice | undefined} */ choice) => {
    close();
    choice?.act();
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt((at + step + choices.length) % Math.max(1, choices.length));
    else if (event.key === "Enter") choose(choices[at]);
    else return;
    event.preventDefault();
  };
  let group = "";
  return html`<dialog ref=${dialog} class="dialog palette" aria-label="Search, or go to" onCancel=${close}
    onClick=${(/** @type {Event} */ event) => event.target === dialog.current && close()}>
    <input type="text" role="combobox" aria-expanded="true" aria-controls="choices" aria-activedescendant=${choices.length ? `choice-${at}` : undefined}
      aria-label="Search, or go to" placeholder="A page, a job, a run…" autofocus value=${text} onKeyDown=${press}
      onInput=${(/** @type {any} */ event) => (setText(event.target.value), setAt(0))} />
    <ul id="choices" role="listbox" aria-label="What was found">${choices.map((choice, i) => {
      const heading = choice.group === group ? null : html`<li class="group" role="presentation">${choice.group}</li>`;
      group = choice.group;
      return html`${heading}<li id=${`choice-${i}`} role="option" key=${`${choice.group} ${choice.text} ${choice.more}`} aria-selected=${i === at ? "true" : "false"}
        ref=${i === at ? (/** @type {Element | null} */ element) => element?.scrollIntoView({ block: "nearest" }) : undefined}
        onPointerMove=${() => setAt(i)} onClick=${() => choose(choice)}>
        ${choice.status && html`<${StatusIcon} status=${choice.status} />`}<span class="clip">${choice.text}</span>
        <span class="quiet clip">${choice.more}</span>${choice.keys && html`<kbd>${choice.keys}</kbd>`}</li>`;
    })}${choices.length === 0 && html`<li class="group" role="presentation">Nothing is called that.</li>`}</ul>
  </dialog>`;
}
