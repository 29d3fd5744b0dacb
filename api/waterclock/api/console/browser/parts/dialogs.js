// What stands above a page: messages that go by themselves, and questions that wait for an answer.
import { html, signal, useEffect, useRef } from "../vendor/preact.js";

/** @typedef {{id: number, text: string, tone: string, more?: string}} Toast */
const toasts = signal(/** @type {Toast[]} */ ([]));
let count = 0;

/** @param {string} text @param {"good" | "bad" | "busy"} [tone] @param {string} [more] */
export function toast(text, tone = "good", more) {
  const id = ++count;
  toasts.value = [...toasts.value.slice(-3), { id, text, tone, more }];
  setTimeout(() => close(id), tone === "bad" ? 10_000 : 4000);
}

/** @param {number} id */
function close(id) {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

/** @param {string} text */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea"); // over plain http, from another machine
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

/** @typedef {{title: string, body?: any, action: string, danger?: boolean, run?: () => Promise<any>}} Question */
const question = signal(/** @type {(Question & {answer: (yes: boolean) => void}) | null} */ (null));

/** Ask before something is done; with `run` the dialog does it itself and stays open if that fails.
 * @param {Question} asked @returns {Promise<boolean>} */
export function ask(asked) {
  return new Promise((resolve) => {
    question.value = {
      ...asked,
      answer: (yes) => {
        question.value = null;
        resolve(yes);
      },
    };
  });
}

const shown = signal(/** @type {{title: string, content: any, close: () => void} | null} */ (null));

/** Show something above the page until it is closed. @param {string} title @param {any} content */
export function show(title, content) {
  shown.value = { title, content, close: () => (shown.value = null) };
}

export function closeShown() {
  shown.value = null;
}

/** @param {{title: string, onClose: () => void, children?: any, wide?: boolean}} props */
function Dialog({ title, onClose, children, wide }) {
  const self = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = self.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return html`<dialog ref=${self} class="dialog ${wide ? "wide" : ""}" aria-label=${title}
    onCancel=${(/** @type {Event} */ event) => (event.preventDefault(), onClose())}
    onClick=${(/** @type {Event} */ event) => event.target === self.current && onClose()}>
    <div class="dialog-body"><header><h2>${title}</h2>
      <button type="button" class="button link close" aria-label="Close" onClick=${onClose}>✕</button></header>${children}</div>
  </dialog>`;
}

const failed = signal(/** @type {any} */ (null));
const doing = signal(false);

/** Everything of this file, once in the page. */
export function Dialogs() {
  const asked = question.value;
  const answer = async (/** @type {boolean} */ yes) => {
    if (yes && asked?.run) {
      failed.value = null;
      doing.value = true;
      try {
        await asked.run();
      } catch (error) {
        failed.value = error;
        return;
      } finally {
        doing.value = false;
      }
    }
    failed.value = null;
    asked?.answer(yes);
  };
  return html`
    ${asked && html`<${Dialog} key="ask" title=${asked.title} onClose=${() => answer(false)}>
      <div class="dialog-content">${asked.body}
        ${failed.value && html`<p class="trouble" role="alert">${failed.value.message} ${failed.value.advice ?? ""}</p>`}</div>
      <footer><button type="button" class="button plain" onClick=${() => answer(false)}>Keep as it is</button>
        <button type="button" class="button ${asked.danger ? "danger" : "primary"} ${doing.value ? "busy" : ""}" autofocus
          disabled=${doing.value} onClick=${() => answer(true)}>${asked.action}</button></footer>
    <//>`}
    ${shown.value && html`<${Dialog} key="show" wide title=${shown.value.title} onClose=${shown.value.close}>
      <div class="dialog-content">${shown.value.content}</div><//>`}
    <div class="toasts" role="status" aria-live="polite">${toasts.value.map(
      (one) => html`<div key=${one.id} class="toast ${one.tone}"><div><p>${one.text}</p>${one.more && html`<p class="quiet">${one.more}</p>`}</div>
        <button type="button" class="button link close" aria-label="Dismiss" onClick=${() => close(one.id)}>✕</button></div>`,
    )}</div>`;
}
