"""A step of a diffusion model in flax NNX."""

import jax
from flax import nnx

from models.diffusion import STEPS, denoised, time_embedding
from models.nnx.making import made
from models.random_values import integers, normal


class Denoiser(nnx.Module):
    """Predicts the noise in an image at a given step and subtracts it."""

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        self.width = width
        self.time = nnx.Linear(width, 2 * width, rngs=rngs)
        self.enter = nnx.Conv(3, width, (3, 3), rngs=rngs)
        self.norm = nnx.LayerNorm(width, use_bias=False, use_scale=False, rngs=rngs)
        self.mix = nnx.Conv(width, width, (3, 3), feature_group_count=width, rngs=rngs)
        self.leave = nnx.Conv(width, 3, (3, 3), rngs=rngs)

    def __call__(self, x: jax.Array, step: jax.Array) -> jax.Array:
        time = jax.nn.silu(self.time(time_embedding(step, self.width)))
        scale, shift = (part[:, None, None] for part in jax.numpy.split(time, 2, axis=-1))
        hidden = self.enter(x)
        hidden = hidden + self.mix(jax.nn.silu(self.norm(hidden) * (1 + scale) + shift))
        return denoised(x, self.leave(hidden), step)


def denoiser(batch: int = 2, size: int = 8) -> tuple[Denoiser, tuple[jax.Array, jax.Array]]:
    """Returns the model, noisy images and the step of each."""
    model = made(lambda rngs: Denoiser(8, rngs=rngs))
    return model, (normal(batch, size, size, 3), integers(batch, below=STEPS))
