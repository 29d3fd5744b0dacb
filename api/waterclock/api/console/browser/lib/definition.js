// Definitions as people write them: of what an answer shows, the fields that a request says; and those as YAML, as a
// command, and compared with each other.
import { span } from "./format.js";

/** What an answer has beside the definition. */
const NOT_SAID = new Set(["job_id", "workflow_id", "status", "version", "next_run_at", "last_run", "created_at", "updated_at", "note", "warnings", "schedule_type", "task", "namespace", "idempotency_key", "cron_expression", "timeout_seconds"]);

/** What goes without saying. @type {Record<string, any>} */
const DEFAULTS = {
  timezone: "UTC",
  jitter_seconds: 0,
  dst_gap: "next_valid",
  dst_overlap: "first",
  tier: "light",
  queue: "default",
  priority: 0,
  dependency_rule: "since_last_run",
  slots: 1,
  overlap: "skip",
  catch_up: { policy: "latest", window_seconds: 3600 },
  delivery: "at_least_once",
  critical: false,
  retry: { initial_seconds: 1, factor: 2, max_seconds: 3600, jitter: true, retry_on_timeout: true, non_retryable_exit_codes: [], non_retryable_errors: [] },
};

/** @param {any} value */
function isEmpty(value) {
  return value === null || value === undefined || (typeof value === "object" && Object.keys(value).length === 0);
}

/** @param {any} one @param {any} other */
export function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** The fields of a request that describes this job, or workflow. @param {any} job @returns {Record<string, any>} */
export function declarationOf(job) {
  /** @type {Record<string, any>} */
  const found = { name: job.name, ...whatRuns(job) };
  const { cron_expression: cron } = job;
  if (cron) found.cron = Array.isArray(cron) && cron.length === 1 ? cron[0] : cron;
  if (job.schedule_type === "IMMEDIATE") found.schedule = "now";
  for (const [name, value] of Object.entries(job)) {
    if (NOT_SAID.has(name) || name in found || isEmpty(value) || same(value, DEFAULTS[name])) continue;
    found[name] = value;
  }
  if (job.max_retries !== undefined) found.max_retries = job.max_retries;
  if (job.timeout_seconds !== undefined) found.timeout_seconds = job.timeout_seconds ?? 0;
  return found;
}

/** @param {any} job */
function whatRuns(job) {
  if (job.nodes) return { nodes: job.nodes.map(nodeOf) };
  const { kind, ...task } = job.task;
  switch (kind) {
    case "http":
      return { http: task };
    case "workflow":
      return { nodes: task.nodes.map(nodeOf) };
    default:
      return task;
  }
}

/** @param {any} node */
function nodeOf({ id, task, ...rest }) {
  return { id, ...whatRuns({ task }), ...rest };
}

/** What runs, in one line. @param {any} task */
export function taskWords(task) {
  switch (task?.kind) {
    case "shell":
      return task.command;
    case "argv":
      return task.command.map((/** @type {string} */ word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word))).join(" ");
    case "http":
      return `${task.method ?? "GET"} ${task.url}`;
    case "handler":
      return `handler ${task.handler}`;
    case "artifact":
      return [task.artifact.slice(0, 19), ...(task.args ?? [])].join(" ");
    case "workflow":
      return `workflow of ${task.nodes.length} nodes`;
    default:
      return "";
  }
}

/** When it runs, in a few words. @param {any} job */
export function scheduleWords(job) {
  const cron = job.cron_expression;
  switch (job.schedule_type) {
    case "CRON":
      return Array.isArray(cron) ? cron.join(" · ") : cron;
    case "INTERVAL":
      return `every ${span(job.interval_seconds)}`;
    case "FUTURE":
      return "once";
    case "DEPENDENT":
      return job.dependencies?.length ? `after ${job.dependencies.join(", ")}` : "when asked";
    default:
      return "once, at once";
  }
}

/** @typedef {{field: string, before: any, after: any}} Difference */

/** The fields in which two declarations differ. @param {Record<string, any>} before @param {Record<string, any>} after @returns {Difference[]} */
export function differences(before, after) {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((field) => !same(before[field], after[field]))
    .map((field) => ({ field, before: before[field], after: after[field] }));
}

/** An edit that makes one declaration of another. @param {Record<string, any>} before @param {Record<string, any>} after */
export function editOf(before, after) {
  return Object.fromEntries(differences(before, after).map((one) => [one.field, one.after ?? null]));
}

/** @param {any} value @returns {string} */
export function yamlOf(value, indent = "") {
  if (Array.isArray(value)) {
    if (value.every((item) => item === null || typeof item !== "object")) return ` [${value.map(scalar).join(", ")}]\n`;
    return `\n${value.map((item) => `${indent}- ${block(item, `${indent}  `)}`).join("")}`;
  }
  if (value !== null && typeof value === "object") {
    if (!Object.keys(value).length) return " {}\n";
    return `\n${Object.entries(value).map(([key, item]) => `${indent}${scalar(key)}:${yamlOf(item, `${indent}  `)}`).join("")}`;
  }
  return ` ${scalar(value)}\n`;
}

/** After a dash: the first field stands on its line. @param {any} item @param {string} indent */
function block(item, indent) {
  return yamlOf(item, indent).replace(/^\n\s*/, "").replace(/^ /, "");
}

const PLAIN = /^[A-Za-z/][\w/.@-]*$/;
const WORDS = /^(true|false|yes|no|on|off|null|y|n)$/i;

/** JSON's texts are YAML's. @param {any} value */
function scalar(value) {
  return typeof value === "string" && PLAIN.test(value) && !WORDS.test(value) ? value : JSON.stringify(value);
}

/** A declaration that `waterclock apply` takes. @param {any} job */
export function yamlDeclaration(job) {
  const declared = job.nodes ? { workflow_id: job.workflow_id, ...declarationOf(job) } : { job_id: job.job_id, ...declarationOf(job) };
  return yamlOf(declared).trimStart();
}
