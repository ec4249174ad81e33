"""Haiku."""

import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from jax2onnx._frameworks.framework import Framework, Run, first_result, interceptor
from jax2onnx.errors import InvalidInputError


class Haiku(Framework):
    """Modules exist only while a transformed function runs, and open scopes by themselves."""

    module = "haiku"
    inference = "pass `is_training=False` to batch norms, and call `hk.dropout` only in training"
    unnamed = frozenset({"_mapping"})  # of a FlatMap
    errors: ClassVar[Mapping[str, str]] = {
        "must be initialized inside an `hk.transform`": "export `hk.transform(fn)`, with params= "
        "from its `init`",
        "All parameters must be created as part of `init`": "the parameters belong to another "
        "model: pass those that `init` of this one returned",
    }

    def holding(self, fn: Any, params: Any, state: Any, /) -> Callable[..., Any] | None:
        """Applies a pair of functions from `hk.transform` or `hk.transform_with_state`, or the
        second function of such a pair, without random numbers. Of a result and a new state, the
        result remains.
        """
        apply = fn.apply if self._is_pair(fn) else fn
        # Haiku stores the user's function there.
        own = getattr(inspect.unwrap(apply), "_original_fn", None)
        names = [] if own is None else list(inspect.signature(apply).parameters)
        if "params" not in names[:1]:  # not one of Haiku's, or `init`
            return None
        given = {"params": params, "state": state, "rng": None}
        if "state" in names[:2] and state is None:
            raise InvalidInputError(
                "missing-parameters",
                "the functions from `hk.transform_with_state` have no state",
                help="pass state= as well, which `init` returns beside the parameters",
            )
        arguments = [given[name] for name in itertools.takewhile(given.__contains__, names[:3])]
        applied = functools.partial(apply, *arguments)
        applied.__wrapped__ = own  # type: ignore[attr-defined]
        return first_result(applied) if "state" in names[:2] else applied

    def unready(self, fn: Any, /) -> tuple[str, str] | None:
        if not self._is_pair(fn):
            return None
        return (
            "the pair of functions from `hk.transform` has no parameters",
            "pass params= to jax2onnx.export, or a function: `lambda x: f.apply(params, None, x)`",
        )

    def _is_pair(self, fn: Any) -> bool:
        haiku: Any = sys.modules.get(self.module)
        return haiku is not None and isinstance(fn, haiku.Transformed | haiku.TransformedWithState)

    def interception(self, run: Run, /) -> AbstractContextManager[Any] | None:
        return interceptor(self.module, run, lambda _: False)
