// One stream of events for all tabs. The tab that holds the lock reads it and tells the others; when it is closed the
// next one takes over. A browser keeps six connections to an origin, and every open tab would else hold one for good.
import { effect, signal } from "../vendor/preact.js";
import { away, call, get, Problem, session } from "./api.js";

/** @typedef {{run_id: string | null, job_id: string, job_name?: string, status: string | null, type: string, at: string,
 *   attempt_number?: number | null, reason?: string | null, executor_id?: string | null, exit_code?: number | null,
 *   error_message?: string | null, progress?: number | null}} Change */
/** @typedef {{ok: boolean, checks: {name: string, ok: boolean, detail: string}[], load: any}} Status */

/** Whether what happens is heard: `live`, `away`, or `joining` until it is known. */
export const hearing = signal(/** @type {"joining" | "live" | "away"} */ ("joining"));

/** What the system said about itself, and when; `problem` since it says that it cannot work.
 * @typedef {{status: Status | null, at: number, problem: {since: number, what: string} | null}} Health */
export const health = signal(/** @type {Health | null} */ (null));

const CONFLATE = "200ms";
const SILENCE = 60_000;
const STATUS_EVERY = 10_000;
const HANDED_ON_EVERY = 200;

/** @type {Set<(changes: Change[]) => void>} */
const listeners = new Set();
/** @type {Set<() => void>} */
const resyncs = new Set();
const channel = new BroadcastChannel("waterclock");
let leads = false;

/** Called with what happened since the last call, at most five times a second.
 * @param {(changes: Change[]) => void} listener @returns {() => void} to stop it */
export function onChanges(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Called when something may have been missed. @param {() => void} listener @returns {() => void} */
export function onResync(listener) {
  resyncs.add(listener);
  return () => resyncs.delete(listener);
}

/** @param {{kind: string, value?: any}} message */
function receive(message) {
  switch (message.kind) {
    case "changes":
      for (const listener of listeners) listener(message.value);
      break;
    case "resync":
      for (const again of resyncs) again();
      break;
    case "hearing":
      if (hearing.value === "away" && message.value === "live") for (const again of resyncs) again();
      hearing.value = message.value;
      break;
    case "health":
      if (health.value?.problem && !message.value.problem) for (const again of resyncs) again();
      health.value = message.value;
      break;
    case "hello":
      if (leads) {
        channel.postMessage({ kind: "hearing", value: hearing.value });
        if (health.value) channel.postMessage({ kind: "health", value: health.value });
      }
  }
}

/** @param {{kind: string, value?: any}} message */
function tell(message) {
  receive(message);
  channel.postMessage(message);
}

export function startLive() {
  channel.onmessage = (event) => receive(event.data);
  channel.postMessage({ kind: "hello" });
  if (navigator.locks) navigator.locks.request("waterclock-events", lead);
  else lead(); // only over https and on localhost; else every tab has its own
  let wasAway = false;
  effect(() => {
    if (wasAway && !away.value) queueMicrotask(() => resyncs.forEach((again) => again()));
    wasAway = away.value !== null;
  });
}

/** Never ends: the lock is held as long as the tab lives. */
async function lead() {
  leads = true;
  askForStatus();
  let position = "";
  let failures = 0;
  let conflate = true;
  for (;;) {
    await signedIn();
    try {
      for await (const part of readEvents(position, conflate)) {
        failures = 0;
        position = part.id || position;
        if (hearing.value !== "live") tell({ kind: "hearing", value: "live" });
        if (part.changes.length) tell({ kind: "changes", value: part.changes });
        if (part.leftOut) tell({ kind: "resync" });
      }
    } catch (error) {
      if (error instanceof Problem && error.status === 422 && (conflate || position)) {
        if (position) position = ""; // of another log
        else conflate = false;
        continue;
      }
    }
    failures += 1;
    if (failures > 1) tell({ kind: "hearing", value: "away" });
    await pause(Math.min(500 * 2 ** failures, 10_000));
  }
}

/** @returns {Promise<void>} */
function signedIn() {
  return new Promise((resolve) => {
    const stop = effect(() => {
      if (session.value) queueMicrotask(() => (stop(), resolve()));
    });
  });
}

async function askForStatus() {
  for (;;) {
    await signedIn();
    try {
      tell({ kind: "health", value: { status: await get("/v1/status"), at: Date.now(), problem: null } });
    } catch (error) {
      const before = health.value;
      if (error instanceof Problem && error.status === 503) {
        const problem = { since: before?.problem?.since ?? Date.now(), what: error.message };
        tell({ kind: "health", value: { status: before?.status ?? null, at: before?.at ?? 0, problem } });
      }
    }
    await pause(away.value || health.value?.problem ? 2000 : STATUS_EVERY);
  }
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Changes as they come, gathered for a moment. @param {string} position @param {boolean} conflate */
async function* readEvents(position, conflate) {
  const silence = new AbortController();
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    if (conflate) timer = setTimeout(() => silence.abort(), SILENCE);
  };
  heard();
  try {
    const response = await call(conflate ? `/v1/events?conflate=${CONFLATE}` : "/v1/events", {
      headers: { Accept: "text/event-stream", ...(position ? { "Last-Event-ID": position } : {}) },
      signal: silence.signal,
    });
    if (!response.body) return;
    yield { id: "", changes: [], leftOut: 0 };
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    let last = 0;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      text += value;
      const end = text.lastIndexOf("\n\n");
      if (end < 0) continue;
      const part = parse(text.slice(0, end));
      text = text.slice(end + 2);
      const wait = last + HANDED_ON_EVERY - Date.now();
      if (wait > 0) await pause(wait); // what comes meanwhile waits in the connection, and comes together
      last = Date.now();
      yield part;
    }
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

/** Server-sent events; of several about one run the last counts. `leftOut`: how many more there were than are told. @param {string} text */
export function parse(text) {
  let id = "";
  let leftOut = 0;
  /** @type {Map<string, Change>} */
  const newest = new Map();
  for (const block of text.split("\n\n")) {
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("data:")) data += line.slice(5).trimStart();
      else if (line.startsWith("id:")) id = line.slice(3).trim();
    }
    if (!data) continue;
    const found = JSON.parse(data);
    leftOut += found.left_out ?? 0;
    for (const change of found.changes ?? [found])
      if (change.run_id || change.job_id) newest.set(change.run_id || `job ${change.job_id}`, change);
  }
  return { id, changes: [...newest.values()], leftOut };
}
