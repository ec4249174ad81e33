"""A step of a diffusion model in dm-haiku."""

from collections.abc import Callable

import haiku as hk
import jax
import jax.numpy as jnp

from models.diffusion import STEPS, denoised, time_embedding
from models.haiku.making import applied
from models.random_values import integers, normal

WIDTH = 8


def forward(x: jax.Array, step: jax.Array) -> jax.Array:
    """Predicts the noise in an image at a given step and subtracts it."""
    time = jax.nn.silu(hk.Linear(2 * WIDTH, name="time")(time_embedding(step, WIDTH)))
    scale, shift = (part[:, None, None] for part in jnp.split(time, 2, axis=-1))
    hidden = hk.Conv2D(WIDTH, 3, name="enter")(x)
    norm = hk.LayerNorm(-1, create_scale=False, create_offset=False, name="norm")
    mix = hk.DepthwiseConv2D(1, 3, name="mix")
    hidden = hidden + mix(jax.nn.silu(norm(hidden) * (1 + scale) + shift))
    return denoised(x, hk.Conv2D(3, 3, name="leave")(hidden), step)


def denoiser(
    batch: int = 2, size: int = 8
) -> tuple[Callable[..., jax.Array], tuple[jax.Array, jax.Array]]:
    """Returns the model, noisy images and the step of each."""
    args = normal(batch, size, size, 3), integers(batch, below=STEPS)
    return applied(forward, *args), args
