"""The error messages, word for word.

`UPDATE_SNAPSHOTS=1 pytest tests/export/test_messages.py` updates the snapshot.
"""

import errno
import os
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax2onnx import Jax2OnnxError, SourceMap, allclose, to_onnx, verify
from jax2onnx._export import result
from models.unsupported import (
    Encoder,
    Trained,
    calls_jitted,
    flat,
    half_bytes,
    nested,
    noisy,
    odd_element_type,
    returns_nothing,
    two_inputs,
)

SNAPSHOT = Path(__file__).parents[1] / "snapshots" / "messages.txt"


def _export(**options: Any) -> Any:
    return to_onnx(two_inputs, [(2,), (2,)], **options)


CASES = {
    "all unsupported primitives at once": lambda: to_onnx(Encoder(), [(3,)]),
    "one inside a jitted function": lambda: to_onnx(calls_jitted, [(3,)]),
    "an element type that ONNX lacks": lambda: to_onnx(odd_element_type, [(3,)]),
    "an element type without kernels": lambda: to_onnx(half_bytes, [(3,)]),
    "a result that is too large": lambda: to_onnx(flat, [(2**62, 4)]),
    "conditions that nest too deep": lambda: to_onnx(nested, [(3,), (2,)]),
    "too few inputs": lambda: to_onnx(two_inputs, [(2,)]),
    "too many inputs": lambda: to_onnx(two_inputs, [(2,), (2,), (2,)]),
    "an input without shape": lambda: to_onnx(two_inputs, [(2,), print]),
    "a shape with a fraction": lambda: to_onnx(two_inputs, [(2,), (2.5,)]),
    "a shape instead of inputs": lambda: to_onnx(jnp.sin, (2, 3)),
    "no function": lambda: to_onnx(3, [(2,)]),
    "a class": lambda: to_onnx(Encoder, [(3,)]),
    "a shape with an element type": lambda: to_onnx(jnp.sin, [((2, "B"), np.int32)]),
    "training": lambda: _export(training="off"),
    "layers in training mode": lambda: to_onnx(Trained(), [(4, 3)], training="error"),
    "an unknown keyword": lambda: to_onnx(two_inputs, [(2,), (2,)], {"z": 1}),
    "no results": lambda: to_onnx(returns_nothing, [(2,)]),
    "return_mode": lambda: _export(return_mode="fil"),
    "export_mode": lambda: _export(export_mode="wasm"),
    "normalization_mode": lambda: _export(normalization_mode="x"),
    "opset that is not a number": lambda: _export(opset="23"),
    "opset that is too old": lambda: _export(opset=7),
    "opset that is too new": lambda: _export(opset=99),
    "paths": lambda: _export(paths="both"),
    "stacktrace_metadata": lambda: _export(stacktrace_metadata="all"),
    "missing output_path": lambda: _export(return_mode="file"),
    "unwritable output_path": lambda: _export(return_mode="file", output_path="/dev/null/m.onnx"),
    "folder as output_path": lambda: _export(return_mode="file", output_path="models/"),
    "unwritable source_map": lambda: _export(source_map="/dev/null/m.map"),
    "unwritable record": lambda: _export(record_primitive_calls_file="/dev/null/r.jsonl"),
    "a map over the model": lambda: _export(
        return_mode="file", output_path="m.onnx", source_map="./m.onnx"
    ),
    "a map over the weights": lambda: _export(
        return_mode="file", output_path="m.onnx", source_map="m.onnx.data"
    ),
    "a record over the map": lambda: _export(
        source_map="m.map", record_primitive_calls_file="m.map"
    ),
    "a model over the function": lambda: _export(
        return_mode="file", output_path="tests/models/unsupported.py"
    ),
    "a dimension that is too large": lambda: to_onnx(two_inputs, [(2,), (10**20,)]),
    "a text with one that is too large": lambda: to_onnx(two_inputs, [(2,), f"B, {10**20}"]),
    "too few input_names": lambda: _export(input_names=["a"]),
    "input_names twice the same": lambda: _export(input_names=["a", "a"]),
    "too many output_names": lambda: _export(output_names=["a", "b"]),
    "NCHW of a vector": lambda: _export(inputs_as_nchw=["x"]),
    "NCHW of nothing": lambda: _export(outputs_as_nchw=[7]),
    "an operator that is misspelt": lambda: _export(operators={"Gelo": "native"}),
    "no checkpoint": lambda: _export(checkpoint="tests/models/unsuported.py"),
    "a format for no parameter": lambda: _export(weights={"head.*": "int4"}),
    "weights that stay": lambda: _export(weights="int4"),
    "no source map": lambda: SourceMap.load(_export()),
    "no model": lambda: allclose(two_inputs, "nothing.onnx", [(2,), (2,)]),
    "a file that is no model": lambda: allclose(two_inputs, "README.md", [(2,), (2,)]),
    "another file that is no model": lambda: verify("README.md", "README.md", [(2,)]),
    "too few arguments to compare with": lambda: allclose(two_inputs, _export(), [(2,)]),
}


WARNINGS = {
    "a layer in training mode": lambda: to_onnx(Trained(), [(4, 3)]),
    "a key that a function holds": lambda: to_onnx(noisy, [(4,)]),
    "64-bit arrays": lambda: to_onnx(two_inputs, [np.ones(2), np.ones(2, np.int64)]),
    "output_path": lambda: _export(output_path="model.onnx"),
}


def test_messages() -> None:
    texts = []
    for title, case in CASES.items():
        with pytest.raises(Jax2OnnxError) as caught:
            case()
        said = str(caught.value).replace(os.getcwd(), "WORKING_DIRECTORY")
        texts.append(f"== {title}\n{type(caught.value).__name__}: {said}\n")
    for title, case in WARNINGS.items():
        with pytest.warns(UserWarning, match=r".") as warned:
            case()
        said = "\n".join(str(warning.message) for warning in warned)
        texts.append(f"== {title}\nUserWarning: {said}\n")
    found = "\n".join(texts)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(found)
    assert found == SNAPSHOT.read_text()


@pytest.mark.parametrize("damage", [b"", b"\x0a\x02", b"\x3a\x06\x0a\x04\x0a\x02\xff\xfe"])
def test_damaged_models_are_named(damage: bytes, tmp_path: Path) -> None:
    """One is empty, one is truncated, and one has a name that is not valid text."""
    damaged, whole = tmp_path / "damaged.onnx", tmp_path / "whole.onnx"
    damaged.write_bytes(damage)
    _export(return_mode="file", output_path=whole)
    x = np.ones(2, np.float32)
    for one, other in ((damaged, whole), (whole, damaged)):
        with pytest.raises(Jax2OnnxError, match=r"damaged\.onnx: not an ONNX model, or damaged"):
            verify(str(one), str(other), [x, x])


def test_the_errors_of_jax_pass_through() -> None:
    with pytest.raises(TypeError, match="incompatible shapes"):
        to_onnx(lambda x, y: x + y, [(2,), (3,)])


def test_the_errors_of_jax_name_the_function() -> None:
    def chooses(x: jax.Array) -> jax.Array:
        return x if x.sum() > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError, match=r"chooses at .*the argument x"):
        to_onnx(chooses, [(2,)])


@pytest.mark.parametrize(
    ("fn", "advice"),
    [
        (lambda x, n: jnp.arange(n), r"jnp\.arange\(10\) < n"),
        (lambda x, n: jnp.linspace(0, 1, n), r"mask the rest"),
        (lambda x, n: jnp.nonzero(x), r"`size=`"),
        (lambda x, n: jnp.unique(x), r"`size=`"),
        (lambda x, n: jnp.compress(x > 0, x), r"`size=`"),
        (lambda x, n: x[x > 0], r"jnp\.where\(mask, x, 0\)"),
        (lambda x, n: x.at[x > 0].set(0), r"jnp\.where\(mask, x, 0\)"),
        (lambda x, n: x[:n], r"jax\.lax\.dynamic_slice"),
        (lambda x, n: x.reshape(n, -1), r"mask the rest"),
        (lambda x, n: jnp.zeros(n), r"mask the rest"),
        (lambda x, n: jnp.broadcast_to(x, (n, 4)), r"mask the rest"),
        (lambda x, n: jnp.tile(x, n), r"a Python number"),
        (lambda x, n: sum(x * i for i in range(n)), r"jax\.lax\.fori_loop"),
        (lambda x, n: np.sin(np.asarray(x)), r"use jax\.numpy"),
        (lambda x, n: x if x[0] > 0 else -x, r"jax\.lax\.cond"),
        (lambda x, n: x * float(x[0]), r"keep it as an array"),
        (lambda x, n: x * int(x[0]), r"keep it as an array"),
        (lambda x, n: x * x[0].item(), r"keep it as an array"),
        (lambda x, n: x * x.tolist()[0], r"keep it as an array"),
    ],
)
def test_sizes_and_choices_by_value(fn: Any, advice: str) -> None:
    with pytest.raises((TypeError, IndexError)) as caught:
        to_onnx(fn, [(4,), jax.ShapeDtypeStruct((), np.int32)])
    note = caught.value.__notes__[-1]
    line = fn.__code__.co_firstlineno
    assert re.search(rf"--> .*test_messages\.py:{line} in <lambda>\n    \(lambda x, n: ", note), (
        note
    )
    assert re.search(rf"help: .*{advice}", note), note


def test_a_number_beside_a_symbol() -> None:
    with pytest.raises(TypeError) as caught:
        to_onnx(lambda x, y: x + y, [("B", 3), (2, 3)])
    note = caught.value.__notes__[-1]
    assert "axis 0 of the input `y` is 2, beside `B`; write the same name there" in note


@pytest.mark.parametrize(
    ("fn", "advice"),
    [
        (lambda x: x[: int(x.shape[0] / 2)], r"x\.shape\[0\] // 2 instead of int"),
        (lambda x: x / float(x.shape[0]), r"omit `float`.* \(x / x\.shape\[0\]\)"),
        (lambda x: sum(x[i] for i in range(x.shape[0])), r"fori_loop instead of range"),
    ],
)
def test_symbolic_sizes_as_numbers_of_python(fn: Any, advice: str) -> None:
    with pytest.raises(TypeError) as caught:
        to_onnx(fn, [("B", 3)])
    assert re.search(advice, "".join(caught.value.__notes__))


def test_the_advice_on_symbolic_sizes_exports() -> None:
    def fn(x: jax.Array) -> jax.Array:
        rows = jax.lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i], jnp.zeros(3))
        return x[: x.shape[0] // 2] / x.shape[0] + rows

    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    ok, message = allclose(fn, to_onnx(fn, [("B", 3)]), [x])
    assert ok, message


def test_an_option_that_is_misspelt() -> None:
    with pytest.raises(
        TypeError, match="unexpected keyword argument 'stacktrace_metdata'"
    ) as caught:
        _export(stacktrace_metdata=True)
    assert caught.value.__notes__ == ["  help: did you mean 'stacktrace_metadata'?"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "makedirs", full)
    with pytest.raises(Jax2OnnxError, match="free some space or choose another disk"):
        _export(return_mode="file", output_path=tmp_path / "model.onnx")


def test_a_proto_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "LARGEST_MESSAGE", 16)
    with pytest.warns(UserWarning, match=r'\[large-proto\].*\n.*return_mode="file"'):
        _export()


def test_nan_on_both_sides_is_reported() -> None:
    model = to_onnx(lambda x: x / x, [(3,)])
    ok, message = allclose(lambda x: x / x, model, [np.array([0, 1, 0], np.float32)])
    assert ok
    assert message.splitlines() == [
        "the output agrees (rtol=0.001, atol=1e-05)",
        "`output` is NaN on both sides in 2 of 3 elements",
    ]


def test_an_error_of_the_function_passes_through() -> None:
    def fn(x: jax.Array) -> jax.Array:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        to_onnx(fn, [(2,)])
