"""Indices, remainders and extremes: cheap graphs that preserve JAX's semantics for every number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import lax

from harness.checking import check_model, check_sizes, op_types
from jax2onnx import to_onnx

TABLE = np.arange(40, dtype=np.float32).reshape(10, 4)
TOKENS = np.array([[0, 9, -1, -10], [10, -11, 2**31 - 1, -(2**31)]], np.int32)


def test_embeddings():
    embed = nnx.Embed(10, 4, rngs=nnx.Rngs(0))
    model = check_model(lambda t: embed(t), [TOKENS])
    assert len(op_types(model)) <= 6
    assert {tuple(p.dims) for p in model.graph.initializer if "embedding" in p.name} == {(10, 4)}


@pytest.mark.parametrize("mode", ["fill", "clip", "wrap", None])
@pytest.mark.parametrize("axis", [0, 1])
def test_take(mode, axis):
    check_model(lambda x, t: jnp.take(x, t, axis=axis, mode=mode), [TABLE, TOKENS])


def test_indexing():
    table = jnp.asarray(TABLE)
    model = check_model(lambda t: table[t], [TOKENS])
    # There is no `Clip` of int32 on GPUs.
    assert op_types(model) == ["Max", "Min", "Gather"]
    check_model(lambda t: table[:, t], [TOKENS])
    check_model(lambda t: table[t, t % 3], [TOKENS])
    model = check_model(lambda x, t: jnp.take_along_axis(x, t, axis=1), [TABLE[:2], TOKENS])
    assert len(op_types(model)) <= 5
    check_model(lambda t: table.at[t].add(1.0), [TOKENS[0]])
    check_model(lambda t: table.at[t].set(1.0), [TOKENS[1]])


def test_indices_that_are_known_to_be_inside():
    scores = np.random.default_rng(0).normal(size=(3, 10)).astype(np.float32)
    table = jnp.asarray(TABLE)
    model = check_model(lambda s: table[jnp.argmax(s, -1)], [scores])
    assert not {"Clip", "Max", "Min"} & set(op_types(model))
    model = check_model(lambda t: table[t % 10], [TOKENS])
    assert op_types(model) == ["Mod", "Gather"]
    model = check_model(lambda t: jnp.take(table, jnp.clip(t, 0, 9), axis=0), [TOKENS])
    assert op_types(model)[-1] == "Gather"
    model = check_model(lambda y: y + table[jnp.arange(10)], [TABLE])
    assert op_types(model) == ["Add"]


def test_the_last_of_any_number():
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    runs = [x], [x[:, :1]]
    for fn in (lambda x: x[:, -1], lambda x: x[:, 0], lambda x: x[:, -1:]):
        check_sizes(fn, [("B", "T", 3)], *runs)
    assert op_types(to_onnx(lambda x: x[:, -1], [("B", "T", 3)])) == ["Gather"]

    def at(p):
        return np.asarray(p, np.int32)

    check_sizes(
        lambda x, p: jnp.asarray(x)[:, p],
        [("B", "T", 3), jax.ShapeDtypeStruct((), np.int32)],
        *[[x, at(p)] for p in (0, 4, 5, -1, -5, -6)],
    )


@pytest.mark.parametrize(
    ("dtype", "by"),
    [(dtype, by) for by in (1, 7) for dtype in (np.int8, np.int32, np.uint8, np.uint32)]
    + [(np.int8, -7), (np.int32, -7)],
)
def test_rests(dtype, by):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 6, 7, 8, 100, limits.min, limits.max, limits.max - 3], dtype)
    if limits.min < 0:
        x = np.concatenate([x, -x[:6], [limits.min + 1]]).astype(dtype)
    by = dtype(by)
    model = check_model(lambda i: jnp.remainder(i, by), [x])
    if dtype == np.int32 and by == 7:
        assert op_types(model) == ["Mod"]
    model = check_model(lambda i: jnp.floor_divide(i, by), [x])
    if dtype == np.int32 and by == 7:
        assert len(op_types(model)) <= 5
    check_model(lambda i: lax.rem(i, by), [x])


def test_remainders_by_unknown_divisors():
    x, by = np.arange(-9, 9, dtype=np.int32), np.array([3, -3, 1, -1, 0, 7] * 3, np.int32)
    check_model(jnp.remainder, [x, by])
    check_model(lambda x: jnp.remainder(jnp.abs(x), 4), [x])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("reduce", [jnp.max, jnp.min])
def test_extremes(dtype, reduce):
    rows = [
        [1, 2, 3],
        [np.nan, 2, 3],
        [1, np.inf, np.nan],
        [np.inf, -np.inf, 1],
        [-np.inf, -np.inf, -np.inf],
        [np.inf, np.nan, -np.inf],
        [-0.0, 0.0, -1],
        [6e4, 6e4, 6e4],
    ]
    x = np.array(rows, dtype)
    for axis in (0, 1, None):
        model = check_model(lambda x, axis=axis: reduce(x, axis=axis), [x])
    assert len([op for op in op_types(model) if op != "Cast"]) <= 5
    check_model(lambda x: reduce(x, axis=1, keepdims=True), [x])


def test_places_of_extremes():
    x = np.array([[1, 2, 2], [np.nan, np.inf, np.nan], [np.inf, np.nan, 1]], np.float32)
    check_model(lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), [x])


def test_nothing_is_promised_of_sums_that_wrap():
    x = np.array([2**31 - 1, 5, 0], np.int32)
    table = jnp.asarray(TABLE)
    check_model(lambda x: table[jnp.clip(x, 0, 2**31 - 1) + 1], [x])
