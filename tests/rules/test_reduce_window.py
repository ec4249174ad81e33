import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax._src.lax import windowed_reductions as lax_windows

from harness.checking import check_model, check_sizes, op_types


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def window(operation, start, size, strides, padding="VALID", base=None, dilation=None):
    return lambda x: lax.reduce_window(
        x, np.asarray(start, x.dtype), operation, size, strides, padding, base, dilation
    )


OPERATIONS = [(lax.max, -np.inf), (lax.min, np.inf), (lax.add, 0), (lax.mul, 1)]


@pytest.mark.parametrize(("operation", "start"), OPERATIONS)
@pytest.mark.parametrize(
    "options",
    [
        {"size": (1, 2, 2, 1), "strides": (1, 2, 2, 1)},
        {"size": (1, 3, 2, 1), "strides": (1, 2, 1, 1), "padding": "SAME"},
        {
            "size": (2, 1, 3, 1),
            "strides": (1, 1, 2, 1),
            "padding": [(1, 0), (0, 0), (0, 2), (0, 0)],
        },
        {"size": (1, 1, 1, 3), "strides": (1, 1, 1, 1), "dilation": (1, 1, 1, 2)},
        {"size": (1, 6, 5, 1), "strides": (1, 1, 1, 1)},
        {"size": (2, 2, 2, 2), "strides": (1, 2, 1, 1)},
        {"size": (1, 2, 2, 1), "strides": (1, 1, 1, 1), "base": (1, 2, 3, 1)},
        {
            "size": (1, 2, 2, 1),
            "strides": (1, 1, 2, 1),
            "padding": [(0, 0), (3, 2), (-1, 4), (0, 0)],
        },
        {
            "size": (1, 11, 1, 1),
            "strides": (1, 3, 1, 1),
            "padding": [(0, 0), (10, 4), (0, 0), (0, 0)],
        },
        {"size": (1, 9, 1, 1), "strides": (1, 1, 1, 1)},
        {"size": (1, 1, 1, 1), "strides": (1, 2, 3, 1)},
    ],
    ids=str,
)
def test_window(operation, start, options):
    check_model(window(operation, start, **options), [normal(2, 6, 5, 4)])


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 2, 3, 7)])
def test_any_number_of_other_axes(shape):
    size = (*(1 for _ in shape[1:]), 3)
    model = check_model(window(lax.max, -np.inf, size, size), [normal(*shape)])
    assert "MaxPool" in op_types(model)


def test_pooling_is_recognised():
    options = {"size": (1, 1, 2, 2), "strides": (1, 1, 2, 2), "padding": "SAME"}
    x = normal(2, 3, 5, 6)
    assert op_types(check_model(window(lax.max, -np.inf, **options), [x])) == ["MaxPool"]
    assert op_types(check_model(window(lax.add, 0, **options), [x])) == ["AveragePool", "Mul"]


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.int8, np.uint16])
@pytest.mark.parametrize(("operation", "start"), OPERATIONS[:3])
def test_element_types(operation, start, dtype):
    if np.isinf(start) and dtype != np.float16:
        info = np.iinfo(dtype)
        start = info.min if start < 0 else info.max
    x = np.random.default_rng(0).integers(0, 20, (2, 6, 5, 3)).astype(dtype)
    check_model(window(operation, start, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"), [x])


@pytest.mark.parametrize(("operation", "start"), [(lax.bitwise_or, False), (lax.bitwise_and, True)])
def test_booleans(operation, start):
    check_model(window(operation, start, (2, 3), (1, 2), "SAME"), [normal(5, 7) > 0.5])


@pytest.mark.parametrize("start", [-1.5, 3.0])
@pytest.mark.parametrize("operation", [lax.max, lax.add, lax.mul])
def test_other_start(operation, start):
    check_model(window(operation, start, (2, 3), (1, 2)), [normal(5, 7)])


def test_infinities_and_nan_where_slices_are_combined():
    x = normal(3, 6)
    x[0, 2], x[1, :], x[2, 4] = np.nan, -np.inf, np.inf
    check_model(window(lax.max, -np.inf, (1, 2), (1, 1), [(0, 0), (2, 3)]), [x])
    check_model(window(lax.min, np.inf, (1, 2), (1, 1), [(0, 0), (1, 1)]), [x])


def test_nothing_left():
    check_model(window(lax.max, -np.inf, (1, 4), (1, 1)), [normal(2, 3)])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("operation", "start"), OPERATIONS[:3])
def test_symbolic_sizes(operation, start, padding):
    batch, height, width = export.symbolic_shape("batch, height, width")
    specs = [jax.ShapeDtypeStruct((batch, height, width, 3), np.float32)]
    runs = [[normal(2, 8, 7, 3)], [normal(3, 9, 5, 3)]]
    for stride in (1, 2):
        fn = window(operation, start, (1, 3, 2, 1), (1, stride, stride, 1), padding)
        check_sizes(fn, specs, *runs)

    def over_everything(x):
        return window(operation, start, (1, *x.shape[1:3], 1), (1, 1, 1, 1))(x)

    check_sizes(over_everything, specs, *runs)


@pytest.mark.parametrize(("operation", "start"), OPERATIONS[:2])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_derivatives(operation, start, padding):
    fn = window(operation, start, (1, 3, 2, 1), (1, 2, 1, 1), padding)
    x = normal(2, 6, 5, 3)
    cotangent = normal(*jax.eval_shape(fn, x).shape)
    check_model(lambda x, c: jax.vjp(fn, x)[1](c)[0], [x, cotangent])
    check_model(lambda x, t: jax.jvp(fn, (x,), (t,))[1], [x, jnp.cos(x)])
    # The first of equal elements wins.
    check_model(lambda x, c: jax.vjp(fn, x)[1](c)[0], [np.round(x), cotangent])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16])
def test_derivatives_of_integers(dtype):
    def fn(source, x):
        return lax_windows._select_and_scatter_add(
            source, x, lax.ge_p, (1, 2, 2), (1, 2, 1), [(0, 0), (0, 0), (0, 0)]
        )

    x = np.random.default_rng(0).integers(0, 20, (2, 6, 5)).astype(dtype)
    check_model(fn, [np.ones((2, 3, 4), dtype), x])
