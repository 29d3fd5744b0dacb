// One wave of a workflow: the graph with the state of every node as it changes, where its time went, and the node that
// was chosen.
import { html, useEffect } from "../vendor/preact.js";
import { send } from "../lib/api.js";
import { plural } from "../lib/format.js";
import { onChanges } from "../lib/live.js";
import { address, path, setQuery, withQuery } from "../lib/router.js";
import { ENDED } from "../lib/run_list.js";
import { throttled, useResource } from "../lib/store.js";
import { Meter } from "../parts/bars.js";
import { ask, toast } from "../parts/dialogs.js";
import { Gantt } from "../parts/gantt.js";
import { GraphView } from "../parts/graph.js";
import { Button, CopyAs, CopyButton, Facts, Json, Loaded, PageHead, Panel, quoted, Skeleton, Span, Status, Time, Trouble } from "../parts/parts.js";

/** @param {{run: string}} props */
export default function WorkflowRun({ run: id }) {
  const url = path("/v1/workflow-runs", id);
  const wave = useResource(url, { every: 10_000 });
  const graph = useResource(`${url}/graph`);
  const runs = useResource(withQuery("/v1/runs", { workflow_run: id, limit: 1000 }));
  const chosen = address.value.query.get("node");
  const data = wave.data;
  useEffect(() => {
    const reload = throttled(() => [wave, runs].forEach((one) => one.reload()), 700);
    return onChanges((changes) => {
      let known = false;
      for (const change of changes) {
        if (change.run_id !== id && !change.run_id?.startsWith(`${id}~`)) continue;
        known = true;
        const node = wave.data?.nodes.find((/** @type {any} */ one) => one.run_id === change.run_id);
        if (node && change.status) node.status = change.status;
      }
      if (known) reload();
    });
  }, [id, wave.data]);
  if (data === undefined) return wave.error ? html`<${PageHead} title="Workflow run" /><${Trouble} error=${wave.error} retry=${wave.reload} />` : html`<${Skeleton} rows=${8} />`;

  const states = Object.fromEntries(data.nodes.map((/** @type {any} */ node) => [node.id, node]));
  const choose = (/** @type {string} */ node) => setQuery({ node: node === chosen ? null : node }, { replace: true });
  const over = ENDED.includes(data.status);
  const done = data.nodes.filter((/** @type {any} */ node) => ENDED.includes(node.status)).length;
  const rerun = (/** @type {string[]} */ from) =>
    ask({
      title: from.length ? `Run ${from[0]} and what follows again?` : "Run again what did not succeed?",
      action: "Rerun",
      body: html`<p>${from.length ? "The node and all that come after it run again, under the same ids. What came before is kept." : "Nodes that succeeded are kept; the others, and what follows them, run again."}</p>`,
      run: async () => {
        wave.set(await send("POST", `${url}/rerun`, from.length ? { from } : {}));
        toast("It runs again");
      },
    });
  const cancel = () =>
    ask({
      title: "Cancel this wave?",
      danger: true,
      action: "Cancel wave",
      body: html`<p>What runs is told to stop; what has not begun does not begin. The workflow's schedule stays.</p>`,
      run: async () => {
        wave.set(await send("POST", `${url}/cancel`));
        toast("Told to stop");
      },
    });
  return html`<div class="workflow-run" data-run-id=${id} data-status=${data.status}>
    <${PageHead} title=${html`<a class="plain-link" href=${path("/ui/workflows", data.workflow_id)}>${data.workflow_id}</a>${data.epoch ? ` · wave ${data.epoch}` : ""}`}
      lead=${html`<span class="run-lead"><${Status} status=${data.status} /><code>${id}</code> <${CopyButton} text=${id} /><span>${done} of ${plural(data.nodes.length, "node")} over</span>${data.start_time && html`<span>took <${Span} from=${data.start_time} to=${data.end_time} /></span>`}${data.reason && html`<span>${data.reason}</span>`}</span>`}>
      ${!over && html`<${Button} kind="danger" scope="operate" onClick=${cancel}>Cancel<//>`}
      ${over && html`<${Button} kind=${data.status === "SUCCESS" ? "plain" : "primary"} scope="operate" onClick=${() => rerun([])} disabled=${data.status === "SUCCESS"} title=${data.status === "SUCCESS" ? "All nodes succeeded; choose one to run again from it" : undefined}>Rerun<//>`}
      <${CopyAs} cli=${`waterclock workflow show ${quoted(id)}`} curl=${{ path: url }} /><//>
    ${wave.error && html`<${Trouble} error=${wave.error} retry=${wave.reload} stale />`}
    <div class=${chosen && states[chosen] ? "two-columns" : ""}><div class="stack">
      <${Panel} title="Graph" flush aside="choose a node"><${Loaded} of=${graph}>${(/** @type {any} */ found) => html`<${GraphView} graph=${found} states=${states} chosen=${chosen} onChoose=${choose} />`}<//><//>
      <${Panel} title="Where the time went" flush><${Gantt} nodes=${data.nodes} runs=${runs.data?.items ?? []} chosen=${chosen} onChoose=${choose} /><//>
    </div>${chosen && states[chosen] && html`<${NodePanel} node=${states[chosen]} over=${over} rerun=${rerun} url=${url} set=${wave.set} close=${() => setQuery({ node: null }, { replace: true })} />`}</div>
  </div>`;
}

/** @param {{node: any, over: boolean, rerun: (from: string[]) => any, url: string, set: (wave: any) => void, close: () => void}} props */
function NodePanel({ node, over, rerun, url, set, close }) {
  const mark = (/** @type {string} */ status) =>
    ask({
      title: `Say that ${node.id} ended as ${status}?`,
      action: `Mark ${status.toLowerCase()}`,
      body: html`<p>What waits for it goes on as if it had. The record says who said so.</p>`,
      run: async () => set(await send("POST", `${url}/nodes/${encodeURIComponent(node.id)}/mark`, { status })),
    });
  const map = node.map;
  return html`<aside class="stack" aria-label=${`Node ${node.id}`}><${Panel} title=${node.id} aside=${html`<button type="button" class="button link close" aria-label="Close" onClick=${close}>✕</button>`}>
    <p><${Status} status=${node.status} /></p>${node.reason && html`<p class="answer-small">${node.reason}</p>`}
    ${map && html`<div class="map-progress"><${Meter} goal used=${map.done + map.failed} of=${map.total ?? 0} label=${`${map.done + map.failed} of ${map.total ?? "?"}`} /><p class="quiet">${map.done} done, ${map.failed} failed, of ${map.total ?? "?"}${node.run_id && html` · <a href=${withQuery("/ui/runs", { workflow_run: node.run_id })}>members</a>`}</p></div>`}
    <${Facts} items=${[
      ["Run", node.run_id && html`<a href=${path("/ui/runs", node.run_id)}>log, why, attempts</a>`],
      ["Attempt", node.attempt_number || null],
      ["Started", node.start_time && html`<${Time} at=${node.start_time} full />`],
      ["Ended", node.end_time && html`<${Time} at=${node.end_time} full />`],
      ["Took", node.start_time && html`<${Span} from=${node.start_time} to=${node.end_time} />`],
    ]} />
    <div class="actions node-actions">${over && html`<${Button} scope="operate" onClick=${() => rerun([node.id])}>Rerun from here<//>`}
      ${node.status === "FAILED" && html`<${Button} scope="operate" onClick=${() => mark("SUCCESS")}>Mark success<//>`}</div><//>
    ${node.output !== null && node.output !== undefined && html`<${Panel} title="Output"><${Json} value=${node.output} /><//>`}</aside>`;
}
