"""A convolutional network in flax Linen."""

from collections.abc import Callable

import flax.linen as nn
import jax

from models.linen.making import applied
from models.random_values import normal


class CNN(nn.Module):
    """Convolution, batch norm, pooling, twice; then a dense layer."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(8, (3, 3), name="conv1")(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True, name="norm1")(x))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.Conv(16, (3, 3), strides=2, padding="VALID", name="conv2")(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True, name="norm2")(x))
        x = nn.avg_pool(x, (3, 3), padding="SAME")
        return nn.Dense(10, name="head")(x.reshape(x.shape[0], -1))


def cnn(
    batch: int = 2, size: int = 12
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example images."""
    x = normal(batch, size, size, 1)
    return applied(CNN(), x), (x,)
