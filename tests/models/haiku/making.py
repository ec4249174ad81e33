"""Gives transformed Haiku functions random weights."""

import functools
from collections.abc import Callable
from typing import Any

import haiku as hk
import jax

from models.random_values import filled


def applied(forward: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """`forward` as a function of its arguments alone, with parameters of the right shapes."""
    pair = hk.without_apply_rng(hk.transform_with_state(forward))
    params, state = filled(jax.eval_shape(pair.init, jax.random.key(0), *args))

    @functools.wraps(forward)
    def apply(*args: Any) -> Any:
        return pair.apply(params, state, *args)[0]

    return apply
