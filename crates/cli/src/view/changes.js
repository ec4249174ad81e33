// The report of `diff` on the other model.

function showChanges() {
  showLeft("changes");
  markTab($("files"), $("files").querySelector('[data-file="changes"]'));
}
function change(kind, name, detail) {
  const row = element("p", `change ${kind}`);
  row.append(element("b", "mark", MARKS[kind]), " ", name, detail ? element("span", "soft", `  ${detail}`) : "");
  return row;
}
function setUpChanges(onPick) {
  const found = raw.against;
  if (!found) return;
  const panel = $("changes");
  const [own, other] = found.names;
  panel.append(element("h2", "", `${own} → ${other}`), element("p", "soft", found.summary || "no differences"));
  const legend = element("p", "legend");
  for (const [kind, what] of [["removed", `only in ${own}`], ["added", `only in ${other}`], ["changed", "changed"]]) {
    legend.append(element("b", `mark ${kind}`, MARKS[kind]), ` ${what}   `);
  }
  panel.append(legend);
  for (const line of found.model) panel.append(element("p", "", line));
  const section = (title, lines) => {
    if (!lines.length) return;
    panel.append(element("h3", "", title));
    for (const [kind, name, detail] of lines) panel.append(change(kind, name, detail));
  };
  section("modules", found.modules);
  for (const [title, source, entries] of found.groups) {
    const head = element("h3", "place");
    const place = linePlace(title);
    head.append(place ? button("link", title, () => keepLine(place)) : title);
    panel.append(head);
    if (source) panel.append(element("pre", "", source));
    for (const [kind, op, details, within, count, rows] of entries) {
      const row = change(kind, "", "");
      const label = `${op}${count > 1 ? ` × ${count}` : ""}`;
      row.append(rows.length ? button("link", label, () => onPick(rows)) : label);
      row.append(element("span", "soft", `  ${within}`));
      if (details) row.append(element("span", "details", details));
      panel.append(row);
    }
  }
  section("parameters", found.parameters);
  for (const remark of found.remarks) panel.append(element("p", "soft", remark));
}
/** The entry of `file:line`, in the other model's file if it has another text. */
function linePlace(title) {
  const at = title.lastIndexOf(":");
  const [path, line] = [title.slice(0, at), Number(title.slice(at + 1))];
  const found = files.filter((file) => file.path === path).map((file) => lines.get(key(file.index, line)));
  return found.findLast(Boolean) ?? null;
}
