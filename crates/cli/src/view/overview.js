// A map of the whole list beside the scroll bar: one stroke per row, with highlighted, found, changed
// and slow rows in colour, and a frame around the visible part. Drag it to scroll.

const strip = $("overview");

// The cached strokes, which do not change while the list scrolls, and the key of their inputs.
const strokes = document.createElement("canvas");
let drawnOf = "";

function paintOverview() {
  const whole = rows.length * ROW + 12;
  const isLong = whole > scroll.clientHeight * 1.2;
  $("list").classList.toggle("long", isLong);
  if (!isLong) return;
  const [context, width, height] = canvas("overview");
  if (!width || !height) return;
  const scale = height / whole;
  const now = [versions.rows, versions.lit, state.pick, measure?.label, document.documentElement.dataset.theme, width, height].join();
  if (now !== drawnOf) {
    drawnOf = now;
    [strokes.width, strokes.height] = [strip.width, strip.height];
    const own = strokes.getContext("2d");
    own.setTransform(context.getTransform());
    paintStrokes(own, width, scale);
  }
  context.drawImage(strokes, 0, 0, width, height);
  context.strokeStyle = color("--accent");
  context.fillStyle = color("--frame");
  const [top, seen] = [scroll.scrollTop * scale, Math.max(8, scroll.clientHeight * scale)];
  context.fillRect(1, top, width - 2, seen);
  context.strokeRect(1.5, top + 0.5, width - 3, seen - 1);
}
function paintStrokes(context, width, scale) {
  // Rows that share a pixel are one stroke, drawn for the most prominent row.
  const step = Math.max(1, Math.floor(1 / (ROW * scale)));
  const thick = Math.max(1, ROW * step * scale - 1);
  const heat = measure && color(measure.color);
  const faint = color("--arc");
  const changes = { added: color("--added"), removed: color("--removed"), changed: color("--changed") };
  for (let at = 0; at < rows.length; at += step) {
    let [share, depth, change] = [0, Infinity, null];
    for (let row = at; row < Math.min(at + step, rows.length); row++) {
      const { item } = rows[row];
      depth = Math.min(depth, rows[row].depth);
      share = Math.max(share, measure?.row(item)?.share ?? 0);
      change ??= item.change?.kind ?? (isModule(item) && item.changes && !item.open ? "changed" : null);
    }
    const inset = 6 + Math.min(depth, 6) * 4;
    context.fillStyle = change ? changes[change] : share > 0.02 ? `rgba(${heat}, ${0.3 + 0.7 * share})` : `rgba(${faint}, 0.35)`;
    context.fillRect(inset, (at * ROW + 4) * scale, Math.max(4, width - inset - 8), thick);
  }
  const tick = (row, style) => {
    context.fillStyle = style;
    context.fillRect(0, (row * ROW + 4) * scale, width, Math.max(2, thick));
  };
  const edge = color("--lit-edge");
  for (const row of litRows.keys()) tick(row, edge);
  if (state.pick >= 0 && rowOf[state.pick] >= 0) tick(rowOf[state.pick], color("--accent"));
}

function setUpOverview() {
  const go = (event) => {
    const share = (event.clientY - strip.getBoundingClientRect().top) / strip.clientHeight;
    scroll.scrollTop = share * scroll.scrollHeight - scroll.clientHeight / 2;
  };
  strip.addEventListener("pointerdown", (event) => {
    strip.setPointerCapture(event.pointerId);
    go(event);
    strip.addEventListener("pointermove", go);
    strip.addEventListener("pointerup", () => strip.removeEventListener("pointermove", go), { once: true });
    event.preventDefault();
  });
}
