"""A convolutional network in Equinox, with batch statistics."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from models.equinox.making import made
from models.random_values import normal


class CNN(eqx.Module):
    """Layers in a tuple, in the usual style of Equinox."""

    layers: tuple[Callable[..., Any], ...]
    head: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, 3)
        self.layers = (
            eqx.nn.Conv2d(3, 8, kernel_size=3, padding=1, key=keys[0]),
            eqx.nn.BatchNorm(8, axis_name="batch", mode="batch"),
            eqx.nn.MaxPool2d(kernel_size=2, stride=2),
            jax.nn.relu,
            eqx.nn.Conv2d(8, 16, kernel_size=3, groups=2, dilation=2, key=keys[1]),
            eqx.nn.AvgPool2d(kernel_size=2, stride=1),
            jnp.ravel,
        )
        self.head = eqx.nn.Linear(16 * 3 * 3, 10, key=keys[2])

    def __call__(self, image: jax.Array, state: eqx.nn.State) -> jax.Array:
        for layer in self.layers:
            if isinstance(layer, eqx.nn.BatchNorm):
                image, state = layer(image, state)
            else:
                image = layer(image)
        return jax.nn.log_softmax(self.head(image))


def cnn(batch: int = 2) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example images, channels first."""
    model, state = made(eqx.nn.make_with_state(CNN))

    def apply(image: jax.Array) -> jax.Array:
        return jax.vmap(model, axis_name="batch", in_axes=(0, None))(image, state)

    return apply, (normal(batch, 3, 16, 16),)
