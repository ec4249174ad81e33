"""A multi-layer perceptron in flax Linen."""

import flax.linen as nn
import jax


class MLP(nn.Module):
    """Dense layers of the given widths."""

    widths: tuple[int, ...]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.widths:
            x = nn.gelu(nn.Dense(width)(x))
        return nn.Dense(3, name="head")(x)


def linen_mlp(batch: int = 4, inputs: int = 8) -> tuple[nn.Module, tuple[jax.Array]]:
    """The bound module and an example batch."""
    x = jax.random.normal(jax.random.key(1), (batch, inputs))
    module = MLP((16, 16))
    return module.bind(module.init(jax.random.key(0), x)), (x,)
