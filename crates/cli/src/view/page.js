// The page: what is highlighted, what is selected, and how the two sides follow each other.

let kept = { line: null, node: null };

function showLine(entry) {
  const own = entry?.own ?? new Set();
  const via = entry?.via ?? new Set();
  light(own, own.size ? new Set() : via);
  const count = own.size || via.size;
  const where = entry && `${files[entry.file].path || entry.fn}:${entry.line}`;
  $("lit").textContent = entry ? `${many(count, "node")} ${own.size ? "from" : "in functions called at"} ${where}` : "";
}
function showNode(node) {
  const [own, calls] = [new Set(), new Set()];
  for (const { site, stack } of node?.origins ?? []) {
    if (site) for (let line = site.line; line <= Math.min(site.endLine, site.line + 40); line++) own.add(key(site.file, line));
    for (const frame of stack) if (frame.user) calls.add(key(frame.file, frame.line));
  }
  markLines(own, calls);
}
function restore() {
  showLine(kept.line);
  showNode(kept.node);
  if (kept.line) markLines(new Set([key(kept.line.file, kept.line.line)]), new Set());
}
function keepLine(entry, quiet) {
  kept = { line: entry, node: null };
  pickNode(-1);
  inspect(null);
  underline(null);
  restore();
  const first = entry && Math.min(...(entry.own.size ? entry.own : entry.via));
  if (first >= 0 && Number.isFinite(first) && !quiet) reveal(first);
  countLit();
}
function keepNode(node, quiet) {
  kept = { line: null, node };
  pickNode(node ? node.index : -1);
  inspect(node, jump, showFrame);
  const site = node?.origins.find((origin) => origin.site)?.site;
  if (site && !quiet) revealLine(site.file, site.line);
  restore();
  underline(site);
  // The list may have become shorter.
  if (node && rowOf[node.index] >= 0) bringIntoView(rowOf[node.index]);
}
function jump(index) {
  clearSearch();
  keepNode(nodes[index]);
  reveal(index);
}
function showFrame(frame) {
  revealLine(frame.file, frame.line);
  paintLines();
  underline(frame);
}

// Search.

const search = $("search");
let at = -1;
function find() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  at = -1;
  if (!words.length) {
    matches = null;
    $("found").textContent = "";
  } else {
    matches = [];
    haystack.forEach((hay, index) => words.every((word) => hay.includes(word)) && matches.push(index));
    $("found").textContent = many(matches.length, "node");
  }
  scroll.scrollTop = 0;
  layOut();
  countLit();
  findNear();
}
function clearSearch() {
  if (!search.value) return;
  search.value = "";
  find();
}
function next(step) {
  if (!matches?.length) return;
  at = (at + step + matches.length) % matches.length;
  $("found").textContent = `${at + 1} of ${matches.length}`;
  keepNode(nodes[matches[at]]);
  bringIntoView(rowOf[matches[at]]);
}
search.addEventListener("input", find);
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
  if (event.key === "ArrowDown") scroll.focus();
});

// The rest of the page.

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("jax2onnx-theme", name);
  } catch {
    // A page opened from a file may have no storage. The theme then lasts as long as the page.
  }
  paint();
}
function otherTheme() {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}
function firstTheme() {
  try {
    const known = localStorage.getItem("jax2onnx-theme");
    if (known) return known;
  } catch {
    // As above.
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
document.documentElement.dataset.theme = firstTheme();
$("theme").addEventListener("click", otherTheme);
$("fold").addEventListener("click", () => setAll(false));
$("unfold").addEventListener("click", () => setAll(true));

document.addEventListener("keydown", (event) => {
  const typing = event.target === search;
  if (event.key === "Escape") {
    if (search.value) clearSearch();
    else if (kept.node || kept.line) keepNode(null);
    else document.activeElement?.blur();
  } else if (typing || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  } else if (event.key === "/") {
    search.focus();
    search.select();
    event.preventDefault();
  } else if (event.key === "t") {
    otherTheme();
  }
});

const divider = $("divider");
function setDivider(share) {
  document.documentElement.style.setProperty("--left", `${Math.max(15, Math.min(80, share))}%`);
  divider.setAttribute("aria-valuenow", Math.round(share));
}
divider.addEventListener("pointerdown", (event) => {
  divider.setPointerCapture(event.pointerId);
  const move = (moved) => setDivider((100 * moved.clientX) / innerWidth);
  divider.addEventListener("pointermove", move);
  divider.addEventListener("pointerup", () => divider.removeEventListener("pointermove", move), { once: true });
});
divider.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -2, ArrowRight: 2 }[event.key];
  if (step) setDivider((100 * divider.offsetLeft) / innerWidth + step);
});

document.title = `${raw.title} · jax2onnx`;
$("title").textContent = raw.title;
$("facts").textContent = raw.facts.join(" · ");
$("facts").title = raw.facts.join("\n");
if (timed) {
  const { runs, unattributed } = raw.profile;
  const mean = `${duration(total)} per run, average of ${runs}`;
  const rest = unattributed ? ` · ${duration(unattributed)} not attributed` : "";
  $("legend").append(`${mean}${rest}`, element("i"));
}
setUpSource((entry) => (entry ? (showLine(entry), paint()) : restore()), keepLine);
setUpGraph((node) => (node ? showNode(node) : restore()), keepNode);
inspect(null);
