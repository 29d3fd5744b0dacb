// What pages show: fetched, kept while it cannot be fetched anew, and shown at once when somebody comes back.
import { useEffect, useRef, useState, signal } from "../vendor/preact.js";
import { get, Problem } from "./api.js";
import { onResync } from "./live.js";

/** @template T @typedef {{data: T | undefined, error: Problem | null, loading: boolean, at: number,
 *   reload: () => Promise<void>, set: (data: T) => void}} Resource */

const KEPT = 60;
const AGAIN = 3000;
/** @type {Map<string, {data: any, at: number}>} */
const kept = new Map();

/** @param {string} url @param {any} data */
function keep(url, data) {
  kept.delete(url);
  kept.set(url, { data, at: Date.now() });
  if (kept.size > KEPT) kept.delete(/** @type {string} */ (kept.keys().next().value));
}

/** What is at an address of the api. With `every` it is asked for again so often while the page is visible. The last
 * answer stays when a later question fails; `error` says so.
 * @param {string | null} url null: nothing is asked for yet
 * @param {{every?: number, keep?: boolean}} [options] `keep`: the answer of the address before stays until the next is here
 * @returns {Resource<any>} */
export function useResource(url, { every, keep: keepsBefore } = {}) {
  const [, draw] = useState(0);
  const state = useRef(/** @type {any} */ ({ url: null, error: null, loading: false, asked: 0 }));
  const current = state.current;
  if (current.url !== url) {
    const before = url === null ? undefined : kept.get(url);
    const data = before?.data ?? (keepsBefore ? current.data : undefined);
    Object.assign(current, { url, data, at: before?.at ?? 0, error: null, loading: url !== null });
  }

  const reload = async () => {
    if (url === null) return;
    const asked = ++current.asked;
    try {
      const data = await get(url);
      keep(url, data);
      if (asked !== current.asked || current.url !== url) return;
      Object.assign(current, { data, error: null, loading: false, at: Date.now() });
    } catch (error) {
      if (asked !== current.asked || current.url !== url) return;
      Object.assign(current, { error, loading: false });
      if (error instanceof Problem && error.passes) setTimeout(() => asked === current.asked && reload(), AGAIN);
    }
    draw((n) => n + 1);
  };

  useEffect(() => {
    reload();
    const stop = onResync(reload);
    const timer = every ? setInterval(() => document.hidden || reload(), every) : 0;
    const seen = () => document.hidden || !every || reload();
    document.addEventListener("visibilitychange", seen);
    return () => {
      stop();
      clearInterval(timer);
      document.removeEventListener("visibilitychange", seen);
      current.asked += 1;
    };
  }, [url, every]);

  return {
    data: current.data,
    error: current.error,
    loading: current.loading,
    at: current.at,
    reload,
    set: (data) => {
      if (url !== null) keep(url, data);
      Object.assign(current, { data, at: Date.now() });
      draw((n) => n + 1);
    },
  };
}

/** Calls a function at most so often, and once more at the end. @param {() => void} action @param {number} ms */
export function throttled(action, ms) {
  let last = 0;
  let timer = 0;
  return () => {
    const wait = last + ms - Date.now();
    clearTimeout(timer);
    timer = setTimeout(
      () => {
        last = Date.now();
        action();
      },
      Math.max(0, wait),
    );
  };
}

/** Whether the window is as narrow as a phone. */
export const narrow = signal(matchMedia("(max-width: 720px)").matches);
matchMedia("(max-width: 720px)").addEventListener("change", (event) => (narrow.value = event.matches));

/** @typedef {"auto" | "light" | "dark"} Theme */
export const theme = signal(/** @type {Theme} */ (document.documentElement.dataset.theme ?? "auto"));

/** @param {Theme} chosen */
export function setTheme(chosen) {
  theme.value = chosen;
  if (chosen === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("waterclock.theme");
  } else {
    document.documentElement.dataset.theme = chosen;
    localStorage.setItem("waterclock.theme", chosen);
  }
}
