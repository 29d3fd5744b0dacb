// Past times of a job, run beside its live schedule: what was asked for, how far it is, and a new one.
import { html, useEffect, useState } from "../vendor/preact.js";
import { send } from "../lib/api.js";
import { number, plural, zone } from "../lib/format.js";
import { onChanges } from "../lib/live.js";
import { address, path, setQuery, withQuery } from "../lib/router.js";
import { throttled, useResource } from "../lib/store.js";
import { instantOf } from "../lib/zones.js";
import { Meter } from "../parts/bars.js";
import { ask, toast } from "../parts/dialogs.js";
import { Button, CopyAs, Empty, Loaded, PageHead, Panel, Status, Time } from "../parts/parts.js";

const OVER = ["COMPLETED", "CANCELLED"];

export default function Backfills() {
  const job = address.value.query.get("job") ?? "";
  const url = withQuery("/v1/backfills", { job_id: job });
  const backfills = useResource(url, { every: 5000, keep: true });
  useEffect(() => {
    const reload = throttled(backfills.reload, 1500);
    return onChanges((changes) => changes.some((change) => change.run_id && backfills.data?.items.some((/** @type {any} */ one) => one.job_id === change.job_id && !OVER.includes(one.status))) && reload());
  }, [url, backfills.data]);
  const act = (/** @type {any} */ one, /** @type {string} */ what) => async () => {
    await send("POST", `${path("/v1/backfills", one.backfill_id)}/${what}`);
    await backfills.reload();
  };
  const cancel = (/** @type {any} */ one) => () =>
    ask({ title: "Cancel this backfill?", danger: true, action: "Cancel backfill", body: html`<p>What it runs is stopped, and what is left of it is not run.</p>`, run: act(one, "cancel") });
  return html`<${PageHead} title="Backfills" lead="A job for past times, beside its live schedule."><${CopyAs} cli=${job ? `waterclock backfill ${job} --from … --to …` : "waterclock backfill --help"} curl=${{ path: url }} /><//>
    <div class="two-columns"><${Panel} flush title=${job ? html`Of <code>${job}</code>` : "All"} aside=${job && html`<button type="button" class="button link" onClick=${() => setQuery({ job: null })}>Show all</button>`}>
      <${Loaded} of=${backfills}>${(/** @type {any} */ page) => page.items.length === 0
        ? html`<${Empty} title="No backfills" command="waterclock backfill JOB --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z">Times that a job missed, or that were before it was there, can be run later.<//>`
        : html`<div class="scroll-x"><table class="table"><thead><tr><th>Status</th><th>Job</th><th>Range</th><th>How far</th><th>At once</th><th><span class="unseen">Actions</span></th></tr></thead><tbody>${page.items.map((/** @type {any} */ one) => html`<tr key=${one.backfill_id} data-backfill=${one.backfill_id} data-status=${one.status}>
          <td><${Status} status=${one.status} /></td><td class="nowrap"><a href=${path("/ui/jobs", one.job_id)}>${one.job_id}</a></td><td class="quiet"><span class="nowrap"><${Time} at=${one.from} exact /></span> to <span class="nowrap"><${Time} at=${one.to} exact /></span></td>
          <td class="slots-cell"><div class="slots"><${Meter} goal used=${one.done + one.failed} of=${one.total} label=${`${one.done + one.failed} of ${one.total}`} /><span>${number(one.done + one.failed)}/${number(one.total)}${one.failed ? html`, <b class="bad">${number(one.failed)} failed</b>` : ""}</span></div></td><td class="number">${one.max_active}</td>
          <td><div class="actions">${one.status === "RUNNING" && html`<${Button} scope="operate" onClick=${act(one, "pause")}>Pause<//>`}${one.status === "PAUSED" && html`<${Button} scope="operate" onClick=${act(one, "resume")}>Resume<//>`}${!OVER.includes(one.status) && html`<${Button} kind="danger" scope="operate" onClick=${cancel(one)}>Cancel<//>`}</div></td></tr>`)}</tbody></table></div>`}<//><//>
    <${NewBackfill} key=${job} job=${job} reload=${backfills.reload} /></div>`;
}

/** @param {{job: string, reload: () => any}} props */
function NewBackfill({ job, reload }) {
  const [counted, setCounted] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = Object.fromEntries(new FormData(event.currentTarget));
    const body = { from: instantOf(String(form.from), zone.value), to: instantOf(String(form.to), zone.value), max_active: Number(form.max_active), order: form.order, reprocess: form.reprocess };
    const dry = event.submitter?.value !== "start";
    setProblem(null);
    try {
      const answer = await send("POST", `${path("/v1/jobs", String(form.job))}/backfill`, { ...body, dry_run: dry });
      if (dry) setCounted(answer);
      else {
        setCounted(null);
        toast(`${plural(answer.total, "time")} will be run`);
        await reload();
      }
    } catch (error) {
      setProblem(error);
    }
  };
  return html`<${Panel} title="New backfill"><form class="fields one" onSubmit=${submit} onInput=${() => setCounted(null)} aria-label="New backfill">
    <div class="field"><label for="b-job">Job</label><input id="b-job" name="job" type="text" class="mono" required defaultValue=${job} /></div>
    <div class="field"><label for="b-from">From, in ${zone.value}</label><input id="b-from" name="from" type="datetime-local" step="1" required /></div>
    <div class="field"><label for="b-to">To, exclusive</label><input id="b-to" name="to" type="datetime-local" step="1" required /></div>
    <div class="field"><label for="b-max">At once</label><input id="b-max" name="max_active" type="number" min="1" max="1000" defaultValue="1" /></div>
    <div class="field"><label for="b-order">Order</label><select id="b-order" name="order"><option value="oldest_first">oldest first</option><option value="newest_first">newest first</option></select></div>
    <div class="field"><label for="b-again">Which times</label><select id="b-again" name="reprocess"><option value="missing">those that never ran</option><option value="failed">also those that failed</option><option value="all">all</option></select></div>
    ${problem && html`<p class="trouble" role="alert">${problem.errors?.length ? problem.errors.map((/** @type {any} */ one) => `${one.field}: ${one.reason}`).join("; ") : problem.message}</p>`}
    ${counted && html`<p role="status" data-counted=${counted.total}>${counted.total ? html`<b>${plural(counted.total, "time")}</b> would be run, the first <${Time} at=${counted.fires[0]} full />.` : "There is nothing to run in this range."}</p>`}
    <div class="actions"><${Button} type="submit" onClick=${() => {}}>Count<//>${counted?.total > 0 && html`<button type="submit" class="button primary" name="what" value="start">Start ${number(counted.total)}</button>`}</div></form><//>`;
}
