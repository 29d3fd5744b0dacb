// A stretch of a log: its end first, more of it as somebody scrolls. A log of 100 MB is never here as a whole.
import { call } from "./api.js";
import { withQuery } from "./router.js";

const TAIL = 64 * 1024;
const STEP = 512 * 1024;
const MOST = 24 << 20;
const NEWLINE = 10;

export class LogBuffer {
  /** @param {string} url of the log, with its attempt; without a stretch @param {() => void} changed called when lines came */
  constructor(url, changed) {
    this.url = url;
    this.changed = changed;
    /** @type {string[]} */
    this.lines = [];
    this.start = 0;
    this.end = 0;
    this.total = 0;
    /** Of the first line that is here; null while what is before it is unread. @type {number | null} */
    this.firstLine = 1;
    this.error = /** @type {any} */ (null);
    this.open = false; // whether the last line may go on
    this.loading = /** @type {Promise<void> | null} */ (null);
    this.stopped = new AbortController();
    this.decoder = new TextDecoder();
  }

  stop() {
    this.stopped.abort();
  }

  get hasEarlier() {
    return this.start > 0;
  }

  get hasLater() {
    return this.end < this.total;
  }

  /** The end of it. */
  loadTail() {
    return this.alone(async () => {
      const part = await this.read({ tail: TAIL });
      this.take({ ...part, from: part.total - part.bytes.length });
    });
  }

  /** From its beginning until a line is there, or as much as is kept. @param {number} line */
  loadUntil(line) {
    return this.alone(async () => {
      this.lines = [];
      this.start = this.end = 0;
      this.firstLine = 1;
      this.open = false;
      this.total = (await this.read({ tail: 1 })).total;
      while (this.lines.length <= line + 40 && this.hasLater && this.end < MOST) {
        const part = await this.read({}, `bytes=${this.end}-${this.end + STEP - 1}`);
        if (!part.bytes.length) break;
        this.append(part.bytes);
      }
    });
  }

  loadEarlier() {
    if (!this.hasEarlier) return Promise.resolve();
    return this.alone(async () => {
      const from = Math.max(0, this.start - STEP);
      const part = await this.read({}, `bytes=${from}-${this.start - 1}`);
      const { text, skipped } = whole(part.bytes, from === 0);
      const lines = text.split("\n");
      if (lines[lines.length - 1] === "") lines.pop();
      this.lines = lines.concat(this.lines);
      this.start = from + skipped;
      this.firstLine = this.start === 0 ? 1 : null;
      return lines.length;
    });
  }

  loadLater() {
    if (!this.hasLater) return Promise.resolve();
    return this.alone(async () => {
      const part = await this.read({}, `bytes=${this.end}-${this.end + STEP - 1}`);
      this.append(part.bytes);
      this.total = Math.max(part.total, this.end);
    });
  }

  /** What was put out since. */
  loadNew() {
    return this.alone(async () => {
      const part = await this.read({ offset: this.end });
      if (part.bytes.length) this.append(part.bytes);
      this.total = Math.max(this.total, this.end);
    });
  }

  /** One read at a time; a second one waits for the first and is left out.
   * @template T @param {() => Promise<T>} read */
  async alone(read) {
    if (this.loading) return this.loading;
    this.loading = (async () => {
      try {
        await read();
        this.error = null;
      } catch (error) {
        if (!this.stopped.signal.aborted) this.error = error;
      } finally {
        this.loading = null;
        if (!this.stopped.signal.aborted) this.changed();
      }
    })();
    return this.loading;
  }

  /** @param {Record<string, number>} query @param {string} [range] */
  async read(query, range) {
    /** @type {Record<string, string>} */
    const headers = { Accept: "text/plain" };
    if (range) headers.Range = range;
    const response = await call(added(this.url, query), { headers, signal: this.stopped.signal });
    const bytes = new Uint8Array(await response.arrayBuffer());
    const total = Number(response.headers.get("Waterclock-Log-Size") ?? bytes.length);
    return { bytes, total };
  }

  /** @param {{bytes: Uint8Array, from: number, total: number}} part */
  take(part) {
    const { text, skipped } = whole(part.bytes, part.from === 0);
    this.lines = text.split("\n");
    this.open = this.lines[this.lines.length - 1] !== "";
    if (!this.open) this.lines.pop();
    this.start = part.from + skipped;
    this.end = part.from + part.bytes.length;
    this.total = part.total;
    this.firstLine = this.start === 0 ? 1 : null;
  }

  /** @param {Uint8Array} bytes that follow what is here */
  append(bytes) {
    const lines = this.decoder.decode(bytes, { stream: true }).split("\n");
    if (this.open && this.lines.length) lines[0] = this.lines.pop() + lines[0];
    this.open = lines[lines.length - 1] !== "";
    if (!this.open) lines.pop();
    for (const line of lines) this.lines.push(line);
    this.end += bytes.length;
    this.total = Math.max(this.total, this.end);
    if (this.end - this.start > MOST) this.forget();
  }

  /** The older half leaves. */
  forget() {
    const dropped = this.lines.splice(0, this.lines.length >> 1);
    const size = new TextEncoder().encode(dropped.join("\n")).length + 1;
    this.start = Math.min(this.end, this.start + size);
    if (this.firstLine !== null) this.firstLine += dropped.length;
  }
}

/** @param {string} url @param {Record<string, number>} query */
function added(url, query) {
  const [place, before] = url.split("?");
  return withQuery(place, { ...Object.fromEntries(new URLSearchParams(before)), ...query });
}

/** From the first whole line on. @param {Uint8Array} bytes @param {boolean} fromStart */
function whole(bytes, fromStart) {
  const at = fromStart ? -1 : bytes.indexOf(NEWLINE);
  const skipped = fromStart || at < 0 || at === bytes.length - 1 ? 0 : at + 1;
  return { text: new TextDecoder().decode(bytes.subarray(skipped)), skipped };
}
