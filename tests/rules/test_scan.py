import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import check_model, check_sizes


def rounds(carry, x):
    return jnp.tanh(carry + x), (carry.sum(), x > 0)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_scan_over_arrays(length, reverse):
    xs = np.random.default_rng(0).normal(size=(length, 3)).astype(np.float32)
    check_model(lambda x: lax.scan(rounds, jnp.ones(3), x, reverse=reverse), [xs])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_scan_without_arrays(length, reverse):
    def fn(x):
        return lax.scan(lambda c, _: (c * 0.5, c + 1), x, None, length=length, reverse=reverse)

    check_model(fn, [np.arange(3, dtype=np.float32)])


@pytest.mark.parametrize("reverse", [False, True])
def test_perhaps_no_iteration(reverse):
    def fn(x):
        rows = x[1:]
        return lax.scan(lambda c, r: (c + r, c * r), jnp.ones(3), rows, reverse=reverse)

    check_sizes(fn, [("B", 3)], *([np.full((n, 3), 2, np.float32)] for n in (1, 2, 5)))
