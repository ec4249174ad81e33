"""A U-Net in flax Linen."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from models.linen.making import bound
from models.random_values import normal


class Double(nn.Module):
    """Two convolutions, each with a group norm."""

    channels: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for index in (1, 2):
            x = nn.Conv(self.channels, (3, 3), name=f"conv{index}")(x)
            x = nn.silu(nn.GroupNorm(num_groups=2, name=f"norm{index}")(x))
        return x


class UNet(nn.Module):
    """Downsamples at each level, upsamples again, and joins both paths."""

    channels: tuple[int, ...]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        skips = []
        for level, channels in enumerate(self.channels):
            x = nn.max_pool(x, (2, 2), strides=(2, 2)) if level else x
            x = Double(channels, name=f"down_{level}")(x)
            skips.append(x)
        skips.pop()
        for level, channels in enumerate(self.channels[-2::-1]):
            batch, height, width, _ = x.shape
            x = jax.image.resize(x, (batch, 2 * height, 2 * width, x.shape[-1]), "bilinear")
            x = nn.Conv(channels, (2, 2), name=f"grow_{level}")(x)
            x = Double(channels, name=f"up_{level}")(jnp.concatenate([x, skips.pop()], axis=-1))
        return nn.Conv(2, (1, 1), name="head")(x)


def unet(batch: int = 2, size: int = 8) -> tuple[nn.Module, tuple[jax.Array]]:
    """Returns the model and example images."""
    x = normal(batch, size, size, 3)
    return bound(UNet((4, 8, 8)), x), (x,)
