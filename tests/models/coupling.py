"""Affine coupling: the invertible layer of normalising flows."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

Network = Callable[[jax.Array], jax.Array]


def log_density(x: jax.Array, networks: Sequence[Network]) -> tuple[jax.Array, jax.Array]:
    """Returns the latent of `x` and the logarithm of its density under the flow.

    Each network reads one half and returns the scale and shift of the other; then the halves swap
    positions.
    """
    volume = jnp.zeros(x.shape[:-1])
    for network in networks:
        kept, moved = jnp.split(x, 2, axis=-1)
        scale, shift = jnp.split(network(kept), 2, axis=-1)
        scale = jnp.tanh(scale)
        x = jnp.concatenate([moved * jnp.exp(scale) + shift, kept], axis=-1)
        volume += scale.sum(axis=-1)
    prior = -0.5 * (x**2 + jnp.log(2 * jnp.pi)).sum(axis=-1)
    return x, prior + volume
