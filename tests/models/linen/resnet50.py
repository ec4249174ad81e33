"""ResNet-50 in flax Linen, with a configurable width."""

import functools

import flax.linen as nn
import jax

from models.linen.making import bound
from models.random_values import normal

DEPTHS = (3, 4, 6, 3)
Conv = functools.partial(nn.Conv, use_bias=False)
Norm = functools.partial(nn.BatchNorm, use_running_average=True)


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut around them."""

    width: int
    stride: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        outputs, shortcut = 4 * self.width, x
        if self.stride != 1 or x.shape[-1] != outputs:
            shortcut = Conv(outputs, (1, 1), strides=self.stride, name="project")(x)
            shortcut = Norm(name="project_norm")(shortcut)
        x = nn.relu(Norm(name="norm1")(Conv(self.width, (1, 1), name="conv1")(x)))
        x = Conv(self.width, (3, 3), strides=self.stride, padding=1, name="conv2")(x)
        x = nn.relu(Norm(name="norm2")(x))
        x = Norm(name="norm3")(Conv(outputs, (1, 1), name="conv3")(x))
        return nn.relu(x + shortcut)


class ResNet50(nn.Module):
    """The stem, four stages of bottlenecks, and a linear head."""

    width: int
    classes: int

    def setup(self) -> None:
        self.stem = Conv(self.width, (7, 7), strides=2, padding=3)
        self.norm = Norm()
        self.blocks = [
            Bottleneck(self.width << stage, 2 if stage > 0 and index == 0 else 1)
            for stage, depth in enumerate(DEPTHS)
            for index in range(depth)
        ]
        self.head = nn.Dense(self.classes)

    def __call__(self, image: jax.Array) -> jax.Array:
        x = nn.relu(self.norm(self.stem(image)))
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(axis=(1, 2)))


def resnet50(
    batch: int = 1, size: int = 64, width: int = 64, classes: int = 1000
) -> tuple[nn.Module, tuple[jax.Array]]:
    """Returns the model and example images."""
    x = normal(batch, size, size, 3)
    return bound(ResNet50(width, classes), x), (x,)
