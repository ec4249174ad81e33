"""A scan, a loop and a branch: nodes inside nodes."""

import jax
import jax.numpy as jnp


def step(carry: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    carry = jnp.tanh(carry @ weights)
    return carry, jnp.sum(carry)


def loops(x: jax.Array, count: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, sums = jax.lax.scan(step, x, jnp.full((5, 8, 8), 0.1))
    x = jax.lax.fori_loop(0, count, lambda _, y: y * 1.5 + jnp.sin(y), x)
    x = jax.lax.cond(count > 2, lambda y: jnp.exp(y) + 1, lambda y: y - 1, x)
    return x, sums
