// The details of the selected node.

const inspector = $("inspector");

function inspect(node, jump, show) {
  inspector.replaceChildren();
  inspector.classList.toggle("empty", !node);
  if (!node) {
    inspector.append(element("h3", "", "Nothing selected"));
    inspector.append(element("p", "", "Point at a line to see its nodes, or at a node to see its line. Click to select."));
    const keys = element("p", "");
    for (const [name, what] of [["/", "search"], ["↑ ↓ ← →", "move, fold"], ["Enter", "select"], ["Esc", "deselect"], ["t", "theme"]]) {
      keys.append(element("kbd", "", name), ` ${what}   `);
    }
    inspector.append(keys);
    return;
  }
  const title = element("h2", "", node.name || node.op);
  title.append(element("small", "", node.op));
  inspector.append(title);
  const facts = element("dl");
  const fact = (name, value) => value && facts.append(element("dt", "", name), element("dd", "", value));
  fact("module", node.scope);
  fact("rule", node.origins[0]?.rule);
  fact("attributes", node.attributes);
  if (timed) fact("time", node.ns ? `${duration(node.ns)} per run, ${((100 * node.ns) / total).toFixed(1)} %` : "not in this profile");
  inspector.append(facts);
  const sides = element("div", "io");
  sides.append(values("reads", node.inputs, (input) => input.node, jump, node.scope), readers(node, jump));
  inspector.append(sides);
  node.origins.forEach((origin, index) => {
    inspector.append(element("h3", "", index ? "merged from" : "from"));
    inspector.append(stack(origin, show));
  });
  if (!node.origins.length) inspector.append(element("h3", "", "from"), element("p", "", "The model does not say where this node came from."));
  inspector.scrollTop = 0;
}

/** A name without the module that it shares with the selected node. */
function near(name, scope) {
  const prefix = scope && `/${scope}/`;
  return prefix && name.startsWith(prefix) ? name.slice(prefix.length) : name;
}
function values(title, items, nodeOf, jump, scope) {
  const part = element("div");
  part.append(element("h3", title, title));
  const all = element("ol");
  for (const item of items) {
    const row = element("li");
    const index = nodeOf(item);
    row.append(element("span", "ty", item.type === "?" ? "" : `${item.type}  `));
    if (index >= 0) {
      const link = element("button", "", near(item.value, scope));
      link.type = "button";
      link.addEventListener("click", () => jump(index));
      row.append(link);
    } else row.append(element("span", "", near(item.value, scope) || "(omitted)"));
    row.title = item.value;
    all.append(row);
  }
  part.append(all);
  return part;
}
function readers(node, jump) {
  const part = values("results", node.outputs, () => -1, jump, node.scope);
  const all = part.querySelector("ol");
  for (const index of node.readers.slice(0, 40)) {
    const row = element("li");
    const link = element("button", "", near(nodes[index].name, node.scope) || nodes[index].op);
    link.type = "button";
    link.addEventListener("click", () => jump(index));
    row.append("→ ", link);
    all.append(row);
  }
  if (node.readers.length > 40) all.append(element("li", "ty", `and ${node.readers.length - 40} more`));
  return part;
}
/** The frames, innermost first. JAX's own frames are collapsed. */
function stack(origin, show) {
  const all = element("ol", "stack");
  const frames = origin.stack.length ? origin.stack : origin.site ? [origin.site] : [];
  let hidden = null;
  for (const frame of frames) {
    if (frame.jax && frame !== origin.site) {
      if (!hidden) {
        hidden = element("details");
        hidden.append(element("summary", "lib"), element("ol"));
        const item = element("li");
        item.append(hidden);
        all.append(item);
      }
      hidden.lastChild.append(frameRow(frame, false, show));
      hidden.firstChild.textContent = `${many(hidden.lastChild.children.length, "JAX frame")}`;
    } else {
      hidden = null;
      all.append(frameRow(frame, frame.user || frame === origin.site, show));
    }
  }
  if (!frames.length) all.append(element("li", "lib", "There are no frames outside JAX."));
  return all;
}
function frameRow(frame, linked, show) {
  const row = element("li", frame.user ? "user" : "lib");
  const label = files[frame.file]?.path ? `${files[frame.file].path}:${frame.line}` : `line ${frame.line}`;
  if (linked) {
    const link = element("button", "", label);
    link.type = "button";
    link.addEventListener("click", () => show(frame));
    row.append(link);
  } else row.append(label);
  row.append(element("span", "ty", `  ${frame.fn}`));
  const source = linked && files[frame.file]?.source?.split("\n")[frame.line - 1];
  if (source) row.append(element("span", "src", `  ${source.trim()}`));
  return row;
}
