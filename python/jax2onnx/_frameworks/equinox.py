"""Equinox."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from jax2onnx import _jax
from jax2onnx._frameworks.framework import Framework, Transparent
from jax2onnx._python.objects import instance_dict


def reports_error(callback: Any) -> bool:
    """Returns `True` if a function only raises the errors of `equinox.error_if`."""
    return getattr(callback, "__module__", None) == "equinox._errors"


def _state_of(parameters: list[inspect.Parameter]) -> inspect.Parameter | None:
    """Returns the argument that takes the state: one with this name or annotation, or else the last
    one that is required, which follows the inputs.
    """
    marked = [p for p in parameters if p.name == "state" or "State" in str(p.annotation)]
    required = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return next(iter(marked or required[-1:]), None)


def _with_state(model: Any, state: Any, position: int | str, *args: Any, **kwargs: Any) -> Any:
    """Calls a model with a state, by position or name. A map of a model takes positions only."""
    try:
        if isinstance(position, str):
            return model(*args, **{position: state}, **kwargs)[0]
        return model(*args[:position], state, *args[position:], **kwargs)[0]
    except ValueError as error:
        if "vmap" in str(error):
            error.add_note(
                "\n  help: the state has no batch axis: jax.vmap(model, in_axes=(0, None), "
                'out_axes=(0, None), axis_name="batch")'
            )
        raise


class Equinox(Framework):
    """Modules are pytrees, which transformations flatten and rebuild."""

    module = "equinox"
    inference = "export `eqx.nn.inference_mode(model)`"
    transparent: ClassVar[Transparent] = {("equinox.nn._stateful", "State"): frozenset({"_state"})}
    rebuilds = True

    def is_internal(self, kind: type, /) -> bool:
        """Returns `True` for wrappers such as that of `filter_jit`, which are modules, too."""
        inside = kind.__module__.startswith("equinox.")
        return inside and not kind.__module__.startswith("equinox.nn")

    def holding(self, fn: Any, params: Any, state: Any, /) -> Callable[..., Any] | None:
        """Passes its state to a model that holds its parameters itself, or to a map of one. Of a
        result and a new state, the result remains.
        """
        base, model = self.modules(), inspect.unwrap(_jax.mapped(fn))
        if base is None or not isinstance(model, base) or params is not None or state is None:
            return None
        signature = inspect.signature(inspect.unwrap(_jax.mapped(fn)))
        parameters = list(signature.parameters.values())
        taken = _state_of(parameters)
        position: int | str = len(parameters) if taken is None else parameters.index(taken)
        if taken is not None and taken.kind is taken.KEYWORD_ONLY:
            position = taken.name
        held = functools.partial(_with_state, fn, state, position)
        others = [p for p in parameters if p is not taken]
        vars(held).update(__wrapped__=fn, __signature__=signature.replace(parameters=others))
        return held

    def advice_on_arguments(self, fn: Any, _args: Sequence[Any], /) -> str:
        if not self.owns(type(fn)):
            return ""
        return (
            "Equinox models take one example without a batch axis: if the first axis is a batch, "
            "export `jax.vmap(model)`"
        )

    def bare(self, call: Any, /) -> Any:
        """Removes the scope that decorates layers of `equinox.nn`."""
        return call.__wrapped__ if _jax.opens_scope(call) else call

    def is_method(self, value: Any, /) -> bool:
        """Returns `True` for bound methods, which are modules, so that they are pytrees."""
        stored = instance_dict(value)
        return "__self__" in stored and "__func__" in stored
