"""Bugs of runtimes on correct models: they exist, and our models avoid them."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from harness import bug_programs
from harness.checking import assert_close, check_model, check_sizes, run
from jax2onnx import to_onnx

# Bugs of operators; all others are bugs of rewrites.
OF_OPERATORS = {"scan_of_no_rows"}
# Bugs that do not occur in every run.
SOMETIMES = {"nested_conditions"}


def shows(name: str) -> bool:
    """Returns `True` if this version of onnxruntime has the bug. Some bugs crash the process."""
    command = [sys.executable, bug_programs.__file__, name]
    times = 8 if name in SOMETIMES else 1
    return any(
        subprocess.run(command, capture_output=True, check=False).returncode for _ in range(times)
    )


@pytest.mark.parametrize("name", bug_programs.PROGRAMS)
def test_the_program_shows_the_bug(name: str) -> None:
    onnx.checker.check_model(bug_programs.sample(name), full_check=True)
    if name not in OF_OPERATORS:
        bug_programs.results(name, optimised=False)
    if not shows(name):
        pytest.skip(f"onnxruntime {ort.__version__} does not have this bug")


def max_pool(x: jax.Array) -> jax.Array:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")


def padded_then_pooled(x: jax.Array) -> jax.Array:
    return max_pool(jnp.pad(x, ((0, 0), (1, 1), (1, 0), (0, 0))))


def padded_channels_first(x: jax.Array) -> jax.Array:
    padded = jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return max_pool(jnp.transpose(padded, (0, 2, 3, 1)))


def with_moment_of_order(power: float) -> Callable[[jax.Array], jax.Array]:
    def normalised(x: jax.Array) -> jax.Array:
        d = x - jnp.mean(x, -1, keepdims=True)
        scale = jnp.arange(1, 5, dtype=x.dtype)
        return d / jnp.sqrt(jnp.mean(d**power, -1, keepdims=True) + 1e-5) * scale + scale

    return normalised


SOME = np.random.default_rng(0).normal(size=(2, 4))


def wide_after_transpose(x: jax.Array) -> jax.Array:
    return jnp.transpose(x, (1, 2, 0)).astype(jnp.float32) @ jnp.ones((3, 2))


SOME_TWO = np.array([2, 3], np.float32)
HALVES = np.full((3, 3), 0.5, np.float16)
SIDEWAYS = np.ones((9, 2), np.float32)


def joined(x: jax.Array) -> jax.Array:
    turned = jnp.transpose(x, (1, 0, 2))
    return jnp.concatenate([turned, turned, jnp.transpose(x, (0, 2, 1))], -1)


@pytest.mark.parametrize(
    ("fn", "x"),
    [
        (padded_then_pooled, -np.ones((1, 6, 6, 2), np.float32)),
        (padded_channels_first, -np.ones((1, 2, 6, 6), np.float32)),
        (wide_after_transpose, np.ones((3, 3, 3), np.float16)),
        (lambda x: jnp.transpose(x, (1, 2, 0)) @ HALVES + 1, np.ones((3, 3, 3), np.float16)),
        (lambda x: HALVES @ jnp.transpose(x, (1, 2, 0)) + 1, np.ones((3, 3, 3), np.float16)),
        (lambda x: joined(x) @ np.tile(HALVES, (3, 1)) + 1, np.ones((3, 3, 3), np.float16)),
        (lambda x: joined(x).astype(np.float32) @ SIDEWAYS + 1, np.ones((3, 3, 3), np.float16)),
        (with_moment_of_order(4.0), SOME.astype(np.float32)),
        (with_moment_of_order(4.0), SOME.astype(np.float16)),
        (lambda x: jnp.reciprocal(x * -0.0 + 0.0), np.ones(3, np.float32)),
        (lambda x: jnp.reciprocal(x * -0.0 - np.float32(-0.0)), np.ones(3, np.float32)),
    ],
)
def test_our_models_do_not(fn: Callable[[Any], Any], x: np.ndarray) -> None:
    check_model(fn, [x])


def largest_of_segments(x: jax.Array) -> jax.Array:
    return jax.ops.segment_max(jnp.exp(x), jnp.array([0, 0, 1, 1]), 2)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.exp(x).at[jnp.array([1, 2])].max(x[:2]),
        lambda x: jnp.exp(x).max(),
        lambda x: jnp.exp(x).reshape(2, 2).max(1),
        lambda x: jnp.maximum(jnp.exp(x), jnp.sin(x) * 3),
        largest_of_segments,
    ],
)
def test_halves_equal_themselves(fn: Callable[[Any], Any]) -> None:
    """The gradient of a maximum reaches the numbers that are equal to it."""
    check_model(jax.grad(lambda x: fn(x).sum()), [np.linspace(-1, 1, 4, dtype=np.float16)])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("opset", [13, 17, 23])
def test_a_scan_without_rows_returns_its_initial_state(reverse: bool, opset: int) -> None:
    def fn(x: jax.Array, start: jax.Array) -> Any:
        body = lambda total, row: (jnp.tanh(total @ total.T @ row), (total, row > 0))  # noqa: E731
        return jax.lax.scan(body, start, x, reverse=reverse)

    model = to_onnx(fn, [("T", "B", 4), ("B", 4)], opset=opset)
    assert [node.op_type for node in model.graph.node].count("If") == 1
    for rows, batch in [(3, 2), (0, 2), (1, 1)]:
        args = [np.ones((rows, batch, 4), np.float32), np.ones((batch, 4), np.float32)]
        assert_close(run(model, args), jax.tree.leaves(fn(*args)))


def test_a_scan_of_no_rows_may_stack_any_type() -> None:
    def fn(x: jax.Array) -> Any:
        body = lambda total, row: (total + row, (total.astype(jnp.bfloat16), total > 0))  # noqa: E731
        return jax.lax.scan(body, jnp.zeros(4), x)[1]

    model = to_onnx(lambda x: jax.tree.map(lambda y: y.astype(np.float32), fn(x)), [("T", 4)])
    for rows in (0, 3):
        x = np.full((rows, 4), 0.5, np.float32)
        assert_close(run(model, [x]), [y.astype(np.float32) for y in fn(x)])


def test_a_scan_that_has_rows_is_not_guarded() -> None:
    def fn(x: jax.Array) -> Any:
        return jax.lax.scan(lambda total, row: (jnp.tanh(total + row), total), jnp.zeros(4), x)

    two = jax.export.symbolic_shape("T, 4", constraints=["T >= 2"])
    for shape in [(5, 4), two]:
        model = to_onnx(fn, [jax.ShapeDtypeStruct(shape, np.float32)])
        assert "Scan" in {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("opset", [13, 17, 18, 23])
@pytest.mark.parametrize(
    ("fn", "dtype"),
    [
        (lambda x: x ^ (x + 5), np.int32),
        (lambda x: jax.lax.bitcast_convert_type(x.reshape(-1, 2, 4), jnp.uint32), np.uint8),
        (lambda x: jnp.linalg.det(x.reshape(-1, 2, 2)), np.float32),
    ],
    ids=["xor", "bitcast", "det"],
)
def test_sums_over_nothing_have_their_shape(
    fn: Callable[[Any], Any], dtype: Any, opset: int
) -> None:
    (batch,) = jax.export.symbolic_shape("B")
    model = to_onnx(fn, [jax.ShapeDtypeStruct((batch, 8), dtype)], opset=opset)
    for size in (0, 3):
        x = np.arange(size * 8).reshape(size, 8).astype(dtype)
        (found,) = run(model, [x])
        assert_close([found], [jax.jit(fn)(x)])


WEIGHT = np.random.default_rng(1).normal(size=(4, 3))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.clip(jax.nn.relu(x), 0.25, 1),
        lambda x: (x * 0.1) @ WEIGHT,
        lambda x: (x @ WEIGHT) / 3,
        lambda x: (x * 1e300) @ WEIGHT,
        lambda x: ((x @ WEIGHT) * 0.1) @ WEIGHT.T,
        lambda x: (0.1 * x) @ jnp.swapaxes(x, 0, 1),
        with_moment_of_order(2.0),
        jax.nn.silu,
        lambda x: x * jax.nn.sigmoid(1.702 * x),
    ],
)
def test_double_precision_stays_double(fn: Callable[[Any], Any]) -> None:
    with jax.enable_x64(True):
        model = to_onnx(fn, [SOME], enable_double_precision=True)
        np.testing.assert_allclose(run(model, [SOME])[0], fn(SOME), rtol=1e-13)


def test_a_padded_pool_of_symbolic_size() -> None:
    x = -np.ones((2, 7, 6, 2), np.float32)
    check_sizes(padded_then_pooled, [("B", "H", "W", 2)], [x])


def test_conditions_on_parameters_may_be_nested() -> None:
    """onnxruntime folds them, and may crash on the second one."""
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32))

    def looped(x: jax.Array) -> jax.Array:
        return -jax.lax.while_loop(lambda x: x.sum() < 50, lambda x: x * 1.5 + weights[0, :2], x)

    def fn(x: jax.Array, depth: int = 2) -> jax.Array:
        if not depth:
            return looped(x)
        total = weights.sum()
        return jax.lax.cond(total > depth * 100, jnp.exp, lambda x: fn(x, depth - 1), x) + 1

    (outer,) = [n for n in check_model(fn, [SOME_TWO]).graph.node if n.op_type == "If"]
    (branch,) = [a.g for a in outer.attribute if a.name == "else_branch"]
    assert [node.op_type for node in branch.node] == ["Less", "Loop", "If", "Add"]
    check_model(lambda x: fn(x, 5), [SOME_TWO])
