"""The assertions that users make about their graphs."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import onnx
import onnx_ir
import pytest

from jax2onnx import InvalidInputError, onnx_function, to_onnx
from jax2onnx.testing import UPDATE, expect_golden, expect_graph, graph_text


def layers(x: jax.Array, unused: jax.Array) -> Any:
    y = jax.nn.relu(x @ jnp.ones((4, 3)) + jnp.arange(3.0))
    return jax.lax.scan(lambda c, v: (c + jnp.sin(v), jnp.cos(v)), jnp.zeros(3), y)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    some = jax.export.symbolic_shape("B, 4", constraints=["B >= 2"])
    inputs = [jax.ShapeDtypeStruct(some, jnp.float32), (2,)]
    return to_onnx(layers, inputs, stacktrace_metadata=True)


def failure(model: Any, *paths: str, **options: Any) -> list[str]:
    """Returns the differences that an assertion reports."""
    with pytest.raises(AssertionError) as caught:
        expect_graph(model, *paths, **options)
    text, graph = str(caught.value).split("\n\nthe graph:\n")
    assert "opset ai.onnx" in graph
    return text.split("\n")


@pytest.mark.parametrize(
    "path",
    [
        "Gemm",
        "Gemm:Bx3",
        "Gemm:[B, 3]",
        "Gemm:?x3 -> *:Bx3",
        "Gemm -> Max:Bx3 -> Scan",
        "Gemm -> Relu:Bx3 -> Scan",
        "Sin:3 -> Add:3",
        "Scan{num_scan_inputs=1, scan_input_directions=[0]}",
    ],
)
def test_paths_that_exist(model: onnx.ModelProto, path: str) -> None:
    activation = next(n.op_type for n in model.graph.node if n.op_type in ("Max", "Relu"))
    expect_graph(model, re.sub("Max|Relu", activation, path))


def test_a_missing_path_names_its_longest_match(model: onnx.ModelProto) -> None:
    missing, found = failure(model, "Gemm:Bx3 -> Tanh:Bx3")
    assert missing == "- Gemm:Bx3 -> Tanh:Bx3"
    assert re.fullmatch(r"\+ Gemm:Bx3 -> (Max|Relu):Bx3", found)
    assert failure(model, "Gemm:Bx4") == ["- Gemm:Bx4", "+ Gemm:Bx3"]
    assert failure(model, "Gemm{transB=1}")[0] == "- Gemm{transB=1}"
    assert failure(model, "Tanh") == ["- Tanh", "+ nothing"]


@pytest.mark.parametrize("path", ["", "Gemm ->", "Gemm:Bx", "Gemm{transB}", "Gemm{transB=}", "a b"])
def test_a_path_that_cannot_be_read_is_an_error(model: onnx.ModelProto, path: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        expect_graph(model, path)
    assert f"in the path `{path}`" in str(caught.value)


def test_counts_and_absence_look_into_bodies(model: onnx.ModelProto) -> None:
    expect_graph(model, counts={"Sin": 1, "Scan": 1}, absent=["Tanh", "If"])
    assert failure(model, counts={"Sin": 2}) == ["- Sin: 2 times", "+ Sin: 1 times"]
    assert failure(model, absent=["Cos"]) == ["- Cos: 0 times", "+ Cos: 1 times"]


def test_unused_inputs_are_named_exactly(model: onnx.ModelProto) -> None:
    expect_graph(model, unused_inputs=["unused"])
    assert failure(model, unused_inputs=["x"]) == ["- unused input x", "+ unused input unused"]


def test_constants_have_names(model: onnx.ModelProto) -> None:
    name = model.graph.initializer[0].name
    expect_graph(model, initializers=[name])
    assert failure(model, initializers=["nobody"]) == ["- constant nobody"]


def test_metadata_by_operator_and_by_node(model: onnx.ModelProto) -> None:
    callsite, plugin = "pkg.jax2onnx.callsite", "pkg.jax2onnx.plugin"
    line = layers.__code__.co_firstlineno + 2
    site = f"layers.<locals>.<lambda>:{line}"
    expect_graph(model, metadata={"Sin": {callsite: site, plugin: re.compile(r"^sin\.lower:\d+$")}})
    expect_graph(model, metadata={"Sin": {callsite: lambda text: text.endswith(f":{line}")}})
    expect_graph(model, metadata={"Cos": {"pkg.jax2onnx.stacktrace": None}})
    gemm = next(node for node in model.graph.node if node.op_type == "Gemm")
    for name in (gemm.name, gemm.output[0]):
        expect_graph(model, metadata={name: {callsite: f"layers:{line - 1}"}})
    (missing, found) = failure(model, metadata={"Sin": {callsite: "elsewhere:1"}})
    assert missing == f"- Sin: {callsite} = elsewhere:1"
    assert found.endswith(f": {callsite} = {site}")
    assert failure(model, metadata={"Tanh": {}}) == ["- a node Tanh"]


def test_functions_are_searched() -> None:
    text = """
        <ir_version: 10, opset_import: ["" : 20, "mine" : 1]>
        main (float[N] x) => (float[N] y) { y = mine.Twice(x) }
        <domain: "mine", opset_import: ["" : 20]>
        Twice (a) => (b) { c = Sin(a)  b = Cos(c) }
    """
    model = onnx.parser.parse_model(text)
    expect_graph(model, "mine::Twice:N", "Sin -> Cos", counts={"Sin": 1})


def test_operands_one_path_of_several_and_one_function() -> None:
    text = """
        <ir_version: 10, opset_import: ["" : 20, "mine" : 1]>
        main (float[N] x, float unused) => (float[N] y)
        <float two = {2.0}, float[2] twos = {2.0, 2.0}>
        { a = Mul(x, two)  b = Clip(a, , two)  c = Mul(b, twos) y = mine.Twice(c, x) }
        <domain: "mine", opset_import: ["" : 20]>
        Twice (a, more) => (b) { k = Constant<value = float {3.0}>() b = Add(a, k) }
    """
    model = onnx.parser.parse_model(text)
    expect_graph(model, "Mul(?, 2.0) -> Clip(?, none, two) -> Mul(?, 2)", "Add(?, 3.0)")
    expect_graph(model, "Mul(?, 5)", "Mul(x, two)", mode="any")
    assert failure(model, "Mul(?, 5)", "Sin", mode="any")[0] == "- Mul(?, 5)"
    assert failure(model, "Clip(?, 0)") == ["- Clip(?, 0)", "+ Clip"]
    for name in ("Twice", "mine::Twice"):
        expect_graph(model, "Add", absent=["Mul"], unused_inputs=["more"], function=name)
    assert failure(model, "Mul", function="Twice") == ["- Mul", "+ nothing"]
    with pytest.raises(InvalidInputError, match="choose one of: mine::Twice"):
        expect_graph(model, function="Thrice")
    with pytest.raises(InvalidInputError, match="choose one of: all, any"):
        expect_graph(model, mode="some")  # type: ignore[arg-type]


def test_exported_functions_are_searched() -> None:
    @onnx_function
    def wave(x: Any) -> Any:
        return jnp.cos(jnp.sin(x))

    model = to_onnx(lambda x: wave(wave(x)), [("N",)], stacktrace_metadata=True)
    expect_graph(
        model,
        "custom.wave.1::wave:N -> custom.wave.1::wave:N",
        "Sin:N -> Cos:N",
        counts={"Sin": 1, "custom.wave.1::wave": 2},
        metadata={"Cos": {"pkg.jax2onnx.callsite": re.compile(r"wave:\d+$")}},
    )


def test_every_form_of_a_model_is_taken(model: onnx.ModelProto, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    onnx.save(model, file)
    for form in (file, str(file), onnx_ir.from_proto(model)):
        expect_graph(form, "Sin:3 -> Add:3")
        assert graph_text(form) == graph_text(model)


def test_a_golden_file_is_compared_and_updated(
    model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "deep" / "layers.txt"
    with pytest.raises(AssertionError, match=r"no layers\.txt; set UPDATE_SNAPSHOTS=1"):
        expect_golden(model, file)
    monkeypatch.setenv(UPDATE, "1")
    expect_golden(model, file)
    monkeypatch.delenv(UPDATE)
    expect_golden(model, file)
    assert "pkg.jax2onnx.callsite = layers" in file.read_text()

    other = to_onnx(lambda x: jnp.sin(x), [(2,)])
    with pytest.raises(AssertionError) as caught:
        expect_golden(other, file)
    lines = str(caught.value).split("\n")
    assert lines[1:3] == ["--- layers.txt", "+++ found"]
    assert "+output: float[2] = Sin(x)" in lines
