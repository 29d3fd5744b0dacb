// Runs out of attempts, grouped by what went wrong: a thousand of one cause are one row.
import { html, useEffect, useState } from "../vendor/preact.js";
import { get, send } from "../lib/api.js";
import { number, plural } from "../lib/format.js";
import { onChanges, onResync } from "../lib/live.js";
import { address, path, setQuery, withQuery } from "../lib/router.js";
import { throttled } from "../lib/store.js";
import { ask, toast } from "../parts/dialogs.js";
import { Button, CopyAs, Empty, PageHead, Panel, quoted, Skeleton, Status, Time, Trouble } from "../parts/parts.js";

const PAGE = 1000;
const MOST = 10_000;
const SHOWN = 50;

/** What two errors of one cause have in common: numbers, ids, paths and quoted words differ. @param {any} letter */
export function fingerprint(letter) {
  const text = String(letter.error_message || letter.reason || letter.status).trim().split("\n").pop() ?? "";
  return text
    .replace(/0x[0-9a-f]+|\b[0-9a-f]{8,}(-[0-9a-f]+)*\b/gi, "…")
    .replace(/(["'`])(?:(?!\1).){1,200}\1/g, "…")
    .replace(/(\/[\w.@~-]+){2,}/g, "…")
    .replace(/\d+([.:]\d+)*/g, "…")
    .slice(0, 200);
}

export default function DeadLetters() {
  const { query } = address.value;
  const q = query.get("q") ?? "";
  const job = query.get("job") ?? "";
  const open = query.get("group");
  const [state, setState] = useState(/** @type {{items: any[] | null, more: boolean, error: any}} */ ({ items: null, more: false, error: null }));
  const [text, setText] = useState(q);

  const load = async () => {
    try {
      /** @type {any[]} */
      let items = [];
      let cursor = null;
      do {
        const page = await get(withQuery("/v1/dead-letters", { q, job_id: job, limit: PAGE, cursor }));
        items = items.concat(page.items);
        cursor = page.next_cursor;
      } while (cursor && items.length < MOST);
      setState({ items, more: cursor !== null, error: null });
    } catch (error) {
      setState((before) => ({ ...before, error }));
    }
  };
  useEffect(() => {
    load();
    const again = throttled(load, 3000);
    const stops = [onResync(again), onChanges((changes) => changes.some(({ status }) => status === "FAILED" || status === "TIMED_OUT" || status === "QUEUED") && again())];
    return () => stops.forEach((stop) => stop());
  }, [q, job]);

  const groups = grouped(state.items ?? []);
  const redrive = (/** @type {any[]} */ letters, /** @type {string} */ what) =>
    ask({
      title: `Redrive ${plural(letters.length, "run")}?`,
      action: `Redrive ${number(letters.length)}`,
      body: html`<p>${what}</p><p>Each gets another attempt now, with its definition as it is now. Those that fail again come back here.</p>`,
      run: async () => {
        let done = 0;
        let refused = 0;
        for (let i = 0; i < letters.length; i += PAGE) {
          const answer = await send("POST", "/v1/dead-letters/redrive", { run_ids: letters.slice(i, i + PAGE).map(({ run_id }) => run_id) });
          done += answer.run_ids.length;
          refused += answer.refused.length;
        }
        toast(`${plural(done, "run")} tried again`, refused ? "bad" : "good", refused ? `${number(refused)} could not be` : undefined);
        await load();
      },
    });

  return html`<${PageHead} title="Dead letters" lead="Runs out of attempts, by what went wrong.">
      ${state.items && state.items.length > 0 && html`<${Button} scope="operate" onClick=${() => redrive(state.items ?? [], "All that are listed here.")}>Redrive all<//>`}
      <${CopyAs} cli=${["waterclock dead", job && `--job ${quoted(job)}`, q && `--search ${quoted(q)}`].filter(Boolean).join(" ")} curl=${{ path: withQuery("/v1/dead-letters", { q, job_id: job }) }} />
    <//>
    <form class="filters" role="search" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), setQuery({ q: text }))}>
      <input type="search" aria-label="Filter" placeholder="Text in the error" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} onSearch=${() => setQuery({ q: text })} />
      ${job && html`<button type="button" class="chip" onClick=${() => setQuery({ job: null })}><span class="quiet">job</span> ${job} ✕</button>`}
    </form>
    ${state.error && html`<${Trouble} error=${state.error} retry=${load} stale=${state.items !== null} />`}
    ${state.items === null ? !state.error && html`<${Skeleton} rows=${6} />` : groups.length === 0 ? html`<${Panel}><${Empty} title="No dead letters">${q || job ? "None matches." : "A run that fails for good is kept here until somebody redrives it or its retention ends."}<//><//>` : null}
    ${state.more && html`<p class="quiet">The newest ${number(MOST)} are grouped here; there are more.</p>`}
    <div class="stack">${groups.map((group) => html`<${Group} key=${group.print} group=${group} open=${open === group.print} redrive=${redrive} />`)}</div>`;
}

/** @param {any[]} letters */
function grouped(letters) {
  /** @type {Map<string, {print: string, letters: any[], jobs: Set<string>}>} */
  const groups = new Map();
  for (const letter of letters) {
    const print = fingerprint(letter);
    const group = groups.get(print) ?? { print, letters: [], jobs: new Set() };
    group.letters.push(letter);
    group.jobs.add(letter.job_id);
    groups.set(print, group);
  }
  return [...groups.values()].sort((one, other) => other.letters.length - one.letters.length);
}

/** @param {{group: {print: string, letters: any[], jobs: Set<string>}, open: boolean, redrive: (letters: any[], what: string) => any}} props */
function Group({ group, open, redrive }) {
  const [newest] = group.letters;
  const jobs = [...group.jobs];
  return html`<section class="panel group" data-group=${group.print}>
    <header class="group-head"><b class="group-count">${number(group.letters.length)}</b>
      <div class="group-what"><p class="group-error">${group.print || "no message"}</p>
        <p class="quiet">${jobs.length === 1 ? html`<a href=${path("/ui/jobs", jobs[0])}>${jobs[0]}</a>` : plural(jobs.length, "job")} · last <${Time} at=${newest.dead_time} /> · <span class="clip">${String(newest.error_message ?? newest.reason ?? "").trim().split("\n").pop()}</span></p></div>
      <div class="actions"><button type="button" class="button plain" aria-expanded=${open ? "true" : "false"} onClick=${() => setQuery({ group: open ? null : group.print }, { replace: true })}>${open ? "Hide runs" : "Show runs"}</button>
        <${Button} kind="primary" scope="operate" onClick=${() => redrive(group.letters, `All with: ${group.print}`)}>Redrive<//></div></header>
    ${open && html`<div class="scroll-x"><table class="table"><thead><tr><th>Status</th><th>Run</th><th>Attempts</th><th>Given up</th><th>Error</th><th><span class="unseen">Actions</span></th></tr></thead>
      <tbody>${group.letters.slice(0, SHOWN).map((letter) => html`<tr key=${letter.run_id} data-run-id=${letter.run_id} data-status=${letter.status}>
        <td><${Status} status=${letter.status} /></td><td><a href=${path("/ui/runs", letter.run_id)}>${letter.run_id}</a></td><td>${letter.attempt_number}</td>
        <td><${Time} at=${letter.dead_time} /></td><td>${letter.error_message ?? letter.reason}</td>
        <td><${Button} scope="operate" onClick=${() => redrive([letter], letter.run_id)}>Redrive<//></td></tr>`)}</tbody></table>
      ${group.letters.length > SHOWN && html`<p class="quiet pad">${number(group.letters.length - SHOWN)} more of the same.</p>`}</div>`}
  </section>`;
}
