// The parameters: their sizes and the distribution of their values.

const PARAMETER = 30;
const table = $("parameters-scroll");
const parameters = raw.parameters.map(([name, type, elements, bytes, about], index) => ({
  index, name: text(name), type: text(type), elements, bytes,
  about: about && { count: about[0], mean: about[1], spread: about[2], low: about[3], high: about[4], strange: about[5], bars: about[6] },
}));
let parametersShown = parameters;
let sorted = { by: "", down: false };

const COLUMNS = [
  ["name", "name", "pn"], ["type", "type", "pt"], ["bytes", "size", "pb"],
  ["mean", "mean", "pm"], ["spread", "spread", "ps"], ["", "distribution", "ph"],
];
const SORT = {
  name: (p) => p.name,
  type: (p) => p.type,
  bytes: (p) => p.bytes ?? -1,
  mean: (p) => p.about?.mean ?? -Infinity,
  spread: (p) => p.about?.spread ?? -Infinity,
};
function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; bytes >= 1000 && at < units.length - 1; at++) bytes /= 1000;
  return `${at && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`;
}

/** Lists the parameters whose name or type has all `words`. */
function listParameters(words) {
  const hay = (p) => `${p.name}\n${p.type}`.toLowerCase();
  parametersShown = words.length ? parameters.filter((p) => words.every((word) => hay(p).includes(word))) : [...parameters];
  const value = SORT[sorted.by];
  if (value) {
    const sign = sorted.down ? -1 : 1;
    parametersShown.sort((a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : a.index - b.index));
  }
  $("parameters-rows").style.height = `${parametersShown.length * PARAMETER}px`;
  $("parameters-table").setAttribute("aria-rowcount", parametersShown.length + 1);
  for (const head of $("parameters-head").children) {
    const by = head.firstChild?.dataset?.by;
    if (by) head.setAttribute("aria-sort", by !== sorted.by ? "none" : sorted.down ? "descending" : "ascending");
  }
  const bytes = parametersShown.reduce((sum, p) => sum + (p.bytes ?? 0), 0);
  const sampled = parameters.some((p) => p.about && p.about.count < p.elements);
  const unread = parameters.filter((p) => !p.about && p.elements).length;
  const notes = [`${many(parametersShown.length, "tensor")}, ${size(bytes)}`];
  if (sampled) notes.push("large tensors are sampled");
  if (unread) notes.push(`${unread} without statistics`);
  $("parameters-note").textContent = notes.join(" · ");
  paintParameters();
}
function histogram({ bars, low, high }) {
  const picture = element("canvas", "histogram");
  const scale = devicePixelRatio || 1;
  [picture.width, picture.height] = [bars.length * 4 * scale, 20 * scale];
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `from ${number(low)} to ${number(high)}`);
  const context = picture.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = color("--bars");
  const most = Math.max(...bars, 1);
  bars.forEach((bar, at) => {
    // A bar that is not empty must be visible.
    const height = bar ? Math.max(1, (20 * bar) / most) : 0;
    context.fillRect(at * 4, 20 - height, 3, height);
  });
  return picture;
}
function parameterRow(parameter, at) {
  const { name, type, bytes, elements, about } = parameter;
  const row = element("div", "p");
  row.setAttribute("role", "row");
  row.setAttribute("aria-rowindex", at + 2);
  row.style.top = `${at * PARAMETER}px`;
  const cell = (content, className) => {
    const made = element("span", className);
    made.setAttribute("role", "cell");
    made.append(content);
    row.append(made);
    return made;
  };
  const reader = readerOf(name);
  const named = reader >= 0 ? button("", name, () => jump(reader)) : element("span", "", name);
  named.title = name;
  cell(named, "pn");
  cell(type, "pt");
  cell(bytes === null ? "?" : size(bytes), "pb");
  cell(about ? number(about.mean) : "", "pm");
  cell(about ? number(about.spread) : "", "ps");
  const shape = cell(about ? histogram(about) : "", "ph");
  if (about) {
    const sampled = about.count < elements ? `${about.count} of ${elements} elements` : many(elements, "element");
    const strange = about.strange ? `, ${about.strange} not finite` : "";
    shape.title = `from ${number(about.low)} to ${number(about.high)}; ${sampled}${strange}`;
    if (about.strange) shape.append(element("b", "strange", "!"));
  }
  return row;
}
let readersByValue = null;
function readerOf(name) {
  if (!readersByValue) {
    readersByValue = new Map();
    for (const node of nodes) for (const { node: maker, value } of node.inputs) if (maker < 0 && !readersByValue.has(value)) readersByValue.set(value, node.index);
  }
  return readersByValue.get(name) ?? -1;
}
function paintParameters() {
  const list = $("parameters-rows");
  const first = Math.max(0, Math.floor(table.scrollTop / PARAMETER) - 4);
  const last = Math.min(parametersShown.length, Math.ceil((table.scrollTop + table.clientHeight) / PARAMETER) + 4);
  const focused = list.contains(document.activeElement) ? document.activeElement.textContent : null;
  list.replaceChildren(...parametersShown.slice(first, last).map((parameter, at) => parameterRow(parameter, first + at)));
  if (focused !== null) [...list.querySelectorAll("button")].find((made) => made.textContent === focused)?.focus({ preventScroll: true });
}
function setUpParameters() {
  for (const [by, label, className] of COLUMNS) {
    const head = element("span", className);
    head.setAttribute("role", "columnheader");
    const made = by ? button("", label, () => {
      sorted = { by, down: sorted.by === by ? !sorted.down : by !== "name" && by !== "type" };
      listParameters(words());
    }) : element("span", "", label);
    if (by) made.dataset.by = by;
    head.append(made);
    $("parameters-head").append(head);
  }
  let waiting = false;
  table.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      paintParameters();
    });
  }, { passive: true });
  new ResizeObserver(paintParameters).observe(table);
  listParameters([]);
}
