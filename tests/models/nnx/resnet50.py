"""ResNet-50 in flax NNX, with configurable widths and image sizes."""

import functools

import jax
import jax.numpy as jnp
from flax import nnx

from models.nnx.layer_list import LayerList
from models.nnx.making import made
from models.random_values import normal

DEPTHS = (3, 4, 6, 3)


class Bottleneck(nnx.Module):
    """Three convolutions and a shortcut around them."""

    def __init__(self, inputs: int, width: int, stride: int, *, rngs: nnx.Rngs) -> None:
        conv = functools.partial(nnx.Conv, use_bias=False, rngs=rngs)
        outputs = 4 * width
        self.conv1 = conv(inputs, width, kernel_size=(1, 1))
        self.norm1 = nnx.BatchNorm(width, rngs=rngs)
        self.conv2 = conv(width, width, kernel_size=(3, 3), strides=stride, padding=1)
        self.norm2 = nnx.BatchNorm(width, rngs=rngs)
        self.conv3 = conv(width, outputs, kernel_size=(1, 1))
        self.norm3 = nnx.BatchNorm(outputs, rngs=rngs)
        changes = stride != 1 or inputs != outputs
        self.project = changes and nnx.Sequential(
            conv(inputs, outputs, kernel_size=(1, 1), strides=stride),
            nnx.BatchNorm(outputs, rngs=rngs),
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        shortcut = self.project(x) if self.project else x
        x = jax.nn.relu(self.norm1(self.conv1(x)))
        x = jax.nn.relu(self.norm2(self.conv2(x)))
        return jax.nn.relu(self.norm3(self.conv3(x)) + shortcut)


class ResNet50(nnx.Module):
    """The stem, four stages of bottlenecks, and a linear head."""

    def __init__(self, width: int, classes: int, *, rngs: nnx.Rngs) -> None:
        self.stem = nnx.Conv(
            3, width, kernel_size=(7, 7), strides=2, padding=3, use_bias=False, rngs=rngs
        )
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        inputs, blocks = width, []
        for stage, depth in enumerate(DEPTHS):
            for index in range(depth):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(Bottleneck(inputs, width << stage, stride, rngs=rngs))
                inputs = 4 * (width << stage)
        self.blocks = LayerList(blocks)
        self.head = nnx.Linear(inputs, classes, rngs=rngs)

    def __call__(self, image: jax.Array) -> jax.Array:
        x = jax.nn.relu(self.norm(self.stem(image)))
        x = nnx.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(x, axis=(1, 2)))


def resnet50(
    batch: int = 1, size: int = 64, width: int = 64, classes: int = 1000
) -> tuple[ResNet50, tuple[jax.Array]]:
    """Returns the model and example images."""
    model = made(lambda rngs: ResNet50(width, classes, rngs=rngs))
    return model, (normal(batch, size, size, 3),)
