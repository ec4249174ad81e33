// The edges of the graph, as arcs beside the rows.

// The maximum number of edges drawn between rows out of view.
const PASSING = 200;

function canvas(id) {
  const made = $(id);
  const scale = devicePixelRatio || 1;
  const [width, height] = [made.clientWidth, made.clientHeight];
  if (made.width !== Math.round(width * scale) || made.height !== Math.round(height * scale)) {
    made.width = Math.round(width * scale);
    made.height = Math.round(height * scale);
  }
  const context = made.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function paintArcs() {
  const [context, width, height] = canvas("arcs");
  if (!width) return;
  const top = scroll.scrollTop;
  const y = (row) => row * ROW + 4 + ROW / 2 - top;
  const x = width - 4;
  const arc = (from, to, style, thick) => {
    const [a, b] = [y(from), y(to)];
    const reach = Math.min(width - 12, 7 + 11 * Math.log2(1 + Math.abs(to - from)));
    context.strokeStyle = style;
    context.lineWidth = thick;
    context.beginPath();
    context.moveTo(x, a);
    context.bezierCurveTo(x - reach * 1.3, a, x - reach * 1.3, b, x, b);
    context.stroke();
  };
  const [first, last] = [top / ROW - 1, (top + height) / ROW + 1];
  const [faint, into, out] = [color("--arc"), color("--in"), color("--out")];
  const drawn = new Set();
  const special = [];
  let passing = 0;
  for (const node of nodes) {
    const to = rowOf[node.index];
    if (to < 0) continue;
    for (const { node: other } of node.inputs) {
      if (other < 0) continue;
      const from = rowOf[other];
      if (from < 0 || from === to || (from < first && to < first) || (from > last && to > last)) continue;
      if (node.index === state.pick) special.push([from, to, into]);
      else if (other === state.pick) special.push([from, to, out]);
      const edge = from * rows.length + to;
      if (drawn.has(edge)) continue;
      const ends = (from >= first && from <= last) || (to >= first && to <= last);
      if (!ends && ++passing > PASSING) continue;
      drawn.add(edge);
      arc(from, to, `rgba(${faint}, ${Math.abs(to - from) > 40 ? 0.16 : 0.34})`, 1);
    }
  }
  for (const [from, to, style] of special) arc(from, to, style, 2);
  const heat = measure && color(measure.color);
  for (let at = Math.max(0, Math.floor(first)); at < Math.min(rows.length, last); at++) {
    const { item } = rows[at];
    const folded = bodyOf(item) && !bodyOf(item).open && !matches;
    if (isModule(item) && !folded) continue; // its nodes have dots of their own
    const share = measure?.row(item)?.share ?? 0;
    context.fillStyle = share > 0.02 ? `rgba(${heat}, ${0.4 + 0.6 * share})` : `rgb(${faint})`;
    context.beginPath();
    context.arc(x, y(at), (folded ? 3 : 2) + 2 * share, 0, 7);
    context.fill();
  }
}
