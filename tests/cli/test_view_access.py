"""The page of `jax2onnx view` on every screen, from the keyboard and with assistive technology."""

import os
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from harness.browser import NODE_MODULES, Page, browser
from harness.profiles import profile
from harness.viewed import PICKED, export, show, view
from models.nnx.gpt import gpt

WIDTHS = {390: 844, 900: 700, 1440: 900}

STATES = {
    "nothing": "keepNode(null)",
    "node": "jump(nodes.findIndex((node) => node.op === 'Softmax'))",
    "line": "keepLine([...lines.values()].find((line) => line.own.size))",
    "changes": "showChanges()",
    "parameters": "showView('parameters')",
    "flame": "showView('flame')",
    "help": "showHelp()",
}

# The visible texts whose contrast with their background is below 4.5.
CONTRAST = """(() => {
  const parse = (text) => {
    const parts = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [...parts.slice(0, 3).map((part) => part * scale), parts[3] ?? 1];
  };
  const over = (front, back) =>
    [0, 1, 2].map((at) => front[at] * front[3] + back[at] * (1 - front[3])).concat(1);
  const light = (color) => {
    const part = (at) => {
      const value = color[at] / 255;
      return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2);
  };
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      layers.unshift(parse(getComputedStyle(at).backgroundColor));
      if (layers[0][3] === 1) break;
    }
    return layers.reduce((back, layer) => over(layer, back), [255, 255, 255, 1]);
  };
  const low = [];
  let count = 0;
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const { width, height, top, bottom } = element.getBoundingClientRect();
    if (!width || !height || bottom < 0 || top > innerHeight) continue;
    if (!element.checkVisibility() || element.closest(".hidden, noscript, script, style")) continue;
    const back = behind(element);
    const [bright, dark] = [light(over(parse(getComputedStyle(element).color), back)), light(back)]
      .sort((a, b) => b - a);
    const ratio = (bright + 0.05) / (dark + 0.05);
    count++;
    if (ratio < 4.5) low.push([ratio, element.className, element.textContent.slice(0, 40)]);
  }
  return [count, low];
})()"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access")


@pytest.fixture(scope="module")
def full(folder: Path) -> Path:
    """Creates a page with everything that a page can have."""
    fn, args = gpt(layers=2)
    model = export(folder / "gpt.onnx", fn, args)
    other = onnx.load(model)
    next(n for n in other.graph.node if n.op_type == "Gelu").op_type = "Relu"
    onnx.save(other, folder / "other.onnx")
    return view(model, "--profile", profile(model, args, 3), "--against", folder / "other.onnx")


@pytest.fixture(scope="module", params=WIDTHS)
def tab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, full: Path
) -> Iterator[Page]:
    width = request.param
    with browser(tmp_path_factory.mktemp("browser"), width, WIDTHS[width]) as page:
        show(page, full)
        yield page
        assert page.errors == []


def enter(tab: Page, state: str, theme: str) -> None:
    tab.evaluate(f"help.close(); showView('list'); setTheme({theme!r}); {STATES[state]}; 0")
    tab.frame()


@pytest.mark.parametrize("state", STATES)
def test_nothing_overlaps_and_nothing_is_cut(tab: Page, state: str) -> None:
    enter(tab, state, "light")
    boxes = tab.evaluate(
        "['header', '#source', '#graph'].map((part) => document.querySelector(part))"
        ".map((part) => part.getBoundingClientRect())"
        ".map((r) => [r.left, r.top, r.right, r.bottom])"
    )
    wide, high = tab.evaluate("[innerWidth, innerHeight]")
    for left, top, right, bottom in boxes:
        assert 0 <= left < right <= wide + 0.5
        assert 0 <= top < bottom <= high + 0.5
        assert bottom - top > 40
    for at, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[at + 1 :]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart, (boxes, state)
    scrolled = "document.documentElement"
    assert tab.evaluate(
        f"{scrolled}.scrollWidth <= innerWidth && {scrolled}.scrollHeight <= innerHeight"
    )
    if state == "node":
        seen = "(() => { const r = document.querySelector('.r.pick').getBoundingClientRect();"
        seen += " const box = $('list').getBoundingClientRect();"
        seen += " return r.top >= box.top - 1 && r.bottom <= box.bottom + 1; })()"
        assert tab.evaluate(seen), "what is selected is in view"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES)
def test_every_text_can_be_read(tab: Page, state: str, theme: str) -> None:
    enter(tab, state, theme)
    count, low = tab.evaluate(CONTRAST)
    assert count > 20
    assert low == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing_serious(tab: Page, state: str, theme: str) -> None:
    script = Path(os.environ.get("AXE_CORE", NODE_MODULES / "axe-core" / "axe.min.js"))
    if not script.is_file():
        pytest.skip("axe-core is not here")
    enter(tab, state, theme)
    if not tab.evaluate("'axe' in globalThis"):
        tab.evaluate(script.read_text() + "\n;0")
    found = tab.evaluate(
        "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations"
        ".filter(({ impact }) => ['serious', 'critical'].includes(impact))"
        ".map(({ id, nodes }) => [id, nodes.map((node) => node.html.slice(0, 200))]))"
    )
    assert found == []


def test_tab_reaches_every_part_and_focus_is_seen(tab: Page) -> None:
    enter(tab, "nothing", "light")
    tab.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    seen: list[str] = []
    for _ in range(40):
        tab.press("Tab")
        found = tab.evaluate(
            "(() => { const at = document.activeElement; const style = getComputedStyle(at);"
            " return [at.id || at.closest('[id]')?.id || '', style.outlineStyle]; })()"
        )
        if found[0] in ("", "main") or (seen and found[0] == seen[0] and len(seen) > 6):
            break
        assert found[1] != "none", f"the focus on {found[0]} is not seen"
        seen.append(found[0])
    order = ["search", "theme", "help-open", "files", "views", "scroll", "inspector"]
    at = [seen.index(part) for part in order]
    assert at == sorted(at), seen
    assert any(part in seen for part in ("code", "changes"))


def test_keys_move_between_parts(tab: Page) -> None:
    enter(tab, "nothing", "light")
    tab.evaluate("document.activeElement.blur()")
    focus = "document.activeElement.id || document.activeElement.parentElement.id"
    tab.evaluate("showFile(0)")
    tab.press("1")
    assert tab.evaluate(focus) == "code"
    tab.press("2")
    assert tab.evaluate(focus) == "scroll"
    tab.press("Home")
    tab.press("ArrowDown")
    tab.press("End")
    assert tab.evaluate("cursor") == tab.evaluate("rows.length") - 1
    tab.press("Home")
    tab.evaluate("setAll(true)")
    tab.press("ArrowDown")
    tab.press("Enter")
    assert tab.evaluate(PICKED) is not None
    tab.press("3")
    assert tab.evaluate("inspector.contains(document.activeElement)")
    tab.press("?", "?")
    assert tab.evaluate("help.open")
    tab.press("Escape")
    assert not tab.evaluate("help.open")
    assert tab.evaluate(PICKED) is not None, "Escape closed the help, and nothing else"
    tab.evaluate("$('views').querySelector('[aria-selected=\"true\"]').focus()")
    tab.press("ArrowRight")
    assert tab.evaluate("view") == "parameters"
    assert tab.evaluate("document.activeElement.dataset.view") == "parameters"
    tab.press("ArrowRight")
    assert tab.evaluate("view") == "flame"
