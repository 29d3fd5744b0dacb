// The runs that match a filter, newest first, as far as somebody has scrolled, and kept true by what happens.
import { get } from "./api.js";
import { between, span } from "./format.js";
import { onChanges, onResync } from "./live.js";
import { withQuery } from "./router.js";
import { throttled } from "./store.js";

const PAGE = 100;
const LOOK_EVERY = 1000;
const AGAIN = 3000;
const PATIENCE = 60_000;
export const ENDED = ["SUCCESS", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "MISSED"];
export const ACTIVE = ["WAITING", "QUEUED", "RUNNING", "RETRYING"];

/** @type {Map<string, RunList>} */
const kept = new Map();
const KEPT = 6;

/** The list of a filter; the same one as before when somebody comes back. @param {Record<string, string>} filter */
export function runList(filter) {
  const url = withQuery("/v1/runs", filter);
  let list = kept.get(url);
  kept.delete(url);
  list ??= new RunList(url);
  kept.set(url, list);
  if (kept.size > KEPT) kept.delete(/** @type {string} */ (kept.keys().next().value));
  return list;
}

export class RunList {
  /** @param {string} url */
  constructor(url) {
    this.url = url;
    /** @type {any[]} */
    this.rows = [];
    /** @type {Map<string, any>} */
    this.byId = new Map();
    this.cursor = /** @type {string | null} */ (null);
    this.whole = false;
    this.loading = false;
    this.error = /** @type {any} */ (null);
    this.loadedOnce = false;
    /** How far it was scrolled. */
    this.top = 0;
    /** Runs that are not shown yet, so that nothing moves under the pointer. @type {any[]} */
    this.fresh = [];
    this.freshCursor = /** @type {string | null} */ (null);
    /** There are more new ones than were asked for. */
    this.gap = false;
    /** Runs that were heard of and are not in the lists yet, which may be behind; or do not match. @type {Map<string, number>} */
    this.awaited = new Map();
    /** Somebody points at it. */
    this.pointed = false;
    this.watched = false;
    this.timer = 0;
    this.changed = () => {};
    this.look = throttled(() => this.lookForNew(), LOOK_EVERY);
  }

  /** @param {() => void} changed called when it must be drawn anew @returns {() => void} */
  watch(changed) {
    this.changed = changed;
    this.watched = true;
    const stops = [onChanges((changes) => this.take(changes)), onResync(() => this.look())];
    if (this.loadedOnce) this.look();
    else this.more();
    return () => {
      this.watched = this.pointed = false;
      stops.forEach((stop) => stop());
    };
  }

  /** Whether rows must stay where they are. */
  get held() {
    return this.pointed || this.top > 0;
  }

  async more() {
    if (this.loading || this.whole) return;
    this.loading = true;
    this.changed();
    try {
      let found = 0;
      do {
        // A page may be empty and not the last: so much was looked through.
        const page = await get(this.pageUrl(this.cursor));
        this.add(page.items, false);
        found += page.items.length;
        this.cursor = page.next_cursor;
        this.whole = page.next_cursor === null;
      } while (found === 0 && !this.whole);
      this.error = null;
      this.loadedOnce = true;
    } catch (error) {
      this.error = error;
      if (!this.loadedOnce) setTimeout(() => this.watched && this.more(), AGAIN);
    } finally {
      this.loading = false;
      this.changed();
    }
  }

  /** @param {string | null} cursor */
  pageUrl(cursor) {
    const more = `limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`;
    return `${this.url}${this.url.includes("?") ? "&" : "?"}${more}`;
  }

  /** @param {any[]} items @param {boolean} before */
  add(items, before) {
    const unknown = [];
    for (const item of items) {
      const known = this.byId.get(item.run_id);
      if (known) Object.assign(known, item);
      else {
        this.byId.set(item.run_id, item);
        unknown.push(item);
      }
    }
    this.rows = before ? unknown.concat(this.rows) : this.rows.concat(unknown);
  }

  /** @param {import("./live.js").Change[]} changes */
  take(changes) {
    let known = false;
    for (const change of changes) {
      if (!change.run_id) continue;
      const row = this.byId.get(change.run_id);
      if (row) {
        merge(row, change);
        known = true;
        if (!row.start_time && ENDED.includes(row.status)) this.awaited.set(change.run_id, Date.now()); // it was too quick to be told when
      } else this.awaited.set(change.run_id, Date.now());
    }
    if (known) this.changed();
    if (this.awaited.size) this.look();
  }

  /** Asks for the first page again: it knows what the filter means. */
  async lookForNew() {
    if (document.hidden) return;
    let page;
    try {
      page = await get(this.pageUrl(null));
    } catch (error) {
      this.error = error;
      this.changed();
      setTimeout(() => this.watched && this.look(), AGAIN);
      return;
    }
    this.error = null;
    const fresh = [];
    for (const item of page.items) {
      const known = this.byId.get(item.run_id);
      if (known) Object.assign(known, item);
      else fresh.push(item);
    }
    this.fresh = fresh;
    this.lookAgain(page.items);
    this.gap = fresh.length === page.items.length && page.next_cursor !== null && this.rows.length > 0;
    this.freshCursor = page.next_cursor;
    if (!this.held) this.showNew();
    this.changed();
  }

  /** What was heard of and has not come is asked for again, less and less often. @param {any[]} items */
  lookAgain(items) {
    for (const { run_id } of items) this.awaited.delete(run_id);
    const now = Date.now();
    let youngest = Infinity;
    for (const [run_id, since] of this.awaited) {
      if (now - since > PATIENCE) this.awaited.delete(run_id);
      else youngest = Math.min(youngest, now - since);
    }
    clearTimeout(this.timer);
    if (this.awaited.size) this.timer = setTimeout(() => this.watched && this.look(), Math.max(LOOK_EVERY, youngest));
  }

  /** Puts what is new above the rest. If there is a gap in between, the list begins anew. */
  showNew() {
    const { fresh } = this;
    this.fresh = [];
    if (this.gap) {
      this.gap = false;
      this.rows = [];
      this.byId = new Map();
      this.cursor = this.freshCursor;
      this.whole = this.freshCursor === null;
    }
    this.add(fresh, true);
  }

  get freshCount() {
    return `${this.fresh.length}${this.gap ? "+" : ""}`;
  }
}

/** What a change says about a run. @param {any} run @param {import("./live.js").Change} change */
export function merge(run, change) {
  const { status, at } = change;
  if (status) run.status = status;
  for (const name of /** @type {const} */ (["attempt_number", "executor_id", "exit_code", "error_message", "reason"]))
    if (change[name] !== null && change[name] !== undefined) run[name] = change[name];
  if (status === "RUNNING" && change.type === "started") run.start_time = at;
  if (status === "RUNNING" || status === "QUEUED") run.end_time = null;
  if (status && ENDED.includes(status)) run.end_time = at;
  run.modified_time = at;
}

/** @param {any} run */
function begun(run) {
  const late = between(run.due_time ?? run.scheduled_time, run.start_time);
  return run.start_time && late >= 0 ? `began ${span(late)} after it was due` : "";
}

/** Why a run is as it is, in a few words. @param {any} run */
export function inWords(run) {
  if (run.error_message) return String(run.error_message).trim().split("\n").pop();
  if (run.reason) return run.reason;
  switch (run.status) {
    case "RUNNING":
      return begun(run);
    case "QUEUED":
      return "waits for an executor";
    case "WAITING":
      return "waits for other runs";
    case "RETRYING":
      return "waits for its next attempt";
    case "SUCCESS":
      return run.attempt_number > 1 ? `on attempt ${run.attempt_number}` : begun(run);
    default:
      return run.exit_code ? `exit code ${run.exit_code}` : "";
  }
}
