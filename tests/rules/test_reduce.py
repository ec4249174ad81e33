"""Reductions with arbitrary functions, over axes and over windows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import check_model, check_sizes, op_types
from jax2onnx import to_onnx


def numbers(*shape, dtype=np.float32, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * 10).astype(dtype)


def larger(x, y):
    """Returns the larger of two numbers and its index; the first of equal ones."""
    first = (x[0] > y[0]) | ((x[0] == y[0]) & (x[1] < y[1]))
    return jnp.where(first, x[0], y[0]), jnp.where(first, x[1], y[1])


def then(x, y):
    """Composes two linear functions, so the order matters."""
    return x[0] * y[0], x[1] * y[0] + y[1]


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lax.add, "ReduceSum"),
        (lax.mul, "ReduceProd"),
        (lax.max, "ReduceMax"),
        (lax.min, "ReduceMin"),
    ],
)
def test_operators_of_their_own(function, op):
    x = numbers(3, 4, 5) / 10
    start = np.float32(0.5)
    model = check_model(lambda x: lax.reduce(x, start, function, (0, 2)), [x])
    assert op in op_types(model)
    check_model(lambda x: lax.reduce(x.astype(jnp.int32), 3, function, (1,)), [x])


def test_booleans():
    x = numbers(4, 5) > 0
    check_model(lambda x: lax.reduce(x, False, lax.bitwise_or, (0,)), [x])
    check_model(lambda x: lax.reduce(x, True, lax.bitwise_and, (0,)), [x])
    check_model(lambda x: lax.reduce(x, False, lax.bitwise_xor, (1,)), [x])


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2), ()])
def test_any_function(axes):
    x = numbers(3, 4, 7)
    check_model(lambda x: lax.reduce(x, np.float32(1), lambda a, b: jnp.hypot(a, b), axes), [x])


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 8, 13])
def test_several_arrays(extent):
    x, places = np.round(numbers(extent, 3) / 10), np.indices((extent, 3))[0].astype(np.int32)
    start = (-jnp.inf, jnp.int32(99))
    check_model(lambda *x: lax.reduce(x, start, larger, (0,)), [x, places])


def test_the_order_is_kept():
    x, y = numbers(7, 3) / 10, numbers(7, 3, seed=1)
    check_model(lambda *x: lax.reduce(x, (1.0, 0.0), then, (0,)), [x, y])


def test_sizes_are_known_later():
    def fold(x):
        return lax.reduce(x, np.float32(0), lambda a, b: jnp.hypot(a, b), (0,))

    check_sizes(fold, [("n", 3)], *([np.abs(numbers(rows, 3))] for rows in (1, 6)))


@pytest.mark.parametrize("padding", ["VALID", "SAME", [(1, 2), (0, 1)]])
def test_windows_of_any_function(padding):
    x, places = np.round(numbers(7, 8) / 10), np.arange(56, dtype=np.int32).reshape(7, 8)
    check_model(
        lambda x: lax.reduce_window(
            x, np.float32(0), lambda a, b: jnp.hypot(a, b), (3, 2), (2, 1), padding
        ),
        [x],
    )
    start = (-jnp.inf, jnp.int32(99))
    check_model(
        lambda *x: lax.reduce_window(x, start, larger, (2, 3), (1, 2), padding), [x, places]
    )


@pytest.mark.parametrize("size", [9, 12, 15, 16, 17])
def test_large_windows(size):
    x, places = np.round(numbers(40, 2) / 10), np.indices((40, 2))[0].astype(np.int32)
    start = (-jnp.inf, jnp.int32(99))
    model = check_model(
        lambda *x: lax.reduce_window(
            x, start, larger, (size, 1), (3, 1), "SAME", window_dilation=(2, 1)
        ),
        [x, places],
    )
    assert len(model.graph.node) < 95


def test_dilated_windows():
    x = numbers(6, 5)
    check_model(
        lambda x: lax.reduce_window(
            x, np.float32(0), lambda a, b: jnp.hypot(a, b), (2, 2), (1, 1), "VALID", (1, 2), (2, 1)
        ),
        [x],
    )


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.float32])
def test_gradient_of_any_pooling(dtype):
    # Pooling supports fewer than four axes.
    x = np.round(numbers(3, 4, 3, 4)).astype(dtype)
    window = ((2, 2, 1, 3), (1, 2, 1, 1), ((0, 1), (1, 0), (0, 0), (1, 1)))
    source = np.arange(1, 73, dtype=dtype).reshape(3, 2, 3, 4)
    from jax._src.lax.windowed_reductions import _select_and_scatter_add

    check_model(lambda s, x: _select_and_scatter_add(s, x, lax.ge_p, *window), [source, x])
    check_model(lambda s, x: _select_and_scatter_add(s, x, lax.le_p, *window), [source, x])


def test_gradients_under_transformations():
    x = numbers(2, 6, 6, 3)

    def pool(x):
        return lax.reduce_window(
            x, np.float32(-np.inf), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )

    check_model(jax.grad(lambda x: (pool(x) ** 2).sum()), [x])
    check_model(lambda x: jax.jvp(pool, (x,), (x * x,)), [x])


@pytest.mark.parametrize("name", ["or", "and", "xor"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
def test_bits_along_a_symbolic_axis(name, dtype):
    reduce = getattr(lax, f"reduce_{name}")
    spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("B, 3, T"), dtype)
    runs = [[numbers(*shape, dtype=np.int32).astype(dtype)] for shape in [(4, 3, 2), (1, 3, 5)]]
    check_sizes(lambda x: (reduce(x, (0,)), reduce(x, (0, 2))), [spec], *runs)


@pytest.mark.parametrize("axes", [0, 1, (0, 2), None])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_products_along_symbolic_axes_wrap_around(dtype, axes):
    rows, columns = jax.export.symbolic_shape("rows, columns")
    wide = dtype.endswith("64")
    with jax.enable_x64(wide):
        specs = [jax.ShapeDtypeStruct((rows, columns, 3), dtype)]
        runs = [[numbers(*shape, 3).astype(dtype)] for shape in [(5, 7), (1, 2), (0, 4), (2, 0)]]
        check_sizes(
            lambda x: jnp.prod(x, axes, dtype=dtype), specs, *runs, enable_double_precision=wide
        )


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [0, 1, -1, (0, 1), (0, 2), (1, 2), None])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64"])
def test_sums_along_symbolic_axes_wrap_around(dtype, axes, keepdims):
    rows, columns = jax.export.symbolic_shape("rows, columns")
    wide = dtype.endswith("64")
    info = np.iinfo(dtype)
    make = np.random.default_rng(0)
    with jax.enable_x64(wide):
        specs = [jax.ShapeDtypeStruct((rows, columns, 3), dtype)]
        shapes = [(5, 7, 3), (1, 2, 3), (0, 4, 3), (2, 0, 3), (1, 2000, 3)]
        runs = [[make.integers(info.min, info.max, shape, dtype)] for shape in shapes]
        check_sizes(
            lambda x: jnp.sum(x, axes, dtype=dtype, keepdims=keepdims),
            specs,
            *runs,
            enable_double_precision=wide,
        )


def test_sums_of_integers_are_products_with_ones():
    spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, t"), np.int32)
    for axis, expected in ((-1, 5), (0, 3), (None, 4)):
        model = to_onnx(lambda mask, axis=axis: mask.sum(axis), [spec])
        assert len(op_types(model)) == expected, op_types(model)
    assert op_types(to_onnx(lambda x: x.sum(-1), [jax.ShapeDtypeStruct((4, 8), np.int32)])) == [
        "MatMul"
    ]


def _shifted(x, axis=-1):
    return jnp.exp(x - jnp.max(x, axis, keepdims=True))


@pytest.mark.parametrize(
    "fn",
    [
        _shifted,
        lambda x: (_shifted(x), _shifted(x).sum(-1)),
        lambda x: _shifted(x).sum(0),
        lambda x: jnp.exp(x - jnp.max(x, -1)[None]) / _shifted(x).sum(-1),
        lambda x: jnp.where(jnp.eye(4, dtype=bool), _shifted(x), 0).sum(-1),
        lambda x: _shifted(x) / _shifted(x).sum(-1, keepdims=True),
        lambda x: jax.nn.logsumexp(x, -1),
        lambda x: jax.nn.logsumexp(x, 0, keepdims=True),
        lambda x: jax.nn.logsumexp(x, -1, b=jnp.arange(4.0)),
        jax.nn.log_softmax,
    ],
)
def test_maxima_that_are_subtracted_keep_nan(fn):
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    x[0, 2], x[1, 1], x[2] = np.nan, np.inf, -np.inf
    check_model(fn, [x])


def test_a_log_sum_exp_looks_for_nan_once():
    model = to_onnx(lambda x: jax.nn.logsumexp(x, -1), [(3, 5)])
    assert len(op_types(model)) <= 13


@pytest.mark.parametrize(
    "count",
    [
        lambda x: jnp.sum(x > 0, -1),
        lambda x: jnp.count_nonzero(x),
        lambda x: jnp.where(x > 0, 3, 0).sum(0),
        lambda x: jnp.sum(x > 0, (0, 1), dtype=jnp.uint8),
        lambda x: jnp.sort(x),
    ],
)
def test_counts(count):
    """Counts are small, so runtimes can sum them directly."""
    sizes = [(1, 1), (3, 5), (2, 300), (4, 0)]
    runs = [[numbers(*size)] for size in sizes]
    runs[1][0][1, 2:] = np.nan, np.inf, -np.inf
    check_sizes(count, [("B", "T")], *runs)
    check_model(count, [numbers(7, 33)])


def test_a_count_is_one_sum():
    model = to_onnx(lambda x: (x > 0).sum(-1), [("B", "T")])
    assert op_types(model) == ["Less", "Cast", "ReduceSum"]
