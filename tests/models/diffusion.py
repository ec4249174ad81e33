"""What diffusion models have in common, whatever the network is."""

import jax
import jax.numpy as jnp

STEPS = 100
# How much of the signal is left after each step.
SIGNAL = jnp.cumprod(1 - jnp.linspace(1e-4, 0.05, STEPS))


def time_embedding(step: jax.Array, width: int) -> jax.Array:
    """Sines and cosines of the step, in frequencies that fall geometrically."""
    frequencies = jnp.exp(-jnp.log(1e4) * jnp.arange(width // 2) / (width // 2))
    angle = step[..., None].astype(jnp.float32) * frequencies
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)


def denoised(x: jax.Array, noise: jax.Array, step: jax.Array) -> jax.Array:
    """One deterministic step back, given the noise that the network predicts."""
    after = jnp.maximum(step - 1, 0)
    now, then = (jnp.expand_dims(SIGNAL[s], tuple(range(s.ndim, x.ndim))) for s in (step, after))
    clean = jnp.clip((x - jnp.sqrt(1 - now) * noise) / jnp.sqrt(now), -3, 3)
    return jnp.sqrt(then) * clean + jnp.sqrt(1 - then) * noise
