// How this installation is set up and what it says of itself. To be read; settings are changed where it is started.
import { html } from "../vendor/preact.js";
import { may, session } from "../lib/api.js";
import { number, span } from "../lib/format.js";
import { useResource } from "../lib/store.js";
import { CopyAs, Facts, Loaded, PageHead, Panel, Time } from "../parts/parts.js";

const TONES = /** @type {Record<string, [string, string]>} */ ({ ok: ["good", "✓"], warning: ["again", "!"], problem: ["bad", "✕"] });

export default function Settings() {
  const status = useResource("/v1/status", { every: 10_000 });
  const doctor = useResource("/v1/doctor");
  const namespaces = useResource(may("admin") ? "/v1/namespaces" : null);
  const quarantine = useResource(may("admin") ? "/v1/quarantine" : null);
  const who = session.value;
  return html`<${PageHead} title="Settings" lead="How it is set up, and what it says of itself. Settings are changed where it is started: flags, environment, waterclock.toml."><${CopyAs} cli="waterclock doctor" curl=${{ path: "/v1/doctor" }} /><//>
    <div class="two-columns"><div class="stack">
      <${Panel} title="Protection" flush aside=${doctor.data && (doctor.data.ok ? "no problem" : "needs a look")}><${Loaded} of=${doctor} rows=${6}>${(/** @type {any} */ found) => html`<ul class="findings">${found.findings.map((/** @type {any} */ one) => html`<li key=${one.check} data-check=${one.check} data-verdict=${one.verdict}><span class="mark ${TONES[one.verdict]?.[0]}" role="img" aria-label=${one.verdict}>${TONES[one.verdict]?.[1]}</span><b>${one.check}</b><div><p>${one.detail}</p>${one.advice && html`<p class="quiet">${one.advice}</p>`}</div></li>`)}</ul>`}<//><//>
      ${quarantine.data?.items.length > 0 && html`<${Panel} title="Could not be read" flush aside="waterclock quarantine"><div class="scroll-x"><table class="table"><thead><tr><th>Record</th><th>By</th><th>When</th><th>What is wrong</th></tr></thead><tbody>${quarantine.data.items.map((/** @type {any} */ one) => html`<tr key=${one.record_id}><td class="mono">${one.record_id}</td><td>${one.component}</td><td class="nowrap quiet"><${Time} at=${one.at} /></td><td>${one.error}</td></tr>`)}</tbody></table></div><//>`}
    </div><div class="stack side-facts">
      <${Panel} title="Now" aside=${status.data && (status.data.ok ? "all is well" : "needs a look")}><${Loaded} of=${status}>${(/** @type {any} */ found) => html`<ul class="findings plain">${found.checks.map((/** @type {any} */ one) => html`<li key=${one.name}><span class="mark ${one.ok ? "good" : "bad"}" role="img" aria-label=${one.ok ? "well" : "not well"}>${one.ok ? "✓" : "✕"}</span><b>${one.name}</b><span class="quiet">${one.detail}</span></li>`)}</ul>
        <${Facts} items=${[["Accepted", `${number(Math.round(found.load.accepted_per_second * 10) / 10)} a second`], ["Behind", found.load.behind_seconds > 1 ? span(found.load.behind_seconds) : "no"], ["Backlog", number(found.load.backlog)]]} />`}<//><//>
      <${Panel} title="You"><${Facts} items=${[["Actor", who?.actor], ["Namespace", who?.namespace], ["May", who?.scopes.join(", ")], ["Until", who?.expires_at && html`<${Time} at=${who.expires_at} full />`]]} /><//>
      ${namespaces.data && html`<${Panel} title="Namespaces" flush><div class="scroll-x"><table class="table"><thead><tr><th>Namespace</th><th class="number">Jobs</th><th class="number">At most</th><th class="number">Retries</th></tr></thead><tbody>${namespaces.data.items.map((/** @type {any} */ one) => html`<tr key=${one.namespace}><td>${one.namespace}</td><td class="number">${number(one.jobs)}</td><td class="number">${one.max_jobs === null ? "–" : number(one.max_jobs)}</td><td class="number">${one.default_max_retries}</td></tr>`)}</tbody></table></div><//>`}
      <${Panel} title="Elsewhere"><ul class="links"><li><a href="/docs" target="_blank" rel="noreferrer">API reference</a></li><li><a href="/openapi.json" target="_blank" rel="noreferrer">openapi.json</a></li><li><a href="/metrics" target="_blank" rel="noreferrer">Metrics for Prometheus</a></li></ul><//>
    </div></div>`;
}
