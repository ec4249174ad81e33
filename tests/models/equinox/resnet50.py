"""ResNet-50 in Equinox, with a configurable width."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax

from models.equinox.making import made
from models.random_values import normal

DEPTHS = (3, 4, 6, 3)
Conv = functools.partial(eqx.nn.Conv2d, use_bias=False)
Norm = functools.partial(eqx.nn.BatchNorm, axis_name="batch", mode="batch")
Carry = tuple[jax.Array, eqx.nn.State]


class Bottleneck(eqx.Module):
    """Three convolutions and a shortcut around them."""

    conv1: eqx.nn.Conv2d
    norm1: eqx.nn.BatchNorm
    conv2: eqx.nn.Conv2d
    norm2: eqx.nn.BatchNorm
    conv3: eqx.nn.Conv2d
    norm3: eqx.nn.BatchNorm
    project: eqx.nn.Sequential | None

    def __init__(self, inputs: int, width: int, stride: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 4)
        outputs = 4 * width
        self.conv1, self.norm1 = Conv(inputs, width, 1, key=keys[0]), Norm(width)
        self.conv2 = Conv(width, width, 3, stride, padding=1, key=keys[1])
        self.norm2 = Norm(width)
        self.conv3, self.norm3 = Conv(width, outputs, 1, key=keys[2]), Norm(outputs)
        self.project = None
        if stride != 1 or inputs != outputs:
            conv = Conv(inputs, outputs, 1, stride, key=keys[3])
            self.project = eqx.nn.Sequential([conv, Norm(outputs)])

    def __call__(self, x: jax.Array, state: eqx.nn.State) -> Carry:
        shortcut = x
        if self.project is not None:
            shortcut, state = self.project(x, state)
        x, state = self.norm1(self.conv1(x), state)
        x, state = self.norm2(self.conv2(jax.nn.relu(x)), state)
        x, state = self.norm3(self.conv3(jax.nn.relu(x)), state)
        return jax.nn.relu(x + shortcut), state


class ResNet50(eqx.Module):
    """The stem, four stages of bottlenecks, and a linear head."""

    stem: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    pool: eqx.nn.MaxPool2d
    blocks: list[Bottleneck]
    head: eqx.nn.Linear

    def __init__(self, width: int, classes: int, key: jax.Array) -> None:
        self.stem = Conv(3, width, 7, 2, padding=3, key=key)
        self.norm = Norm(width)
        self.pool = eqx.nn.MaxPool2d(3, 2, padding=1)
        self.blocks, inputs = [], width
        for stage, depth in enumerate(DEPTHS):
            for index in range(depth):
                stride = 2 if stage > 0 and index == 0 else 1
                self.blocks.append(Bottleneck(inputs, width << stage, stride, key))
                inputs = 4 * (width << stage)
        self.head = eqx.nn.Linear(inputs, classes, key=key)

    def __call__(self, image: jax.Array, state: eqx.nn.State) -> jax.Array:
        x, state = self.norm(self.stem(image), state)
        x = self.pool(jax.nn.relu(x))
        for block in self.blocks:
            x, state = block(x, state)
        return self.head(x.mean(axis=(1, 2)))


def resnet50(
    batch: int = 1, size: int = 64, width: int = 64, classes: int = 1000
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example images, channels first."""
    model, state = made(eqx.nn.make_with_state(ResNet50), width, classes)

    def apply(image: jax.Array) -> jax.Array:
        return jax.vmap(model, axis_name="batch", in_axes=(0, None))(image, state)

    return apply, (normal(batch, 3, size, size),)
