// What can be done to a job or a workflow, and how to say the same elsewhere.
import { html } from "../vendor/preact.js";
import { send } from "../lib/api.js";
import { yamlDeclaration } from "../lib/definition.js";
import { moment } from "../lib/format.js";
import { navigate, path } from "../lib/router.js";
import { ask, toast } from "./dialogs.js";
import { leftOut } from "./fires.js";
import { Button, CopyAs, Menu, quoted } from "./parts.js";

/** @param {any} error */
const failed = (error) => toast(error.message, "bad", error.advice);

/** @param {string} id @param {() => any} done */
export function skipNext(id, done, /** @type {any} */ fire = null) {
  return ask({
    title: fire ? "Skip this fire?" : "Skip the next fire?",
    action: fire ? "Skip it" : "Skip next",
    body: html`<p>${fire ? html`${moment(fire.time)} is` : "The next occurrence is"} left out. All others stay; the record says who asked.</p>`,
    run: async () => {
      const left = await send("POST", `${path("/v1/jobs", id)}/skip`, fire ? { scheduled_time: fire.time } : {});
      toast("Left out", "good", moment(left.time));
      leftOut.value = new Set([...leftOut.value, `${id} ${left.time}`]);
      await done();
    },
  });
}

/** @param {{job: any, reload: () => any, isWorkflow?: boolean}} props */
export function JobActions({ job, reload, isWorkflow }) {
  const id = job.job_id ?? job.workflow_id;
  const jobUrl = path("/v1/jobs", id);
  const url = isWorkflow ? path("/v1/workflows", id) : jobUrl;
  const over = job.status === "CANCELLED" || job.status === "COMPLETED";
  const word = isWorkflow ? "workflow" : "job";
  const runNow = async () => {
    const made = await send("POST", `${url}/runNow`, {});
    toast("Asked for", "good", made.run_id ?? made.workflow_run_id);
    await reload();
  };
  const pause = async () => {
    await send("POST", `${jobUrl}/pause`, {});
    toast("Paused");
    await reload();
  };
  const resume = async () => {
    await send("POST", `${jobUrl}/resume`, {});
    toast("Resumed");
    await reload();
  };
  const cancel = () =>
    ask({
      title: `Cancel this ${word}?`,
      danger: true,
      action: `Cancel ${word}`,
      body: html`<p>It never fires again, and what runs is stopped. Its runs and versions stay to be read.</p>`,
      run: async () => {
        await send("DELETE", url);
        toast("Cancelled");
        await reload();
      },
    });
  const cli = isWorkflow ? `waterclock workflow run ${quoted(id)}` : `waterclock run-now ${quoted(id)}`;
  return html`<${Button} kind="primary" scope="operate" onClick=${runNow}>Run now<//>
    ${job.status === "SCHEDULED" && html`<${Button} scope="operate" onClick=${pause}>Pause<//>`}
    ${job.status === "PAUSED" && html`<${Button} scope="operate" onClick=${resume}>Resume<//>`}
    ${!isWorkflow && !over && html`<a class="button plain" href=${`${path("/ui/jobs", id)}/edit`}>Edit</a>`}
    ${!over && html`<${Button} kind="danger" scope="operate" onClick=${cancel}>Cancel<//>`}
    <${Menu} label="More">
      ${job.next_run_at && html`<button type="button" onClick=${() => skipNext(id, reload).catch(failed)}>Skip next…</button>`}
      <button type="button" onClick=${() => navigate(`/ui/backfills?job=${encodeURIComponent(id)}`)}>Run for past times…</button>
      <a href=${`/ui/calendar?job=${encodeURIComponent(id)}`}>In the calendar</a>
      <a href=${`/ui/runs?job=${encodeURIComponent(id)}`}>All its runs</a>
    <//>
    <${CopyAs} cli=${cli} curl=${{ method: "POST", path: `${url}/runNow` }} yaml=${yamlDeclaration(job)} />`;
}
