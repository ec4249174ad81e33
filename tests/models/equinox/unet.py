"""A U-Net in Equinox."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from models.equinox.making import made
from models.random_values import normal


class Double(eqx.Module):
    """Two convolutions, each with a group norm."""

    layers: eqx.nn.Sequential

    def __init__(self, inputs: int, outputs: int, key: jax.Array) -> None:
        layers = []
        for channels in (inputs, outputs):
            conv = eqx.nn.Conv2d(channels, outputs, 3, padding="SAME", key=key)
            layers += [conv, eqx.nn.GroupNorm(2, outputs), eqx.nn.Lambda(jax.nn.silu)]
        self.layers = eqx.nn.Sequential(layers)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.layers(x)


class UNet(eqx.Module):
    """Downsamples at each level, upsamples again, and joins both paths."""

    pool: eqx.nn.MaxPool2d
    down: list[Double]
    grow: list[eqx.nn.ConvTranspose2d]
    up: list[Double]
    head: eqx.nn.Conv2d

    def __init__(self, channels: tuple[int, ...], key: jax.Array) -> None:
        self.pool = eqx.nn.MaxPool2d(2, 2)
        self.down = [Double(i, o, key) for i, o in zip((3, *channels), channels, strict=False)]
        back = list(zip(channels[::-1], channels[-2::-1], strict=False))
        self.grow = [eqx.nn.ConvTranspose2d(i, o, 2, stride=2, key=key) for i, o in back]
        self.up = [Double(2 * o, o, key) for _, o in back]
        self.head = eqx.nn.Conv2d(channels[0], 2, 1, key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        skips = []
        for level, block in enumerate(self.down):
            x = block(self.pool(x) if level else x)
            skips.append(x)
        skips.pop()
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(jnp.concatenate([grow(x), skips.pop()]))
        return self.head(x)


def unet(
    batch: int = 2, size: int = 8
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example images, channels first."""
    return jax.vmap(made(UNet, (4, 8, 8))), (normal(batch, 3, size, size),)
