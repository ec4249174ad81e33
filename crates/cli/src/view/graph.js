// The right side: modules and nodes as rows. Only visible rows exist as elements, so that large
// models stay fast.

const scroll = $("scroll");
const list = $("rows");
const ROW = 24;

let rows = []; // what is unfolded: { item, depth }
let rowOf = new Int32Array(nodes.length); // the row that represents a node: its own, or a folded module's
let matches = null; // nodes that the search found
let cursor = 0;
const versions = { rows: 0, lit: 0 }; // incremented on every change
const state = { strong: new Set(), weak: new Set(), pick: -1, near: new Map() };

const isModule = (item) => item.items !== undefined;
const bodyOf = (item) => (isModule(item) ? item : item.body);

/** Builds all rows anew, for another measure. */
function rebuild() {
  for (const made of pool.values()) made.remove();
  pool.clear();
  paint();
}

/** Lists the rows. During a search, everything on the way to a match is unfolded. */
function layOut() {
  versions.rows++;
  rows = [];
  rowOf.fill(-1);
  const wanted = matches && waysTo(matches);
  const fold = (container, row) => {
    for (const item of container.items) {
      if (isModule(item)) fold(item, row);
      else {
        rowOf[item.index] = row;
        if (item.body) fold(item.body, row);
      }
    }
  };
  const visit = (container, depth) => {
    for (const item of container.items) {
      if (wanted && !wanted.has(item)) continue;
      const row = rows.length;
      rows.push({ item, depth });
      if (!isModule(item)) rowOf[item.index] = row;
      const body = bodyOf(item);
      if (!body) continue;
      if (body.open || wanted) visit(body, depth + 1);
      else fold(body, row);
    }
  };
  visit(root, 0);
  cursor = Math.min(cursor, Math.max(rows.length - 1, 0));
  list.style.height = `${rows.length * ROW + 12}px`;
  paint();
}
function waysTo(found) {
  const ways = new Set();
  for (const index of found) {
    let node = nodes[index];
    ways.add(node);
    for (let at = node.parent; at; at = at.parent) {
      ways.add(at);
      if (at.node) ways.add(at.node);
    }
  }
  return ways;
}

/** Unfolds the first levels, but no more rows than a person can take in at once. */
function unfoldSome() {
  let level = [root];
  let count = root.items.length;
  while (level.length) {
    const next = level.flatMap((container) => container.items.filter(isModule));
    const more = next.reduce((sum, container) => sum + container.items.length, 0);
    if (count + more > 90) break;
    for (const container of next) container.open = true;
    count += more;
    level = next;
  }
  // Then open the most interesting module, if it fits: the slowest, or else the largest.
  let at = root;
  while (count < 45) {
    const folded = at.items.filter((item) => isModule(item) && !(at === root && item.open));
    const best = folded.reduce((most, item) => (rank(item) > rank(most) ? item : most), folded[0]);
    if (!best || count + best.items.length > 90) break;
    if (!best.open) count += best.items.length;
    best.open = true;
    at = best;
  }
}
function rank(module) {
  if (module.changes || timed) return module.changes || module.median;
  return raw.errors ? (moduleErrors.get(scopeOf(module)) ?? 0) : module.count;
}
function setAll(open) {
  const visit = (container) => {
    container.open = open;
    for (const item of container.items) if (bodyOf(item)) visit(bodyOf(item));
  };
  visit(root);
  root.open = true;
  layOut();
  countLit();
  findNear();
}
function reveal(index) {
  let changed = false;
  for (let at = nodes[index].parent; at; at = at.parent) {
    changed ||= !at.open;
    at.open = true;
  }
  if (changed) {
    layOut();
    countLit();
    findNear();
  }
  if (rowOf[index] >= 0) bringIntoView(rowOf[index]);
}
function bringIntoView(row) {
  cursor = row;
  const [top, height] = [row * ROW, scroll.clientHeight];
  if (top < scroll.scrollTop + ROW || top > scroll.scrollTop + height - 3 * ROW) scroll.scrollTop = top - height / 3;
  paint();
}

// Painting.

const pool = new Map(); // row number → element
let scheduled = false;
function paint() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    paintRows();
    paintArcs();
    paintOverview();
  });
}
function paintRows() {
  const first = Math.max(0, Math.floor(scroll.scrollTop / ROW) - 6);
  const last = Math.min(rows.length, Math.ceil((scroll.scrollTop + scroll.clientHeight) / ROW) + 6);
  const fresh = new Map();
  for (let at = first; at < last; at++) {
    const { item, depth } = rows[at];
    let made = pool.get(at);
    if (made?.item !== item) {
      made?.remove();
      made = item && build(item, depth);
      made.item = item;
      list.append(made);
    }
    made.style.top = `${at * ROW + 4}px`;
    made.style.paddingLeft = `${8 + depth * 16}px`;
    made.dataset.row = at;
    paintState(made, item, at);
    fresh.set(at, made);
  }
  for (const [at, made] of pool) if (fresh.get(at) !== made) made.remove();
  pool.clear();
  for (const [at, made] of fresh) pool.set(at, made);
}
const MARKS = { added: "+", removed: "−", changed: "~" };
const counted = (module) => many(module.count, "node") + (module.changes ? `, ${many(module.changes, "change")}` : "");
function build(item, depth) {
  const made = element("div", isModule(item) ? "r module" : "r node");
  made.setAttribute("role", "treeitem");
  made.setAttribute("aria-level", depth + 1);
  const body = bodyOf(item);
  const changed = isModule(item) ? null : item.change;
  if (raw.against) made.append(element("span", "mark", changed ? MARKS[changed.kind] : ""));
  if (changed) made.classList.add(changed.kind);
  const fold = element("span", "fold", body ? "▶" : "");
  fold.setAttribute("aria-hidden", "true");
  made.append(fold);
  if (isModule(item)) {
    made.append(element("span", "name", item.label), element("span", "count", counted(item)), element("span", "badge"));
  } else {
    made.append(element("span", "op", item.op));
    // Most names are just the operator and a number.
    const own = tail(item.name);
    const rest = own.startsWith(item.op) ? own.slice(item.op.length) : null;
    made.append(element("span", rest === null ? "where own" : "where", rest ?? own));
    if (body) made.append(element("span", "count", `${many(body.count, "node")} inside`), element("span", "badge"));
    made.append(element("span", "type", item.outputs.map((output) => output.type).join(", ")));
    made.title = [item.name, changed?.details].filter(Boolean).join("\n");
    if (item.name && item.name === raw.errors?.node) made.classList.add("culprit");
  }
  if (measure) {
    const found = measure.row(item);
    made.append(element("span", "time", found?.text ?? ""), element("span", "time mean", found?.second ?? ""));
    const heat = element("span", "heat");
    const fill = element("i");
    fill.style.width = `${100 * (found?.share ?? 0)}%`;
    heat.append(fill);
    made.append(heat);
    if (found) made.title = [made.title, found.title].filter(Boolean).join("\n");
  }
  return made;
}
const tail = (name) => name.slice(name.lastIndexOf("/") + 1);

function paintState(made, item, at) {
  const body = bodyOf(item);
  made.id = `row-${at}`;
  if (body) made.setAttribute("aria-expanded", Boolean(body.open || matches));
  const index = isModule(item) ? -1 : item.index;
  made.classList.toggle("lit", state.strong.has(index));
  made.classList.toggle("weak", state.weak.has(index) && !state.strong.has(index));
  made.classList.toggle("pick", index >= 0 && index === state.pick);
  made.setAttribute("aria-selected", index >= 0 && index === state.pick);
  made.classList.toggle("near-in", state.near.get(at) === "in");
  made.classList.toggle("near-out", state.near.get(at) === "out");
  made.classList.toggle("cursor", at === cursor);
  if (at === cursor) scroll.setAttribute("aria-activedescendant", made.id);
  const badge = made.querySelector(".badge");
  if (badge) {
    const lit = body.open || matches ? 0 : litIn(at);
    badge.textContent = lit ? `${lit} highlighted` : "";
    badge.hidden = !lit;
  }
}
let litRows = new Map();
function countLit() {
  versions.lit++;
  litRows = new Map();
  for (const set of [state.strong, state.weak]) {
    for (const index of set) {
      if (set === state.weak && state.strong.has(index)) continue;
      const row = rowOf[index];
      if (row >= 0) litRows.set(row, (litRows.get(row) ?? 0) + 1);
    }
  }
}
const litIn = (row) => litRows.get(row) ?? 0;

function light(strong, weak) {
  state.strong = strong;
  state.weak = weak;
  countLit();
  paint();
}
function pickNode(index) {
  state.pick = index;
  findNear();
  paint();
}
function findNear() {
  state.near = new Map();
  const node = nodes[state.pick];
  if (!node) return;
  for (const reader of node.readers) state.near.set(rowOf[reader], "out");
  for (const { node: other } of node.inputs) if (other >= 0) state.near.set(rowOf[other], "in");
  state.near.delete(rowOf[node.index]);
}
function toggle(item) {
  const body = bodyOf(item);
  if (!body || matches) return;
  body.open = !body.open;
  layOut();
  countLit();
  findNear();
}

function setUpGraph(onHover, onPick) {
  unfoldSome();
  layOut();
  const itemAt = (event) => event.target.closest?.(".r");
  scroll.addEventListener("scroll", paint, { passive: true });
  new ResizeObserver(paint).observe(scroll);
  list.addEventListener("mouseover", (event) => {
    if (!isMoved(event)) return;
    const item = itemAt(event)?.item;
    onHover(item && !isModule(item) ? item : null);
  });
  list.addEventListener("mouseleave", () => onHover(null));
  list.addEventListener("click", (event) => {
    const made = itemAt(event);
    if (!made) return;
    cursor = Number(made.dataset.row);
    if (isModule(made.item) || event.target.classList.contains("fold")) toggle(made.item);
    else onPick(made.item);
    paint();
  });
  scroll.addEventListener("keydown", (event) => {
    const item = rows[cursor]?.item;
    const page = Math.floor(scroll.clientHeight / ROW) - 2;
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length };
    if (event.key in moves) {
      cursor = Math.max(0, Math.min(rows.length - 1, cursor + moves[event.key]));
      bringIntoView(cursor);
    } else if (event.key === "ArrowRight" && item && bodyOf(item) && !bodyOf(item).open) {
      toggle(item);
    } else if (event.key === "ArrowLeft" && item) {
      if (bodyOf(item)?.open) toggle(item);
      else {
        const above = rows.findLastIndex((row, at) => at < cursor && row.depth < rows[cursor].depth);
        if (above >= 0) bringIntoView(above);
      }
    } else if ((event.key === "Enter" || event.key === " ") && item) {
      if (isModule(item)) toggle(item);
      else onPick(item);
    } else return;
    event.preventDefault();
  });
}
