// What became of a definition: who changed what, each change to look at, and to take back.
import { html, useState } from "../vendor/preact.js";
import { send } from "../lib/api.js";
import { declarationOf, differences } from "../lib/definition.js";
import { useResource } from "../lib/store.js";
import { Differences } from "./differences.js";
import { ask, toast } from "./dialogs.js";
import { Button, Loaded, Panel, Time } from "./parts.js";

/** @param {{url: string, current: any, reload: () => any}} props `url` is that of the job or workflow */
export function Versions({ url, current, reload }) {
  const versions = useResource(`${url}/versions?limit=50`, { every: 15_000 });
  const [open, setOpen] = useState(0);
  const restore = (/** @type {number} */ version) =>
    ask({
      title: `Restore version ${version}?`,
      action: `Restore version ${version}`,
      body: html`<p>The definition becomes what it was then, as a new version. Whether it is paused stays as it is.</p>`,
      run: async () => {
        const made = await send("POST", `${url}/rollback`, { version });
        toast(`Restored as version ${made.version}`);
        await reload();
        await versions.reload();
      },
    });
  return html`<${Panel} title="Versions" flush aside=${html`now version ${current.version}`}>
    <${Loaded} of=${versions}>${(/** @type {any} */ found) => {
      const items = found.items ?? found;
      return html`<ol class="versions">${items.map((/** @type {any} */ one, /** @type {number} */ i) => html`<li key=${one.version} data-version=${one.version}>
        <div class="version"><b class="version-number">${one.version}</b><span>${one.change}</span>
          <span class="version-fields">${one.fields.map((/** @type {string} */ name) => html`<code key=${name} class="label">${name}</code> `)}</span>
          <span class="quiet clip">${one.actor} · <${Time} at=${one.at} /></span>
          <span class="version-actions">${i + 1 < items.length && html`<button type="button" class="button link" aria-expanded=${open === one.version ? "true" : "false"} onClick=${() => setOpen(open === one.version ? 0 : one.version)}>Diff</button>`}
            ${one.version !== current.version && html`<${Button} kind="link" scope="submit" onClick=${() => restore(one.version)}>Restore<//>`}</span></div>
        ${one.note && html`<p class="quiet version-note">${one.note}</p>`}
        ${open === one.version && html`<${Diff} url=${url} before=${items[i + 1].version} after=${one.version} />`}</li>`)}</ol>`;
    }}<//><//>`;
}

/** @param {{url: string, before: number, after: number}} props */
function Diff({ url, before, after }) {
  const old = useResource(`${url}/versions/${before}`);
  const made = useResource(`${url}/versions/${after}`);
  return html`<${Loaded} of=${old}>${(/** @type {any} */ from) => html`<${Loaded} of=${made}>${(/** @type {any} */ to) => html`
    <${Differences} rows=${differences(declarationOf(from), declarationOf(to))} before=${`version ${before}`} after=${`version ${after}`} />`}<//>`}<//>`;
}
