"""A convolutional network in Equinox, applied to a batch."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp


class CNN(eqx.Module):
    """Layers in a tuple, as Equinox users like them."""

    layers: tuple[Callable[..., jax.Array], ...]
    head: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, 3)
        self.layers = (
            eqx.nn.Conv2d(3, 8, kernel_size=3, padding=1, key=keys[0]),
            eqx.nn.MaxPool2d(kernel_size=2, stride=2),
            jax.nn.relu,
            eqx.nn.Conv2d(8, 16, kernel_size=3, groups=2, dilation=2, key=keys[1]),
            eqx.nn.AvgPool2d(kernel_size=2, stride=1),
            jnp.ravel,
        )
        self.head = eqx.nn.Linear(16 * 3 * 3, 10, key=keys[2])

    def __call__(self, image: jax.Array) -> jax.Array:
        for layer in self.layers:
            image = layer(image)
        return jax.nn.log_softmax(self.head(image))


def eqx_cnn(
    batch: int = 2,
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """The model over a batch and example images, channels first."""
    model = CNN(jax.random.key(0))
    return jax.vmap(model), (jax.random.normal(jax.random.key(1), (batch, 3, 16, 16)),)
