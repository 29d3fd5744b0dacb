// A list of any length of which only what is seen is in the page: at most sixty rows.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const MOST = 60;
const BEYOND = 6;

/** @typedef {{scrollTo: (index: number) => void, element: HTMLElement | null}} ListHandle */

/** The row that the keys have reached, and how they get to another: it is scrolled into sight, and its link has the focus.
 * @param {{current: ListHandle | null}} handle
 * @param {{rows: any[]}} list
 * @param {(row: any) => string} selector where a row is in the page */
export function useRowFocus(handle, list, selector) {
  const at = useRef(-1);
  const focus = (/** @type {number} */ index) => {
    if (!list.rows.length) return;
    at.current = Math.max(0, Math.min(list.rows.length - 1, index));
    handle.current?.scrollTo(at.current);
    requestAnimationFrame(() => {
      const link = document.querySelector(`${selector(list.rows[at.current])} a`);
      if (link instanceof HTMLElement) link.focus({ preventScroll: true });
    });
  };
  return { at, next: () => focus(at.current + 1), previous: () => focus(at.current - 1) };
}

/** @param {{
 *   count: number, height: number, row: (index: number, place: {top: string, height: string}) => any, label: string,
 *   heads?: any, onEnd?: () => void, onStart?: () => void, onScroll?: (top: number) => void, top?: number,
 *   handle?: {current: ListHandle | null}, role?: string, atEnd?: boolean, class?: string}} props
 * `row` gives the row at an index with its place; `heads` stands above. `onEnd` is called near the end, `onStart` at the
 * beginning. With `atEnd` the end is kept in sight while the list grows, until somebody scrolls away from it. */
export function VirtualList(props) {
  const { count, height, row, label, heads, role = "table" } = props;
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const [view, setView] = useState({ top: props.top ?? 0, size: 600 });
  const stuck = useRef(Boolean(props.atEnd));

  const look = () => {
    const element = scroller.current;
    if (!element) return;
    const top = element.scrollTop;
    stuck.current = top + element.clientHeight >= element.scrollHeight - 2;
    setView((before) => (before.top === top && before.size === element.clientHeight ? before : { top, size: element.clientHeight }));
    props.onScroll?.(top);
    if (top + element.clientHeight > count * height - 10 * height) props.onEnd?.();
    if (top < 4 * height) props.onStart?.();
  };

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    if (props.top) element.scrollTop = props.top;
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element && props.atEnd && stuck.current) element.scrollTop = element.scrollHeight;
    look();
  }, [count, height]);
  useEffect(() => {
    if (!props.handle) return;
    props.handle.current = {
      element: scroller.current,
      scrollTo: (index) => {
        const element = scroller.current;
        if (!element) return;
        const top = index * height;
        if (top < element.scrollTop) element.scrollTop = top;
        else if (top + height > element.scrollTop + element.clientHeight) element.scrollTop = top + height - element.clientHeight;
        look();
      },
    };
  });

  const first = Math.max(0, Math.floor(view.top / height) - BEYOND);
  const last = Math.min(count, first + Math.min(MOST, Math.ceil(view.size / height) + 2 * BEYOND));
  const rows = [];
  for (let i = first; i < last; i++) rows.push(row(i, { top: `${i * height}px`, height: `${height}px` }));
  const table = role === "table";
  return html`<div class="list ${props.class ?? ""}" role=${table ? "table" : undefined} aria-label=${table ? label : undefined} aria-rowcount=${table ? count + 1 : undefined}>
    ${heads}
    <div class="list-scroll" ref=${scroller} onScroll=${look} tabindex="0" role=${table ? "rowgroup" : role} aria-label=${label}>
      <div class="list-space" role="presentation" style=${{ height: `${count * height}px` }}>${rows}</div>
    </div>
  </div>`;
}
