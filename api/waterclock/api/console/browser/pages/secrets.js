// Secrets by name. Their values are set here and shown nowhere.
import { html, useState } from "../vendor/preact.js";
import { send } from "../lib/api.js";
import { path } from "../lib/router.js";
import { useResource } from "../lib/store.js";
import { ask, toast } from "../parts/dialogs.js";
import { Button, CopyAs, Empty, Loaded, PageHead, Panel, Time } from "../parts/parts.js";

export default function Secrets() {
  const secrets = useResource("/v1/secrets");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const set = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const { name, value } = Object.fromEntries(new FormData(form));
    try {
      await send("PUT", path("/v1/secrets", String(name)), { value });
      form.reset();
      setProblem(null);
      toast("Set", "good", `Jobs name it as {"secret": "${String(name)}"}`);
      await secrets.reload();
    } catch (error) {
      setProblem(error);
    }
  };
  const remove = (/** @type {string} */ name) =>
    ask({
      title: `Delete ${name}?`,
      danger: true,
      action: "Delete",
      body: html`<p>Attempts of jobs that name it fail from now on, and say so.</p>`,
      run: async () => {
        await send("DELETE", path("/v1/secrets", name));
        toast("Deleted");
        await secrets.reload();
      },
    });
  return html`<${PageHead} title="Secrets" lead="Encrypted in the store, given to attempts, masked in what they say. A value is shown to nobody."><${CopyAs} cli="waterclock secret list" curl=${{ path: "/v1/secrets" }} /><//>
    <div class="two-columns"><${Panel} flush><${Loaded} of=${secrets}>${(/** @type {any} */ page) => page.items.length
      ? html`<div class="scroll-x"><table class="table"><thead><tr><th>Name</th><th class="number">Version</th><th>Set</th><th>By</th><th><span class="unseen">Actions</span></th></tr></thead><tbody>${page.items.map((/** @type {any} */ one) => html`<tr key=${one.name} data-secret=${one.name}><td class="mono strong">${one.name}</td><td class="number">${one.version}</td><td class="quiet nowrap"><${Time} at=${one.updated_at} /></td><td class="quiet">${one.actor}</td><td class="number"><${Button} kind="danger" scope="secrets" onClick=${() => remove(one.name)}>Delete<//></td></tr>`)}</tbody></table></div>`
      : html`<${Empty} title="No secrets" command="waterclock secret set db-password --from-file password.txt">A job names one where it needs it: <code>${'"env": {"PGPASSWORD": {"secret": "db-password"}}'}</code><//>`}<//><//>
    <${Panel} title="Set a secret"><form class="fields one" onSubmit=${set} aria-label="Set a secret" autocomplete="off">
      <div class="field"><label for="s-name">Name</label><input id="s-name" name="name" type="text" class="mono" required placeholder="db-password" /></div>
      <div class="field"><label for="s-value">Value</label><input id="s-value" name="value" type="password" required autocomplete="new-password" /><p class="quiet">At least four characters. One of the same name gets the new value from the next attempt on.</p></div>
      ${problem && html`<p class="trouble" role="alert">${problem.errors?.length ? problem.errors.map((/** @type {any} */ one) => `${one.field}: ${one.reason}`).join("; ") : `${problem.message} ${problem.advice}`}</p>`}
      <div><${Button} kind="primary" type="submit" scope="secrets" onClick=${() => {}}>Set<//></div></form><//></div>`;
}
