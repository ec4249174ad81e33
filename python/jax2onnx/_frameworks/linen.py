"""Flax Linen."""

import sys
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from jax2onnx._frameworks.framework import Framework, Holders, Marks, Run
from jax2onnx._python.objects import instance_dict

#: The collection of parameters in a dictionary of variables.
PARAMETERS = "params"


class Linen(Framework):
    """Modules are descriptions; a bound one has a scope, which holds its variables."""

    module = "flax.linen"
    holders: ClassVar[Holders] = {
        ("flax.core.scope", "Scope"): frozenset({"_variables", "rng_counters", "reservations"})
    }
    content = frozenset({"_dict"})  # of a FrozenDict
    trace_marks: ClassVar[Marks] = {
        "trace_level": lambda _: sys.modules["flax.core.tracers"].current_trace()
    }
    names_scopes = True

    def interception(self, run: Run, /) -> AbstractContextManager[Any] | None:
        """Returns Linen's interceptor, which is local to the thread."""
        linen: Any = sys.modules.get(self.module)

        def intercept(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
            if context.method_name != "__call__":
                return call(*args, **kwargs)
            return run(context.module, call, context.module.path == (), *args, **kwargs)

        context: AbstractContextManager[Any] | None
        context = None if linen is None else linen.intercept_methods(intercept)
        return context

    def variables(self, module: Any, /) -> Any:
        """Returns the collections in the scope of a bound module."""
        return instance_dict(instance_dict(module).get("scope")).get("_variables")
