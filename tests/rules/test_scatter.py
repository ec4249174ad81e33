import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from harness.checking import check_model, check_sizes, op_types, run
from jax2onnx import to_onnx

METHODS = ["set", "add", "subtract", "multiply", "min", "max"]
MODES = ["clip", "drop", "promise_in_bounds"]


def normal(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)


def ints(*values):
    return jnp.array(values, np.int32)


def update(method, index, mode="drop"):
    return lambda x, i, u: getattr(x.at[index(i)], method)(u, mode=mode)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("index", "updates"),
    [
        (lambda i: i, (3, 5, 4)),
        (lambda i: (slice(None), i), (6, 3, 4)),
        (lambda i: (i, i), (3, 4)),
        (lambda i: (i, slice(1, 3), i), (3, 2)),
        (lambda i: i[1], (5, 4)),
        (lambda i: (i[0], i[1], i[2]), ()),
        (lambda i: (i[0], slice(None), 1), (5,)),
        (lambda i: (Ellipsis, i[:, None]), (6, 5, 3, 1)),
        (lambda i: Ellipsis, (6, 5, 4)),
    ],
)
def test_indexing(method, index, updates):
    args = [normal(6, 5, 4), ints(3, 9, -8), normal(*updates) + 2]
    check_model(update(method, index), args)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", METHODS)
def test_modes(method, mode):
    indices = ints(2, 0, 1) if mode == "promise_in_bounds" else ints(2, 7, -9)
    check_model(update(method, lambda i: i, mode), [normal(4, 3), indices, normal(3, 3)])


@pytest.mark.parametrize("method", METHODS[1:])
def test_repeated_indices(method):
    args = [normal(4, 3), ints(1, 1, 3, 1), normal(4, 3)]
    check_model(update(method, lambda i: i), args)


def test_dropped_updates_do_not_undo_others():
    check_model(update("set", lambda i: i), [normal(4), ints(3, 4, 9, 0), normal(4)])


@pytest.mark.parametrize("method", ["set", "add", "max"])
@pytest.mark.parametrize("mode", MODES)
def test_batches_and_windows(method, mode):
    def fn(x, i, u):
        def one(x, i, u):
            return getattr(x.at[i], method)(u, mode=mode)

        return jax.vmap(one, in_axes=(1, 0, 0), out_axes=1)(x, i, u)

    indices = ints(2, 0, 1) if mode == "promise_in_bounds" else ints(2, 7, -9)
    check_model(fn, [normal(4, 3, 2), indices, normal(3, 2)])

    def windows(x, i, u):
        numbers = lax.ScatterDimensionNumbers((0, 2), (1,), (0, 1), (), ())
        how = {"set": lax.scatter, "add": lax.scatter_add, "max": lax.scatter_max}[method]
        return how(x, i, u, numbers, mode="fill" if mode == "drop" else mode)

    inside = mode == "promise_in_bounds"
    indices = ints([0, 1], [2, 2]) if inside else ints([0, 1], [3, 2], [9, 0])
    check_model(windows, [normal(5, 4, 3), indices, normal(2, len(indices), 3)])


@pytest.mark.parametrize(
    ("method", "dtype"),
    [
        (method, dtype)
        for method in ("set", "add", "subtract", "max")
        for dtype in (np.float16, np.int32, np.int8, np.uint8)
    ]
    # Booleans cannot be added.
    + [("set", np.bool_), ("max", np.bool_)],
)
def test_element_types(method, dtype):
    x = jnp.arange(12).reshape(4, 3).astype(dtype)
    check_model(update(method, lambda i: i), [x, ints(2, 2, 9), jnp.full((3, 3), 2).astype(dtype)])


def test_a_constant_index_inside_needs_no_check():
    model = check_model(lambda x: x.at[jnp.array([0, -2])].set(1.0), [normal(4, 3)])
    assert "Pad" not in op_types(model)


def test_nothing_written():
    check_model(update("set", lambda i: i), [normal(4), jnp.zeros(0, np.int32), normal(0)])


def test_symbolic_sizes():
    rows, count = export.symbolic_shape("rows, count")
    specs = [
        jax.ShapeDtypeStruct((rows, 3), np.float32),
        jax.ShapeDtypeStruct((count,), np.int32),
        jax.ShapeDtypeStruct((count, 3), np.float32),
    ]
    runs = [[normal(4, 3), ints(1, 9), normal(2, 3)], [normal(7, 3), ints(2, 6, 7), normal(3, 3)]]
    for method in ("set", "add", "max"):
        check_sizes(update(method, lambda i: i), specs, *runs)


@pytest.mark.parametrize("unique", [True, False])
def test_applying_a_function(unique):
    x = normal(6, 3)

    def sine(x, i):
        return x.at[i].apply(jnp.sin, unique_indices=unique)

    check_model(sine, [x, ints(1, 4, 9)])
    if not unique:
        # Applied once per occurrence of the index.
        check_model(sine, [x, ints(1, 4, 1, 1, 4)])
        check_model(lambda x, i: x.at[i, 1].apply(lambda x: x * x), [x, ints(0, 5, 5)])


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_is_remembered(name, dtype):
    x = jnp.array([np.nan, 1, 2, np.nan, 3], dtype)
    updates = jnp.array([1, np.nan, 5, 7, -1], dtype)
    i = np.array([0, 1, 1, 2, 4], np.int32)

    def fn(x, i, updates):
        return getattr(x.at[i], name)(updates).astype("float32")

    model = to_onnx(lambda i: fn(x, i, updates), [i])
    np.testing.assert_array_equal(run(model, [i])[0], fn(x, i, updates))


@pytest.mark.parametrize(
    ("update", "nodes"),
    [
        (lambda x: x.at[:, 0].set(-jnp.inf), ["Where"]),
        (lambda x: x.at[:, jnp.array([0, 3, 5])].set(2), ["Where"]),
        (lambda x: x.at[:, -1].add(1), ["Add", "Where"]),
        (lambda x: x.at[:, 2:5].multiply(3), None),
        (lambda x: x.at[:, 1::3].set(0), ["Where"]),
        (lambda x: x.at[:, jnp.array([1, 9, -9, -1, 8])].set(2), ["Where"]),
        (lambda x: x.at[:, jnp.array([1, 1, 2])].set(2), ["Where"]),
        (lambda x: x.at[:, 1].min(0), None),
        (lambda x: x.at[:, 1].set(x.mean()), None),
        # Some positions are written twice, or would be clamped.
        (lambda x: x.at[:, jnp.array([1, 1, 2])].add(2), None),
        (lambda x: x.at[:, jnp.array([1, 9])].set(2, mode="clip"), None),
    ],
)
def test_one_number_at_known_places(update, nodes):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 8)), jnp.float32)
    x = x.at[1, 2].set(jnp.nan).at[0, 1].set(jnp.inf).at[2, 1].set(jnp.nan).at[0, 0].set(-0.0)
    model = check_model(update, [x])
    assert nodes is None or op_types(model) == nodes
    check_sizes(update, [("B", 8)], [x], [x[:1]])


@pytest.mark.parametrize(
    "update",
    [
        lambda x: x.at[:, 0].set(-0.0),
        lambda x: x.at[:, 1].set(1),
        lambda x: x.at[:, 0].set(x[0, 0] * 0),
        lambda x: x.at[:, 1:3].multiply(-1),
        lambda x: x.at[:, 1].add(0),
        lambda x: x.at[:, 2].max(-1),
    ],
)
def test_zero_keeps_its_sign_at_known_places(update):
    """onnxruntime's `Where` turns -0.0 into 0.0 where its condition holds."""
    x = np.array([[-0.0, 0, 1], [-2, -0.0, -0.0]], np.float32)
    (found,) = run(to_onnx(update, [x]), [x])
    expected = np.asarray(update(jnp.asarray(x)))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_one_number_at_known_places_of_several_axes():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 5)), jnp.float32)
    diagonal = jnp.arange(5)
    assert op_types(check_model(lambda x: x.at[:, diagonal, diagonal].set(0), [x])) == ["Where"]
    assert op_types(check_model(lambda x: x.at[:, 1, 2:4].add(5), [x])) == ["Add", "Where"]
    assert op_types(check_model(lambda x: x.at[:, :, 1].set(5), [x])) == ["Where"]
