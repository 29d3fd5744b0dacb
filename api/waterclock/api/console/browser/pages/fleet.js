// Who runs things, what waits for them, and who decides.
import { html, useState } from "../vendor/preact.js";
import { number, plural, span } from "../lib/format.js";
import { health } from "../lib/live.js";
import { address, withQuery } from "../lib/router.js";
import { useResource } from "../lib/store.js";
import { Meter } from "../parts/bars.js";
import { CopyAs, Empty, Loaded, PageHead, Panel, Span, Status, Time } from "../parts/parts.js";

const EVERY = { every: 3000 };

export default function Fleet() {
  const executors = useResource("/v1/executors", EVERY);
  const queues = useResource("/v1/queues", EVERY);
  const partitions = useResource("/v1/partitions", EVERY);
  const load = health.value?.status?.load;
  return html`<${PageHead} title="Fleet" lead="Who runs things, what waits, and who decides."><${CopyAs} cli="waterclock executors" curl=${{ path: "/v1/executors" }} /><//>
    ${load && html`<p class="load ${load.saturated ? "trouble" : "quiet"}">${load.saturated ? html`<span><b>More is offered than is done</b>, since <${Time} at=${load.since} />: ${number(load.backlog)} due and not decided, on time again in about ${span(load.drain_seconds, 1)}. New work is accepted at the rate of what ends.</span>` : html`Keeps up: ${number(Math.round(load.accepted_per_second * 10) / 10)} accepted a second${load.backlog ? `, ${number(load.backlog)} due and not decided` : ""}.`}</p>`}
    <div class="stack">
      <${Panel} title="Executors" flush><${Loaded} of=${executors}>${(/** @type {any} */ page) => html`<${Executors} items=${page.items} />`}<//><//>
      <${Panel} title="Queues" flush aside="work by queue, tier and priority"><${Loaded} of=${queues}>${(/** @type {any} */ page) => html`<${Queues} items=${page.items} />`}<//><//>
      <${Panel} title="Partitions" flush aside="which scheduler decides what"><${Loaded} of=${partitions}>${(/** @type {any} */ page) => html`<${Partitions} items=${page.items} />`}<//><//>
    </div>`;
}

/** @param {{items: any[]}} props */
function Executors({ items }) {
  if (!items.length) return html`<${Empty} title="Nobody runs anything" command="waterclock executor">What is due waits until an executor is there.<//>`;
  const chosen = decodeURIComponent(address.value.hash);
  return html`<div class="scroll-x"><table class="table"><thead><tr><th>Status</th><th>Executor</th><th>Host</th><th>Takes</th><th>Slots</th><th>Up</th><th>Seen</th><th>Protection</th></tr></thead><tbody>${items.map((one) => {
    const missing = Object.entries(one.protections).filter(([, why]) => why);
    return html`<tr key=${one.executor_id} id=${one.executor_id} class=${chosen === one.executor_id ? "chosen-row" : ""} data-executor=${one.executor_id} data-status=${one.status}>
      <td><${Status} status=${one.status} /></td><td><a class="mono" href=${withQuery("/ui/runs", { executor: one.executor_id })}>${one.executor_id}</a></td><td class="quiet">${one.host} <span class="mono">${one.pid}</span></td>
      <td>${one.tier}: ${one.queues.join(", ")}${one.handlers.length > 0 && html` <span class="quiet" title=${one.handlers.join(", ")}>and ${plural(one.handlers.length, "handler")}</span>`}</td>
      <td class="slots-cell"><div class="slots"><${Meter} used=${one.busy} of=${one.slots} label=${`${one.busy} of ${one.slots} slots`} /><span class="quiet">${one.busy}/${one.slots}</span></div></td>
      <td class="quiet nowrap"><${Span} from=${one.started_at} /></td><td class="quiet nowrap"><${Time} at=${one.seen_at} /></td>
      <td class=${missing.length ? "again" : "quiet"} title=${missing.map(([name, why]) => `${name}: ${why}`).join("\n")}>${missing.length ? `${missing.length} missing` : "all"}</td></tr>`;
  })}</tbody></table></div>`;
}

/** @param {{items: any[]}} props */
function Queues({ items: all }) {
  const [whole, setWhole] = useState(false);
  const busy = all.filter((one) => one.due || one.waiting || one.running || one.redelivered || one.pulls);
  const items = whole ? all : busy;
  return html`<div class="scroll-x"><table class="table"><thead><tr><th>Queue</th><th>Handler</th><th>Tier</th><th class="number">Priority</th><th class="number">Due</th><th class="number">Waiting</th><th class="number">Running</th><th class="number">Given again</th><th>Served</th></tr></thead><tbody>${items.map((one) => html`<tr key=${`${one.queue} ${one.handler} ${one.tier} ${one.priority}`} data-queue=${one.queue}>
    <td><a href=${withQuery("/ui/runs", { queue: one.queue })}>${one.queue}</a></td><td>${one.handler ?? html`<span class="quiet">–</span>`}</td><td>${one.tier}</td><td class="number">${one.priority}</td><td class="number">${number(one.due)}</td><td class="number">${number(one.waiting)}</td><td class="number">${number(one.running)}</td><td class="number ${one.redelivered ? "again" : "quiet"}">${number(one.redelivered)}</td>
    <td class=${one.waiting && !one.pulls ? "bad" : "quiet"}>${one.pulls ? "yes" : one.waiting ? "nobody takes it" : "–"}</td></tr>`)}</tbody></table></div>
    ${all.length > busy.length && html`<p class="pad quiet">${busy.length ? "" : "Nothing waits. "}<button type="button" class="button link" aria-expanded=${whole ? "true" : "false"} onClick=${() => setWhole(!whole)}>${whole ? "Hide those without work" : `Show ${plural(all.length - busy.length, "queue")} without work`}</button></p>`}`;
}

/** @param {{items: any[]}} props */
function Partitions({ items }) {
  return html`<div class="scroll-x"><table class="table"><thead><tr><th class="number">Partition</th><th>Scheduler</th><th>Host</th><th class="number">Lease</th><th>Decided up to</th><th class="number">Lag</th><th class="number">Active runs</th><th class="number">Backlog</th></tr></thead><tbody>${items.map((one) => html`<tr key=${one.partition} data-partition=${one.partition}>
    <td class="number">${one.partition}</td><td class="mono">${one.owner ?? html`<span class="bad">nobody</span>`}</td><td class="quiet">${one.host}</td><td class="number quiet">${one.lease}</td><td class="quiet nowrap"><${Time} at=${one.cursor} exact /></td><td class="number nowrap ${one.lag_seconds > 2 ? "late" : ""}">${one.lag_seconds === null ? "–" : span(Math.max(0, one.lag_seconds))}</td><td class="number">${one.active_runs}</td><td class="number">${one.backlog}</td></tr>`)}</tbody></table></div>`;
}
