// The page's address reflects the selection, and restores it: `#node=/a/Add`, `#model.py:41`.

function encode(name) {
  return encodeURIComponent(name).replace(/%2F/g, "/").replace(/%3A/g, ":").replace(/%40/g, "@").replace(/%2C/g, ",");
}
const nodesByName = new Map();
for (const node of nodes) if (!nodesByName.has(node.name)) nodesByName.set(node.name, node);

function addressOf({ node, line }) {
  if (node) {
    // A function's nodes have the same names in every call.
    const unique = node.name && nodesByName.get(node.name) === node;
    return `#node=${encode(node.name)}${unique ? "" : `&at=${node.index}`}`;
  }
  return line ? `#${encode(files[line.file].label)}:${line.line}` : "";
}
let following = false; // whether the selection comes from the address
function follow(selection, quiet) {
  const address = addressOf(selection);
  if (following || address === location.hash) return;
  try {
    history[quiet ? "replaceState" : "pushState"](null, "", address || location.pathname + location.search);
  } catch {
    // Some browsers do not let a local file change its address.
  }
}
/** Selects what the address says. */
function goToAddress() {
  const hash = location.hash.slice(1);
  let wanted;
  try {
    wanted = hash.startsWith("node=") ? hash.slice(5).split("&at=").map(decodeURIComponent) : decodeURIComponent(hash);
  } catch {
    return;
  }
  following = true;
  if (!hash) keepNode(null);
  else if (Array.isArray(wanted)) {
    const [name, at] = wanted;
    const exact = at !== undefined && nodes[Number(at)]?.name === name ? nodes[Number(at)] : null;
    const node = exact ?? nodesByName.get(name);
    if (node) jump(node.index);
    else tell(`The model has no node ${name}.`);
  } else goToLine(wanted);
  following = false;
}
function goToLine(place) {
  const cut = place.lastIndexOf(":");
  const [path, line] = [place.slice(0, cut), Number(place.slice(cut + 1))];
  const file = files.find((file) => file.label === path) ?? files.find((file) => file.path && file.path === path)
    ?? files.find((file) => file.label.endsWith(`/${path}`));
  const entry = file && lines.get(key(file.index, line));
  if (entry) {
    keepLine(entry);
    revealLine(entry.file, entry.line);
    paintLines();
  } else if (file && [...lines.values()].some((known) => known.file === file.index)) {
    revealLine(file.index, line);
    paintLines();
    tell(`Line ${line} of ${file.label} has no nodes.`);
  } else tell(`The model has no nodes from ${place}.`);
}
const tell = (message) => ($("lit").textContent = message);
addEventListener("popstate", goToAddress);
addEventListener("hashchange", goToAddress);

/** The address that opens a line in an editor; null if the file is not where it was. */
function editorAddress(file, line) {
  let path = files[file]?.place;
  if (!path) return null;
  const encoded = (path) => path.split("/").map(encodeURIComponent).join("/").replace(/%3A/g, ":");
  if (path.startsWith("/")) path = encoded(path);
  else if (location.protocol === "file:") path = new URL(encoded(path), location.href).pathname;
  else return null;
  if (raw.editor.includes("/{path}")) path = path.replace(/^\//, "");
  return raw.editor.replaceAll("{path}", () => path).replaceAll("{line}", () => line);
}
function editorLink(file, line) {
  const address = editorAddress(file, line);
  if (!address) return "";
  const link = element("a", "editor", "open in editor");
  link.href = address;
  link.title = `${files[file].label}:${line} (e)`;
  return link;
}
