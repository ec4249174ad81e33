"""Gives Linen modules random weights."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax

from models.random_values import filled


def bound(module: nn.Module, *args: Any) -> nn.Module:
    """Binds the module to variables of the right shapes for `args`."""
    return module.bind(_variables(module, *args))


def applied(module: nn.Module, *args: Any) -> Callable[..., Any]:
    """Returns the module's `apply` with such variables."""
    variables = _variables(module, *args)
    return lambda *args: module.apply(variables, *args)


def _variables(module: nn.Module, *args: Any) -> Any:
    return filled(jax.eval_shape(module.init, jax.random.key(0), *args))
