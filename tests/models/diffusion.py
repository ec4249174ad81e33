"""Parts that all diffusion models share, independent of the network."""

import jax
import jax.numpy as jnp

STEPS = 100
# The share of the signal that remains after each step.
SIGNAL = jnp.cumprod(1 - jnp.linspace(1e-4, 0.05, STEPS))


def time_embedding(step: jax.Array, width: int) -> jax.Array:
    """Returns sines and cosines of the step, with geometrically decreasing frequencies."""
    frequencies = jnp.exp(-jnp.log(1e4) * jnp.arange(width // 2) / (width // 2))
    angle = step[..., None].astype(jnp.float32) * frequencies
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)


def denoised(x: jax.Array, noise: jax.Array, step: jax.Array) -> jax.Array:
    """Takes one deterministic step back, given the predicted noise."""
    after = jnp.maximum(step - 1, 0)
    now, then = (jnp.expand_dims(SIGNAL[s], tuple(range(s.ndim, x.ndim))) for s in (step, after))
    clean = jnp.clip((x - jnp.sqrt(1 - now) * noise) / jnp.sqrt(now), -3, 3)
    return jnp.sqrt(then) * clean + jnp.sqrt(1 - then) * noise
