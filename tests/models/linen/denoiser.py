"""A step of a diffusion model in flax Linen."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from models.diffusion import STEPS, denoised, time_embedding
from models.linen.making import bound
from models.random_values import integers, normal


class Denoiser(nn.Module):
    """Predicts the noise in an image at a given step and subtracts it."""

    width: int

    @nn.compact
    def __call__(self, x: jax.Array, step: jax.Array) -> jax.Array:
        time = nn.silu(nn.Dense(2 * self.width, name="time")(time_embedding(step, self.width)))
        scale, shift = (part[:, None, None] for part in jnp.split(time, 2, axis=-1))
        hidden = nn.Conv(self.width, (3, 3), name="enter")(x)
        norm = nn.LayerNorm(use_bias=False, use_scale=False, name="norm")
        mix = nn.Conv(self.width, (3, 3), feature_group_count=self.width, name="mix")
        hidden = hidden + mix(nn.silu(norm(hidden) * (1 + scale) + shift))
        return denoised(x, nn.Conv(3, (3, 3), name="leave")(hidden), step)


def denoiser(batch: int = 2, size: int = 8) -> tuple[nn.Module, tuple[jax.Array, jax.Array]]:
    """Returns the model, noisy images and the step of each."""
    args = normal(batch, size, size, 3), integers(batch, below=STEPS)
    return bound(Denoiser(8), *args), args
