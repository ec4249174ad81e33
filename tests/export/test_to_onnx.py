"""The options of `to_onnx`, end to end."""

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir
import pytest

from harness.checking import assert_close, check_model, run
from jax2onnx import InvalidInputError, UnsupportedError, to_onnx
from models.nnx.mlp import mlp

W = jnp.arange(12.0).reshape(3, 4)


def sample(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 2.0


def names(values: Any) -> list[str]:
    return [value.name for value in values]


def metadata(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


class Out(NamedTuple):
    logits: Any
    hidden: Any


def test_names_at_the_boundary() -> None:
    def fn(x: Any, batch: Any, *, scale: Any) -> Any:
        logits = (x @ W + batch["bias"]) * scale
        return {"logits": logits, "parts": Out(jnp.sum(logits), [x])}

    model = to_onnx(fn, [(2, 3), {"bias": (4,)}], {"scale": 0.5}, "named")
    assert model.graph.name == "named"
    assert names(model.graph.input) == ["x", "batch.bias", "scale"]
    assert names(model.graph.output) == ["out.logits", "out.parts.logits", "out.parts.hidden.0"]
    assert names(model.graph.initializer)[:1] == ["W"]

    x, bias = np.ones((2, 3), np.float32), np.arange(4, dtype=np.float32)
    expected = jax.tree.leaves(fn(x, {"bias": bias}, scale=np.float32(0.5)))
    assert_close(run(model, [x, bias, np.float32(0.5)]), expected)


def test_names_may_be_chosen() -> None:
    model = to_onnx(sample, [(2,)], input_names=["angle"], output_names=["double_sine"])
    assert names(model.graph.input) == ["angle"]
    assert names(model.graph.output) == ["double_sine"]


def test_an_input_may_be_an_output() -> None:
    check_model(lambda x, y: (y, x, y, x + y), [np.ones(2, np.float32), np.zeros(2, np.float32)])


def test_results_may_be_constants() -> None:
    check_model(lambda x: (x, jnp.float32(3), jnp.arange(3)), [np.ones(2, np.float32)])


@pytest.mark.parametrize(
    "fn",
    [
        jax.jit(sample),
        functools.partial(lambda factor, x: sample(x) * factor, 2.0),
        jax.jit(lambda x: jax.jit(sample)(x) + jax.checkpoint(sample)(x)),
    ],
)
def test_kinds_of_functions(fn: Any) -> None:
    check_model(fn, [np.linspace(0, 1, 5, dtype=np.float32)])


def test_double_precision() -> None:
    model = to_onnx(sample, [(3,)], enable_double_precision=True)
    x = np.linspace(0, 1, 3)
    (found,) = run(model, [x])
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.sin(x) * 2, rtol=1e-12)
    assert not jax.config.jax_enable_x64

    given = to_onnx(lambda x, n: x * n, [x, np.int64(2)], enable_double_precision=True)
    types = [value.type.tensor_type.elem_type for value in given.graph.input]
    assert types == [onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64]


def test_layout_at_the_boundary() -> None:
    def fn(image: jax.Array) -> jax.Array:
        return image * jnp.arange(3.0)

    model = to_onnx(fn, [(1, 4, 5, 3)], inputs_as_nchw=[0], outputs_as_nchw=["output"])
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    assert shape == [1, 3, 4, 5]
    image = np.random.default_rng(0).normal(size=(1, 4, 5, 3)).astype(np.float32)
    (found,) = run(model, [image.transpose(0, 3, 1, 2)])
    np.testing.assert_allclose(found.transpose(0, 2, 3, 1), fn(image), rtol=1e-6)


def versions(*args: Any, **options: Any) -> tuple[int, int]:
    """Returns the opset and the IR version of an export."""
    model = to_onnx(*args, **options)
    return model.opset_import[0].version, model.ir_version


def test_the_opset_is_the_lowest_that_costs_nothing() -> None:
    def norm(x: Any) -> Any:
        return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)

    assert versions(sample, [(2,)]) == (18, 8)
    assert versions(lambda x: jax.nn.gelu(x, approximate=False), [(2,)]) == (20, 9)
    assert versions(lambda x: jnp.max(x > 0), [(2,)]) == (18, 8)
    assert versions(norm, [(2, 8)], operators="native") == (23, 10)
    assert versions(sample, [(2,)], opset=21) == (21, 10)


def test_metadata_of_nodes_needs_a_newer_format() -> None:
    assert versions(sample, [(2,)], stacktrace_metadata=True) == (18, 10)
    assert versions(sample, [(2,)], stacktrace_metadata=True, opset=18) == (18, 8)


def test_an_opset_that_is_too_old_is_an_error() -> None:
    with pytest.raises((UnsupportedError, InvalidInputError)) as caught:
        to_onnx(lambda x: jax.nn.gelu(x, approximate=False), [(2,)], opset=5)
    assert "opset" in str(caught.value)


def test_return_modes(tmp_path: Path) -> None:
    model, args = mlp()
    expected = [model(*args)]
    proto = to_onnx(model, args)
    assert isinstance(proto, onnx.ModelProto)
    assert_close(run(proto, args), expected)

    ir = to_onnx(model, args, return_mode="ir")
    assert isinstance(ir, onnx_ir.Model)
    assert_close(run(onnx_ir.to_proto(ir), args), expected)

    path = to_onnx(model, args, return_mode="file", output_path=tmp_path / "a" / "b" / "m.onnx")
    assert path == str(tmp_path / "a" / "b" / "m.onnx")
    assert_close(run(path, args), expected)
    assert onnx.load(path) == proto


def test_every_primitive_is_recorded(tmp_path: Path) -> None:
    record = tmp_path / "calls" / "record.jsonl"
    to_onnx(sample, [(2,)], record_primitive_calls_file=record)
    calls = [json.loads(line) for line in record.read_text().splitlines()]
    assert [call["primitive"] for call in calls] == ["sin", "mul"]
    line = sample.__code__.co_firstlineno + 1
    assert all((call["line"], call["function"]) == (line, "sample") for call in calls)


def test_every_node_knows_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX2ONNX_ENABLE_STACKTRACE_METADATA", "1")
    nodes = to_onnx(sample, [jax.ShapeDtypeStruct((2,), jnp.float32)]).graph.node
    line = sample.__code__.co_firstlineno + 1
    assert {metadata(node)["pkg.jax2onnx.callsite"] for node in nodes} == {f"sample:{line}"}
    rules = [metadata(node)["pkg.jax2onnx.plugin"].split(":")[0] for node in nodes]
    assert rules == ["sin.lower", "mul.lower"]

    monkeypatch.setenv("JAX2ONNX_STACKTRACE_DETAIL", "full")
    for node in to_onnx(sample, [(2,)]).graph.node:
        found = metadata(node)
        assert f"{Path(__file__).name}:{line}" in found["pkg.jax2onnx.jax_traceback"]
        assert Path(__file__).name in found["pkg.jax2onnx.stacktrace"]
        assert "scopes.py" not in found["pkg.jax2onnx.jax_traceback"]


def test_metadata_changes_nothing_else() -> None:
    model, args = mlp()
    plain = to_onnx(model, args)
    for level in (True, "full"):
        marked = to_onnx(model, args, stacktrace_metadata=level)
        assert all(node.metadata_props for node in marked.graph.node)
        for node in marked.graph.node:
            node.ClearField("metadata_props")
        assert (plain.ir_version, marked.ir_version) == (8, 10)
        marked.ir_version = plain.ir_version
        marked.ClearField("metadata_props")
        plain.ClearField("metadata_props")
        assert marked == plain


@pytest.mark.parametrize("option", ["output_path", "record_primitive_calls_file"])
def test_an_unwritable_path_is_an_error(option: str, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    paths = {"output_path": tmp_path / "m.onnx", option: blocked / "m.onnx"}
    with pytest.raises(InvalidInputError) as caught:
        to_onnx(sample, [(2,)], return_mode="file", **paths)
    assert caught.value.code == "unwritable-path"
    assert str(blocked) in str(caught.value)
    assert not (tmp_path / "m.onnx").exists()
