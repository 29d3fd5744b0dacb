// A new job: the form, and beside it when it would fire, as the service says it.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { send } from "../lib/api.js";
import { yamlOf } from "../lib/definition.js";
import { address, navigate, path } from "../lib/router.js";
import { toast } from "../parts/dialogs.js";
import { FireTable } from "../parts/fires.js";
import { declared, elsewhere, JobForm, NEW, scheduleOf } from "../parts/job_form.js";
import { Button, CopyAs, PageHead, Panel } from "../parts/parts.js";

const PAUSE = 250;

export default function NewJob() {
  const [texts, setTexts] = useState(() => ({ ...NEW, ...Object.fromEntries([...address.value.query].filter(([name]) => name in NEW)) }));
  const [errors, setErrors] = useState(/** @type {any[]} */ ([]));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const set = (/** @type {string} */ name, /** @type {string} */ value) => {
    setTexts((before) => ({ ...before, [name]: value }));
    setErrors([]);
    setProblem(null);
  };
  const preview = usePreview(texts);
  const said = read(texts);
  const create = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const body = { ...(texts.job_id.trim() ? { job_id: texts.job_id.trim() } : {}), ...declared(texts) };
      const made = await send("POST", "/v1/jobs", body);
      for (const warning of made.warnings ?? []) toast(warning, "busy");
      toast(made.created === false ? "It is there already" : "Created");
      navigate(path("/ui/jobs", made.job_id));
    } catch (/** @type {any} */ error) {
      setErrors(error.errors ?? []);
      setProblem(error);
      requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector('[aria-invalid="true"]'))?.focus());
    }
  };
  const all = [...errors, ...preview.errors];
  const stray = elsewhere(errors, texts);
  return html`<${PageHead} title="New job" lead="What runs, and when.">
      ${said && html`<${CopyAs} curl=${{ method: "POST", path: "/v1/jobs", body: said }} yaml=${yamlOf(said).trimStart()} />`}<//>
    <div class="two-columns form-columns"><form class="panel job-form" onSubmit=${create} aria-label="New job">
      <${JobForm} texts=${texts} set=${set} errors=${all} isNew />
      ${problem && html`<div class="trouble" role="alert"><div><p class="strong">${problem.message}</p>${stray.map((one) => html`<p key=${one.field}><code>${one.field}</code> ${one.reason}</p>`)}<p class="quiet">${problem.advice}</p></div></div>`}
      <footer class="form-foot"><${Button} kind="primary" type="submit" scope="submit" onClick=${() => {}}>Create job<//><a class="button plain" href="/ui/jobs">Leave it</a></footer>
    </form>
    <${Panel} title="It would fire" aside="as the service computes it" flush id="preview"><${Preview} preview=${preview} texts=${texts} /><//></div>`;
}

/** @param {import("../parts/job_form.js").Texts} texts */
function read(texts) {
  try {
    return { ...(texts.job_id ? { job_id: texts.job_id } : {}), ...declared(texts) };
  } catch {
    return null;
  }
}

/** The next fires of what is typed, a moment after it was. @param {import("../parts/job_form.js").Texts} texts */
function usePreview(texts) {
  const [found, setFound] = useState(/** @type {{fires: any[] | null, errors: any[]}} */ ({ fires: null, errors: [] }));
  const asked = useRef(0);
  const { when, cron, every, at, delay, timezone } = texts;
  useEffect(() => {
    const mine = ++asked.current;
    if (when === "now" || when === "after" || (when === "at" && !at)) {
      setFound({ fires: null, errors: [] });
      return;
    }
    const timer = setTimeout(async () => {
      try {
        const answer = await send("POST", "/v1/schedules/preview", { ...scheduleOf(texts), n: 12 });
        if (mine === asked.current) setFound({ fires: answer.fires, errors: [] });
      } catch (/** @type {any} */ error) {
        if (mine === asked.current) setFound((before) => ({ fires: before.fires, errors: error.errors?.length ? error.errors : [{ field: when, reason: error.message }] }));
      }
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [when, cron, every, at, delay, timezone]);
  return found;
}

/** @param {{preview: {fires: any[] | null, errors: any[]}, texts: Record<string, string>}} props */
function Preview({ preview, texts }) {
  if (texts.when === "now") return html`<p class="quiet pad">Once, as soon as it is created.</p>`;
  if (texts.when === "after") return html`<p class="quiet pad">Whenever all of these jobs have ended well.</p>`;
  if (preview.errors.length) return html`<p class="pad wrong" role="status">${preview.errors.map(({ reason }) => reason).join("; ")}</p>`;
  if (!preview.fires) return html`<p class="quiet pad">Say when.</p>`;
  if (!preview.fires.length) return html`<p class="quiet pad">It would never fire.</p>`;
  return html`<${FireTable} fires=${preview.fires} zoneName=${texts.when === "delay" ? "UTC" : texts.timezone || "UTC"} compact />`;
}
