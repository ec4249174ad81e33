"""Haiku."""

import functools
import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from jax2onnx._frameworks.framework import Framework, Run, first_result
from jax2onnx._python.objects import function_in


class Haiku(Framework):
    """Modules exist only while a transformed function runs, and open scopes by themselves."""

    module = "haiku"
    inference = "pass `is_training=False` to batch norms, and call `hk.dropout` only in training"
    content = frozenset({"_mapping"})  # of a FlatMap

    def holding(self, fn: Any, params: Any, state: Any, /) -> Callable[..., Any] | None:
        """Applies a pair of functions from `hk.transform` or `hk.transform_with_state`, without
        random numbers. Of a result and a new state, the result remains.
        """
        haiku: Any = sys.modules.get(self.module)
        if haiku is None or not isinstance(fn, haiku.Transformed | haiku.TransformedWithState):
            return None
        with_state = isinstance(fn, haiku.TransformedWithState)
        arguments = [params, {} if state is None else state] if with_state else [params]
        names = list(inspect.signature(fn.apply).parameters)
        if names[len(arguments)] == "rng":
            arguments.append(None)
        applied = functools.partial(fn.apply, *arguments)
        own = function_in(fn.apply, "f")
        if own is not None:
            applied.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]
        return first_result(applied) if with_state else applied

    def unready(self, fn: Any, /) -> tuple[str, str, str] | None:
        """Returns the message for transformed functions without parameters."""
        haiku: Any = sys.modules.get(self.module)
        if haiku is None or not isinstance(fn, haiku.Transformed | haiku.TransformedWithState):
            return None
        return (
            "the pair of functions from `hk.transform` has no parameters",
            "",
            "pass params= to jax2onnx.export, or a function: `lambda x: f.apply(params, None, x)`",
        )

    def interception(self, run: Run, /) -> AbstractContextManager[Any] | None:
        """Returns Haiku's interceptor, which is local to the thread."""
        haiku: Any = sys.modules.get(self.module)

        def intercept(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
            if context.method_name != "__call__":
                return call(*args, **kwargs)
            return run(context.module, call, False, *args, **kwargs)

        context: AbstractContextManager[Any] | None
        context = None if haiku is None else haiku.intercept_methods(intercept)
        return context
