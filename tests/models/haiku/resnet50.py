"""dm-haiku's ResNet-50, with a configurable width."""

from collections.abc import Callable

import haiku as hk
import jax

from models.haiku.making import applied
from models.random_values import normal


def resnet50(
    batch: int = 1, size: int = 64, width: int = 64, classes: int = 1000
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Returns the model and example images."""

    def forward(image: jax.Array) -> jax.Array:
        network = hk.nets.ResNet(
            blocks_per_group=(3, 4, 6, 3),
            num_classes=classes,
            channels_per_group=tuple(4 * width << stage for stage in range(4)),
            initial_conv_config={"output_channels": width},
            name="resnet50",
        )
        return network(image, is_training=hk.running_init())

    x = normal(batch, size, size, 3)
    return applied(forward, x), (x,)
