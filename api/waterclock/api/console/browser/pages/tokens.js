// Who may do what: tokens, made here, shown once, and revoked.
import { html, useState } from "../vendor/preact.js";
import { may, send } from "../lib/api.js";
import { path } from "../lib/router.js";
import { useResource } from "../lib/store.js";
import { ask, toast } from "../parts/dialogs.js";
import { Button, CopyAs, CopyButton, Empty, Loaded, PageHead, Panel, Time } from "../parts/parts.js";

const SCOPES = /** @type {[string, string][]} */ ([
  ["read", "look at everything"],
  ["submit", "define and change jobs"],
  ["operate", "run, pause, cancel, redrive"],
  ["secrets", "set and delete secrets"],
  ["execute", "take work, as an executor"],
  ["admin", "all of these, tokens and quotas"],
]);
const LIVES = /** @type {[string, string][]} */ ([
  ["", "until it is revoked"],
  ["86400", "a day"],
  ["2592000", "30 days"],
  ["31536000", "a year"],
]);

export default function Tokens() {
  if (!may("admin"))
    return html`<${PageHead} title="Tokens" /><${Panel}><${Empty} title="This needs the scope admin">Your token has not got it; ask who gave it to you.<//><//>`;
  return html`<${All} />`;
}

function All() {
  const tokens = useResource("/v1/tokens");
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const create = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const data = new FormData(form);
    const life = Number(data.get("life"));
    const body = { scopes: data.getAll("scope"), note: data.get("note"), namespace: data.get("namespace") || "default", ...(life ? { expires_in_seconds: life } : {}) };
    try {
      setMade(await send("POST", "/v1/tokens", body));
      form.reset();
      setProblem(null);
      await tokens.reload();
    } catch (error) {
      setProblem(error);
    }
  };
  const revoke = (/** @type {any} */ one) =>
    ask({
      title: `Revoke ${one.note || one.token_id}?`,
      danger: true,
      action: "Revoke",
      body: html`<p>Whoever uses it is turned away at once, and its console sessions end.</p>`,
      run: async () => {
        await send("DELETE", path("/v1/tokens", one.token_id));
        toast("Revoked");
        await tokens.reload();
      },
    });
  return html`<${PageHead} title="Tokens" lead="Who may do what."><${CopyAs} cli="waterclock token list" curl=${{ path: "/v1/tokens" }} /><//>
    ${made && html`<section class="panel new-token" role="status"><div><p class="strong">The new token. It is shown this once.</p><code data-token>${made.token}</code></div><div class="actions"><${CopyButton} text=${made.token} /><button type="button" class="button link" onClick=${() => setMade(null)}>Done</button></div></section>`}
    <div class="two-columns"><${Panel} flush><${Loaded} of=${tokens}>${(/** @type {any} */ page) => html`<div class="scroll-x"><table class="table"><thead><tr><th>Token</th><th>For</th><th>May</th><th>Namespace</th><th>Made</th><th>Ends</th><th><span class="unseen">Actions</span></th></tr></thead><tbody>${page.items.map((/** @type {any} */ one) => html`<tr key=${one.token_id} data-token-id=${one.token_id}><td class="mono">${one.token_id}</td><td>${one.note || html`<span class="quiet">–</span>`}</td><td>${one.scopes.map((/** @type {string} */ scope) => html`<span key=${scope} class="label">${scope}</span> `)}</td><td>${one.namespace}</td><td class="quiet nowrap"><${Time} at=${one.created_at} /></td><td class="quiet nowrap">${one.expires_at ? html`<${Time} at=${one.expires_at} />` : "never"}</td><td class="number"><${Button} kind="danger" scope="admin" onClick=${() => revoke(one)}>Revoke<//></td></tr>`)}</tbody></table></div>
      ${page.items.length === 0 && html`<p class="quiet pad">There are none. Where access control is off nobody needs one.</p>`}`}<//><//>
    <${Panel} title="Make a token"><form class="fields one" onSubmit=${create} aria-label="Make a token">
      <div class="field"><label for="t-note">For</label><input id="t-note" name="note" type="text" placeholder="alice, CI, the mailer" /></div>
      <fieldset class="scopes"><legend>May</legend>${SCOPES.map(([scope, what]) => html`<label key=${scope} class="choice"><input type="checkbox" name="scope" value=${scope} defaultChecked=${scope === "read"} /><b>${scope}</b><span class="quiet">${what}</span></label>`)}</fieldset>
      <div class="field"><label for="t-namespace">Namespace</label><input id="t-namespace" name="namespace" type="text" class="mono" placeholder="default" /></div>
      <div class="field"><label for="t-life">Lives</label><select id="t-life" name="life">${LIVES.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}</select></div>
      ${problem && html`<p class="trouble" role="alert">${problem.errors?.length ? problem.errors.map((/** @type {any} */ one) => `${one.field}: ${one.reason}`).join("; ") : problem.message}</p>`}
      <div><${Button} kind="primary" type="submit" scope="admin" onClick=${() => {}}>Make token<//></div></form><//></div>`;
}
