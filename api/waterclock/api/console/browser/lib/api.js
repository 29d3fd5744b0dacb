// Calls to the service, and refusals as words that say what to do.
import { signal } from "../vendor/preact.js";

/** Who is signed in: undefined until it is known, null if nobody is. */
export const session = signal(/** @type {Identity | null | undefined} */ (undefined));

/** Since when nobody answers; null while somebody does, be it with a refusal. */
export const away = signal(/** @type {{since: Date, what: string} | null} */ (null));

/** @typedef {{actor: string, namespace: string, scopes: string[], expires_at: string | null}} Identity */

export class Problem extends Error {
  /** @param {number} status @param {any} document @param {number} [retryAfter] */
  constructor(status, document, retryAfter) {
    super(document?.detail || document?.title || `the service answered ${status}`);
    this.status = status;
    /** @type {{field: string, reason: string}[]} */
    this.errors = document?.errors ?? [];
    this.document = document;
    this.retryAfter = retryAfter ?? document?.retry_after ?? null;
  }

  /** Whether the same question may be answered later. */
  get passes() {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }

  /** What to do about it; nothing where the words of the service say it all. */
  get advice() {
    switch (this.status) {
      case 0:
        return "The console asks again by itself. Is `waterclock up` running?";
      case 401:
        return "Sign in again; `waterclock console` makes a link.";
      case 403:
        return "Ask for a token with that scope: `waterclock token create --scope …`";
      case 404:
        return "It may have been removed by its retention, or belongs to another namespace.";
      case 409:
      case 412:
        return "It was changed since you opened it. Load it again and look at the difference.";
      case 429:
      case 503:
        return this.retryAfter ? `Try again in ${Math.ceil(this.retryAfter)} s.` : "Try again in a moment.";
      default:
        return this.status >= 500 ? "This is a defect; the api's log has its trace." : "";
    }
  }
}

/** @typedef {{method?: string, body?: any, headers?: Record<string, string>, signal?: AbortSignal}} Options */

/** @param {string} url @param {Options} [options] @returns {Promise<Response>} */
export async function call(url, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", ...options.headers };
  /** @type {RequestInit} */
  const init = { method: options.method ?? "GET", headers, signal: options.signal, credentials: "same-origin" };
  if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(options.body);
  } else if (init.method !== "GET") headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    away.value ??= { since: new Date(), what: "the api does not answer" };
    throw new Problem(0, { detail: "The api does not answer." });
  }
  away.value = null;
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status === 401) session.value = null;
  throw problem;
}

/** @param {Response} response */
async function problemOf(response) {
  const document = await response.json().catch(() => null);
  const wait = Number(response.headers.get("Retry-After"));
  return new Problem(response.status, document, wait || undefined);
}

/** @param {string} url @param {Options} [options] @returns {Promise<any>} */
export async function get(url, options) {
  return (await call(url, options)).json();
}

/** With the version, to say later what was edited. @param {string} url */
export async function getVersioned(url) {
  const response = await call(url);
  return { value: await response.json(), etag: response.headers.get("ETag") ?? "" };
}

/** @param {"POST" | "PUT" | "PATCH" | "DELETE"} method @param {string} url @param {any} [body]
 * @param {Record<string, string>} [headers] @returns {Promise<any>} */
export async function send(method, url, body, headers) {
  const response = await call(url, { method, body, headers });
  return response.status === 204 ? null : response.json();
}

export async function findIdentity() {
  session.value = await get("/v1/session");
}

/** @param {{token: string} | {code: string}} by */
export async function signIn(by) {
  await send("POST", "/v1/session", by);
  await findIdentity();
}

export async function signOut() {
  await send("DELETE", "/v1/session");
  session.value = null;
}

/** @param {string} scope */
export function may(scope) {
  const scopes = session.value?.scopes ?? [];
  return scopes.includes(scope) || scopes.includes("admin");
}
