"""The numbers on the page of `jax2onnx view`: times, parameters, errors, changes."""

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from harness.browser import Page, browser
from harness.profiles import profile
from harness.viewed import INSPECTOR, PICKED, export, line, make, show, source_line, view
from jax2onnx import verify
from models.nnx.gpt import gpt

GPT = "tests/models/nnx/gpt.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("numbers")


@pytest.fixture(scope="module")
def tab(folder: Path) -> Iterator[Page]:
    with browser(folder) as page:
        yield page


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    return export(folder / "gpt.onnx", *gpt(layers=2))


@pytest.fixture(scope="module")
def times(model: Path) -> Path:
    return profile(model, gpt(layers=2)[1], 7, preempted="/blocks.1/attn/Softmax")


def test_times_add_up_and_one_slow_kernel_does_not_count(
    tab: Page, model: Path, times: Path
) -> None:
    show(tab, view(model, "--profile", times))
    total, root = tab.evaluate("[total, root.median]")
    # Lines of libraries have their share of the user's lines that call them.
    own = "[...lines.values()].filter((line) => ownFiles.has(line.file))"
    lines = tab.evaluate(f"{own}.reduce((sum, line) => sum + line.median, 0)")
    lost = tab.evaluate("raw.profile.unattributed[0]")
    assert lines + lost == total
    assert root <= total
    means = tab.evaluate(
        "[nodes.find((n) => n.name === '/blocks.1/attn/Softmax')].map((n) => [n.median, n.mean])[0]"
    )
    assert means[1] > 100_000_000 > 100 * means[0]
    told = tab.evaluate(INSPECTOR)
    assert "time per run" in told
    assert f"{tab.evaluate(f'duration({lines})')} in lines" in told
    widths = tab.evaluate(
        "setAll(true), rows.map(({ item }) => [measure.row(item)?.share ?? 0, timeOf(item).median])"
    )
    scales = [median / share for share, median in widths if share > 0]
    assert max(scales) == pytest.approx(min(scales)), "all bars have one scale"
    assert max(share for share, _ in widths) == 1
    tab.evaluate("showFile(0)")
    mark = f"{line('return x + self.down')}.querySelector('.m').textContent"
    assert "s" in tab.evaluate(mark)


def test_the_flame_graph_shows_time_by_stack(tab: Page, model: Path, times: Path) -> None:
    show(tab, view(model, "--profile", times))
    tab.click("document.querySelector('[data-view=flame]')")
    frames = "[...flame.children].map((box) => box.frame.label.split(' ')[0])"
    assert tab.evaluate(frames)[:2] == ["all", "GPT.__call__"]
    widths = tab.evaluate(
        "[...flame.children].map((box) => [box.frame.median, parseFloat(box.style.width)])"
    )
    total = widths[0][0]
    for median, width in widths:
        assert width == pytest.approx(100 * median / total, abs=0.01)
    block = "[...flame.children].find((box) => box.frame.label.startsWith('Block.__call__'))"
    tab.click(block)
    assert tab.evaluate(f"{block}.style.width") == "100%"
    assert "Block.__call__" in tab.evaluate("$('flame-note').textContent")
    tab.click("document.querySelector('#flame-note .link')")
    assert tab.evaluate("kept.line !== null")
    tab.evaluate("flame.querySelector('[tabindex=\"0\"]').focus()")
    tab.press("ArrowDown")
    assert tab.evaluate("document.activeElement.frame.parent === flameRoot")
    tab.press("Escape")
    assert tab.evaluate("flameRoot.label") == "all"
    tab.evaluate("$('flame-by').value = '1'; $('flame-by').dispatchEvent(new Event('change'))")
    assert "blocks.0" in tab.evaluate(frames)
    assert tab.errors == []


def test_parameters_are_listed(tab: Page, tmp_path: Path) -> None:
    weights = np.linspace(-2, 6, 96, dtype=np.float32).reshape(8, 12)
    weights[0, 0] = np.nan
    large = np.full(1_000_000, 3, np.float32)

    def fn(x: jax.Array) -> jax.Array:
        return x @ weights + large[:12] + jnp.asarray(large)[x.astype(int)[0]].sum()

    show(tab, make(tmp_path, fn, [jnp.ones((4, 8))]))
    tab.click("document.querySelector('[data-view=parameters]')")
    found = tab.evaluate("parameters.find((p) => p.type === 'f32[8,12]')")
    assert found["about"]["mean"] == pytest.approx(np.nanmean(weights), rel=1e-5)
    assert found["about"]["spread"] == pytest.approx(np.nanstd(weights), rel=1e-5)
    assert (found["about"]["strange"], found["bytes"]) == (1, 384)
    assert sum(found["about"]["bars"]) == 95
    assert "large tensors are sampled" in tab.evaluate("$('parameters-note').textContent")
    tab.click(
        "[...$('parameters-head').querySelectorAll('button')].find((b) => b.dataset.by === 'bytes')"
    )
    first = "$('parameters-rows').querySelector('.p').innerText"
    assert "4.0 MB" in tab.evaluate(first)
    tab.press("/", "/")
    tab.type("f32[8,12]")
    assert tab.evaluate("$('found').textContent") == "1 parameter"
    tab.click("$('parameters-rows').querySelector('button')")
    assert tab.evaluate(PICKED) == "/Gemm", "a parameter leads to what reads it"
    assert tab.errors == []


def test_two_models_are_shown_together(tab: Page, model: Path, tmp_path: Path) -> None:
    other = onnx.load(model)
    for node in other.graph.node:
        if node.op_type == "Gelu":
            node.op_type = "Relu"
            del node.attribute[:]
    onnx.save(other, tmp_path / "other.onnx")
    show(tab, view(model, "--against", tmp_path / "other.onnx"))
    told = tab.evaluate("$('changes').innerText")
    assert "nodes: 2 added, 2 removed, 2 changed" in told
    assert f"{GPT}:{source_line(GPT, 'jax.nn.gelu')}" in told
    assert tab.evaluate("document.title").startswith("gpt.onnx → other.onnx")
    tab.click(
        "[...$('changes').querySelectorAll('button')].find((b) => b.innerText === 'Relu × 2')"
    )
    lit = tab.evaluate(
        "[...state.strong].map((index) => [nodes[index].op, nodes[index].change.kind])"
    )
    assert lit == [["Relu", "added"]] * 2
    marks = "[...document.querySelectorAll('.r .mark')].map((mark) => mark.textContent).join('')"
    assert "−+" in tab.evaluate(marks), "in place of each other"
    tab.evaluate("jump([...state.strong][0])")
    assert "only in other.onnx" in tab.evaluate(INSPECTOR)
    assert tab.errors == []


def test_errors_are_colours(tab: Page, model: Path, times: Path, tmp_path: Path) -> None:
    wrong = onnx.load(model)
    next(n for n in wrong.graph.node if n.name == "/blocks.1/attn/Div").op_type = "Mul"
    onnx.save(wrong, tmp_path / "wrong.onnx")
    found = verify(model, tmp_path / "wrong.onnx", [np.ones((2, 16), np.int32)])
    (tmp_path / "errors.json").write_text(found.to_json())
    show(tab, view(model, "--errors", tmp_path / "errors.json", "--profile", times))
    assert "/blocks.1/attn/Div" in tab.evaluate(INSPECTOR)
    assert tab.evaluate("document.documentElement.dataset.measure") == "time"
    tab.press("m")
    assert tab.evaluate("document.documentElement.dataset.measure") == "error"
    share = "getComputedStyle({}.querySelector('.m')).getPropertyValue('--share')"
    bad = float(tab.evaluate(share.format(line("scores = jnp.einsum"))))
    good = float(tab.evaluate(share.format(line("mixed = jnp.einsum"))) or 0)
    assert bad > 0.9 > 0.5 > good
    text = tab.evaluate(f"{line('scores = jnp.einsum')}.querySelector('.m').textContent")
    assert text.endswith("dB")
    noise = tab.evaluate("['blocks.0', 'blocks.1'].map((scope) => moduleErrors.get(scope))")
    assert noise[1] > 0.01 > noise[0]
    assert tab.evaluate("(jump(nodesByName.get(raw.errors.node).index), 0)") == 0
    tab.frame()
    assert tab.evaluate("document.querySelector('.r.culprit').item.name") == "/blocks.1/attn/Div"
    assert tab.errors == []
