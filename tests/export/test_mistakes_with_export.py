"""Messages about mistakes in calls of `jax2onnx.export` and of the model that it returns."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jax2onnx import (
    Input,
    InvalidInputError,
    Output,
    Provenance,
    SourceMap,
    export,
    to_onnx,
)

X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)


class Net(nnx.Module):
    def __init__(self, seed: int = 0) -> None:
        rngs = nnx.Rngs(seed)
        self.first = nnx.Linear(4, 8, rngs=rngs)
        self.second = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.second(nnx.gelu(self.first(x)))


def scaled(x: jax.Array, *, scale: jax.Array) -> jax.Array:
    return x * scale


def test_unknown_options_have_suggestions() -> None:
    with pytest.raises(TypeError) as caught:
        export(Net(), ("B", 4), compute_dtyp="float16")
    assert caught.value.__notes__ == ["  help: did you mean 'compute_dtype'?"]
    with pytest.raises(TypeError) as caught:
        export(Net(), ("B", 4), output_file="model.onnx")
    assert caught.value.__notes__ == ["  help: did you mean 'output_path'?"]


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: Input("B, 4", dtyp="int32"), "did you mean 'dtype'?"),  # type: ignore[call-arg]
        (lambda: Output(nmae="logits"), "did you mean 'name'?"),  # type: ignore[call-arg]
        (lambda: Provenance(zip=True), "the arguments are: level, file, text, paths"),  # type: ignore[call-arg]
    ],
)
def test_misspelt_arguments_of_specifications_have_suggestions(call: Any, advice: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument") as caught:
        call()
    assert caught.value.__notes__[0].startswith(f"  help: {advice}")


def test_misspelt_options_of_the_other_function_have_suggestions() -> None:
    with pytest.raises(TypeError) as caught:
        export(Net(), ("B", 4), stacktrace_metdata=True)
    assert "did you mean 'stacktrace_metadata'? pass provenance=" in caught.value.__notes__[0]


def test_arguments_of_the_function_are_not_options() -> None:
    for function, option in ((export, "keyword_inputs"), (to_onnx, "input_params")):
        call: Any = function
        with pytest.raises(TypeError) as caught:
            call(scaled, ["f32[B,4]"], scale="f32[]")
        assert f"pass {option}={{'scale': …}}" in caught.value.__notes__[0]


def test_options_of_the_other_function_have_advice() -> None:
    from inspect import signature

    from jax2onnx._export.option_names import NOT_IN_EXPORT, NOT_IN_TO_ONNX

    of_export, of_to_onnx = ({*signature(f).parameters} for f in (export, to_onnx))
    assert {*NOT_IN_EXPORT} - {"inputs"} == of_to_onnx - of_export
    assert {*NOT_IN_TO_ONNX} == of_export - of_to_onnx
    with pytest.raises(TypeError) as caught:
        export(Net(), ("B", 4), enable_double_precision=True)
    assert caught.value.__notes__ == ["  help: `export` calls this option 'x64'"]
    with pytest.raises(TypeError) as caught:
        to_onnx(Net(), [("B", 4)], provenance="full")
    assert "stacktrace_metadata=" in caught.value.__notes__[0]


def test_messages_have_the_names_of_export() -> None:
    with pytest.raises(InvalidInputError, match="`compute_dtype` cannot be 'int8'"):
        export(Net(), ("B", 4), compute_dtype="int8")
    with pytest.raises(InvalidInputError, match=r"`weight_format` names `head\.\*`"):
        export(Net(), ("B", 4), weight_format={"head.*": "int8"})
    with pytest.raises(InvalidInputError, match=r'weight_format=\{"head.kernel": "int8"\}'):
        export(Net(), ("B", 4), weight_format="int8")
    with pytest.warns(UserWarning, match="or x64=True to compute"):
        export(Net(), np.ones((2, 4)))


def test_errors_in_notebooks_contain_their_notes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Many releases of IPython do not show notes."""
    monkeypatch.setattr("jax2onnx._python.notebooks.is_notebook", lambda: True)

    def branches(x: jax.Array) -> jax.Array:
        return x if x.sum() > 0 else -x

    with pytest.raises(TypeError, match=r"'opsett'\n  help: did you mean 'opset'\?"):
        export(Net(), ("B", 4), opsett=18)
    with pytest.raises(jax.errors.TracerBoolConversionError, match="help: Python cannot branch"):
        export(branches, "f32[3]")
    with pytest.raises(InvalidInputError) as caught:
        export(Net(), ("B", 4)).save(tmp_path)
    assert caught.value.__cause__ is None


def test_tracebacks_in_notebooks_have_only_the_users_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jax2onnx._python.notebooks.is_notebook", lambda: True)

    def fails(x: jax.Array) -> jax.Array:
        raise KeyError("mine")

    for call in (lambda: export(fails, (3,)), lambda: to_onnx(fails, [(3,)])):
        with pytest.raises(KeyError) as caught:
            call()
        files = [str(entry.path) for entry in caught.traceback]
        assert not [file for file in files if "/python/jax2onnx/" in file]
        assert caught.traceback[-1].name == "fails"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: export(jnp.sin, Input("B, 3", layout="nchw")), "only inputs with four dimensions"),
        (lambda: export(jnp.sin, Input("B, 3", dtype="float33")), "unknown element type"),
        (lambda: export(jnp.sin, ("B",), provenance="all"), "`provenance` cannot be 'all'"),
        (lambda: export(Net(), ("B", 4), params={"a": X}), "`Net` holds its parameters itself"),
        (lambda: to_onnx(jnp.sin, [Input("B, 3")]), r"only jax2onnx\.export takes these"),
        (lambda: export(jnp.sin, ("B",), outputs="y"), "one name or jax2onnx.Output"),
        (lambda: export(Net, ("B", 4)), "`fn` is the class `Net`"),
        (lambda: export(export(Net(), ("B", 4)), ("B", 4)), "which is exported already"),
        (lambda: export(Net(), keyword_inputs=["f32[3]"]), "pass a dict from argument names"),  # type: ignore[arg-type]
        (lambda: export(jnp.sin, "f32[3]", outputs=[Output(layout="nchw")]), r"Output\(layout"),
        (lambda: export(jnp.sin, "f32[3]", state={}), "are passed before the inputs"),
        (lambda: export(jnp.sin, "f32[-1,4]"), r"cannot be \('-1', 4\)"),
        (
            lambda: export(jnp.sin, "f32[3]")("f32[3]"),
            r"`x` is the text 'f32\[3\]'(?s:.*)pass an array",
        ),
        (lambda: SourceMap(export(jnp.sin, "f32[3]").proto), r"call SourceMap\.load\(model\)"),  # type: ignore[arg-type]
        (lambda: export(jnp.sin, "f32[3]").with_weights("w.npz"), "cannot be the path `w.npz`"),
        (
            lambda: export(Net.__call__, ("B", 4)),
            r"`Net\.__call__` belongs to a class: pass an inst",
        ),
    ],
)
def test_mistakes_have_messages(call: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_a_list_of_inputs_is_noted() -> None:
    with pytest.raises(InvalidInputError, match="takes inputs one by one"):
        export(Net(), [("B", 4)])
    with pytest.raises(InvalidInputError) as caught:
        export(lambda x, y: x + y, [("B", 4), ("B", 4)])
    assert caught.value.__notes__[-1].endswith("export(fn, *inputs)")


@dataclasses.dataclass
class Unregistered:
    x: Any


@pytest.mark.parametrize(
    ("value", "place", "advice"),
    [
        (
            {"x": "f32[B]", "mode": "train"},
            "`inputs[0]['mode']` cannot be 'train'",
            "functools.partial",
        ),
        ((X, 4), "`inputs[0][1]` cannot be 4", "functools.partial"),
        (
            Unregistered(X),
            "`inputs[0]` cannot be Unregistered",
            "@jax.tree_util.register_dataclass",
        ),
    ],
)
def test_values_that_are_no_inputs(value: Any, place: str, advice: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        export(lambda x: x, value)
    assert caught.value.message.startswith(place)
    assert advice in caught.value.help


def test_a_text_is_no_keyword_input() -> None:
    with pytest.raises(InvalidInputError, match="`train` is not an input"):
        export(lambda x, mode: x, "f32[B,4]", keyword_inputs={"mode": "train"})


def test_results_that_are_no_arrays_have_advice() -> None:
    with pytest.raises(TypeError) as caught:
        export(lambda x: {"x": x, "kind": "logits"}, "f32[B,4]")
    assert "help: return arrays" in caught.value.__notes__[-1]


def test_parameters_come_before_the_inputs() -> None:
    with pytest.raises(InvalidInputError, match="are passed before the inputs"):
        export(lambda x: x, "f32[B,4]", params={"w": X})


def test_a_size_that_has_to_be_divisible_has_advice() -> None:
    with pytest.raises(Exception, match="Cannot divide evenly") as caught:
        export(lambda x: x.reshape(2, -1), "f32[B]")
    assert "write `2*B`, which is always divisible" in caught.value.__notes__[-1]
    export(lambda x: x.reshape(2, -1), "f32[2*B]", check=["f32[6]"])


def test_a_static_argument_has_advice() -> None:
    fn = jax.jit(lambda x, n: x * n, static_argnames="n")
    with pytest.raises(ValueError, match="static arguments") as caught:
        export(fn, "f32[3]", keyword_inputs={"n": 3})
    assert "bind it with functools.partial" in caught.value.__notes__[-1]


def test_integers_that_do_not_fit_have_the_right_advice() -> None:
    for dtype, advice in (("u8", "pass numbers from 0 to 255"), ("i32", "x64=True")):
        with pytest.raises(InvalidInputError, match=advice):
            export(lambda x: x + 1, f"{dtype}[1]")(np.array([2**40]))


def test_long_texts_of_values_are_cut() -> None:
    with pytest.raises(InvalidInputError) as caught:
        export({"w": X}, "f32[B,4]")
    assert len(caught.value.message) < 100
