"""Random weights and inputs, the same in every run, drawn without compiling anything."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T")


def filled(tree: T) -> T:
    """Replaces each `jax.ShapeDtypeStruct` of a pytree by an array.

    Matrices preserve the scale of their operand; vectors are about one, so that they can be
    variances, and no bias is zero.
    """
    generator = np.random.default_rng(0)

    def leaf(spec: Any) -> Any:
        if not isinstance(spec, jax.ShapeDtypeStruct):
            return spec
        if jnp.issubdtype(spec.dtype, jax.dtypes.prng_key):
            return jax.random.key(0)
        if not jnp.issubdtype(spec.dtype, jnp.floating):
            return jnp.zeros(spec.shape, spec.dtype)
        noise = generator.standard_normal(spec.shape)
        vector = noise.size == max(spec.shape, default=1)
        return jnp.asarray(1 + 0.1 * noise if vector else noise * noise.size**-0.25, spec.dtype)

    return jax.tree.map(leaf, tree)


def normal(*shape: int) -> jax.Array:
    """Draws normally distributed numbers."""
    return jnp.asarray(np.random.default_rng(1).standard_normal(shape), jnp.float32)


def integers(*shape: int, below: int) -> jax.Array:
    """Draws integers from zero to below `below`."""
    return jnp.asarray(np.random.default_rng(2).integers(0, below, shape), jnp.int32)
