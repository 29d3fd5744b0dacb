// The console: which page is at which address, and what is drawn around it.
import { html, render, useErrorBoundary, useEffect, useState } from "./vendor/preact.js";
import { findIdentity, session } from "./lib/api.js";
import { startLive } from "./lib/live.js";
import { address, followLinks, match } from "./lib/router.js";
import { Dialogs } from "./parts/dialogs.js";
import { Empty, PageHead, Skeleton, Trouble } from "./parts/parts.js";
import { paletteOpen, Shell, startKeyboard } from "./parts/shell.js";
import Overview from "./pages/overview.js";

/** A page is a module whose default is a component; what `:names` of the address stand for are its properties.
 * @type {[string, string, () => Promise<any>][]} */
const PAGES = [
  ["/", "Overview", async () => ({ default: Overview })],
  ["/ui", "Overview", async () => ({ default: Overview })],
  ["/ui/runs", "Runs", () => import("./pages/runs.js")],
  ["/ui/runs/:run", "Run", () => import("./pages/run.js")],
  ["/ui/dead-letters", "Dead letters", () => import("./pages/dead_letters.js")],
  ["/ui/jobs", "Jobs", () => import("./pages/jobs.js")],
  ["/ui/jobs/new", "New job", () => import("./pages/job_new.js")],
  ["/ui/jobs/:job", "Job", () => import("./pages/job.js")],
  ["/ui/jobs/:job/edit", "Edit job", () => import("./pages/job_edit.js")],
  ["/ui/workflows", "Workflows", () => import("./pages/workflows.js")],
  ["/ui/workflows/:workflow", "Workflow", () => import("./pages/workflow.js")],
  ["/ui/workflow-runs/:run", "Workflow run", () => import("./pages/workflow_run.js")],
  ["/ui/calendar", "Calendar", () => import("./pages/calendar.js")],
  ["/ui/backfills", "Backfills", () => import("./pages/backfills.js")],
  ["/ui/fleet", "Fleet", () => import("./pages/fleet.js")],
  ["/ui/audit", "Audit", () => import("./pages/audit.js")],
  ["/ui/secrets", "Secrets", () => import("./pages/secrets.js")],
  ["/ui/tokens", "Tokens", () => import("./pages/tokens.js")],
  ["/ui/settings", "Settings", () => import("./pages/settings.js")],
];

/** @type {Map<string, any>} */
const loaded = new Map([["/", Overview]]);

/** @param {{pattern: string, load: () => Promise<any>, parameters: Record<string, string>}} props */
function Page({ pattern, load, parameters }) {
  const [, draw] = useState(0);
  const [failed, retry] = useErrorBoundary();
  const [missing, setMissing] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (loaded.has(pattern)) return;
    load().then(
      (module) => {
        loaded.set(pattern, module.default);
        draw((n) => n + 1);
      },
      () => setMissing(new Error("This page could not be loaded: the service was upgraded, or is away.")),
    );
  }, [pattern]);
  const error = failed ?? missing;
  if (error) {
    if (failed) console.warn(failed);
    return html`<${Trouble} error=${{ message: error.message, advice: "Load the page again; if it stays, tell us what you did." }}
      retry=${missing ? () => location.reload() : retry} />`;
  }
  const Found = loaded.get(pattern);
  return Found ? html`<${Found} ...${parameters} />` : html`<${Skeleton} rows=${8} />`;
}

function Current() {
  const here = address.value.path;
  for (const [pattern, title, load] of PAGES) {
    const parameters = match(pattern, here);
    if (parameters === null) continue;
    const named = Object.values(parameters)[0];
    document.title = `${named ? `${named} · ` : ""}${title} · waterclock`;
    return html`<${Page} key=${here} pattern=${pattern} load=${load} parameters=${parameters} />`;
  }
  document.title = "Not found · waterclock";
  return html`<${PageHead} title="Not found" /><${Empty} title="There is no such page">The address may be of another version, or mistyped. <a href="/">To the overview</a><//>`;
}

/** @param {{load: () => Promise<any>}} props what is needed now and then only */
function Later({ load, ...properties }) {
  const [Found, setFound] = useState(/** @type {any} */ (null));
  useEffect(() => {
    load().then((module) => setFound(() => module.default));
  }, []);
  return Found && html`<${Found} ...${properties} />`;
}

function App() {
  const who = session.value;
  if (who === undefined) return html`<${Starting} />`;
  if (who === null || address.value.path === "/ui/sign-in")
    return html`<${Later} load=${() => import("./pages/sign_in.js")} /><${Dialogs} />`;
  return html`<${Shell}><${Current} /><//>${paletteOpen.value && html`<${Later} load=${() => import("./parts/palette.js")} />`}<${Dialogs} />`;
}

/** Until it is known who is here; the service may be away. */
function Starting() {
  const [error, setError] = useState(/** @type {any} */ (null));
  const find = () => findIdentity().then(() => setError(null), setError);
  useEffect(() => {
    find();
    const timer = setInterval(() => session.value === undefined && find(), 2000);
    return () => clearInterval(timer);
  }, []);
  return html`<div class="start">${error && html`<${Trouble} error=${error} retry=${find} />`}</div>`;
}

followLinks();
startKeyboard();
startLive();
render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
