"""Flax Linen."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from jax2onnx._frameworks.framework import Framework, Holders, Marks, Run
from jax2onnx._python.objects import instance_dict

#: The collection of parameters in a dictionary of variables.
PARAMETERS = "params"


class Linen(Framework):
    """Modules are descriptions; a bound one has a scope, which holds its variables."""

    module = "flax.linen"
    inference = (
        "pass `deterministic=True` to dropout and `use_running_average=True` to batch norms; many "
        "models have one argument for both, such as `train=False`"
    )
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

    def holding(self, fn: Any, params: Any, state: Any, /) -> Callable[..., Any] | None:
        """Binds a module to its variables, or to its parameters and other collections."""
        base = self.modules()
        if base is None or not isinstance(fn, base):
            return None
        variables = params if isinstance(params, Mapping) and PARAMETERS in params else None
        module: Any = fn
        bound: Callable[..., Any]
        bound = module.bind({PARAMETERS: params, **(state or {})} if variables is None else params)
        return bound

    def unready(self, fn: Any, /) -> tuple[str, str, str] | None:
        """Returns the message for a module that is not bound."""
        base = self.modules()
        if base is None or not isinstance(fn, base) or instance_dict(fn).get("scope") is not None:
            return None
        name = type(fn).__name__
        return (
            f"the Linen module `{name}` has no variables",
            "",
            "pass variables= to jax2onnx.export, or bind the module: `module.bind(variables)`",
        )

    def variables(self, module: Any, /) -> Any:
        """Returns the collections in the scope of a bound module."""
        return instance_dict(instance_dict(module).get("scope")).get("_variables")
