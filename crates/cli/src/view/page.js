// The page: highlighting, selection, and the synchronisation of the two sides.

let kept = { line: null, node: null };

function showLine(entry) {
  const own = entry?.own ?? new Set();
  const via = entry?.via ?? new Set();
  light(own, own.size ? new Set() : via);
  const count = own.size || via.size;
  const where = entry && `${files[entry.file].label}:${entry.line}`;
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
  inspect(kept, jump, showFrame);
  underline(null);
  if (entry && !quiet) revealLine(entry.file, entry.line);
  restore();
  const first = entry && Math.min(...(entry.own.size ? entry.own : entry.via));
  if (first >= 0 && Number.isFinite(first) && !quiet) reveal(first);
  countLit();
  follow(kept, quiet);
}
function keepNode(node, quiet) {
  kept = { line: null, node };
  pickNode(node ? node.index : -1);
  inspect(kept, jump, showFrame);
  const site = node?.origins.find((origin) => origin.site)?.site;
  if (site && !quiet) revealLine(site.file, site.line);
  restore();
  underline(site);
  // The list may have become shorter.
  if (node && rowOf[node.index] >= 0) bringIntoView(rowOf[node.index]);
  follow(kept, quiet);
}
function jump(index) {
  clearSearch();
  showView("list");
  keepNode(nodes[index]);
  reveal(index);
}
function showFrame(frame) {
  revealLine(frame.file, frame.line);
  paintLines();
  underline(frame);
}
/** Lights the nodes of a change, and shows the first of them. */
function showChange(rows) {
  clearSearch();
  showView("list");
  keepNode(null);
  light(new Set(rows), new Set());
  reveal(rows[0]);
  countLit();
  tell(many(rows.length, "node"));
}

// Search.

const search = $("search");
let at = -1;
const words = () => search.value.toLowerCase().split(/\s+/).filter(Boolean);
function find() {
  const wanted = words();
  at = -1;
  if (!wanted.length) matches = null;
  else {
    matches = [];
    searchable().forEach((hay, index) => wanted.every((word) => hay.includes(word)) && matches.push(index));
  }
  scroll.scrollTop = 0;
  layOut();
  countLit();
  findNear();
  listParameters(wanted);
  tellFound();
}
function tellFound() {
  const count = view === "parameters" ? many(parametersShown.length, "parameter") : many(matches?.length ?? 0, "node");
  $("found").textContent = matches ? count : "";
}
function clearSearch() {
  if (!search.value) return;
  search.value = "";
  find();
}
function next(step) {
  if (!matches?.length) return;
  showView("list");
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

// The views of the right side.

let view = "list";
const offeredViews = { list: true, parameters: parameters.length > 0, flame: timed };
function showView(name) {
  if (view === name || !offeredViews[name]) return;
  view = name;
  for (const id of Object.keys(offeredViews)) $(id).hidden = id !== name;
  $("folding").hidden = name !== "list";
  markTab($("views"), $("views").querySelector(`[data-view="${name}"]`));
  if (name === "list") paint();
  if (name === "parameters") paintParameters();
  tellFound();
}
function setUpViews() {
  for (const tab of $("views").children) tab.hidden = !offeredViews[tab.dataset.view];
  setUpTabs($("views"), (tab) => showView(tab.dataset.view));
}

// The legend of the colours.

function setMeasure(name) {
  measure = MEASURES[name];
  document.documentElement.dataset.measure = name;
  for (const made of $("legend").querySelectorAll("button")) made.setAttribute("aria-pressed", made.dataset.measure === name);
  if (shown >= 0) {
    const left = $("changes").hidden;
    showFile(shown, true);
    if (!left) showChanges();
  }
  rebuild();
}
function otherMeasure() {
  if (offered.length < 2) return;
  setMeasure(offered[(offered.findIndex((name) => MEASURES[name] === measure) + 1) % offered.length]);
}
function setUpLegend() {
  if (!measure) return;
  const legend = $("legend");
  document.documentElement.dataset.measure = offered[0];
  if (offered.length > 1) {
    for (const name of offered) {
      const made = button("", MEASURES[name].label, () => setMeasure(name));
      made.dataset.measure = name;
      made.setAttribute("aria-pressed", name === offered[0]);
      legend.append(made);
    }
  }
  if (timed) legend.append(element("span", "", `${duration(total)} per run, median of ${raw.profile.runs}`));
  else legend.append(element("span", "", "error: 100 dB to 0 dB"));
  legend.append(element("i"));
}

// The rest of the page.

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("jax2onnx-theme", name);
  } catch {
    // A page opened from a file may have no storage. Its theme is then not remembered.
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
  const typing = event.target === search || event.target.tagName === "SELECT";
  if (help.open) return;
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
  } else if (event.key === "m") {
    otherMeasure();
  } else if (event.key === "?") {
    showHelp();
  } else if (event.key === "e") {
    inspector.querySelector("a.editor")?.click();
  } else if (event.key === "1") {
    (code.hidden ? $("changes") : code).focus();
  } else if (event.key === "2") {
    ({ list: scroll, parameters: table, flame: flame.querySelector('[tabindex="0"]') })[view].focus();
  } else if (event.key === "3") {
    (inspector.querySelector("button, a, summary") ?? inspector).focus();
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
  if (!step) return;
  setDivider((100 * divider.offsetLeft) / innerWidth + step);
  event.preventDefault();
});

const title = raw.against ? raw.against.names.join(" → ") : raw.title;
document.title = `${title} · jax2onnx`;
$("title").textContent = title;
$("facts").textContent = raw.facts.join(" · ");
$("facts").title = raw.facts.join("\n");
setUpLegend();
setUpViews();
setUpChanges(showChange);
setUpSource((entry) => (entry ? (showLine(entry), paint()) : restore()), keepLine);
setUpGraph((node) => (node ? showNode(node) : restore()), keepNode);
setUpOverview();
setUpParameters();
setUpFlame();
setUpHelp();
inspect(kept, jump, showFrame);
if (location.hash) goToAddress();
