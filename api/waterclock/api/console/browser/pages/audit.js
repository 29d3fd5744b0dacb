// The proof that every due time was taken exactly once, from the log; or the counter-examples.
import { html, useEffect, useState } from "../vendor/preact.js";
import { call } from "../lib/api.js";
import { number, plural, zone } from "../lib/format.js";
import { address, path, setQuery } from "../lib/router.js";
import { instantOf, localOf } from "../lib/zones.js";
import { Meter } from "../parts/bars.js";
import { Button, CopyAs, Empty, PageHead, Panel, StatusIcon, Time, Trouble } from "../parts/parts.js";

const SINCE = /** @type {[string, number][]} */ ([
  ["Last hour", 1],
  ["Last day", 24],
  ["Last week", 168],
]);
const WORDS = /** @type {Record<string, string>} */ ({ ran: "ran", skipped: "skipped, and the record says why", missed: "missed, and the record says why", cancelled: "cancelled" });

/** The reports of a stream of lines, one after another. @param {string} url @param {AbortSignal} signal */
async function* reports(url, signal) {
  const response = await call(url, { headers: { Accept: "application/x-ndjson" }, signal });
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    text += value ?? "";
    const lines = text.split("\n");
    text = done ? "" : (lines.pop() ?? "");
    for (const line of lines) if (line.trim()) yield JSON.parse(line);
    if (done) return;
  }
}

export default function Audit() {
  const { query } = address.value;
  const from = query.get("from");
  const to = query.get("to");
  const url = `/v1/audit?from=${encodeURIComponent(from ?? "")}${to ? `&to=${encodeURIComponent(to)}` : ""}`;
  const [state, setState] = useState(/** @type {{report: any, error: any}} */ ({ report: null, error: null }));
  const [count, again] = useState(0);
  useEffect(() => {
    if (!from) return;
    const given = new AbortController();
    setState({ report: { read: 0 }, error: null });
    (async () => {
      try {
        for await (const report of reports(url, given.signal)) setState({ report, error: null });
      } catch (error) {
        if (!given.signal.aborted) setState({ report: null, error });
      }
    })();
    return () => given.abort();
  }, [from, to, count]);
  const { report, error } = state;
  const run = (/** @type {any} */ event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const start = instantOf(String(form.get("from")), zone.value);
    const end = String(form.get("to")) ? instantOf(String(form.get("to")), zone.value) : null;
    if (start === from && end === to) again(count + 1);
    else if (start) setQuery({ from: start, to: end });
  };
  return html`<${PageHead} title="Audit" lead="Whether every due time was taken exactly once, proved from the log.">
      <${CopyAs} cli=${["waterclock audit", from && `--from ${from}`, to && `--to ${to}`].filter(Boolean).join(" ")} curl=${{ path: url }} /><//>
    <form class="filters" onSubmit=${run} key=${`${from} ${to}`} aria-label="Audit">
      ${SINCE.map(([name, hours]) => html`<button type="button" key=${name} class="button plain" onClick=${() => setQuery({ from: new Date(Date.now() - hours * 3_600_000).toISOString().slice(0, 19) + "Z", to: null })}>${name}</button>`)}
      <label class="inline-label">From <input type="datetime-local" name="from" step="1" required value=${localOf(from ?? Date.now() - 3_600_000, zone.value)} /></label>
      <label class="inline-label">to <input type="datetime-local" name="to" step="1" value=${to ? localOf(to, zone.value) : ""} /></label>
      <${Button} kind="primary" type="submit" onClick=${() => {}}>Audit<//><span class="quiet">in ${zone.value}</span></form>
    ${error && html`<${Trouble} error=${error} retry=${() => again(count + 1)} />`}
    ${!from && html`<${Panel}><${Empty} title="Choose a range" command="waterclock audit --from …">Every fire that the schedules of then had is looked up in the log: it ran once, or the log says why not. What is missing, or there twice, is shown as a counter-example.<//><//>`}
    ${from && report && (report.read < 1 ? html`<${Panel} title="Reading the log"><${Meter} goal used=${report.read} of=${1} label=${`${Math.round(report.read * 100)} % read`} /><p class="quiet" role="status">${Math.round(report.read * 100)} %</p><//>` : html`<${Report} report=${report} />`)}`;
}

/** @param {{report: any}} props */
function Report({ report }) {
  const accounted = Object.entries(report.accounted);
  const sum = accounted.reduce((total, [, count]) => total + count, 0);
  return html`<div class="stack"><section class="panel verdict ${report.clean ? "good" : "bad"}" data-clean=${String(report.clean)}><${StatusIcon} status=${report.clean ? "SUCCESS" : "FAILED"} />
      <div><h2>${report.clean ? "Every due time is accounted for, exactly once" : `${plural(report.faults, "counter-example")} found`}</h2>
      <p class="quiet">${plural(report.expected, "due time")} of ${plural(report.jobs, "job")}, from ${report.from ? html`<${Time} at=${report.from} full />` : "the beginning of the log"} to <${Time} at=${report.to} full />.${report.note ? ` ${report.note}` : ""}</p></div></section>
    <${Panel} title="The proof" flush><table class="table proof"><tbody>
      <tr><th scope="row">Due times that the schedules had</th><td class="number strong">${number(report.expected)}</td></tr>
      ${accounted.map(([name, count]) => html`<tr key=${name}><td>${WORDS[name] ?? name.replaceAll("_", " ")}</td><td class="number">${number(/** @type {number} */ (count))}</td></tr>`)}
      ${report.pending > 0 && html`<tr><td>due, and not decided yet by anybody</td><td class="number">${number(report.pending)}</td></tr>`}
      <tr><th scope="row">Accounted for</th><td class="number strong">${number(sum + report.pending)}</td></tr>
      <tr><td class="quiet">of the runs, still under way</td><td class="number quiet">${number(report.under_way)}</td></tr></tbody></table><//>
    ${report.findings.length > 0 && html`<${Panel} title="Counter-examples" flush aside=${report.faults > report.findings.length ? `the first ${number(report.findings.length)}` : ""}><div class="scroll-x"><table class="table"><thead><tr><th>Fault</th><th>Job</th><th>Scheduled</th><th>Run</th><th>What is wrong</th></tr></thead>
      <tbody>${report.findings.map((/** @type {any} */ one, /** @type {number} */ i) => html`<tr key=${i} data-fault=${one.fault}><td class="bad nowrap">${one.fault.replaceAll("_", " ")}</td><td><a href=${path("/ui/jobs", one.job_id)}>${one.job_id}</a></td><td class="nowrap"><${Time} at=${one.scheduled_time} full /></td><td>${one.run_id ? html`<a href=${path("/ui/runs", one.run_id)}>${one.run_id}</a>` : ""}</td><td>${one.explanation}</td></tr>`)}</tbody></table></div><//>`}</div>`;
}
