// Addresses: every page and every filter has one, and going back shows what was there.
import { signal } from "../vendor/preact.js";

/** @typedef {{path: string, query: URLSearchParams, hash: string}} Address */

/** @returns {Address} */
function read() {
  return { path: location.pathname, query: new URLSearchParams(location.search), hash: location.hash.slice(1) };
}

/** Where we are. Pages read it, and are drawn again when it changes. */
export const address = signal(read());

/** @type {Map<string, number>} */
const scrolled = new Map();
let entry = String(history.state?.entry ?? Date.now());
history.scrollRestoration = "manual";
history.replaceState({ entry }, "");

const main = () => document.querySelector("main");

function remember() {
  scrolled.set(entry, main()?.scrollTop ?? 0);
}

/** Pages that show what they fetch call it once there is something to scroll. */
export function restoreScroll() {
  const place = scrolled.get(entry);
  if (place) requestAnimationFrame(() => main()?.scrollTo(0, place));
}

/** @param {string} url @param {{replace?: boolean}} [options] */
export function navigate(url, options = {}) {
  remember();
  if (options.replace) history.replaceState({ entry }, "", url);
  else {
    entry = String(Date.now() + Math.random());
    history.pushState({ entry }, "", url);
    main()?.scrollTo(0, 0);
  }
  address.value = read();
}

/** Change filters of the page that is shown; what is empty leaves the address.
 * @param {Record<string, string | number | null | undefined>} changes @param {{replace?: boolean}} [options] */
export function setQuery(changes, options) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, String(value));
  }
  navigate(withQuery(location.pathname, query), options);
}

/** @param {string} path @param {Record<string, any> | URLSearchParams} query */
export function withQuery(path, query) {
  const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const kept = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = kept
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value).replaceAll("%2C", ",")}`)
    .join("&");
  return text ? `${path}?${text}` : path;
}

/** A path of its parts, each encoded: ids hold `@` and `~`.
 * @param {string} base @param {...string} parts */
export function path(base, ...parts) {
  return [base, ...parts.map(encodeURIComponent)].join("/");
}

/** What a pattern like `/ui/runs/:run` finds in a path; null if it is not for it.
 * @param {string} pattern @param {string} actual @returns {Record<string, string> | null} */
export function match(pattern, actual) {
  const wanted = pattern.split("/");
  const given = actual.replace(/(.)\/$/, "$1").split("/");
  if (wanted.length !== given.length) return null;
  /** @type {Record<string, string>} */
  const found = {};
  for (const [i, part] of wanted.entries()) {
    if (part.startsWith(":")) {
      try {
        found[part.slice(1)] = decodeURIComponent(given[i]);
      } catch {
        return null;
      }
      if (!given[i]) return null;
    } else if (part !== given[i]) return null;
  }
  return found;
}

/** Links stay ordinary links; those within the console change the page without loading it anew. */
export function followLinks() {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = /** @type {Element} */ (event.target).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin) return;
    if (link.pathname !== "/" && !link.pathname.startsWith("/ui")) return;
    event.preventDefault();
    navigate(link.pathname + link.search + link.hash);
  });
  addEventListener("popstate", (event) => {
    remember();
    entry = String(event.state?.entry ?? Date.now());
    address.value = read();
    restoreScroll();
  });
  addEventListener("hashchange", () => {
    address.value = read();
  });
}
