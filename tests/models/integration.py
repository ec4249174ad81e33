"""Ordinary differential equations by the classical Runge-Kutta method."""

from collections.abc import Callable

import jax
import jax.numpy as jnp


def integrate(
    slope: Callable[[jax.Array, jax.Array], jax.Array], x: jax.Array, time: jax.Array, steps: int
) -> jax.Array:
    """Returns `x` after `time`, in equal steps."""
    h = time / steps

    def step(index: jax.Array, x: jax.Array) -> jax.Array:
        t = index * h
        a = slope(t, x)
        b = slope(t + h / 2, x + h / 2 * a)
        c = slope(t + h / 2, x + h / 2 * b)
        d = slope(t + h, x + h * c)
        return x + h / 6 * (a + 2 * b + 2 * c + d)

    return jax.lax.fori_loop(0, steps, step, jnp.asarray(x))
