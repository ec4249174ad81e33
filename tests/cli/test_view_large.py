"""The page of `jax2onnx view` for a model of ten thousand nodes."""

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from harness.browser import Page, browser
from harness.viewed import show, view

NODES = 10_000

# The number of elements that each step adds to the page, and its findings.
STEPS = """(async () => {
  let added = 0;
  const count = (list) => { for (const entry of list) added += entry.addedNodes.length; };
  const observer = new MutationObserver(count);
  observer.observe(document, { childList: true, subtree: true });
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const adds = async (action) => {
    await painted();
    count(observer.takeRecords());
    added = 0;
    action();
    await painted();
    count(observer.takeRecords());
    return added;
  };
  const searchFor = (word) => { search.value = word; find(); };
  const steps = {};
  steps.unfold = await adds(() => setAll(true));
  steps.scroll = await adds(() => (scroll.scrollTop = 150_000));
  steps.search = await adds(() => searchFor("sin"));
  steps.clear = await adds(() => searchFor(""));
  steps.select = await adds(() => jump(nodes.length - 5));
  return steps;
})()"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    nodes, last = [], "x"
    for at in range(NODES // 2):
        scope = f"/layers.{at // 50}/part.{at % 50 // 10}"
        for op, inputs in (("Sin", [last]), ("Mul", [f"{scope}/Sin_{at}", "mask"])):
            name = f"{scope}/{op}_{at}"
            nodes.append(helper.make_node(op, inputs, [name], name=name))
            last = name
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "large",
        [value("x", TensorProto.FLOAT, [3]), value("mask", TensorProto.FLOAT, [3])],
        [value(last, TensorProto.FLOAT, [3])],
        [
            helper.make_tensor(f"layers.{i}.weight", TensorProto.FLOAT, [3], [i, 1, 2])
            for i in range(3000)
        ],
    )
    path = folder / "large.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    return view(path)


@pytest.fixture(scope="module")
def tab(large: Path) -> Iterator[Page]:
    with browser(large.parent) as page:
        yield page
        assert page.errors == []


def test_no_step_costs_as_much_as_the_model_is_large(tab: Page, large: Path) -> None:
    show(tab, large)
    assert tab.evaluate("nodes.length") == NODES
    added = tab.evaluate(STEPS)
    assert all(added.values()), "the observer sees what each step draws"
    assert max(added.values()) < 200, added


def test_only_visible_rows_are_in_the_document(tab: Page, large: Path) -> None:
    show(tab, large)
    folded = tab.evaluate("document.querySelectorAll('*').length")
    tab.evaluate("setAll(true)")
    tab.frame()
    assert tab.evaluate("rows.length") > NODES
    assert tab.evaluate("document.querySelectorAll('.r').length") < 100
    assert tab.evaluate("document.querySelectorAll('*').length") < folded + 300
    tab.evaluate("showView('parameters')")
    tab.frame()
    assert tab.evaluate("parametersShown.length") == 3000
    assert tab.evaluate("document.querySelectorAll('#parameters-rows .p').length") < 100
    tab.evaluate("table.scrollTop = 1e9")
    tab.frame()
    tab.frame()
    assert tab.evaluate("$('parameters-rows').lastChild.innerText").startswith("layers.2999.weight")


@pytest.mark.slow
def test_the_overview_leads_anywhere(tab: Page, large: Path) -> None:
    show(tab, large)
    tab.evaluate("setAll(true)")
    tab.frame()
    x, top, height = tab.evaluate(
        "[strip.getBoundingClientRect()].map((r) => [r.x + r.width / 2, r.y, r.height])[0]"
    )
    for kind in ("mouseMoved", "mousePressed"):
        tab.mouse(kind, x, top + height / 2)
    tab.frame()
    share = "scroll.scrollTop / (scroll.scrollHeight - scroll.clientHeight)"
    assert tab.evaluate(share) == pytest.approx(0.5, abs=0.01)
    tab.mouse("mouseMoved", x, top + height - 2)
    tab.mouse("mouseReleased", x, top + height - 2)
    tab.frame()
    assert tab.evaluate(share) > 0.98
    drawn = tab.evaluate(
        "[...strip.getContext('2d').getImageData(0, 0, strip.width, strip.height).data]"
        ".filter((value, at) => at % 4 === 3 && value > 0).length"
    )
    assert drawn > 1000
