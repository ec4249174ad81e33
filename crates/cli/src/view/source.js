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

function lineRow(file, number, pieces) {
  const entry = lines.get(key(file, number));
  const row = element("div", "l");
  row.dataset.line = number;
  row.append(element("span", "n", number));
  const mark = element("span", "m");
  if (entry) {
    row.classList.add("has");
    row.id = `line-${number}`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", "false");
    if (!entry.own.size) row.classList.add("via");
    const count = entry.own.size || entry.via.size;
    row.title = entry.own.size ? many(count, "node") : `${many(count, "node")} in functions this line calls`;
    const found = measure?.line(entry);
    mark.textContent = found ? found.text : !measure && entry.own.size ? count : "";
    if (found) {
      mark.style.setProperty("--share", found.share.toFixed(3));
      mark.classList.toggle("hot", found.share > 0);
      row.title += ` · ${found.title}`;
    }
  }
  row.append(mark);
  const body = element("span", "t");
  for (const [kind, piece] of pieces) body.append(kind ? element("span", kind, piece) : piece);
  row.append(body);
  return row;
}

/** Shows a file; `again` even if it is the one on display. */
function showFile(index, again) {
  if (!files[index]) return;
  showLeft("code");
  markTab($("files"), [...$("files").children].find((tab) => tab.dataset.file === String(index)));
  if (index === shown && !again) return;
  const [top, line] = [code.scrollTop, cursorLine];
  shown = index;
  const file = files[index];
  code.replaceChildren();
  code.setAttribute("aria-label", `${file.label}; arrow keys move between lines that have nodes`);
  rowsOfLines = new Map();
  painted = new Set();
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
  const first = known.find((entry) => entry.own.size) ?? known[0];
  cursorLine = again ? line : (first?.line ?? 1);
  code.scrollTop = again ? top : 0;
  if (!again && first) bringLineIntoView(first.line);
  paintLines();
}

/** What the left side shows: the source, or the changes. */
function showLeft(which) {
  code.hidden = which !== "code";
  $("changes").hidden = which !== "changes";
}

/** Marks the lines in `own` and `calls`, which are sets of keys. */
let marked = { own: new Set(), calls: new Set() };
let painted = new Set(); // the lines that have a mark
function markLines(own, calls) {
  marked = { own, calls };
  paintLines();
}
function paintLines() {
  const now = new Set([cursorLine]);
  for (const at of [...marked.own, ...marked.calls]) if (Math.floor(at / 1e7) === shown) now.add(at % 1e7);
  for (const number of new Set([...now, ...painted])) {
    const row = rowsOfLines.get(number);
    if (!row) continue;
    const at = key(shown, number);
    row.classList.toggle("lit", marked.own.has(at));
    row.classList.toggle("call", marked.calls.has(at) && !marked.own.has(at));
    row.classList.toggle("cursor", number === cursorLine);
    if (row.id) row.setAttribute("aria-selected", marked.own.has(at));
  }
  painted = now;
  const here = rowsOfLines.get(cursorLine)?.id;
  if (here) code.setAttribute("aria-activedescendant", here);
  else code.removeAttribute("aria-activedescendant");
}

function revealLine(file, line) {
  showFile(file);
  if (!rowsOfLines.has(line)) return;
  cursorLine = line;
  bringLineIntoView(line);
}
function bringLineIntoView(line) {
  const row = rowsOfLines.get(line);
  const [top, height] = [row.offsetTop - code.offsetTop, code.clientHeight];
  if (top < code.scrollTop + 40 || top > code.scrollTop + height - 60) code.scrollTop = Math.max(0, top - height / 3);
  code.scrollLeft = 0;
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
  const tabs = $("files");
  if (raw.against) addTab("changes", "Changes");
  for (const file of files.filter((file) => seen.has(file.index))) addTab(file.index, file.label);
  setUpTabs(tabs, (tab) => (tab.dataset.file === "changes" ? showChanges() : showFile(Number(tab.dataset.file))));
  if (!tabs.children.length) {
    $("main").classList.add("alone");
    return;
  }
  const lineAt = (event) => {
    const row = event.target.closest?.(".l.has");
    return row && lines.get(key(shown, Number(row.dataset.line)));
  };
  code.addEventListener("mouseover", (event) => isMoved(event) && onHover(lineAt(event) ?? null));
  code.addEventListener("mouseleave", () => onHover(null));
  code.addEventListener("click", (event) => {
    const entry = lineAt(event);
    if (entry) cursorLine = entry.line;
    onPick(entry ?? null);
  });
  code.addEventListener("keydown", (event) => {
    const known = [...rowsOfLines.keys()].filter((line) => lines.has(key(shown, line)));
    const next = {
      ArrowDown: () => known.find((line) => line > cursorLine),
      ArrowUp: () => known.findLast((line) => line < cursorLine),
      Home: () => known[0],
      End: () => known.at(-1),
    }[event.key];
    if (next) {
      const line = next();
      if (line !== undefined) {
        revealLine(shown, line);
        onPick(lines.get(key(shown, line)), true);
      }
      event.preventDefault();
    } else if (event.key === "Enter") {
      onPick(lines.get(key(shown, cursorLine)) ?? null);
    }
  });
  const most = [...seen].sort((a, b) => weight(b) - weight(a));
  if (seen.size) showFile(most[0]);
  if (raw.against) showChanges();
}
function addTab(id, label) {
  const tab = button("", label);
  tab.setAttribute("role", "tab");
  tab.setAttribute("aria-controls", id === "changes" ? "changes" : "code");
  tab.dataset.file = id;
  tab.tabIndex = -1;
  $("files").append(tab);
}
function weight(file) {
  let sum = (files[file].source === null ? 0 : 1e15) + (ownFiles.has(file) ? 1e16 : 0);
  for (const entry of lines.values()) if (entry.file === file) sum += entry.own.size + entry.median;
  return sum;
}
