// The details of the selection.

const inspector = $("inspector");

function inspect({ node, line }, jump, show) {
  inspector.replaceChildren();
  inspector.classList.toggle("empty", !node && !line);
  if (node) inspectNode(node, jump, show);
  else if (line) inspectLine(line, jump);
  else inspectNothing(jump);
  inspector.scrollTop = 0;
}
function facts() {
  const all = element("dl");
  const add = (name, value) => value && all.append(element("dt", "", name), element("dd", "", value));
  return [all, add];
}

/** What the numbers of the page add up to. */
function inspectNothing(jump) {
  inspector.append(element("h2", "quiet", "Nothing selected"));
  inspector.append(element("p", "", "Point at a line to see its nodes, or at a node to see its line. Click to select, press ? for keyboard shortcuts."));
  const [all, add] = facts();
  if (timed) {
    const { runs, wall, unattributed } = raw.profile;
    const sum = raw.profile.lines.reduce((sum, [, , median]) => sum + median, 0);
    const mean = raw.profile.total[1] / runs;
    add("time per run", `${duration(total)}, the sum of the node medians over ${many(runs, "run")}; mean ${duration(mean)}`);
    add("by line", `${duration(sum)} in lines + ${duration(unattributed[0])} in nodes without a line`);
    add("by node", `${duration(root.median)} in the nodes of the graph + ${duration(Math.max(0, total - root.median))} in nodes added by the runtime`);
    if (wall) add("wall clock", `${duration(wall / runs)} per run, including the time between nodes`);
  }
  if (raw.errors) {
    const worst = [...lines.values()].filter((line) => line.error).sort((a, b) => b.error.noise - a.error.noise)[0];
    add("verify", raw.errors.ok ? "all values agree" : raw.errors.message.split("\n")[0]);
    if (worst) add("largest error", `${files[worst.file].label}:${worst.line}, ${MEASURES.error.line(worst).title}`);
  }
  inspector.append(all);
  const culprit = raw.errors?.node && nodesByName.get(raw.errors.node);
  if (culprit) inspector.append(button("", `Show ${culprit.name}`, () => jump(culprit.index)));
}

function inspectLine(line, jump) {
  const title = element("h2", "", `${files[line.file].label}:${line.line}`);
  title.append(element("small", "", line.fn), editorLink(line.file, line.line));
  inspector.append(title);
  const [all, add] = facts();
  const source = files[line.file].source?.split("\n")[line.line - 1];
  add("source", source?.trim());
  if (timed) add("time", MEASURES.time.line(line)?.title);
  if (raw.errors) add("error", MEASURES.error.line(line)?.title);
  inspector.append(all);
  const found = [...(line.own.size ? line.own : line.via)];
  inspector.append(element("h3", "", `${many(found.length, "node")} ${line.own.size ? "from this line" : "in functions called here"}`));
  const list = element("ol");
  for (const index of found.slice(0, MOST_LISTED)) {
    const row = element("li");
    row.append(button("", nodes[index].name || nodes[index].op, () => jump(index)), element("span", "ty", `  ${nodes[index].outputs.map((o) => o.type).join(", ")}`));
    list.append(row);
  }
  if (found.length > MOST_LISTED) list.append(element("li", "ty", `and ${found.length - MOST_LISTED} more`));
  inspector.append(list);
}
const MOST_LISTED = 40;

function inspectNode(node, jump, show) {
  const title = element("h2", "", node.name || node.op);
  title.append(element("small", "", node.op));
  inspector.append(title);
  const [all, add] = facts();
  if (node.change) {
    const only = { added: `only in ${raw.against.names[1]}`, removed: `only in ${raw.against.names[0]}` };
    add("change", only[node.change.kind] ?? node.change.details);
  }
  add("module", node.scope);
  add("rule", node.origins[0]?.rule);
  add("attributes", node.attributes);
  if (timed) add("time", MEASURES.time.row(node)?.title ?? "not in this profile");
  if (raw.errors?.node && raw.errors.node === node.name) add("verify", raw.errors.message.split("\n")[0]);
  inspector.append(all);
  const sides = element("div", "io");
  sides.append(values("reads", node.inputs, (input) => input.node, jump, node.scope), readers(node, jump));
  inspector.append(sides);
  node.origins.forEach((origin, index) => {
    inspector.append(element("h3", "", index ? "merged from" : "from"));
    inspector.append(stack(origin, show));
  });
  if (!node.origins.length) inspector.append(element("h3", "", "from"), element("p", "", "The model does not record where this node came from."));
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
    row.append(element("span", "ty", item.type === "?" ? "" : item.type));
    if (index >= 0) {
      row.append(button("", near(item.value, scope), () => jump(index)));
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
  for (const index of node.readers.slice(0, MOST_LISTED)) {
    const row = element("li");
    row.append(element("span", "", "→"), button("", near(nodes[index].name, node.scope) || nodes[index].op, () => jump(index)));
    all.append(row);
  }
  if (node.readers.length > MOST_LISTED) all.append(element("li", "ty", `and ${node.readers.length - MOST_LISTED} more`));
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
  if (!frames.length) all.append(element("li", "lib", "No frames outside JAX."));
  return all;
}
function frameRow(frame, linked, show) {
  const row = element("li", frame.user ? "user" : "lib");
  const { label, path, source } = files[frame.file];
  const place = path ? `${label}:${frame.line}` : `line ${frame.line}`;
  row.append(linked ? button("", place, () => show(frame)) : place);
  row.append(element("span", "ty", `  ${frame.fn}`));
  if (linked) {
    const code = source?.split("\n")[frame.line - 1];
    if (code) row.append(element("span", "src", `  ${code.trim()}`));
    row.append(editorLink(frame.file, frame.line));
  }
  return row;
}
