// All workflows: how many nodes, when each runs next, how the last wave went.
import { html, useEffect } from "../vendor/preact.js";
import { scheduleWords } from "../lib/definition.js";
import { number } from "../lib/format.js";
import { onChanges } from "../lib/live.js";
import { address, path, setQuery, withQuery } from "../lib/router.js";
import { throttled, useResource } from "../lib/store.js";
import { CopyAs, Empty, Loaded, PageHead, Panel, Status, Tabs, Time } from "../parts/parts.js";

const STATUSES = /** @type {[string, string][]} */ ([
  ["", "All"],
  ["SCHEDULED", "Scheduled"],
  ["PAUSED", "Paused"],
  ["COMPLETED", "Completed"],
  ["CANCELLED", "Cancelled"],
]);

export default function Workflows() {
  const { query } = address.value;
  const filter = { status: query.get("status"), q: query.get("q"), label: query.get("label"), cursor: query.get("cursor") };
  const url = withQuery("/v1/workflows", { ...filter, limit: 100 });
  const workflows = useResource(url, { every: 15_000, keep: true });
  useEffect(() => {
    const reload = throttled(workflows.reload, 2000);
    return onChanges((changes) => changes.some(({ run_id }) => !run_id?.includes("~")) && reload());
  }, [url]);
  const search = (/** @type {any} */ event) => {
    event.preventDefault();
    setQuery({ q: new FormData(event.currentTarget).get("q")?.toString().trim(), cursor: null });
  };
  return html`<${PageHead} title="Workflows" lead="Graphs of jobs; each run of one is a wave."><${CopyAs} cli="waterclock workflow list" curl=${{ path: url }} /><//>
    <form class="filters" role="search" onSubmit=${search}>
      <${Tabs} label="Status" value=${filter.status ?? ""} options=${STATUSES} onChange=${(/** @type {string} */ status) => setQuery({ status, cursor: null })} />
      <input type="search" name="q" aria-label="Filter" placeholder="Name or id" defaultValue=${filter.q ?? ""} />
    </form>
    <${Panel} flush><${Loaded} of=${workflows} rows=${6}>${(/** @type {any} */ page) => html`<${List} page=${page} filtered=${Boolean(filter.status || filter.q || filter.label)} />`}<//><//>`;
}

/** @param {{page: any, filtered: boolean}} props */
function List({ page, filtered }) {
  if (!page.items.length) {
    if (filtered) return html`<${Empty} title="No workflow matches"><a href="/ui/workflows">Show all workflows</a><//>`;
    return html`<${Empty} title="There are no workflows yet" command="waterclock workflow apply -f etl.yaml">A workflow is nodes with what each runs and what it waits for, declared in YAML or JSON.<//>`;
  }
  return html`<div class="scroll-x"><table class="table"><thead><tr><th>Status</th><th>Workflow</th><th class="number">Nodes</th><th>Schedule</th><th>Next</th><th>Last wave</th></tr></thead>
    <tbody>${page.items.map((/** @type {any} */ one) => html`<tr key=${one.workflow_id} data-job-id=${one.workflow_id} data-status=${one.status}>
      <td><${Status} status=${one.status} /></td>
      <td><a class="strong plain-link" href=${path("/ui/workflows", one.workflow_id)}>${one.name}</a> ${one.name !== one.workflow_id && html`<span class="quiet mono">${one.workflow_id}</span>`}</td>
      <td class="number">${number(one.nodes.length)}</td><td class="mono nowrap">${scheduleWords({ dependencies: [], ...one })}</td>
      <td class="quiet nowrap">${one.next_run_at ? html`<${Time} at=${one.next_run_at} zoneName=${one.timezone} />` : "–"}</td>
      <td class="nowrap">${one.last_run ? html`<a class="last-run" href=${path("/ui/workflow-runs", one.last_run.run_id)}><${Status} status=${one.last_run.status} /> <${Time} at=${one.last_run.end_time ?? one.last_run.modified_time} /></a>` : html`<span class="quiet">never</span>`}</td></tr>`)}</tbody></table></div>
    ${page.next_cursor && html`<p class="pad"><button type="button" class="button plain" onClick=${() => setQuery({ cursor: page.next_cursor })}>Further workflows</button></p>`}`;
}
