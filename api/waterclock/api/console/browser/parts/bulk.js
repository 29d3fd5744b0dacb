// One action on all that a filter matches: first counted, then asked, then done.
import { html } from "../vendor/preact.js";
import { may, send } from "../lib/api.js";
import { number, plural } from "../lib/format.js";
import { withQuery } from "../lib/router.js";
import { ask, toast } from "./dialogs.js";
import { curlOf, CopyButton } from "./parts.js";

const WORDS = /** @type {Record<string, [string, string]>} */ ({
  cancel: ["Cancel", "cancelled"],
  retry: ["Retry", "tried again"],
  pause: ["Pause", "paused"],
  resume: ["Resume", "resumed"],
  runNow: ["Run now", "run"],
});

/** @param {"runs" | "jobs"} what @param {string} action @param {Record<string, string>} filter
 * @param {{look?: () => void} | null} [list] looked at again when it is done */
export async function bulk(what, action, filter, list) {
  if (!may("operate")) {
    toast("This needs the scope operate.", "bad");
    return;
  }
  const url = `/v1/${what}:bulk`;
  const body = { action, filter: asFilter(filter) };
  /** @type {any} */
  let counted;
  try {
    counted = await send("POST", url, { ...body, dry_run: true });
  } catch (/** @type {any} */ error) {
    toast(error.message, "bad", error.advice);
    return;
  }
  const [verb, done] = WORDS[action];
  const one = what === "runs" ? "run" : "job";
  if (!counted.matched) {
    toast(`No ${one} matches.`, "busy");
    return;
  }
  await ask({
    title: `${verb} ${plural(counted.matched, one)}?`,
    danger: action === "cancel",
    action: `${verb} ${number(counted.matched)}`,
    body: html`<p>All that match ${withQuery("", filter) ? html`<code>${decodeURIComponent(withQuery("", filter).slice(1))}</code>` : "no filter: every one there is"}, also those that are not on this page.</p>
      ${counted.refused?.length > 0 && html`<p>${plural(counted.refused.length, one)} cannot be: ${counted.refused[0].reason}</p>`}
      <p><${CopyButton} label="Copy as curl" text=${curlOf({ method: "POST", path: url, body })} /></p>`,
    run: async () => {
      let cursor = null;
      let count = 0;
      let refused = 0;
      let reason = "";
      do {
        const result = await send("POST", url, cursor ? { ...body, cursor } : body);
        count += result.done;
        refused += result.refused.length + (result.more_refused ?? 0);
        reason ||= result.refused[0]?.reason ?? "";
        cursor = result.next_cursor ?? null;
      } while (cursor);
      toast(`${number(count)} ${done}`, refused ? "bad" : "good", refused ? `${number(refused)} refused: ${reason}` : undefined);
      list?.look?.();
    },
  });
}

/** Lists are lists in a body. @param {Record<string, string>} filter */
function asFilter(filter) {
  /** @type {Record<string, any>} */
  const found = { ...filter };
  if (found.label) found.label = [found.label];
  if (found.status) found.status = found.status.split(",");
  return found;
}
