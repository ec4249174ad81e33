"""Sorting, searching and scanning: everything that depends on the order of elements."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from fuzz.runtime import optimizer
from harness.checking import check_model, check_sizes, op_types

CUMULATIVE = [lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp]


def special(*shape, seed=0):
    """Returns few distinct numbers, including infinities, both zeros and NaN."""
    rng = np.random.default_rng(seed)
    values = np.array([-np.inf, -2, -1, -0.0, 0.0, 1, 2, np.inf, np.nan], np.float32)
    return values[rng.integers(0, len(values), shape)]


def few(*shape, dtype=np.int32, seed=0):
    return np.random.default_rng(seed).integers(0, 5, shape).astype(dtype)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("find", [lax.argmax, lax.argmin])
def test_place_of_extremum(find, axis):
    for seed in range(5):
        check_model(lambda x: find(x, axis, jnp.int32), [special(4, 6, 5, seed=seed)])


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint32, np.bool_])
@pytest.mark.parametrize("find", [lax.argmax, lax.argmin])
def test_place_of_extremum_in_other_types(find, dtype):
    check_model(lambda x: find(x, 1, jnp.uint8), [few(4, 7, dtype=dtype)])


@pytest.mark.parametrize("axis", [0, 1])
def test_sort(axis):
    for seed in range(5):
        check_model(lambda x: lax.sort(x, dimension=axis), [special(5, 7, seed=seed)])
        # Equal elements keep their order.
        check_model(lambda x: jnp.argsort(x, axis=axis), [special(5, 7, seed=seed)])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kinds", [(special, few, special), (few, special, few)])
def test_sort_by_keys(count, kinds):
    for seed in range(3):
        args = [kind(4, 9, seed=seed + i) for i, kind in enumerate(kinds)]
        check_model(lambda *x: lax.sort(x, dimension=1, num_keys=count), args)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8, np.uint32, np.bool_])
def test_sort_other_types(dtype):
    x = few(4, 9, dtype=dtype)
    check_model(lambda x: lax.sort(x), [x])
    check_model(lambda x: jnp.argsort(x, axis=0), [x])


def test_sort_of_little():
    check_model(lambda x: lax.sort(x), [few(3, 1)])
    check_model(lambda x, y: lax.sort((x, y)), [few(3, 0), few(3, 0)])


@pytest.mark.parametrize("k", [0, 1, 3, 7])
def test_top_k(k):
    x = special(5, 7)
    x[np.isposinf(x) | (x == 0)] = 3
    check_model(lambda x: lax.top_k(x, k), [x])
    check_model(lambda x: lax.top_k(x, k), [few(5, 7)])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("scan", CUMULATIVE)
def test_cumulative(scan, axis, reverse):
    x = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    check_model(lambda x: scan(x, axis, reverse=reverse), [x])


@pytest.mark.parametrize("scan", CUMULATIVE[2:])
def test_cumulative_with_infinities_and_nan(scan):
    check_model(lambda x: scan(x, 1), [special(6, 9)])


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.int8, np.uint8])
@pytest.mark.parametrize("scan", CUMULATIVE[:4])
def test_cumulative_in_other_types(scan, dtype):
    check_model(lambda x: scan(x, 1), [few(3, 5, dtype=dtype)])


def test_cumulative_sum_is_one_operator():
    assert op_types(check_model(lambda x: lax.cumsum(x, 1), [few(3, 5)])) == ["CumSum"]


@pytest.mark.parametrize("size", [0, 1])
def test_cumulative_of_little(size):
    for scan in CUMULATIVE:
        check_model(lambda x, scan=scan: scan(x, 1), [few(3, size, dtype=np.float32)])


@pytest.mark.slow
def test_symbolic_sizes():
    batch, count = export.symbolic_shape("batch, count", constraints=["count >= 2"])
    specs = [jax.ShapeDtypeStruct((batch, count), np.float32)]
    runs = [[special(3, 9)], [special(2, 2)]]
    for axis in (0, 1):
        check_sizes(lambda x, axis=axis: lax.sort(x, dimension=axis), specs, *runs)
        check_sizes(lambda x, axis=axis: jnp.argsort(x, axis=axis), specs, *runs)
        check_sizes(lambda x, axis=axis: jnp.argmax(x, axis=axis), specs, *runs)
    runs = [[few(3, 9, dtype=np.float32)], [few(2, 2, dtype=np.float32)]]
    for scan in CUMULATIVE:
        check_sizes(lambda x, scan=scan: scan(x, 0), specs, *runs)
        check_sizes(lambda x, scan=scan: scan(x, 1, reverse=True), specs, *runs)
    check_sizes(lambda x: lax.top_k(x, 2), specs, *runs)
    check_sizes(lambda x: lax.top_k(x, x.shape[1]), specs, *runs)


ALONG_ANY_AXIS = {
    "cumsum": lax.cumsum,
    "cumprod": lax.cumprod,
    "cummax": lax.cummax,
    "cummin": lax.cummin,
}


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "uint32", "complex64", "float16"]
)
@pytest.mark.parametrize("scan", ALONG_ANY_AXIS)
def test_cumulative_in_other_types_along_a_symbolic_axis(scan, dtype):
    (count,) = export.symbolic_shape("count")
    specs = [jax.ShapeDtypeStruct((3, count, 2), dtype)]
    runs = [[few(3, size, 2, dtype=dtype)] for size in (9, 16, 1, 0)]
    for reverse in (False, True):
        check_sizes(lambda x, r=reverse: ALONG_ANY_AXIS[scan](x, 1, reverse=r), specs, *runs)


def test_cumulative_along_a_symbolic_axis_with_infinities_and_nan():
    (count,) = export.symbolic_shape("count")
    specs = [jax.ShapeDtypeStruct((4, count), np.float32)]
    for scan in (lax.cummax, lax.cummin, lax.cumlogsumexp):
        check_sizes(lambda x, scan=scan: scan(x, 1), specs, [special(4, 9)], [special(4, 1)])


def test_cumulative_along_a_symbolic_axis_takes_little_memory():
    """Every iteration works on arrays of the operand's size, not of its square."""
    (count,) = export.symbolic_shape("count")
    specs = [jax.ShapeDtypeStruct((count,), np.float32)]
    x = np.random.default_rng(0).normal(size=200_000).astype(np.float32)
    check_sizes(lambda x: lax.cummax(x, 0), specs, [x])


@pytest.mark.parametrize("fuel", [None, 0])
def test_top_k_beside_unused_bits(fuel, double):
    """Unused nodes need their opset, too, unless something removes them."""

    def fn(x):
        lax.bitcast_convert_type(x, jnp.float32)
        return lax.top_k(x, 2)

    with optimizer(fuel=fuel):
        check_model(fn, [np.array([[1.0, 3, 2, -1]])], **double)
