"""A step of a diffusion model in Equinox."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from models.diffusion import STEPS, denoised, time_embedding
from models.equinox.making import made
from models.random_values import integers, normal


class Denoiser(eqx.Module):
    """Predicts the noise in an image at a given step and subtracts it."""

    width: int
    time: eqx.nn.Linear
    enter: eqx.nn.Conv2d
    norm: eqx.nn.GroupNorm
    mix: eqx.nn.Conv2d
    leave: eqx.nn.Conv2d

    def __init__(self, width: int, key: jax.Array) -> None:
        self.width = width
        self.time = eqx.nn.Linear(width, 2 * width, key=key)
        self.enter = eqx.nn.Conv2d(3, width, 3, padding=1, key=key)
        self.norm = eqx.nn.GroupNorm(2, width, channelwise_affine=False)
        self.mix = eqx.nn.Conv2d(width, width, 3, padding=1, groups=width, key=key)
        self.leave = eqx.nn.Conv2d(width, 3, 3, padding=1, key=key)

    def __call__(self, x: jax.Array, step: jax.Array) -> jax.Array:
        time = jax.nn.silu(self.time(time_embedding(step, self.width)))
        scale, shift = (part[:, None, None] for part in jnp.split(time, 2))
        hidden = self.enter(x)
        hidden = hidden + self.mix(jax.nn.silu(self.norm(hidden) * (1 + scale) + shift))
        return denoised(x, self.leave(hidden), step)


def denoiser(
    batch: int = 2, size: int = 8
) -> tuple[Callable[..., jax.Array], tuple[jax.Array, jax.Array]]:
    """Returns the model, noisy images (channels first) and the step of each."""
    args = normal(batch, 3, size, size), integers(batch, below=STEPS)
    return jax.vmap(made(Denoiser, 8)), args
