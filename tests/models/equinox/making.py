"""Makes Equinox modules with random weights."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from models.random_values import filled


def made(make: Callable[..., Any], *args: Any) -> Any:
    """Calls `make` with `args` and a key, and returns the result in inference mode."""
    abstract = eqx.filter_eval_shape(lambda key: make(*args, key=key), jax.random.key(0))
    return eqx.nn.inference_mode(filled(abstract))
