"""Sizes that are known only at run time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness.checking import check_sizes, op_types
from jax2onnx import to_onnx


def numbers(n):
    return np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)


@pytest.mark.parametrize("by", [-3, 1, 3, 7])
def test_roll(by):
    check_sizes(lambda x: jnp.roll(x, by, 0), [("B", 3)], *([numbers(n)] for n in (1, 3, 5)))


def test_gradient_of_overlapping_max_pools():
    def pooled(x):
        found = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return (found**2).sum()

    def images(height, width):
        return np.random.default_rng(0).normal(size=(2, height, width, 3)).astype(np.float32)

    check_sizes(jax.grad(pooled), [("B", "H", "W", 3)], [images(7, 7)], [images(6, 9)])


@pytest.mark.parametrize(
    ("fn", "nodes"),
    [
        (lambda x: jnp.concatenate([jnp.zeros((1, 3)), x[:-1]]), ["Slice", "Concat"]),
        (lambda x: jnp.concatenate([jnp.zeros((x.shape[0], 1)), x], 1), ["Pad"]),
        (lambda x: jnp.concatenate([jnp.full((x.shape[0], 2), jnp.nan), x], 1), ["Pad"]),
        (lambda x: jnp.concatenate([x, jnp.ones((x.shape[0], 1))], -1), ["Pad"]),
        (lambda x: jnp.concatenate([-jnp.zeros((x.shape[0], 1)), x * 0], 1), None),
        (lambda x: jnp.concatenate([jnp.zeros(x.shape), x]), None),
    ],
)
def test_concatenated_constants(fn, nodes):
    check_sizes(fn, [("B", 3)], *([numbers(n)] for n in (1, 2, 5)))
    assert nodes is None or op_types(to_onnx(fn, [("B", 3)])) == nodes
