"""Arrays without elements, and control flow without results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fuzz.runtime import optimizer
from harness.checking import check_model, check_sizes


@pytest.mark.parametrize("inside", [False, True])
def test_padding_by_nothing(inside):
    def pad(x):
        return jnp.pad(x, [(0, 0)], "edge")

    def fn(x):
        return lax.fori_loop(0, 2, lambda _, v: pad(v), x) if inside else pad(x)

    check_model(fn, [np.arange(5, dtype=np.uint16)])


def test_broadcasts_to_nothing():
    x = np.ones((2, 1), np.float32)
    check_model(lambda x: jnp.sum(jnp.broadcast_to(x, (3, 2, 0)), axis=2), [x])


def test_control_flow_without_results():
    def fn(p, x):
        lax.cond(p, lambda _: (), lambda _: (), x)
        lax.scan(lambda _, y: ((), ()), (), x)
        return x + 1

    check_model(fn, [np.array(True), np.ones(3, np.float32)])


def test_products_without_rows():
    x, w = np.zeros((2, 1, 0, 2), np.float32), np.ones((2, 4), np.float32)
    check_model(lambda x, w: x @ w + 1, [x, w])


@pytest.mark.parametrize("fuel", [None, 0])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "uint8"])
def test_products_that_are_sums_of_nothing(dtype, fuel):
    with optimizer(fuel=fuel):
        for shapes in [((2, 0), (0, 3)), ((4, 2, 0), (4, 0, 3)), ((0,), (0,))]:
            check_model(jnp.matmul, [np.zeros(shape, dtype) for shape in shapes])
        specs = [jax.ShapeDtypeStruct(s, dtype) for s in [("N", 2), ("N", 3)]]
        args = ([np.ones((n, 2), dtype), np.ones((n, 3), dtype)] for n in (0, 4))
        check_sizes(lambda x, y: x.T @ y, specs, *args)


def test_complex_numbers():
    x = np.zeros((2, 0), np.complex64)
    check_model(lambda x: (jnp.exp(x) * x, jnp.sum(x, 1)), [x])
