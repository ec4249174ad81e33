// The dialog of keyboard shortcuts.

const KEYS = [
  ["Tab, Shift+Tab", "go to the next or the previous part of the page"],
  ["1, 2, 3", "go to the source, the graph, the details"],
  ["/", "search; Enter goes to the next match, Shift+Enter to the previous one"],
  ["↑ ↓", "move between rows, or between lines that have nodes"],
  ["→ ←", "unfold, fold, go to the enclosing module; switch tabs; move between frames"],
  ["Home, End, Page Up, Page Down", "move by a page, or to the start or end"],
  ["Enter", "select a node or a line, fold a module, zoom into a frame"],
  ["Esc", "end the search, deselect, zoom out"],
  ["m", "colour by time or by error, if the page has both"],
  ["e", "open the selected line in the editor"],
  ["t", "switch between light and dark"],
  ["?", "show these shortcuts"],
];
const help = $("help");

function setUpHelp() {
  const keys = element("dl");
  for (const [name, what] of KEYS) {
    const term = element("dt");
    name.split(", ").forEach((part, at) => term.append(at ? " " : "", element("kbd", "", part)));
    keys.append(term, element("dd", "", what));
  }
  $("keys").append(keys);
  $("help-open").addEventListener("click", showHelp);
}
function showHelp() {
  if (!help.open) help.showModal();
}
