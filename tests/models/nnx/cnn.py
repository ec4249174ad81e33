"""A convolutional network in flax NNX, with batch norm, pooling and dropout."""

import jax
from flax import nnx

from models.nnx.making import made
from models.random_values import normal


class CNN(nnx.Module):
    """Two convolutions, then two dense layers."""

    def __init__(self, size: int, *, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(1, 8, kernel_size=(3, 3), rngs=rngs)
        self.norm1 = nnx.BatchNorm(8, rngs=rngs)
        self.conv2 = nnx.Conv(8, 16, kernel_size=(3, 3), strides=2, padding="VALID", rngs=rngs)
        self.norm2 = nnx.BatchNorm(16, rngs=rngs)
        side = ((size // 2) - 3) // 2 + 1
        self.dense = nnx.Linear(side * side * 16, 32, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.head = nnx.Linear(32, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.max_pool(jax.nn.relu(self.norm1(self.conv1(x))), (2, 2), strides=(2, 2))
        x = jax.nn.relu(self.norm2(self.conv2(x)))
        x = nnx.avg_pool(x, (3, 3), strides=(1, 1), padding="SAME")
        x = jax.nn.tanh(self.dense(x.reshape(x.shape[0], -1)))
        return self.head(self.dropout(x))


def cnn(batch: int = 2, size: int = 12, *, training: bool = False) -> tuple[CNN, tuple[jax.Array]]:
    """Returns the model and example images."""
    model = made(lambda rngs: CNN(size, rngs=rngs))
    if training:
        model.train()
    return model, (normal(batch, size, size, 1),)
