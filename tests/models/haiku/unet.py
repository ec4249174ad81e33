"""A U-Net in dm-haiku."""

from collections.abc import Callable

import haiku as hk
import jax
import jax.numpy as jnp

from models.haiku.making import applied
from models.random_values import normal


class Double(hk.Module):
    """Two convolutions, each with a group norm."""

    def __init__(self, channels: int, name: str) -> None:
        super().__init__(name=name)
        self.channels = channels

    def __call__(self, x: jax.Array) -> jax.Array:
        for index in (1, 2):
            x = hk.Conv2D(self.channels, 3, name=f"conv{index}")(x)
            x = jax.nn.silu(hk.GroupNorm(2, name=f"norm{index}")(x))
        return x


class UNet(hk.Module):
    """Downsamples at each level, upsamples again, and joins both paths."""

    def __init__(self, channels: tuple[int, ...]) -> None:
        super().__init__(name="unet")
        self.channels = channels

    def __call__(self, x: jax.Array) -> jax.Array:
        skips = []
        for level, channels in enumerate(self.channels):
            x = hk.MaxPool((2, 2, 1), (2, 2, 1), "VALID")(x) if level else x
            x = Double(channels, name=f"down_{level}")(x)
            skips.append(x)
        skips.pop()
        for level, channels in enumerate(self.channels[-2::-1]):
            x = hk.Conv2DTranspose(channels, 2, stride=2, name=f"grow_{level}")(x)
            x = Double(channels, name=f"up_{level}")(jnp.concatenate([x, skips.pop()], axis=-1))
        return hk.Conv2D(2, 1, name="head")(x)


def unet(
    batch: int = 2, size: int = 8
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example images."""
    x = normal(batch, size, size, 3)
    return applied(lambda image: UNet((4, 8, 8))(image), x), (x,)
