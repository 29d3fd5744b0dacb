// Output of programs as text with colours. Whatever else they send to a terminal is left out.

/** @typedef {{text: string, style: string}} Piece */

const ESCAPES = /\x1b\[([0-9;:]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** The pieces of a line, each with the classes it is drawn with. @param {string} line @returns {Piece[]} */
export function pieces(line) {
  if (!/[\x00-\x08\x0b-\x1f\x7f]/.test(line)) return [{ text: line, style: "" }];
  /** @type {Piece[]} */
  const found = [];
  let state = fresh();
  let from = 0;
  const text = overwritten(line);
  for (const match of text.matchAll(ESCAPES)) {
    add(found, text.slice(from, match.index), state);
    from = match.index + match[0].length;
    if (match[2] === "m") state = apply(state, match[1]);
  }
  add(found, text.slice(from), state);
  return found;
}

/** A progress bar writes over itself: the last of it counts. @param {string} line */
function overwritten(line) {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  const at = text.lastIndexOf("\r");
  return at < 0 ? text : text.slice(at + 1);
}

function fresh() {
  return { colour: "", behind: "", bold: false, dim: false, italic: false, under: false };
}

/** @param {Piece[]} found @param {string} text @param {ReturnType<typeof fresh>} state */
function add(found, text, state) {
  if (!text) return;
  const { colour, behind, bold, dim, italic, under } = state;
  const style = [colour && `a-${colour}`, behind && `a-on-${behind}`, bold && "a-bold", dim && "a-dim", italic && "a-italic", under && "a-under"];
  found.push({ text, style: style.filter(Boolean).join(" ") });
}

/** @param {ReturnType<typeof fresh>} before @param {string} codes */
function apply(before, codes) {
  let state = { ...before };
  const numbers = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < numbers.length; i++) {
    const code = numbers[i];
    if (code === 0) state = fresh();
    else if (code === 1) state.bold = true;
    else if (code === 2) state.dim = true;
    else if (code === 3) state.italic = true;
    else if (code === 4) state.under = true;
    else if (code === 22) state.bold = state.dim = false;
    else if (code === 23) state.italic = false;
    else if (code === 24) state.under = false;
    else if (code >= 30 && code <= 37) state.colour = COLOURS[code - 30];
    else if (code >= 90 && code <= 97) state.colour = COLOURS[code - 90];
    else if (code === 39) state.colour = "";
    else if (code >= 40 && code <= 47) state.behind = COLOURS[code - 40];
    else if (code >= 100 && code <= 107) state.behind = COLOURS[code - 100];
    else if (code === 49) state.behind = "";
    else if (code === 38 || code === 48) {
      const named = numbers[i + 1] === 5 && numbers[i + 2] < 16 ? COLOURS[numbers[i + 2] % 8] : "";
      if (code === 38) state.colour = named;
      else state.behind = named;
      i += numbers[i + 1] === 5 ? 2 : 4;
    }
  }
  return state;
}
