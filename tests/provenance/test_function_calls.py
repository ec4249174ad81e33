"""Attribution of nodes to calls to ONNX functions, after a runtime has inlined the functions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import pytest
from flax import nnx

from harness.provenance_of import line_of
from jax2onnx import SourceMap, _core, onnx_function, to_onnx
from models.nnx.gpt import gpt

Run = Callable[..., Any]


class Tables(nnx.Module):
    """Layers whose own code is Flax's, so that their line is that of the call."""

    def __init__(self) -> None:
        self.one = nnx.Embed(10, 8, rngs=nnx.Rngs(0))
        self.two = nnx.Embed(10, 8, rngs=nnx.Rngs(1))
        self.norms = nnx.List([nnx.LayerNorm(8, rngs=nnx.Rngs(0)) for _ in range(3)])

    def __call__(self, i: jax.Array, j: jax.Array) -> jax.Array:
        x = self.one(i)  # one
        y = self.two(j)  # two
        z = self.norms[0](x + y)  # norm 0
        z = self.norms[1](jnp.sin(z))  # norm 1
        return self.norms[2](z * 2)  # norm 2


@onnx_function
def leaf(x: jax.Array) -> jax.Array:
    return jnp.sin(x)


@onnx_function
def pair(x: jax.Array) -> jax.Array:
    return leaf(leaf(x) + 1)


@onnx_function
def repeated(x: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda c, _: (leaf(c) * 2, None), x, None, length=2)[0]


def nested(x: jax.Array) -> jax.Array:
    y = leaf(pair(x))  # before
    y = repeated(y)  # first loop
    y = jax.lax.scan(lambda c, _: (pair(c), None), y, None, length=2)[0]  # inside a loop
    y = repeated(y)  # second loop
    return leaf(pair(y))  # after


INDICES = np.arange(4, dtype=np.int32)


def programs() -> dict[str, tuple[Any, list[Any]]]:
    model, args = gpt(layers=2)
    return {
        "tables": (Tables(), [INDICES, INDICES]),
        "nested": (nested, [np.ones(4, np.float32)]),
        "gpt": (model, list(args)),
    }


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line and parses its JSON output."""

    def run(*arguments: object) -> Any:
        assert _core.main([*map(str, arguments), "--json"]) == 0
        return json.loads(capfd.readouterr().out)

    return run


def export(folder: Path, name: str, level: str = "sourcemap") -> Path:
    fn, args = programs()[name]
    path = folder / "model.onnx"
    to_onnx(
        fn,
        args,
        functions="modules",
        stacktrace_metadata=level,
        return_mode="file",
        output_path=path,
    )
    return path


def profiled(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """Returns a model, its version optimised by onnxruntime, and the profile of one run."""
    path, optimised = export(folder, name), folder / "optimised.onnx"
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    options.optimized_model_filepath = str(optimised)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = zip(session.get_inputs(), programs()[name][1], strict=True)
    session.run(None, {value.name: np.asarray(array) for value, array in feeds})
    return path, optimised, Path(session.end_profiling())


@pytest.mark.parametrize("level", ["sourcemap", "full", "minimal"])
def test_a_failure_is_explained_by_the_call_that_failed(
    level: str, tmp_path: Path, run: Run
) -> None:
    path = export(tmp_path, "tables", level)
    calls = {"_inlfunc_Embed": "one", "_inlfunc_Embed_token_0": "two"}
    for prefix, mark in calls.items():
        message = f"Name:'{prefix}_/Embed/Gather' Status Message: why"
        (found,) = run("explain", path, f"running Gather node. {message}")["findings"]
        (source,) = found["sources"]
        assert source["site"]["line"] == line_of(mark, Tables)
        assert source["scope"] == mark
        assert source["others"] == []


@pytest.mark.parametrize("level", ["sourcemap", "full", "minimal"])
def test_where_the_call_is_not_known_all_are_named(
    level: str, tmp_path: Path, run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    path = export(tmp_path, "tables", level)
    lines = [line_of(mark, Tables) for mark in ("one", "two")]
    for name in ("/Embed/Gather", "_inlfunc_Embed_token_99_/Embed/Gather", "/Embed/Gather__7"):
        (found,) = run("explain", path, name)["findings"]
        (source,) = found["sources"]
        sources = (source, *source["others"])
        assert [source["site"]["line"] for source in sources] == lines, name
        assert _core.main(["explain", str(path), name]) == 0
        text = capfd.readouterr().out
        assert all(f"{line}" in text for line in lines)
    assert _core.main(["show", str(path)]) == 0
    (row,) = (row for row in capfd.readouterr().out.splitlines() if "Gather " in row)
    assert f":{lines[0]} or {lines[1]} " in row


@pytest.mark.parametrize("name", ["tables", "nested", "gpt"])
def test_names_and_operands_lead_to_the_same_calls(name: str, tmp_path: Path, run: Run) -> None:
    """A profile of the exported model has only onnxruntime's generated names; the optimised model
    also has the operands.
    """
    path, optimised, profile = profiled(tmp_path, name)
    by_name, by_operand = (run("profile", m, profile) for m in (path, optimised))
    assert by_name["total_ns"] == by_operand["total_ns"]
    # The function of a class with the name of an operator is `AttentionFunction`.
    functions = {f.name.removesuffix("Function") for f in onnx.load(path).functions}
    inlined = resolved = 0
    for one, other in zip(by_name["kernels"], by_operand["kernels"], strict=True):
        assert one["name"] == other["name"]
        if one["name"].startswith("_inlfunc_"):
            inlined += 1
            # A fused node may represent more, but includes the node it is named after.
            assert set(one["sites"]) & set(other["sites"]), one["name"]
            assert one["node"] in one["name"]
            # If the result of a call is gone, its module is that of the function.
            called = [m for m in other["modules"] if m.split("/")[0] not in functions]
            resolved += one["modules"][0] in called
            layers = {module.split("/")[0] for module in called}
            assert one["modules"][0].split("/")[0] in layers or not called, one["name"]
    assert inlined > 5
    assert resolved == inlined or (name == "gpt" and resolved > 10)


def test_each_call_gets_its_own_time(tmp_path: Path, run: Run) -> None:
    path, optimised, profile = profiled(tmp_path, "tables")
    names = {
        "one": "_inlfunc_Embed_/",
        "two": "_inlfunc_Embed_token_0_/",
        "norm 0": "_inlfunc_LayerNorm_/",
        "norm 1": "_inlfunc_LayerNorm_token_1_/",
        "norm 2": "_inlfunc_LayerNorm_token_2_/",
    }
    events = json.loads(profile.read_text())
    others = {"norm 0": "/Add", "norm 1": "/Sin", "norm 2": "/Mul"}
    expected = {
        line_of(mark, Tables): 1000
        * sum(
            event["dur"]
            for event in events
            if event["name"].endswith("_kernel_time")
            and (
                event["name"].startswith(prefix)
                or event["name"] == f"{others.get(mark)}_kernel_time"
            )
        )
        for mark, prefix in names.items()
    }
    for model in (path, optimised):
        report = run("profile", model, profile)
        assert {line["line"]: line["ns"] for line in report["lines"]} == expected
        modules = {module["module"] for module in report["modules"]}
        assert modules == {"", "one", "two", "norms.0", "norms.1", "norms.2"}


@pytest.mark.parametrize("name", ["tables", "nested", "gpt"])
def test_the_page_and_the_profile_agree(name: str, tmp_path: Path, run: Run) -> None:
    path, _, profile = profiled(tmp_path, name)
    page = tmp_path / "page.html"
    report = run("profile", path, profile)
    assert _core.main(["view", str(path), "-o", str(page), "--profile", str(profile)]) == 0
    text = page.read_text()
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    _, unattributed = data["profile"]["unattributed"]
    assert unattributed == report["unattributed_ns"]
    assert data["profile"]["total"][1] == report["total_ns"]
    assert sum(node[9] for node in data["nodes"]) + unattributed == report["total_ns"]
    strings, nodes = data["strings"], data["nodes"]
    inside = [node for node in nodes if node[3] >= 0]
    assert inside, "the nodes of functions are inside the calls"
    own = sum(node[9] for node in inside)
    kernels = [kernel for kernel in report["kernels"] if kernel["node"]]
    inlined = {k["node"] for k in kernels if k["name"].startswith("_inlfunc_")}
    # The reshapes around an inlined product have names without a prefix.
    expected = sum(k["ns"] for k in kernels if k["node"] in inlined | {"/Identity"})
    assert own == expected
    for at, node in enumerate(nodes):
        if node[3] >= 0:
            owner = nodes[node[3]]
            assert node[3] < at
            scope = strings[owner[2]]
            assert strings[node[2]].startswith(scope), "and in the module of the call"


def test_the_source_map_tells_calls_apart(tmp_path: Path) -> None:
    path, optimised, _ = profiled(tmp_path, "tables")
    model = onnx.load(path)
    found = SourceMap.load(model)
    lines = {mark: line_of(mark, Tables) for mark in ("one", "two")}
    for inlined in (onnx.load(optimised), onnx.inliner.inline_local_functions(model)):
        gathers = [
            (node, sources)
            for node, sources in found.lookup_model(inlined)
            if node.op_type == "Gather"
        ]
        assert len(gathers) == 2
        for node, (source,) in gathers:
            mark = node.input[0].split(".")[0]
            assert source.site.line == lines[mark]
            assert source.scope == mark
            assert source.callers == []
            assert [site.line for site in source.sites] == [lines[mark]]
    (source,) = found.lookup("/Embed/Gather")
    assert [site.line for site in source.sites] == list(lines.values())
