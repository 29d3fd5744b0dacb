// Small drawings of numbers: columns over time, and how full something is. Without a library.
import { html } from "../vendor/preact.js";
import { clock, number } from "../lib/format.js";

const HIGH = 100;

/** Columns over time, each of parts on top of each other.
 * @param {{buckets: {at: string, parts: {tone: string, word: string, count: number}[]}[], label: string}} props */
export function Columns({ buckets, label }) {
  const most = Math.max(1, ...buckets.map(({ parts }) => parts.reduce((sum, { count }) => sum + count, 0)));
  const width = 1000 / Math.max(1, buckets.length);
  return html`<figure class="columns"><svg viewBox="0 0 1000 ${HIGH}" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${buckets.map(({ at, parts }, i) => {
      let top = HIGH;
      return html`<g key=${at}><title>${clock(at)}: ${parts.map(({ word, count }) => `${number(count)} ${word}`).join(", ")}</title>
        <rect class="behind" x=${i * width} y="0" width=${width} height=${HIGH} />
        ${parts.map(({ tone, count }) => {
          if (!count) return null;
          const high = Math.max(2, (count / most) * (HIGH - 2));
          top -= high;
          return html`<rect class=${tone} x=${i * width + width * 0.12} y=${top} width=${width * 0.76} height=${high} />`;
        })}</g>`;
    })}</svg>
    <figcaption><span>${buckets.length ? clock(buckets[0].at) : ""}</span><span>most in a minute: ${number(most)}</span><span>now</span></figcaption>
  </figure>`;
}

/** How much of something is in use; with `goal`, how far it is. @param {{used: number, of: number, label: string, goal?: boolean}} props */
export function Meter({ used, of, label, goal }) {
  const share = of ? Math.min(1, used / of) : 0;
  return html`<span class="meter ${goal ? "goal" : share > 0.95 ? "full" : ""}" role="img" aria-label=${label} title=${label}>
    <i style=${{ width: `${share * 100}%` }}></i></span>`;
}
