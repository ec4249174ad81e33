"""Equinox."""

from typing import Any, ClassVar

from jax2onnx import _jax
from jax2onnx._frameworks.framework import Framework, Holders
from jax2onnx._python.objects import instance_dict


def reports_error(callback: Any) -> bool:
    """Whether a function does nothing but raise what `equinox.error_if` has found."""
    return getattr(callback, "__module__", None) == "equinox._errors"


class Equinox(Framework):
    """Modules are pytrees: transformations take them apart and make new ones from their leaves."""

    module = "equinox"
    holders: ClassVar[Holders] = {("equinox.nn._stateful", "State"): frozenset({"_state"})}
    rebuilds = True

    def is_internal(self, kind: type, /) -> bool:
        """Wrappers such as that of `filter_jit` are modules, too."""
        inside = kind.__module__.startswith("equinox.")
        return inside and not kind.__module__.startswith("equinox.nn")

    def bare(self, call: Any, /) -> Any:
        """Layers of `equinox.nn` are decorated with a scope named after their class."""
        return call.__wrapped__ if _jax.opens_scope(call) else call

    def is_method(self, value: Any, /) -> bool:
        """A bound method is a module of its own, so that it is a pytree."""
        stored = instance_dict(value)
        return "__self__" in stored and "__func__" in stored
