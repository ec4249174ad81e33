"""Flags: boolean arguments that Python code branches on, as in `if deterministic:`.

JAX cannot trace such a branch, so the flag has to be static: the function is traced once for each
of its values, and the model chooses. Static flags are found by trying: the function is traced first
with tracers for all flags, and then with Python values for those that fail.
"""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from jax2onnx._python.objects import users_frame
from jax2onnx.errors import InvalidInputError

# Each flag doubles the number of traces.
_MOST_FLAGS = 4

# The errors that JAX and Python raise if a tracer is converted to a boolean, hashed or used as an
# index.
_CONVERSIONS = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
_REFUSALS = (*_CONVERSIONS, TypeError, ValueError)

Trace = tuple[Any, Any]


def traced_with_flags(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    given: Mapping[int, bool],
    names: Sequence[str],
    restore: Callable[[], None],
) -> Trace:
    """Traces a call. Returns the closed jaxpr and the pytree of its results.

    Args:
        fn: The function.
        args: Its positional arguments, as types.
        kwargs: Its keyword arguments, as types.
        given: The user's values of flags, by their position among all leaves.
        names: The names of the leaves in messages.
        restore: Undoes the changes of a trace to the state of `fn`.
    """
    leaves = jax.tree_util.tree_leaves((args, kwargs))
    flags = [i for i, leaf in enumerate(leaves) if leaf.shape == () and leaf.dtype == np.bool_]
    if not flags:
        return jax.make_jaxpr(fn, return_shape=True)(*args, **kwargs)
    try:
        return jax.make_jaxpr(fn, return_shape=True)(*args, **kwargs)
    except _REFUSALS:
        pass
    tracer = _FlagTracer(fn, args, kwargs, given, names, restore)
    static = tracer.needed(flags)
    if len(static) > _MOST_FLAGS:
        listed = ", ".join(f"`{names[i]}`" for i in static)
        raise InvalidInputError(
            "too-many-flags",
            f"the function branches on {len(static)} flags: {listed}",
            help=f"each of their {2 ** len(static)} combinations would have to be traced, and the "
            f"limit is {2**_MOST_FLAGS}: fix some of them with functools.partial",
        )
    return tracer.merged(static, flags)


@dataclass
class _FlagTracer:
    """A function that is traced with Python values for some flags. `static` lists flags by their
    positions among all leaves.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: Mapping[int, bool]
    names: Sequence[str]
    restore: Callable[[], None]
    known: dict[tuple[tuple[int, bool], ...], Trace] = field(default_factory=dict)

    def trace(self, answers: Mapping[int, bool]) -> Trace:
        """Returns the trace for these values of flags. The jaxpr has all leaves as operands."""
        which = tuple(sorted(answers.items()))
        if which not in self.known:
            self.known[which] = self._traced(answers)
        return self.known[which]

    def _traced(self, answers: Mapping[int, bool]) -> Trace:
        tree: Any = jax.tree_util.tree_structure((self.args, self.kwargs))

        def call(*args: Any, **kwargs: Any) -> Any:
            leaves = jax.tree_util.tree_leaves((args, kwargs))
            answered = [answers.get(i, leaf) for i, leaf in enumerate(leaves)]
            args, kwargs = jax.tree_util.tree_unflatten(tree, answered)
            return self.fn(*args, **kwargs)

        named: Any = call  # in JAX's messages
        named.__wrapped__ = getattr(self.fn, "__wrapped__", self.fn)
        self.restore()
        return jax.make_jaxpr(named, return_shape=True)(*self.args, **self.kwargs)

    def needed(self, flags: Sequence[int]) -> list[int]:
        """Returns the flags that have to be Python values, at least for the user's values."""
        static = {i: self.given.get(i, True) for i in flags}
        self.trace(static)
        for i in flags:
            others = {j: answer for j, answer in static.items() if j != i}
            if not others:  # tracers for all flags failed before
                continue
            try:
                self.trace(others)
            except _REFUSALS:
                continue
            static = others
        return list(static)

    def merged(self, static: Sequence[int], flags: Sequence[int]) -> Trace:
        """Merges the traces for all values of the flags into one program."""
        from jax2onnx._tracing.merge_traces import chosen

        wanted = tuple(self.given.get(i, True) for i in static)
        found: dict[tuple[bool, ...], Trace | None] = {}
        # The user's values come first: if these fail, the error is the user's.
        answers = sorted(
            itertools.product((True, False), repeat=len(static)), key=lambda a: a != wanted
        )
        for values in answers:
            try:
                found[values] = self.trace(dict(zip(static, values, strict=True)))
            except Exception as error:
                if isinstance(error, _CONVERSIONS) and len(static) < len(flags):
                    return self.merged(flags, flags)  # other flags are static for these values
                self._warn(error, self._case(static, values), found.get(wanted))
                found[values] = None
        _, outputs = found[wanted] or (None, None)
        for values, made in found.items():
            # Each output of a model has one type.
            if made is not None and _types(outputs) != _types(made[1]):
                raise InvalidInputError(
                    "different-results",
                    f"the function returns {_shown(outputs)} for {self._case(static, wanted)}, but "
                    f"{_shown(made[1])} for {self._case(static, values)}",
                    help="the outputs of a model have fixed types: bind the flag with "
                    "functools.partial, and export one model for each value",
                )

        def merge(values: tuple[bool, ...]) -> Any:
            depth = len(values)
            if depth == len(static):
                made = found[values]
                return made and made[0]
            when_true, when_false = merge((*values, True)), merge((*values, False))
            if when_true is None and when_false is None:
                return None
            return chosen(static[depth], when_true, when_false)

        return merge(()), outputs

    def _warn(self, error: Exception, case: str, first: Trace | None) -> None:
        """Warns of values that the function does not accept. Raises if the model cannot return NaN
        for them, or if they are the user's: then there is no `first` trace.
        """
        results = jax.tree_util.tree_leaves(first[1]) if first is not None else []
        if first is None or not all(jax.numpy.issubdtype(r.dtype, np.inexact) for r in results):
            error.add_note(f"This error occurred for {case}.")
            raise error
        said = str(error).strip().partition("\n")[0]
        warnings.warn(
            f"the function fails for {case}, so the model returns NaN there: "
            f"{type(error).__name__}: {said}\n  help: if the model never needs {case}, fix the "
            "flag with functools.partial",
            stacklevel=users_frame(),
        )

    def _case(self, static: Sequence[int], values: Sequence[bool]) -> str:
        pairs = zip(static, values, strict=True)
        return ", ".join(f"`{self.names[i]}={value}`" for i, value in pairs)


def _types(outputs: Any) -> object:
    leaves, tree = jax.tree_util.tree_flatten(outputs)
    return tree, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _shown(outputs: Any) -> str:
    def text(leaf: Any) -> str:
        return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"

    leaves = jax.tree_util.tree_leaves(outputs)
    return ", ".join(map(text, leaves)) or "nothing"
