"""The page of `jax2onnx view`, used in a browser like a person would."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import jax
import jax.numpy as jnp
import pytest

from harness.browser import Page, browser
from harness.viewed import (
    INSPECTOR,
    LIT,
    PICKED,
    SEEN,
    STRONG,
    export,
    line,
    make,
    module,
    pick,
    show,
    source_line,
    view,
)
from models.nnx.gpt import gpt

MASKED = ["/blocks.0/attn/Add", "/blocks.1/attn/Add"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("view")


@pytest.fixture(scope="module")
def tab(folder: Path) -> Iterator[Page]:
    with browser(folder) as page:
        yield page


@pytest.fixture(scope="module")
def address(folder: Path) -> str:
    # A single node for the mask, which is easy to hover over.
    return make(folder, *gpt(layers=2), operators={"Trilu": "elementary"}).as_uri()


@pytest.fixture
def page(tab: Page, address: str) -> Iterator[Page]:
    tab.requests.clear()
    tab.open(address)
    tab.wait("document.querySelectorAll('.r').length > 5")
    yield tab
    assert tab.errors == []
    assert set(tab.requests) <= {address, "about:blank"}, "the page loads nothing"


def test_pointing_at_a_line_lights_its_nodes(page: Page) -> None:
    page.hover(line("scores = jnp.where"))
    assert page.evaluate(LIT) == MASKED
    page.hover("document.getElementById('facts')")
    assert page.evaluate(LIT) == [], "only as long as it is pointed at"
    page.click(line("scores = jnp.where"))
    page.hover("document.getElementById('facts')")
    assert page.evaluate(LIT) == MASKED, "a click keeps it"
    assert "open in editor" not in page.evaluate(INSPECTOR), "no file near the page is this one"
    assert "/blocks.0/attn/Add" in page.evaluate(SEEN), "and brings it into view"
    assert "2 nodes from tests/models/nnx/gpt.py" in page.evaluate("$('lit').textContent")


def test_a_call_highlights_the_nodes_of_its_callees(page: Page) -> None:
    page.click(line("x = block(x)"))
    inside = page.evaluate("nodes.filter((node) => node.scope.startsWith('blocks.')).length")
    assert page.evaluate("state.weak.size") == inside > 50
    assert page.evaluate("document.querySelectorAll('.r.weak').length") > 3
    assert "in functions called at" in page.evaluate("$('lit').textContent")


def test_folded_modules_count_highlighted_nodes(page: Page) -> None:
    page.click(line("scores = jnp.where"))
    page.click("document.getElementById('fold')")
    page.wait(module("blocks.1"))
    badge = f"{module('blocks.1')}.querySelector('.badge')"
    assert page.evaluate(f"{badge}.textContent") == "1 highlighted"


def test_picking_a_node_shows_its_line_and_stack(page: Page) -> None:
    pick(page, "/blocks.0/attn/Add")
    assert page.evaluate(PICKED) == "/blocks.0/attn/Add"
    source = Path("tests/models/nnx/gpt.py").read_text().splitlines()
    strong = [source[number - 1].strip() for number in page.evaluate(STRONG)]
    assert [text.split(" = ")[0] for text in strong] == ["causal", "scores"], "one was merged"
    told = page.evaluate(INSPECTOR)
    assert "/blocks.0/attn/Add" in told
    assert "blocks.0/attn" in told
    assert "add_mask.rewrite:" in told
    for function in ("Attention.__call__", "Block.__call__", "GPT.__call__"):
        assert function in told
    expression = page.evaluate(
        "[...CSS.highlights.get('expression')].map((range) => range.toString()).join()"
    )
    assert expression == "jnp.where(causal, scores, jnp.finfo(x.dtype).min)"
    calls = page.evaluate("document.querySelectorAll('.l.call').length")
    assert calls == 2, "the lines that lead there are marked, too"


def test_links_lead_from_node_to_node_and_to_frames(page: Page) -> None:
    pick(page, "/blocks.0/attn/Add")
    page.click("[...inspector.querySelectorAll('button')].find((b) => b.innerText.includes('Div'))")
    assert page.evaluate(PICKED) == "/blocks.0/attn/Div"
    page.click("[...inspector.querySelectorAll('.stack button')].at(-1)")
    assert page.evaluate("rowsOfLines.get(cursorLine).textContent.includes('x = block(x)')")


def test_search(page: Page) -> None:
    page.press("/", "/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.type("blocks.1 attn/add")
    page.wait("$('found').textContent === '1 node'")
    assert page.evaluate("rows.map((row) => row.item.label ?? row.item.name)") == [
        "blocks.1",
        "attn",
        "/blocks.1/attn/Add",
    ]
    page.press("Enter")
    assert page.evaluate(PICKED) == "/blocks.1/attn/Add"
    page.press("Escape")
    assert page.evaluate("search.value") == ""
    assert page.evaluate("rows.length") > 10
    number = source_line("tests/models/nnx/gpt.py", "scores = jnp.where")
    page.type(f"gpt.py:{number}")
    assert page.evaluate("$('found').textContent") == "2 nodes", "lines can be searched for"
    page.evaluate("search.value = 'no such thing'; find()")
    assert page.evaluate("$('found').textContent") == "0 nodes"


def test_the_keyboard_is_enough(page: Page) -> None:
    page.evaluate("scroll.focus()")
    page.press("Home")
    page.evaluate("setAll(false)")
    count = page.evaluate("rows.length")
    page.press("ArrowRight")
    assert page.evaluate("rows.length") > count, "the first module unfolds"
    page.press("ArrowDown")
    page.press("Enter")
    assert page.evaluate(PICKED).startswith("/tokens/")
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    assert page.evaluate("rows.length") == count
    page.press("Escape")
    assert page.evaluate(PICKED) is None
    page.evaluate("code.focus()")
    page.press("ArrowDown")
    assert page.evaluate("kept.line !== null")
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") != theme
    tree = page.evaluate(
        "[scroll.getAttribute('role'), scroll.getAttribute('aria-activedescendant')]"
    )
    assert tree[0] == "tree"
    assert (
        page.evaluate(f"document.getElementById({tree[1]!r})?.getAttribute('role')") == "treeitem"
    )


def test_nodes_inside_nodes(tab: Page, tmp_path: Path) -> None:
    def body(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jnp.tanh(carry + x)
        return carry, carry

    def fn(x: jax.Array) -> jax.Array:
        return jax.lax.scan(body, x[0], x)[1]

    tab.open(make(tmp_path, fn, [jnp.ones((4, 3))]).as_uri())
    tab.wait("document.querySelector('.r')")
    tab.evaluate("setAll(true)")
    tab.frame()
    pick(tab, "/Tanh")
    assert tab.evaluate("nodes[state.pick].op") == "Tanh"
    assert tab.evaluate("nodes[nodes[state.pick].owner].op") == "Scan"
    assert tab.evaluate("rows.find((row) => row.item.op === 'Tanh').depth") == 1
    assert tab.errors == []


def test_names_are_text(tab: Page, tmp_path: Path) -> None:
    nasty = "</script><img src=x onerror=alert(1)>&amp;"

    def fn(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        with jax.named_scope(nasty.replace("/", "|")):
            return jnp.sin(x * params[nasty])

    model = export(
        tmp_path / "model.onnx",
        functools.partial(fn, {nasty: jnp.arange(2.0) + 0.5}),
        [jnp.ones(2)],
        input_names=[nasty],
    )
    other = export(tmp_path / f"{nasty.replace('/', '|')}.onnx", jnp.cos, [jnp.ones(2)])
    errors = tmp_path / "errors.json"
    row = {"place": nasty, "values": 1, "maximum": 1, "mean": 1, "signal_to_noise": None}
    line = {**row, "place": f"{nasty}:1 in {nasty}"}
    told = {"ok": False, "message": nasty, "node": "/Sin", "by_line": [line], "by_module": [row]}
    errors.write_text(json.dumps(told))
    show(tab, view(model, "--against", other, "--errors", errors), "#node=" + quote(nasty))
    assert nasty in tab.evaluate("$('lit').textContent"), "an address is text, too"
    tab.evaluate("setAll(true); jump(nodes.find((node) => node.op === 'Sin').index)")
    assert nasty.replace("/", "|") in tab.evaluate("scroll.innerText")
    tab.evaluate("keepNode(nodes.find((node) => node.op === 'Mul'))")
    assert nasty in tab.evaluate(INSPECTOR)
    assert nasty.replace("/", "|") in tab.evaluate("$('changes').textContent")
    tab.evaluate("showView('parameters'); showChanges(); showHelp()")
    tab.frame()
    assert tab.evaluate("document.querySelectorAll('img, body script:not([id=data])').length") == 1
    assert tab.errors == []


@pytest.mark.parametrize("level", [None, "minimal", "full"])
def test_models_that_say_less(tab: Page, tmp_path: Path, level: str | None) -> None:
    options = {"stacktrace_metadata": level, "source_text": False}
    tab.open(make(tmp_path, *gpt(layers=1), **options).as_uri())
    tab.wait("document.querySelector('.r')")
    tab.evaluate("keepNode(nodes[20])")
    tab.frame()
    told = tab.evaluate(INSPECTOR)
    assert ("does not record where" in told) == (level is None)
    assert ("__call__" in told) == (level is not None)
    assert tab.errors == []
