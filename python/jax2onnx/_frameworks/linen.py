"""Flax Linen."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from jax2onnx._frameworks.framework import Framework, Marks, Run, Transparent, interceptor
from jax2onnx._python.objects import instance_dict
from jax2onnx.errors import invalid_option

#: The collection of parameters in a dictionary of variables.
PARAMETERS = "params"


class Linen(Framework):
    """Modules are descriptions; a bound one has a scope, which holds its variables."""

    module = "flax.linen"
    inference = (
        "pass `deterministic=True` to dropout and `use_running_average=True` to batch norms; many "
        "models have one argument for both, such as `train=False`"
    )
    errors: ClassVar[Mapping[str, str]] = {
        "ScopeCollectionNotFound": "pass every collection that `init` returned: "
        'variables=variables, or params= with state={"batch_stats": …}',
        "ScopeParamNotFoundError": "the variables belong to another model: pass those that `init` "
        "of this one returned",
        "ScopeParamShapeError": "the inputs have other sizes than those that `init` got",
    }
    transparent: ClassVar[Transparent] = {
        ("flax.core.scope", "Scope"): frozenset({"_variables", "rng_counters", "reservations"})
    }
    ignored = frozenset({"_id"})  # a running number
    unnamed = frozenset({"_dict"})  # of a FrozenDict
    trace_marks: ClassVar[Marks] = {
        "trace_level": lambda _: sys.modules["flax.core.tracers"].current_trace()
    }
    names_scopes = True
    options = frozenset({"method", "mutable", "rngs", "capture_intermediates"})

    def interception(self, run: Run, /) -> AbstractContextManager[Any] | None:
        return interceptor(self.module, run, lambda module: module.path == ())

    def holding(self, fn: Any, params: Any, state: Any, /) -> Callable[..., Any] | None:
        """Binds a module, or that of a method, to its variables, or to parameters and a state."""
        module, method = self._method(fn)
        if module is None:
            return None
        if not isinstance(params, Mapping):
            raise invalid_option(
                f"the variables of `{type(module).__name__}` are of type {type(params).__name__}",
                "pass the dictionary that `init` returned as variables=",
            )
        variables = params if PARAMETERS in params else None
        bound: Callable[..., Any]
        bound = module.bind({PARAMETERS: params, **(state or {})} if variables is None else params)
        return bound if method in ("__call__", "apply") else getattr(bound, method)

    def with_variables(self, fn: Any, variables: Any, /) -> Any | None:
        module, method = self._method(fn)
        if module is None or method != "__call__" or not isinstance(variables, Mapping):
            return None
        return self.holding(module.unbind()[0], variables, None)

    def _method(self, fn: Any) -> tuple[Any, str]:
        """Returns the module and the name of a method that a callable runs, or None and no name."""
        base = self.modules()
        if base is not None and isinstance(fn, base):
            return fn, "__call__"
        module = getattr(fn, "__self__", None)
        is_method = base is not None and isinstance(module, base)
        return (module, fn.__name__) if is_method else (None, "")

    def advice_on_arguments(self, fn: Any, args: Sequence[Any], /) -> str:
        module, method = self._method(fn)
        if module is None or method != "apply" or not args or isinstance(args[0], Mapping):
            return ""
        return "`apply` takes the variables first: pass variables= to jax2onnx.export"

    def unready(self, fn: Any, /) -> tuple[str, str] | None:
        """Returns the message for a module that is not bound, and for a `TrainState`."""
        if {"apply_fn", "params"} <= instance_dict(fn).keys() and not callable(fn):
            return (
                f"`fn` is a {type(fn).__name__}, which holds a function and its parameters",
                'export `fn.apply_fn` with variables={"params": fn.params}',
            )
        module, method = self._method(fn)
        if module is None or instance_dict(module).get("scope") is not None:
            return None
        if method != "__call__" and hasattr(self.modules(), method):  # `apply` takes variables
            return None
        return (
            f"the Linen module `{type(module).__name__}` has no variables",
            "pass variables= to jax2onnx.export, or bind the module: `module.bind(variables)`",
        )

    def variables(self, module: Any, /) -> Any:
        """Returns the collections in the scope of a bound module."""
        return instance_dict(instance_dict(module).get("scope")).get("_variables")
