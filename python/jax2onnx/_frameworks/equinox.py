"""Equinox."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from jax2onnx import _jax
from jax2onnx._frameworks.framework import Framework, Holders, first_result
from jax2onnx._python.objects import instance_dict


def reports_error(callback: Any) -> bool:
    """Returns `True` if a function only raises the errors of `equinox.error_if`."""
    return getattr(callback, "__module__", None) == "equinox._errors"


def _state_of(model: Any) -> str:
    """Returns the name of the argument that takes the state: one with this name or annotation, or
    else the last one that is required, which follows the inputs.
    """
    parameters = inspect.signature(model.__call__).parameters.values()
    marked = [p for p in parameters if p.name == "state" or "State" in str(p.annotation)]
    required = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return (marked or required[-1:])[0].name if marked or required else "state"


class Equinox(Framework):
    """Modules are pytrees, which transformations flatten and rebuild."""

    module = "equinox"
    batches = (
        "Equinox models take one example without a batch axis: if the first axis is a batch, "
        "export `jax.vmap(model)`"
    )
    inference = "export `eqx.nn.inference_mode(model)`"
    holders: ClassVar[Holders] = {("equinox.nn._stateful", "State"): frozenset({"_state"})}
    rebuilds = True

    def is_internal(self, kind: type, /) -> bool:
        """Returns `True` for wrappers such as that of `filter_jit`, which are modules, too."""
        inside = kind.__module__.startswith("equinox.")
        return inside and not kind.__module__.startswith("equinox.nn")

    def holding(self, fn: Any, params: Any, state: Any, /) -> Callable[..., Any] | None:
        """Passes its state to a model that holds its parameters itself. Of a result and a new
        state, the result remains.
        """
        base = self.modules()
        if base is None or not isinstance(fn, base) or params is not None or state is None:
            return None
        model: Any = fn
        return first_result(functools.partial(model, **{_state_of(model): state}))

    def bare(self, call: Any, /) -> Any:
        """Removes the scope that decorates layers of `equinox.nn`."""
        return call.__wrapped__ if _jax.opens_scope(call) else call

    def is_method(self, value: Any, /) -> bool:
        """Returns `True` for bound methods, which are modules, so that they are pytrees."""
        stored = instance_dict(value)
        return "__self__" in stored and "__func__" in stored
