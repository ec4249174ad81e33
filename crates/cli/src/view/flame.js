// Time by stack: the width of a frame is its inclusive time.

const flame = $("flame-frames");
const FRAME = 22;
const NARROWEST = 0.2; // percent of the width
let flameRoots = [];
let flameRoot = null; // what fills the width
let flameAt = null; // what has the focus

function flameTree(stacks) {
  const made = (label, parent) => ({ label, parent, median: 0, mean: 0, inner: new Map() });
  const top = made("all", null);
  for (const [stack, median, ns] of stacks) {
    let at = top;
    const add = () => {
      at.median += median;
      at.mean += ns / raw.profile.runs;
    };
    add();
    for (const frame of stack) {
      const label = text(frame);
      if (!at.inner.has(label)) at.inner.set(label, made(label, at));
      at = at.inner.get(label);
      add();
    }
  }
  return top;
}
/** The file and line in `function (file:line)`. */
function placeOf(label) {
  const found = /^(.*) \((.*):(\d+)\)$/s.exec(label);
  const file = found && files.find((file) => (file.path || file.label) === found[2]);
  return file && { fn: found[1], file: file.index, line: Number(found[3]) };
}
function paintFlame() {
  const made = [];
  const put = (frame, left, width, depth, outer) => {
    const place = placeOf(frame.label);
    const box = button("f", width < 1.2 ? "" : frame.parent ? (place?.fn ?? frame.label) : "all");
    box.style.left = `${left}%`;
    box.style.width = `${width}%`;
    box.style.top = `${depth * FRAME}px`;
    box.title = `${frame.label}\n${flameText(frame)}`;
    box.setAttribute("aria-label", `${frame.label}, ${flameText(frame)}`);
    box.tabIndex = frame === (flameAt ?? flameRoot) ? 0 : -1;
    box.classList.toggle("outer", outer);
    box.style.setProperty("--tone", [...frame.label].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) % 97, 7) % 5);
    box.frame = frame;
    made.push(box);
  };
  const outer = [];
  for (let at = flameRoot.parent; at; at = at.parent) outer.unshift(at);
  outer.forEach((frame, depth) => put(frame, 0, 100, depth, true));
  let deepest = 0;
  const visit = (frame, left, width, depth) => {
    deepest = Math.max(deepest, depth);
    put(frame, left, width, depth, false);
    let at = left;
    for (const inner of [...frame.inner.values()].sort((a, b) => b.median - a.median)) {
      const share = (width * inner.median) / (frame.median || 1);
      if (share >= NARROWEST) visit(inner, at, share, depth + 1);
      at += share;
    }
  };
  visit(flameRoot, 0, 100, outer.length);
  flame.style.height = `${(deepest + 1) * FRAME}px`;
  const focused = flame.contains(document.activeElement);
  flame.replaceChildren(...made);
  if (focused) flame.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
}
const flameText = (frame) => `median ${duration(frame.median)}, mean ${duration(frame.mean)}, ${percent(frame.median, total)}`;
function tellFlame(frame) {
  const note = $("flame-note");
  const place = placeOf(frame.label);
  note.replaceChildren(element("span", "", `${frame.label} · ${flameText(frame)}`));
  if (place && lines.has(key(place.file, place.line))) {
    note.append(button("link", "Show the line", () => keepLine(lines.get(key(place.file, place.line)))));
  }
}
function zoomFlame(frame) {
  flameRoot = frame;
  flameAt = frame;
  paintFlame();
  tellFlame(frame);
}
function setUpFlame() {
  if (!timed) return;
  flameRoots = raw.profile.flames.map(flameTree);
  zoomFlame(flameRoots[0]);
  $("flame-by").addEventListener("change", (event) => zoomFlame(flameRoots[Number(event.target.value)]));
  flame.addEventListener("click", (event) => event.target.frame && zoomFlame(event.target.frame));
  flame.addEventListener("mouseover", (event) => event.target.frame && tellFlame(event.target.frame));
  flame.addEventListener("focusin", (event) => {
    if (!event.target.frame) return;
    flameAt = event.target.frame;
    for (const box of flame.children) box.tabIndex = box === event.target ? 0 : -1;
    tellFlame(flameAt);
  });
  flame.addEventListener("keydown", (event) => {
    const boxes = [...flame.children];
    const box = document.activeElement;
    if (!box?.frame) return;
    const beside = (step) => {
      const row = boxes.filter((other) => other.style.top === box.style.top);
      return row[row.indexOf(box) + step];
    };
    const to = {
      ArrowDown: () => boxes.find((other) => other.frame.parent === box.frame),
      ArrowUp: () => boxes.find((other) => other.frame === box.frame.parent),
      ArrowRight: () => beside(1),
      ArrowLeft: () => beside(-1),
    }[event.key];
    if (event.key === "Escape" && flameRoot.parent) {
      let top = flameRoot;
      while (top.parent) top = top.parent;
      zoomFlame(top);
      event.stopPropagation();
    } else if (to) {
      to()?.focus();
      event.preventDefault();
    }
  });
}
