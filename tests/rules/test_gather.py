import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from harness.checking import check_model, check_sizes, op_types
from jax2onnx import to_onnx

MODES = ["clip", "fill", "promise_in_bounds"]


def normal(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)


def ints(*values, dtype=np.int32):
    return jnp.array(values, dtype)


@pytest.mark.parametrize(
    ("fn", "operator"),
    [
        (lambda x, i: x[i], "Gather"),
        (lambda x, i: x[:, i], "Gather"),
        (lambda x, i: x[i[0]], "Gather"),
        (lambda x, i: x[..., i[:, None]], "Gather"),
        (lambda x, i: x[i, i], "GatherND"),
        (lambda x, i: x[i, :, i], "GatherND"),
        (lambda x, i: x[i[:, None], 1:3, i], "GatherND"),
        (lambda x, i: jnp.take(x, i, axis=1, mode="clip"), "Gather"),
        (lambda x, i: jnp.take(x, i + 2, axis=0), "Gather"),
        (lambda x, i: jnp.take(x, i + 2), "Gather"),
        (lambda x, i: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), "GatherElements"),
        (lambda x, i: jax.vmap(lambda row: row[i[0], i])(x), "GatherND"),
        (lambda x, i: jax.vmap(lambda row, k: row[k], (2, 0))(x, jnp.arange(4)), "GatherND"),
        (
            lambda x, i: jax.vmap(lambda k: lax.dynamic_slice(x, (k, k, 0), (2, 2, 3)))(i),
            "GatherND",
        ),
    ],
)
def test_indexing(fn, operator):
    model = check_model(fn, [normal(4, 3, 4), ints(1, 0, 2)])
    assert operator in op_types(model)


def random_case(seed):
    """Returns a gather with every kind of axis, and indices, some of them out of bounds."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape = [int(n) for n in rng.integers(1, 6, rank)]
    axes = [int(axis) for axis in rng.permutation(rank)]
    count = int(rng.integers(0, rank)) if rng.random() < 0.4 else 0
    batch, rest = sorted(axes[:count]), axes[count:]
    indexed = rest[: int(rng.integers(0, len(rest) + 1))]
    sizes = [
        1
        if axis in batch or (axis in indexed and rng.random() < 0.5)
        else int(rng.integers(1, shape[axis] + 1))
        if axis in indexed or rng.random() < 0.3
        else shape[axis]
        for axis in range(rank)
    ]
    collapsed = [a for a in range(rank) if a not in batch and sizes[a] == 1 and rng.random() < 0.6]
    index_shape = [int(n) for n in rng.integers(1, 4, count + int(rng.integers(0, 3)))]
    index_batch = [int(axis) for axis in rng.permutation(len(index_shape))[:count]]
    for axis, place in zip(batch, index_batch, strict=True):
        index_shape[place] = shape[axis]
    kept = rank - count - len(collapsed)
    offsets = sorted(int(i) for i in rng.permutation(kept + len(index_shape))[:kept])
    numbers = lax.GatherDimensionNumbers(
        tuple(offsets), tuple(collapsed), tuple(indexed), tuple(batch), tuple(index_batch)
    )
    limits = np.array([shape[axis] - sizes[axis] for axis in indexed], int)
    spread = rng.integers(-3, 9, (*index_shape, len(indexed)))
    return normal(*shape), jnp.asarray(spread, jnp.int32), limits, numbers, sizes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(15))
def test_general(seed, mode):
    x, indices, limits, numbers, sizes = random_case(seed)
    if mode == "promise_in_bounds":
        indices = jnp.clip(indices, 0, limits)

    def fn(x, indices):
        return lax.gather(x, indices, numbers, sizes, mode=mode)

    check_model(fn, [x, indices])
    check_model(lambda x: fn(x, jnp.asarray(indices)), [x])


@pytest.mark.parametrize("fill_value", [None, 7, 1.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, np.bool_])
def test_fill_values(dtype, fill_value):
    def fn(x, i):
        return x.at[i].get(mode="fill", fill_value=fill_value)

    check_model(fn, [jnp.arange(12).reshape(4, 3).astype(dtype), ints(0, 5, -9, 2)])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32])
def test_index_types(dtype):
    check_model(lambda x, i: x.at[i].get(mode="clip"), [normal(4, 3), ints(0, 5, 2, dtype=dtype)])


def test_a_constant_index_is_a_slice():
    def fn(x):
        numbers = lax.GatherDimensionNumbers((0, 1), (1,), (1, 0))
        return lax.gather(x, jnp.array([2, 1]), numbers, (2, 1, 4), mode="clip")

    types = op_types(check_model(fn, [normal(4, 3, 4)]))
    assert "Slice" in types
    assert "GatherND" not in types


def test_constant_indices_inside_need_no_check():
    def fn(x):
        numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
        return lax.gather(x, jnp.array([[0], [3], [2]]), numbers, (1, 3), mode="fill")

    assert op_types(check_model(fn, [normal(4, 3)]))[-1] == "Gather"


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[:, 0::2, 1::3],
        lambda x: x[:, 1::2],
        lambda x: x[:, 2:6:2, :, 1::2],
        lambda x: x[:, [1, 4]],
        lambda x: jnp.take(x, jnp.array([5, 9, 13]), axis=2, mode="clip")[..., :2],
    ],
)
def test_places_equally_far_apart_are_sliced(fn):
    """With a symbolic size, JAX writes them as explicit indices."""
    check_sizes(fn, ["B, 6, 15, 4"], [normal(2, 6, 15, 4)], [normal(3, 6, 15, 4)])
    assert set(op_types(to_onnx(fn, ["B, 6, 15, 4"]))) == {"Slice"}


def test_a_batch_of_lookups_is_one_gather():
    def fn(table, i):
        return jax.vmap(lambda i: lax.dynamic_index_in_dim(table, i, keepdims=False))(i)

    indices = ints(0, 4, -1, 9)
    assert op_types(check_model(fn, [normal(5, 3), indices])) == ["Max", "Min", "Gather"]


def test_nothing_gathered():
    check_model(lambda x, i: x[i], [normal(4, 3), jnp.zeros(0, np.int32)])


def test_symbolic_sizes():
    batch, count, rows = export.symbolic_shape("batch, count, rows")
    table = jax.ShapeDtypeStruct((rows, 4), np.float32)
    tokens = jax.ShapeDtypeStruct((batch, count), np.int32)
    runs = [[normal(7, 4), ints([1, 9, -2])], [normal(3, 4), ints([2], [0], [-9])]]
    check_sizes(lambda x, i: jnp.take(x, i, axis=0), [table, tokens], *runs)
    check_sizes(lambda x, i: jnp.take(x, i, axis=0, mode="clip"), [table, tokens], *runs)
    square = jax.ShapeDtypeStruct((batch, rows), np.float32)
    runs = [[normal(1, 7), ints([1, 5, -2])], [normal(3, 4), ints([2], [0], [3])]]
    check_sizes(lambda x, i: jnp.take_along_axis(x, i, axis=1), [square, tokens], *runs)
    check_sizes(lambda x, i: jax.vmap(lambda row, k: row[k])(x, i[:, 0]), [square, tokens], *runs)


PLACES = [0, 1, -1, 4, -5, -6, 5, 9, -9, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize(
    ("lookup", "nodes"),
    [
        (lambda x, i: x[jnp.arange(x.shape[0]), i], ["Max", "Min", "Reshape", "Cast", "GatherND"]),
        (lambda x, i: x[jnp.arange(11)[:, None], i[:, None]], None),
        (lambda x, i: x[jnp.arange(11)[::-1], i], None),
        (lambda x, i: x[jnp.arange(11) // 2, i], None),
        (lambda x, i: x[i, i], None),
        (lambda x, i: x.at[jnp.arange(11), i].get(mode="fill"), None),
        (lambda x, i: x.at[i, jnp.arange(11) % 5].get(mode="clip"), None),
        (lambda x, i: jnp.diagonal(x)[i], None),
    ],
)
def test_one_place_of_each_example(lookup, nodes):
    x, i = jnp.arange(11 * 5, dtype=jnp.float32).reshape(11, 5), ints(*PLACES)
    model = check_model(lookup, [x, i])
    assert nodes is None or op_types(model) == nodes


def test_one_place_of_each_of_any_number_of_examples():
    def last(x, n):
        return x[jnp.arange(x.shape[0]), n - 1]

    specs = [
        jax.ShapeDtypeStruct(("B", "T", 2), np.float32),
        jax.ShapeDtypeStruct(("B",), np.int32),
    ]

    model = to_onnx(last, specs)
    assert op_types(model).count("GatherND") == 1
    assert not {"Range", "Concat"} & set(op_types(model))
    check_sizes(last, specs, *([normal(11, size, 2), ints(*PLACES)] for size in (1, 2, 5, 9)))


@pytest.mark.parametrize("change", ["add", "multiply", "set"])
def test_places_of_updates_are_counted_from_the_end(change):
    def fn(x, i, y):
        return getattr(x.at[i], change)(y)

    x, y = normal(5, 2), normal(2)
    model = to_onnx(fn, [x, jnp.int32(0), y])
    assert not {"Less", "Add"} & set(op_types(model))
    for place in PLACES:
        check_model(fn, [x, jnp.int32(place), y])
    if change != "set":
        check_model(fn, [x, ints(*PLACES), y])
