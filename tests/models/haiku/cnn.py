"""A convolutional network in dm-haiku."""

from collections.abc import Callable

import haiku as hk
import jax

from models.haiku.making import applied
from models.random_values import normal


class CNN(hk.Module):
    """Convolution, batch norm, pooling, twice; then a dense layer."""

    def __call__(self, x: jax.Array) -> jax.Array:
        def norm(name: str, x: jax.Array) -> jax.Array:
            layer = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9, name=name)
            return layer(x, is_training=hk.running_init())

        x = jax.nn.relu(norm("norm1", hk.Conv2D(8, 3, name="conv1")(x)))
        x = hk.MaxPool((2, 2, 1), (2, 2, 1), "VALID", name="max_pool")(x)
        x = hk.Conv2D(16, 3, stride=2, padding="VALID", name="conv2")(x)
        x = jax.nn.relu(norm("norm2", x))
        x = hk.AvgPool((3, 3, 1), (1, 1, 1), "SAME", name="avg_pool")(x)
        return hk.Linear(10, name="head")(hk.Flatten()(x))


def cnn(
    batch: int = 2, size: int = 12
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example images."""
    x = normal(batch, size, size, 1)
    return applied(lambda x: CNN(name="cnn")(x), x), (x,)
