"""Haiku."""

import sys
from contextlib import AbstractContextManager
from typing import Any

from jax2onnx._frameworks.framework import Framework, Run


class Haiku(Framework):
    """Modules exist only while a transformed function runs, and open scopes by themselves."""

    module = "haiku"
    content = frozenset({"_mapping"})  # of a FlatMap

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
