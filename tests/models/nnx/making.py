"""Makes NNX modules with random weights."""

from collections.abc import Callable
from typing import TypeVar

from flax import nnx

from models.random_values import filled

M = TypeVar("M", bound=nnx.Module)


def made(make: Callable[[nnx.Rngs], M]) -> M:
    """Returns the module that `make` builds, in evaluation mode."""
    graph, state = nnx.split(nnx.eval_shape(lambda: make(nnx.Rngs(0))))
    module = nnx.merge(graph, filled(state))
    module.eval()
    return module
