"""A U-Net in flax NNX."""

import jax
import jax.numpy as jnp
from flax import nnx

from models.nnx.layer_list import LayerList
from models.nnx.making import made
from models.random_values import normal


class Double(nnx.Module):
    """Two convolutions, each with a group norm."""

    def __init__(self, inputs: int, outputs: int, *, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(inputs, outputs, (3, 3), rngs=rngs)
        self.norm1 = nnx.GroupNorm(outputs, num_groups=2, rngs=rngs)
        self.conv2 = nnx.Conv(outputs, outputs, (3, 3), rngs=rngs)
        self.norm2 = nnx.GroupNorm(outputs, num_groups=2, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = jax.nn.silu(self.norm1(self.conv1(x)))
        return jax.nn.silu(self.norm2(self.conv2(x)))


class UNet(nnx.Module):
    """Downsamples at each level, upsamples again, and joins both paths."""

    def __init__(self, channels: tuple[int, ...], *, rngs: nnx.Rngs) -> None:
        pairs = list(zip((3, *channels), channels, strict=False))
        self.down = LayerList([Double(i, o, rngs=rngs) for i, o in pairs])
        back = list(zip(channels[::-1], channels[-2::-1], strict=False))
        self.grow = LayerList(
            [nnx.ConvTranspose(i, o, (2, 2), strides=(2, 2), rngs=rngs) for i, o in back]
        )
        self.up = LayerList([Double(2 * o, o, rngs=rngs) for _, o in back])
        self.head = nnx.Conv(channels[0], 2, (1, 1), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        skips = []
        for level, block in enumerate(self.down):
            x = block(nnx.max_pool(x, (2, 2), strides=(2, 2)) if level else x)
            skips.append(x)
        skips.pop()
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(jnp.concatenate([grow(x), skips.pop()], axis=-1))
        return self.head(x)


def unet(batch: int = 2, size: int = 8) -> tuple[UNet, tuple[jax.Array]]:
    """Returns the model and example images."""
    return made(lambda rngs: UNet((4, 8, 8), rngs=rngs)), (normal(batch, size, size, 3),)
