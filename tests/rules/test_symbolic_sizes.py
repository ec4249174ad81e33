"""Sizes that are known only when the model runs."""

import jax.numpy as jnp
import numpy as np
import pytest

from checking import check_sizes


def numbers(n):
    return np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)


@pytest.mark.parametrize("by", [-3, 1, 3, 7])
def test_roll(by):
    check_sizes(lambda x: jnp.roll(x, by, 0), [("B", 3)], *([numbers(n)] for n in (1, 3, 5)))
