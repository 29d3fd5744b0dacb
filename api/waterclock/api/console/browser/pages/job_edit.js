// A job's edit: the form, and beside it what would fire then and does not now. If somebody else was faster, both
// edits are laid side by side.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { getVersioned, send } from "../lib/api.js";
import { declarationOf, differences, editOf, same } from "../lib/definition.js";
import { number, plural } from "../lib/format.js";
import { address, navigate, path, setQuery } from "../lib/router.js";
import { Differences, text } from "../parts/differences.js";
import { toast } from "../parts/dialogs.js";
import { compare, FireTable } from "../parts/fires.js";
import { declared, elsewhere, JobForm, textsOf } from "../parts/job_form.js";
import { Button, CopyAs, PageHead, Panel, Skeleton, Tabs, Trouble } from "../parts/parts.js";

const PAUSE = 300;
const SHOWN = 60;
const DAY = 86_400_000;
const RANGES = /** @type {[string, string][]} */ ([
  ["1", "a day"],
  ["7", "a week"],
  ["31", "a month"],
]);

/** @param {{job: string}} props */
export default function EditJob({ job: id }) {
  const url = path("/v1/jobs", id);
  /** The definition that is edited, and what is typed. @type {[{job: any, base: Record<string, any>} | null, any]} */
  const [from, setFrom] = useState(/** @type {any} */ (null));
  const [texts, setTexts] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [theirs, setTheirs] = useState(/** @type {any} */ (null));

  const load = async () => {
    try {
      const { value } = await getVersioned(url);
      const base = declarationOf(value);
      setFrom({ job: value, base });
      setTexts(textsOf(base));
      setProblem(null);
    } catch (error) {
      setProblem(error);
    }
  };
  useEffect(() => void load(), [id]);
  const edit = from && texts ? readEdit(texts, from.base) : { value: {}, errors: [] };
  const whatIf = useWhatIf(url, edit.value);
  if (!from || !texts) return problem ? html`<${PageHead} title="Edit job" /><${Trouble} error=${problem} retry=${load} />` : html`<${Skeleton} rows=${10} />`;

  const set = (/** @type {string} */ name, /** @type {string} */ value) => {
    setTexts((/** @type {any} */ before) => ({ ...before, [name]: value }));
    setProblem(null);
  };
  const save = async (/** @type {Record<string, any>} */ changes, /** @type {number} */ version) => {
    try {
      const made = await send("PATCH", url, changes, { "If-Match": `"${version}"` });
      for (const warning of made.warnings ?? []) toast(warning, "busy");
      toast(`Saved as version ${made.version}`);
      navigate(path("/ui/jobs", id));
    } catch (/** @type {any} */ error) {
      if (error.status === 412) setTheirs((await getVersioned(url)).value);
      else {
        setTheirs(null);
        setProblem(error);
      }
    }
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (edit.errors.length) return;
    if (!Object.keys(edit.value).length) toast("Nothing is changed", "busy");
    else save(edit.value, from.job.version);
  };
  const errors = [...edit.errors, ...(problem?.errors ?? []), ...whatIf.errors];
  const changed = differences(from.base, { ...from.base, ...Object.fromEntries(Object.entries(edit.value).map(([name, value]) => [name, value ?? undefined])) });
  const stray = elsewhere(problem?.errors ?? [], texts);
  if (theirs)
    return html`<${Merge} id=${id} base=${from.base} mine=${edit.value} theirs=${theirs} save=${save} leave=${() => (setTheirs(null), load())} />`;
  return html`<${PageHead} title=${`Edit ${from.job.name}`} lead=${html`<a href=${path("/ui/jobs", id)}>${id}</a>, version ${from.job.version}`}>
      <${CopyAs} curl=${{ method: "PATCH", path: url, body: edit.value }} /><//>
    <div class="two-columns form-columns"><form class="panel job-form" onSubmit=${submit} aria-label="Edit job">
      <${JobForm} texts=${texts} set=${set} errors=${errors} />
      ${problem && html`<div class="trouble" role="alert"><div><p class="strong">${problem.message}</p>${stray.map((one) => html`<p key=${one.field}><code>${one.field}</code> ${one.reason}</p>`)}<p class="quiet">${problem.advice}</p></div></div>`}
      <footer class="form-foot"><${Button} kind="primary" type="submit" scope="submit" onClick=${() => {}}>Save<//><a class="button plain" href=${path("/ui/jobs", id)}>Keep as it is</a>
        <span class="quiet">${changed.length ? plural(changed.length, "field") + " changed" : "nothing is changed"}</span></footer>
    </form>
    <div class="stack"><${WhatIf} whatIf=${whatIf} zoneName=${texts.timezone || "UTC"} />
      ${changed.length > 0 && html`<${Panel} title="What you change" flush><${Differences} rows=${changed} before="now" after="then" /><//>`}</div></div>`;
}

/** @param {any} texts @param {Record<string, any>} base @returns {{value: Record<string, any>, errors: any[]}} */
function readEdit(texts, base) {
  try {
    return { value: editOf(base, declared(texts, base)), errors: [] };
  } catch (/** @type {any} */ error) {
    return { value: {}, errors: error.errors ?? [{ field: "other", reason: error.message }] };
  }
}

/** What the edit would change about when it fires, a moment after it was typed. @param {string} url @param {Record<string, any>} edit */
function useWhatIf(url, edit) {
  const { query } = address.value;
  const [found, setFound] = useState(/** @type {{data: any, errors: any[], error: any}} */ ({ data: null, errors: [], error: null }));
  const asked = useRef(0);
  const from = query.get("from");
  const to = query.get("to");
  const days = query.get("days") ?? "31";
  const key = JSON.stringify([edit, from, to, days]);
  useEffect(() => {
    const mine = ++asked.current;
    const timer = setTimeout(async () => {
      const start = from ?? new Date().toISOString();
      const end = to ?? new Date(Date.parse(start) + Number(days) * DAY).toISOString();
      try {
        const data = await send("POST", `${url}/what-if`, { ...edit, from: start, to: end });
        if (mine === asked.current) setFound({ data, errors: [], error: null });
      } catch (/** @type {any} */ error) {
        if (mine === asked.current) setFound((before) => ({ data: before.data, errors: error.errors ?? [], error }));
      }
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [url, key]);
  return { ...found, days: from ? "" : days };
}

/** @param {{whatIf: any, zoneName: string}} props */
function WhatIf({ whatIf, zoneName }) {
  const { data, error } = whatIf;
  const rows = data ? compare(data.before, data.after) : [];
  const quiet = data && !data.added && !data.removed;
  return html`<${Panel} title="What if" flush id="what-if" aside=${html`<${Tabs} label="Compare over" value=${whatIf.days} options=${RANGES} onChange=${(/** @type {string} */ days) => setQuery({ days, from: null, to: null }, { replace: true })} />`}>
    <p class="pad what-if-sum" role="status" data-added=${data?.added} data-removed=${data?.removed}>${
      error ? html`<span class="wrong">${error.errors?.length ? error.errors.map((/** @type {any} */ one) => one.reason).join("; ") : error.message}</span>`
      : !data ? "Asking…"
      : quiet ? html`<span class="quiet">The same ${plural(data.before.length, "fire")} as now.</span>`
      : html`<b class="good">+${number(data.added)}</b> added, <b class="bad">−${number(data.removed)}</b> removed; ${plural(data.after.length, "fire")} then, ${number(data.before.length)} now${data.more ? ", and more later" : ""}.`}
      ${data?.status === "PAUSED" && html` <span class="quiet">It is paused: none of them is taken.</span>`}</p>
    ${rows.length > 0 && html`<${FireTable} fires=${rows.slice(0, SHOWN)} zoneName=${zoneName} compared compact />`}
    ${rows.length > SHOWN && html`<p class="quiet pad">and ${number(rows.length - SHOWN)} more</p>`}<//>`;
}

/** Both edits side by side. What only one of us changed is taken; of what both changed one chooses.
 * @param {{id: string, base: Record<string, any>, mine: Record<string, any>, theirs: any, save: (changes: any, version: number) => any, leave: () => void}} props */
function Merge({ id, base, mine, theirs, save, leave }) {
  const other = declarationOf(theirs);
  const changedByThem = editOf(base, other);
  const both = Object.keys(mine).filter((field) => field in changedByThem && !same(mine[field] ?? undefined, other[field]));
  const [chosen, setChosen] = useState(/** @type {Record<string, string>} */ ({}));
  const fields = [...new Set([...Object.keys(mine), ...Object.keys(changedByThem)])];
  const result = Object.fromEntries(Object.entries(mine).filter(([field]) => !both.includes(field) || chosen[field] === "mine"));
  const open = both.filter((field) => !chosen[field]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (open.length) toast(`Choose one for ${open.join(", ")}`, "busy");
    else if (!Object.keys(result).length) leave();
    else save(result, theirs.version);
  };
  const cell = (/** @type {string} */ field, /** @type {string} */ whose, /** @type {any} */ value, /** @type {boolean} */ changed) =>
    both.includes(field)
      ? html`<td class=${chosen[field] === whose ? "added" : ""}><label class="choice"><input type="radio" name=${`merge-${field}`} value=${whose} checked=${chosen[field] === whose} onChange=${() => setChosen({ ...chosen, [field]: whose })} /><pre>${text(value) || "not said"}</pre></label></td>`
      : html`<td class=${changed ? "added" : "quiet"}><pre>${changed ? text(value) || "not said" : "as it was"}</pre></td>`;
  return html`<${PageHead} title="Somebody else changed it meanwhile" lead=${html`<a href=${path("/ui/jobs", id)}>${id}</a> is at version ${theirs.version} now. What only one of you changed is taken; of the rest, choose.`} />
    <form class="panel flush" id="merge" aria-label="Merge" onSubmit=${submit}><div class="scroll-x"><table class="table differences merge"><thead><tr><th>Field</th><th>It was</th><th>Theirs</th><th>Yours</th></tr></thead>
      <tbody>${fields.map((field) => html`<tr key=${field} data-field=${field} data-conflict=${both.includes(field) ? "true" : undefined}><th scope="row"><code>${field}</code>${both.includes(field) && html` <span class="label dst">both</span>`}</th>
        <td><pre>${text(base[field])}</pre></td>${cell(field, "theirs", other[field], field in changedByThem)}${cell(field, "mine", mine[field], field in mine)}</tr>`)}</tbody></table></div>
      <footer class="form-foot"><${Button} kind="primary" type="submit" scope="submit" onClick=${() => {}}>Save merged<//><button type="button" class="button plain" onClick=${leave}>Drop mine</button>
        <span class="quiet">${open.length ? `${plural(open.length, "field")} to choose` : "ready"}</span></footer></form>`;
}
