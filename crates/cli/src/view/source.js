// The left side: files, and their lines with the nodes they became.

const code = $("code");
let shown = -1; // the file on display
let rowsOfLines = new Map(); // line → its element
let cursorLine = 0;

const TOKENS = new RegExp(
  [
    /(#[^\n]*)/,
    /((?:\b[rbfuRBFU]{1,2})?(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))/,
    /\b((?:0[xob])?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?j?)\b/,
    /\b(False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b/,
  ].map((part) => part.source).join("|"),
  "g",
);
const CLASSES = ["c", "s", "d", "k"];

/** The lines of a Python text as lists of [class, text]. */
function highlight(source) {
  const out = [[]];
  const put = (kind, piece) => {
    piece.split("\n").forEach((part, index) => {
      if (index) out.push([]);
      if (part) out[out.length - 1].push([kind, part]);
    });
  };
  let at = 0;
  for (const match of source.matchAll(TOKENS)) {
    put("", source.slice(at, match.index));
    put(CLASSES[match.slice(1).findIndex((group) => group !== undefined)], match[0]);
    at = match.index + match[0].length;
  }
  put("", source.slice(at));
  return out;
}

function element(tag, className, content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (content !== undefined) made.textContent = content;
  return made;
}

function lineRow(file, number, pieces) {
  const entry = lines.get(key(file, number));
  const row = element("div", "l");
  row.dataset.line = number;
  row.append(element("span", "n", number));
  const mark = element("span", "m");
  if (entry) {
    row.classList.add("has");
    if (!entry.own.size) row.classList.add("via");
    const count = entry.own.size || entry.via.size;
    mark.textContent = timed ? (entry.ns ? duration(entry.ns) : "") : entry.own.size ? count : "";
    row.title = entry.own.size ? many(count, "node") : `${many(count, "node")} in functions this line calls`;
    if (entry.ns) {
      const share = entry.ns / hottestLine;
      mark.style.background = `rgba(var(--heat), ${(0.08 + 0.62 * share).toFixed(3)})`;
      row.title += ` · ${duration(entry.ns)}, ${((100 * entry.ns) / total).toFixed(1)} %`;
    }
  }
  row.append(mark);
  const body = element("span", "t");
  for (const [kind, piece] of pieces) body.append(kind ? element("span", kind, piece) : piece);
  row.append(body);
  return row;
}

function showFile(index) {
  if (index === shown || !files[index]) return;
  shown = index;
  const file = files[index];
  for (const tab of $("files").children) tab.setAttribute("aria-selected", tab.dataset.file === String(index));
  code.replaceChildren();
  rowsOfLines = new Map();
  if (file.note) code.append(element("p", "note", file.note));
  const known = [...lines.values()].filter((entry) => entry.file === index).sort((a, b) => a.line - b.line);
  const put = (number, pieces) => {
    const row = lineRow(index, number, pieces);
    rowsOfLines.set(number, row);
    code.append(row);
  };
  if (file.source !== null) {
    highlight(file.source).forEach((pieces, at) => put(at + 1, pieces));
  } else {
    for (const entry of known) put(entry.line, [["c", entry.fn ? `in ${entry.fn}` : "…"]]);
  }
  code.scrollTop = 0;
  const first = known.find((entry) => entry.own.size) ?? known[0];
  cursorLine = first?.line ?? 1;
  paintLines();
}

/** Marks the lines in `own` and `calls`, both maps from a file to lines. */
let marked = { own: new Set(), calls: new Set() };
function markLines(own, calls) {
  marked = { own, calls };
  paintLines();
}
function paintLines() {
  for (const [number, row] of rowsOfLines) {
    const at = key(shown, number);
    row.classList.toggle("lit", marked.own.has(at));
    row.classList.toggle("call", marked.calls.has(at) && !marked.own.has(at));
    row.classList.toggle("cursor", document.activeElement === code && number === cursorLine);
  }
}

function revealLine(file, line) {
  showFile(file);
  const row = rowsOfLines.get(line);
  if (!row) return;
  cursorLine = line;
  const [top, height] = [row.offsetTop - code.offsetTop, code.clientHeight];
  if (top < code.scrollTop + 40 || top > code.scrollTop + height - 60) code.scrollTop = top - height / 3;
}

/** Underlines the expression of a frame; columns count UTF-8 bytes. */
function underline(frame) {
  if (!globalThis.CSS?.highlights) return;
  CSS.highlights.delete("expression");
  if (!frame || frame.file !== shown || !frame.endColumn) return;
  const [from, to] = [place(frame.line, frame.column), place(frame.endLine, frame.endColumn)];
  if (!from || !to) return;
  const range = new Range();
  range.setStart(...from);
  range.setEnd(...to);
  CSS.highlights.set("expression", new Highlight(range));
}
function place(line, bytes) {
  const body = rowsOfLines.get(line)?.querySelector(".t");
  if (!body || files[shown].source === null) return null;
  const before = new TextEncoder().encode(body.textContent).slice(0, bytes);
  let left = new TextDecoder().decode(before).length;
  const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
  let node = walker.nextNode();
  while (node && left > node.length) {
    left -= node.length;
    node = walker.nextNode();
  }
  return node && [node, left];
}

function setUpSource(onHover, onPick) {
  const seen = new Set([...lines.values()].map((entry) => entry.file));
  for (const file of files.filter((file) => seen.has(file.index))) {
    const tab = element("button", "", file.path || "unknown file");
    tab.type = "button";
    tab.setAttribute("role", "tab");
    tab.dataset.file = file.index;
    tab.addEventListener("click", () => showFile(file.index));
    $("files").append(tab);
  }
  if (!seen.size) {
    $("main").classList.add("alone");
    return;
  }
  const lineAt = (event) => {
    const row = event.target.closest?.(".l.has");
    return row && lines.get(key(shown, Number(row.dataset.line)));
  };
  code.addEventListener("mouseover", (event) => onHover(lineAt(event) ?? null));
  code.addEventListener("mouseleave", () => onHover(null));
  code.addEventListener("click", (event) => {
    const entry = lineAt(event);
    if (entry) cursorLine = entry.line;
    onPick(entry ?? null);
  });
  code.addEventListener("focus", paintLines);
  code.addEventListener("blur", paintLines);
  code.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const known = [...rowsOfLines.keys()].filter((line) => lines.has(key(shown, line)));
      const next = step > 0 ? known.find((line) => line > cursorLine) : known.findLast((line) => line < cursorLine);
      if (next !== undefined) {
        revealLine(shown, next);
        onPick(lines.get(key(shown, next)), true);
      }
      event.preventDefault();
    } else if (event.key === "Enter") {
      onPick(lines.get(key(shown, cursorLine)) ?? null);
    }
  });
  const most = [...seen].sort((a, b) => weight(b) - weight(a));
  showFile(most[0]);
}
function weight(file) {
  let sum = files[file].source === null ? 0 : 1e9;
  for (const entry of lines.values()) if (entry.file === file) sum += entry.own.size + entry.ns;
  return sum;
}
