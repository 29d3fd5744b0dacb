// What stands around every page: where one can go, how fresh it all is, and the keyboard.
import { html, signal, useEffect } from "../vendor/preact.js";
import { away, session, signOut } from "../lib/api.js";
import { clock, now, ownZone, setZone, span, zone } from "../lib/format.js";
import { health, hearing } from "../lib/live.js";
import { address, navigate } from "../lib/router.js";
import { setTheme, theme } from "../lib/store.js";
import { Menu } from "./parts.js";

/** The pages by the question that they answer. `keys` follow a `g`.
 * @type {{question: string, pages: {name: string, url: string, icon: string, keys?: string}[]}[]} */
export const NAVIGATION = [
  {
    question: "Now",
    pages: [
      { name: "Overview", url: "/", icon: "M2 9h4l2-6 3 11 2-5h3", keys: "o" },
      { name: "Runs", url: "/ui/runs", icon: "M4 3v10l9-5z", keys: "r" },
    ],
  },
  {
    question: "Plan",
    pages: [
      { name: "Jobs", url: "/ui/jobs", icon: "M2.5 4h11M2.5 8h11M2.5 12h7", keys: "j" },
      { name: "Workflows", url: "/ui/workflows", icon: "M3 3h3v3H3zM10 3h3v3h-3zM6.5 10.5h3v3h-3zM4.5 6v2h7V6M8 8v2.5", keys: "w" },
      { name: "Calendar", url: "/ui/calendar", icon: "M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2v3M10.5 2v3", keys: "c" },
      { name: "Backfills", url: "/ui/backfills", icon: "M8 3 3 8l5 5M13 3 8 8l5 5" },
    ],
  },
  {
    question: "Problems",
    pages: [
      { name: "Failures", url: "/ui/runs?status=FAILED,TIMED_OUT,MISSED", icon: "M8 2 14.5 13.5h-13zM8 6.5v3M8 11.5v.5", keys: "p" },
      { name: "Dead letters", url: "/ui/dead-letters", icon: "M2 4h12v9H2zM2 4l6 5 6-5", keys: "d" },
      { name: "Audit", url: "/ui/audit", icon: "M2.5 8.5l3.5 3.5 7.5-8", keys: "a" },
    ],
  },
  {
    question: "System",
    pages: [
      { name: "Fleet", url: "/ui/fleet", icon: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.5M5 11h.5", keys: "f" },
      { name: "Secrets", url: "/ui/secrets", icon: "M4 7h8v6H4zM5.5 7V5a2.5 2.5 0 0 1 5 0v2" },
      { name: "Tokens", url: "/ui/tokens", icon: "M5 8a2.5 2.5 0 1 0 0 .1zM7.5 8h6M11 8v2.5M13 8v2" },
      { name: "Settings", url: "/ui/settings", icon: "M2 5h7M12 5h2M10.5 3.5v3M2 11h2M7 11h7M5.5 9.5v3" },
    ],
  },
];

/** @param {string} url */
function isHere(url) {
  const { path, query } = address.value;
  const [place, filter] = url.split("?");
  if (filter) return path === place && query.get("status") === new URLSearchParams(filter).get("status");
  if (place === "/ui/runs" && query.get("status") === "FAILED,TIMED_OUT,MISSED") return false;
  if (place === "/ui/workflows" && path.startsWith("/ui/workflow-runs/")) return true;
  return path === place || (place !== "/" && path.startsWith(`${place}/`));
}

/** @param {{d: string}} props */
export function Icon({ d }) {
  return html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d=${d} /></svg>`;
}

function Navigation() {
  return html`<nav class="side" aria-label="Pages">
    <a class="brand" href="/" aria-label="waterclock, overview"><svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <path d="M8 5h16M8 27h16M10 5c0 6 6 7 6 11s-6 5-6 11M22 5c0 6-6 7-6 11s6 5 6 11" /><path class="water" d="M12 26c.7-3 4-4.2 4-4.2s3.3 1.2 4 4.2z" /></svg>
      <span>waterclock</span></a>
    ${NAVIGATION.map(
      ({ question, pages }) => html`<section key=${question} class=${pages.some(({ url }) => isHere(url)) ? "here" : ""}>
        <h2>${question}</h2>
        <ul>${pages.map(
          ({ name, url, icon }) => html`<li key=${name}><a href=${url} aria-current=${isHere(url) ? "page" : undefined}><${Icon} d=${icon} />${name}</a></li>`,
        )}</ul></section>`,
    )}
  </nav>
  <nav class="foot" aria-label="Questions">${NAVIGATION.map(
    ({ question, pages }) => html`<a key=${question} href=${pages[0].url} aria-current=${pages.some(({ url }) => isHere(url)) ? "true" : undefined}>
      <${Icon} d=${pages[0].icon} />${question}</a>`,
  )}</nav>`;
}

/** How far what is shown is behind what happens. */
function Freshness() {
  const checks = health.value?.status?.checks ?? [];
  const wrong = checks.filter((check) => !check.ok);
  const behind = Number(/([\d.]+) s behind/.exec(checks.find(({ name }) => name === "read models")?.detail ?? "")?.[1] ?? 0);
  let tone = "good";
  let text = "Live";
  if (away.value) [tone, text] = ["bad", `Away for ${span((now.value - away.value.since.getTime()) / 1000, 1)}`];
  else if (health.value?.problem) [tone, text] = ["bad", "Cannot work"];
  else if (hearing.value === "away") [tone, text] = ["again", "Not live"];
  else if (hearing.value === "joining") [tone, text] = ["wait", "Joining"];
  else if (behind >= 2) [tone, text] = ["again", `${span(behind, 1)} behind`];
  else if (wrong.length) [tone, text] = ["late", wrong.length === 1 ? `${wrong[0].name}: look` : `${wrong.length} things to look at`];
  return html`<${Menu} title="How fresh this is" label=${html`<span class="fresh ${tone}"><i></i>${text}</span>`}>
    <ul class="checks">${checks.length === 0 && html`<li>Nothing was heard from the system yet.</li>`}
      ${checks.map(({ name, ok, detail }) => html`<li key=${name}><span class="mark ${ok ? "good" : "bad"}">${ok ? "✓" : "✕"}</span>
        <b>${name}</b><span class="quiet">${detail}</span></li>`)}
      ${health.value && html`<li class="quiet">As of ${clock(health.value.at)}</li>`}</ul>
  <//>`;
}

function Bar() {
  const identity = session.value;
  return html`<header class="bar">
    <a class="brand small" href="/" aria-label="waterclock, overview">waterclock</a>
    <button type="button" class="search" onClick=${() => openPalette()}><${Icon} d="M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.5 10.5l3 3" />
      <span>Search, or go to…</span><kbd>Ctrl K</kbd></button>
    <div class="bar-end">
      <${Freshness} />
      <${Menu} title="The zone that times are shown in" label=${html`<span class="zone">${zone.value}</span>`}>
        ${[...new Set([ownZone, "UTC", zone.value])].map(
          (name) => html`<button type="button" key=${name} aria-pressed=${name === zone.value ? "true" : "false"} onClick=${() => setZone(name)}>${name === ownZone ? `${name}, yours` : name}</button>`,
        )}<p class="quiet">The other clocks are on hover.</p><//>
      <${Menu} title="You, and how it looks" label=${html`<${Icon} d="M8 2.5a2.7 2.7 0 1 0 0 5.4a2.7 2.7 0 1 0 0-5.4M2.8 13.5c.6-2.7 2.7-4 5.2-4s4.6 1.3 5.2 4" /><span class="unseen">You</span>`}>
        <p><b>${identity?.actor}</b><br /><span class="quiet">namespace ${identity?.namespace}<br />${identity?.scopes.join(", ")}</span></p>
        ${/** @type {const} */ (["auto", "light", "dark"]).map(
          (name) => html`<button type="button" key=${name} aria-pressed=${theme.value === name ? "true" : "false"} onClick=${() => setTheme(name)}>${name === "auto" ? "As the system is" : name === "dark" ? "Dark" : "Light"}</button>`,
        )}
        <button type="button" onClick=${() => showKeys()}>Keyboard<kbd>?</kbd></button>
        <a href="/docs" target="_blank" rel="noreferrer">API reference</a>
        ${identity && identity.actor !== "local" && html`<button type="button" onClick=${() => signOut()}>Sign out</button>`}
      <//>
    </div>
  </header>`;
}

const patience = 1500;

function Banner() {
  const gone = away.value;
  if (gone && now.value - gone.since.getTime() > patience)
    return html`<div class="banner bad" role="alert"><b>Not reached since ${clock(gone.since)}:</b> ${gone.what}. ${" "}
      <span>What you see is the last that was heard. The console asks again by itself.</span></div>`;
  const problem = health.value?.problem;
  if (problem)
    return html`<div class="banner bad" role="alert"><b>Cannot work since ${clock(problem.since)}:</b> ${problem.what}. ${" "}
      <span>What runs goes on; what you see is the last that was heard.</span></div>`;
  const models = health.value?.status?.checks.find(({ name }) => name === "read models");
  if (models && !models.ok)
    return html`<div class="banner again" role="status"><b>Lists are behind:</b> ${models.detail}. <span>Jobs run on; what is shown may be old.</span></div>`;
  if (!isSecureContext && session.value?.actor !== "local")
    return html`<div class="banner again" role="status"><b>Only to look at:</b> over plain http from another machine a browser does not say who sends a change.
      ${" "}<span>Use https, or localhost.</span></div>`;
  return null;
}

/** With `?wall` in the address there is nothing around the page: for a screen on a wall. @param {{children?: any}} props */
export function Shell({ children }) {
  if (address.value.query.has("wall")) return html`<div class="column wall"><${Banner} /><main id="content" tabindex="-1">${children}</main></div>`;
  return html`<a class="unseen skip" href="#content">To the content</a>
    <div class="shell"><${Navigation} />
      <div class="column"><${Bar} /><${Banner} />
        <main id="content" tabindex="-1">${children}</main></div></div>`;
}

// --- the keyboard ---------------------------------------------------------------------------------------------

/** @typedef {{keys: string, text: string, act: (event: KeyboardEvent) => void}} Key */
/** @type {Set<Key[]>} */
const registered = new Set();

/** Keys of a page, as long as it is shown. @param {Key[]} keys @param {any[]} [depends] */
export function useKeys(keys, depends = []) {
  useEffect(() => {
    registered.add(keys);
    return () => void registered.delete(keys);
  }, depends);
}

export const paletteOpen = signal(false);

export function openPalette() {
  paletteOpen.value = true;
}

/** @returns {Key[]} */
export function knownKeys() {
  const goTo = NAVIGATION.flatMap(({ pages }) => pages)
    .filter(({ keys }) => keys)
    .map(({ name, url, keys }) => ({ keys: `g ${keys}`, text: `Go to ${name}`, act: () => navigate(url) }));
  return [
    { keys: "/", text: "Search, or go to a page", act: openPalette },
    { keys: "?", text: "Show these keys", act: () => showKeys() },
    ...goTo,
    ...[...registered].flat(),
  ];
}

async function showKeys() {
  const { show } = await import("./dialogs.js");
  show("Keyboard", html`<dl class="keys"><div><dt><kbd>Ctrl K</kbd></dt><dd>Search, or go to a page</dd></div>${knownKeys().map(
    ({ keys, text }) => html`<div key=${keys}><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd>`)}</dt><dd>${text}</dd></div>`,
  )}</dl>`);
}

let first = "";

/** @param {KeyboardEvent} event */
function pressed(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
  const typed = first ? `${first} ${event.key}` : event.key;
  const found = knownKeys().find(({ keys }) => keys === typed);
  first = !first && event.key === "g" ? "g" : "";
  if (first) setTimeout(() => (first = ""), 1500);
  if (found) {
    event.preventDefault();
    found.act(event);
  }
}

export function startKeyboard() {
  document.addEventListener("keydown", pressed);
}
