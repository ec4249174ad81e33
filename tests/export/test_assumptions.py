"""Assumptions that users state: results stay JAX's, guards disappear, and the model records it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import assert_close, op_types, run
from jax2onnx import allclose, to_onnx
from jax2onnx.errors import InvalidInputError
from models import catalogue

ALL = ("indices_in_range", "no_nan", "casts_in_range")
RNG = np.random.default_rng(0)
TABLE = jnp.asarray(RNG.normal(size=(9, 4)), jnp.float32)
ROWS = jnp.asarray(RNG.normal(size=(3, 7)), jnp.float32)
PLACES = jnp.array([0, 8, -1, -9, 3], jnp.int32)

CASES: list[tuple[str, Callable[..., Any], list[Any], list[str]]] = [
    ("lookup", lambda i: TABLE[i], [PLACES], ["Gather"]),
    ("take", lambda i: jnp.take(TABLE, i, axis=0), [PLACES], ["Gather"]),
    ("column", lambda x, p: x[:, p], [ROWS, np.int32(-2)], ["Gather"]),
    (
        "along",
        lambda x, i: jnp.take_along_axis(x, i, 1),
        [ROWS, PLACES[:3, None] % 7],
        ["GatherElements"],
    ),
    ("pairs", lambda x, i: x[i, i], [ROWS, np.array([0, -1, 2], np.int32)], ["Cast", "GatherND"]),
    (
        "slice",
        lambda x, p: lax.dynamic_slice(x, (0, p), (3, 2)),
        [ROWS, np.int32(-3)],
        ["Cast", "Add", "Gather"],
    ),
    (
        "update",
        lambda x, u, p: lax.dynamic_update_slice(x, u, (p, 0)),
        [TABLE, -TABLE[:2], np.int32(4)],
        ["Cast", "Add", "ScatterND"],
    ),
    ("set", lambda x, p: x.at[p].set(0.5), [TABLE, np.int32(-3)], ["ScatterND"]),
    ("add", lambda x, p: x.at[p].add(0.5), [TABLE, PLACES], ["ScatterND"]),
    ("max", lambda x: jnp.max(x, 1), [ROWS], ["ReduceMax"]),
    ("min", lambda x: jnp.min(x), [ROWS], ["ReduceMin"]),
    ("argmax", lambda x: jnp.argmax(x, 1), [ROWS], ["ArgMax", "Cast"]),
    ("argmin", lambda x: jnp.argmin(x, 0), [ROWS], ["ArgMin", "Cast"]),
    ("largest", lambda x: lax.top_k(x, 3), [ROWS], ["TopK", "Cast"]),
    ("sort", lambda x: jnp.sort(x, 1), [ROWS], ["TopK"]),
    ("order", lambda x: jnp.argsort(x, 1), [ROWS], ["TopK"]),
    ("whole", lambda x: x.astype(jnp.int32), [ROWS * 100], ["Cast"]),
    ("bytes", lambda x: (x * 255).astype(jnp.uint8), [jnp.abs(ROWS) / 9], ["Mul", "Cast"]),
]


@pytest.mark.parametrize(("fn", "args", "nodes"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_guards_go_and_numbers_stay(
    fn: Callable[..., Any], args: list[Any], nodes: list[str]
) -> None:
    model = to_onnx(fn, args, assume=ALL)
    assert_close(run(model, args), jax.tree_util.tree_leaves(fn(*args)))
    found = op_types(model)
    assert all(op in found for op in nodes)
    assert len(found) <= len(nodes) + 3, found
    assert len(found) < len(op_types(to_onnx(fn, args))), "a guard is gone"
    assert model.opset_import[0].version <= 20


def test_lookups_and_extrema_are_one_node() -> None:
    for name, fn, args, nodes in CASES:
        if len(nodes) == 1 and name not in ("set", "add", "order"):
            assert op_types(to_onnx(fn, args, assume=ALL)) == nodes, name


def test_symbolic_sizes_need_no_guards() -> None:
    model = to_onnx(
        lambda x, p: x[:, p], [("B", "T"), jax.ShapeDtypeStruct((), jnp.int32)], assume=ALL
    )
    assert op_types(model) == ["Gather"]
    for place in (2, -1, -7):
        assert_close(run(model, [ROWS, np.int32(place)]), [ROWS[:, place]])


def test_guards_of_the_function_itself_are_kept() -> None:
    def fn(i: jax.Array, x: jax.Array) -> jax.Array:
        return TABLE[jnp.clip(i, 0, 8)] + jnp.where(jnp.isnan(x), 0.0, x)[:, None]

    i, x = np.array([-5, 100], np.int32), np.array([np.nan, 1], np.float32)
    assert_close(run(to_onnx(fn, [i, x], assume=ALL), [i, x]), [fn(i, x)])


def test_nothing_is_assumed_by_default() -> None:
    model = to_onnx(lambda x: (jnp.max(x), jnp.argmax(x), x.astype(jnp.int32)), [ROWS[0]])
    assert not [entry for entry in model.metadata_props if "assume" in entry.key]
    x = ROWS[0].at[3].set(np.nan)
    largest, place, whole = run(model, [x])
    assert np.isnan(largest)
    assert place == 3
    assert whole[3] == 0


def test_one_assumption_is_not_another() -> None:
    def fn(x: jax.Array, i: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.max(x, 1), TABLE[i]

    ops = op_types(to_onnx(fn, [ROWS, PLACES], assume="no_nan"))
    assert sorted(ops) == ["Gather", "Max", "Min", "ReduceMax"]
    ops = op_types(to_onnx(fn, [ROWS, PLACES], assume=["indices_in_range"]))
    assert "LessOrEqual" in ops  # the test for NaN
    assert not {"Clip", "Max", "Min"} & set(ops)


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_images_of_finite_numbers_are_resized(method: str) -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jax.image.resize(x, (2, 12, 10, 3), method)

    x = jnp.asarray(RNG.normal(size=(2, 6, 5, 3)), jnp.float32)
    model = to_onnx(fn, [x], assume="finite")
    assert "Resize" in op_types(model)
    assert_close(run(model, [x]), [fn(x)])
    # A single NaN spreads to its whole channel.
    model = to_onnx(fn, [x], assume="no_nan")
    assert "Resize" not in op_types(model)
    hostile = x.at[0, 2, 2, 1].set(np.nan)
    assert_close(run(model, [hostile]), [fn(hostile)])


def test_finite_numbers_are_not_nan() -> None:
    model = to_onnx(lambda x: jnp.max(x, 1), [ROWS], assume="finite")
    assert op_types(model) == ["ReduceMax"]
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["pkg.jax2onnx.assume"] == "finite"


def test_nan_fills_are_dropped_if_values_are_finite() -> None:
    def filled(x: jax.Array, i: jax.Array, value: float | None) -> jax.Array:
        return x.at[i].get(mode="fill", fill_value=value)

    model = to_onnx(lambda i: jnp.take(TABLE, i, axis=0), [PLACES], assume="finite")
    assert op_types(model) == ["Gather"]
    assert_close(run(model, [PLACES]), [TABLE[PLACES]])
    for value in (0.5, 2):
        outside = np.array([0, 9, -10, 8], np.int32)
        model = to_onnx(lambda x, i, v=value: filled(x, i, v), [TABLE, outside], assume="finite")
        assert_close(run(model, [TABLE, outside]), [filled(TABLE, outside, value)])


def test_the_model_records_its_assumptions() -> None:
    model = to_onnx(jnp.max, [ROWS], assume=["casts_in_range", "no_nan"])
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["pkg.jax2onnx.assume"] == "no_nan casts_in_range"
    assert allclose(jnp.max, model, [ROWS])[0]


def test_in_loops_and_functions() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return lax.fori_loop(
            0, 3, lambda i, c: c + jnp.max(x[i], -1) + c[jnp.argmax(c)], jnp.zeros(3)
        )

    model = to_onnx(fn, [ROWS], assume=ALL)
    assert_close(run(model, [ROWS]), [fn(ROWS)])
    assert "IsNaN" not in str(model)


@pytest.mark.parametrize("name", ["nnx/gpt", "nnx/gpt_step", "nnx/moe"])
def test_models_shrink_and_agree(name: str) -> None:
    model, inputs = catalogue.build(name)
    plain, trusting = (to_onnx(model, list(inputs), assume=names) for names in ((), ALL))
    leaves = jax.tree_util.tree_leaves(inputs)
    assert_close(run(trusting, leaves), run(plain, leaves))
    assert len(trusting.graph.node) < len(plain.graph.node)
    assert not {"Clip", "Max", "Min", "IsNaN"} & set(op_types(trusting))


@pytest.mark.parametrize("wrong", ["indices_in_rage", ["no_nan", 3], 7])
def test_unknown_names_are_errors(wrong: Any) -> None:
    with pytest.raises(InvalidInputError) as error:
        to_onnx(jnp.max, [ROWS], assume=wrong)
    assert "`assume`" in str(error.value)
    if wrong == "indices_in_rage":
        assert "did you mean 'indices_in_range'?" in str(error.value)
