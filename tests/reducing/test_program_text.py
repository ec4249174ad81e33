"""Programs that are printed as JAX code, or read from a recording, compute the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax2onnx
from jax2onnx._reducing import recording
from jax2onnx._reducing.array_text import array_text
from jax2onnx._reducing.program_text import ProgramText

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def layers(x: jax.Array) -> jax.Array:
    h = jax.nn.gelu(x @ jnp.arange(8.0).reshape(4, 2) / 8)
    return jax.nn.softmax(h, axis=-1) * jnp.where(h > 0, h, -jnp.inf).max()


def indexed(x: jax.Array) -> tuple[jax.Array, ...]:
    best = jnp.argmax(x, axis=1)
    taken = jnp.take_along_axis(x, best[:, None], 1)
    return best, taken, x.at[jnp.array([2, 0])].add(1), jnp.sort(x, 0), lax.top_k(x, 2)[0]


def looped(x: jax.Array) -> tuple[jax.Array, ...]:
    scale = jnp.cos(x[0])

    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = carry * scale + row
        return carry, lax.cond(carry[0] > 0, jnp.sin, lambda c: c - scale, carry)

    last, rows = lax.scan(step, x[0], x, reverse=True)
    count = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, last))
    return last, rows, count[1], lax.fori_loop(0, 2, lambda i, c: c + i, last)


def moved(x: jax.Array) -> tuple[jax.Array, ...]:
    padded = jnp.pad(x, ((1, 0), (0, 2)), constant_values=1)
    window = lax.dynamic_slice(padded, (1, 0), (2, 3))
    both = jnp.concatenate([window.T, jnp.flip(window.T, 0)], 1)
    return both, both[::2, 1:3].astype(jnp.float16) + 1


def convolved(x: jax.Array) -> jax.Array:
    image = x.reshape(1, 1, 3, 4)
    return lax.conv_general_dilated(image, image[..., :2, :2], (1, 1), "SAME")


FUNCTIONS = [layers, indexed, looped, moved, convolved]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_printed_programs_compute_the_same(function: Callable[..., Any]) -> None:
    closed = jax.make_jaxpr(function)(X)
    text = ProgramText(closed, ["x"], double=False)
    space: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np, "lax": lax}
    exec("\n".join([*text.imports, *text.constants, *text.lines]), space)
    _assert_same(space["program"](X), function(jnp.asarray(X)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_recordings_compute_the_same(function: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "program.jaxpr"
    jax2onnx.to_onnx(function, [X], record=path, record_weights=True)
    found = recording.read(path.read_text(), {"x": X})
    _assert_same(found.cases[0].expected, function(jnp.asarray(X)))
    assert not found.double


def _assert_same(found: Any, expected: Any) -> None:
    for one, other in zip(
        jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(expected), strict=True
    ):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.float32(0.1) * np.ones((2, 2), np.float32), "np.full((2, 2), 0.1, np.float32)"),
        (np.arange(6, dtype=np.int8).reshape(2, 3), "np.arange(6).reshape((2, 3)).astype(np.int8)"),
        (np.array([np.nan, -np.inf, 1]), "np.array([np.nan, -np.inf, 1.0], np.float64)"),
        (np.zeros((0, 2), bool), "np.zeros((0, 2), np.bool_)"),
        (np.array([1 + 2j]), "np.array([complex(1.0, 2.0)], np.complex128)"),
        (np.array(True), "np.array(True, np.bool_)"),
    ],
)
def test_arrays_as_text(array: np.ndarray, text: str) -> None:
    assert array_text(array) == text
    again = eval(text, {"np": np})
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)


def test_a_recording_that_jax_cannot_run() -> None:
    text = "{ lambda ; a:f32[2]. let\n    b:f32[2] = no_such_primitive a\n  in (b,) }"
    with pytest.raises(jax2onnx.InvalidInputError, match="has the primitive `no_such_primitive`"):
        recording.read(text)
    with pytest.raises(jax2onnx.InvalidInputError, match="line 1, column"):
        recording.read("not a recording")


@pytest.mark.slow
def test_a_recording_is_reduced(tmp_path: Path) -> None:
    """The numbers of weights are made up, and the lines are those of the recorded function."""

    def decayed(x: jax.Array) -> jax.Array:
        return jnp.tanh(jnp.exp2(x * 2) + 1)

    path = tmp_path / "program.jaxpr"
    jax2onnx.to_onnx(decayed, [("B", 3)], record=path)
    with jax2onnx.local_lowerings():

        @jax2onnx.lowering("exp2", override=True)
        def wrong(ctx: jax2onnx.LoweringContext, x: jax2onnx.Value) -> jax2onnx.Value:
            return ctx.op("Exp", x)

        found = jax2onnx.reduce(path)
    assert "test_program_text.py" in found.program
    assert "jnp.tanh(jnp.exp2(x * 2) + 1)" in found.program
    assert found.verdict.name == "exp2"
    found.save(tmp_path / "reduced")
    status, _, errors = jax2onnx._core.command(
        ["convert", str(tmp_path / "reduced/program.jaxpr"), "-o", str(tmp_path / "again.onnx")]
    )
    assert status == 2, errors  # the rule is not part of the recording
    assert "rules written in Python" in errors
