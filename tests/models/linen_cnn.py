"""A convolutional network in flax Linen, by `apply`."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax


class CNN(nn.Module):
    """Convolution, batch norm, pooling, dense."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(8, (3, 3), name="conv")(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True, name="norm")(x))
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        return nn.Dense(10, name="head")(x.reshape(x.shape[0], -1))


def linen_cnn(batch: int = 2, size: int = 8) -> tuple[Callable[..., Any], tuple[jax.Array]]:
    """The module applied to its variables, and example images."""
    x = jax.random.normal(jax.random.key(1), (batch, size, size, 1))
    module = CNN()
    variables = module.init(jax.random.key(0), x)
    return lambda x: module.apply(variables, x), (x,)
