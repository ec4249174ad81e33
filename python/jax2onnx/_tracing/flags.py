"""Flags: boolean arguments that Python code branches on, as in `if deterministic:`.

JAX cannot trace such a branch, so the function is traced once for each value, and the model
chooses. The flags that need this are found by trying: the function is traced first with tracers for
all flags, and then with Python values for those that fail.
"""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jax2onnx._python.objects import users_frame
from jax2onnx.errors import InvalidInputError

# Each flag doubles the number of traces.
_MOST_FLAGS = 4

# The errors that JAX and Python raise if a tracer is converted to a boolean, hashed or used as an
# index.
_QUESTIONS = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
_REFUSALS = (*_QUESTIONS, TypeError, ValueError)

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
    asking = _FlagTracer(fn, args, kwargs, restore)
    asked = asking.needed(flags, {i: given.get(i, True) for i in flags})
    if len(asked) > _MOST_FLAGS:
        listed = ", ".join(f"`{names[i]}`" for i in asked)
        raise InvalidInputError(
            "too-many-flags",
            f"the function branches on {len(asked)} flags: {listed}",
            help=f"each of their {2 ** len(asked)} combinations would have to be traced, and the "
            f"limit is {2**_MOST_FLAGS}: fix some of them with functools.partial",
        )
    return asking.merged(asked, flags, given, names)


class _FlagTracer:
    """A function that is traced with Python values for some flags."""

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        restore: Callable[[], None],
    ) -> None:
        self._fn = fn
        self._args = args
        self._kwargs = kwargs
        self._tree = jax.tree_util.tree_structure((args, kwargs))
        self._restore = restore
        self._known: dict[tuple[tuple[int, bool], ...], Trace] = {}

    def trace(self, answers: Mapping[int, bool]) -> Trace:
        """Returns the trace for these values of flags. The jaxpr has all leaves as operands."""
        which = tuple(sorted(answers.items()))
        if which not in self._known:
            self._known[which] = self._traced(answers)
        return self._known[which]

    def _traced(self, answers: Mapping[int, bool]) -> Trace:

        def call(*args: Any, **kwargs: Any) -> Any:
            leaves = jax.tree_util.tree_leaves((args, kwargs))
            answered = [answers.get(i, leaf) for i, leaf in enumerate(leaves)]
            args, kwargs = jax.tree_util.tree_unflatten(self._tree, answered)
            return self._fn(*args, **kwargs)

        named: Any = call  # in JAX's messages
        named.__wrapped__ = getattr(self._fn, "__wrapped__", self._fn)
        self._restore()
        return jax.make_jaxpr(named, return_shape=True)(*self._args, **self._kwargs)

    def needed(self, flags: Sequence[int], answers: Mapping[int, bool]) -> list[int]:
        """Returns the flags that have to be Python values, at least for these values."""
        self.trace(answers)
        asked = dict(answers)
        for i in flags:
            others = {j: answer for j, answer in asked.items() if j != i}
            if not others:  # which was refused before
                continue
            try:
                self.trace(others)
            except _REFUSALS:
                continue
            asked = others
        return list(asked)

    def merged(
        self,
        asked: Sequence[int],
        flags: Sequence[int],
        given: Mapping[int, bool],
        names: Sequence[str],
    ) -> Trace:
        """Merges the traces for all values of the flags into one program."""
        from jax2onnx._tracing.merge_traces import chosen

        wanted = tuple(given.get(i, True) for i in asked)
        found: dict[tuple[bool, ...], Trace | None] = {}
        # The user's values come first: if these fail, the error is the user's.
        answers = sorted(
            itertools.product((True, False), repeat=len(asked)), key=lambda a: a != wanted
        )
        for values in answers:
            try:
                found[values] = self.trace(dict(zip(asked, values, strict=True)))
            except Exception as error:
                if isinstance(error, _QUESTIONS) and len(asked) < len(flags):
                    return self.merged(flags, flags, given, names)  # this answer asks others
                self._warn(error, asked, values, wanted, found, names)
                found[values] = None
        _, outputs = found[wanted] or (None, None)
        for values, made in found.items():
            if made is not None:
                _check_results(outputs, made[1], asked, wanted, values, names)

        def merge(values: tuple[bool, ...]) -> Any:
            depth = len(values)
            if depth == len(asked):
                made = found[values]
                return made and made[0]
            when_true, when_false = merge((*values, True)), merge((*values, False))
            if when_true is None and when_false is None:
                return None
            return chosen(asked[depth], when_true, when_false)

        return merge(()), outputs

    def _warn(
        self,
        error: Exception,
        asked: Sequence[int],
        values: tuple[bool, ...],
        wanted: tuple[bool, ...],
        found: Mapping[tuple[bool, ...], Trace | None],
        names: Sequence[str],
    ) -> None:
        """Warns of values that the function does not accept. Raises if the model cannot return NaN
        for them.
        """
        case = _case(asked, values, names)
        first = found.get(wanted)
        results = jax.tree_util.tree_leaves(first[1]) if first is not None else []
        if values == wanted or not all(jax.numpy.issubdtype(r.dtype, np.inexact) for r in results):
            error.add_note(f"This error occurred for {case}.")
            raise error
        said = str(error).strip().partition("\n")[0]
        warnings.warn(
            f"the function fails for {case}, so the model returns NaN there: "
            f"{type(error).__name__}: {said}\n  help: if the model never needs {case}, fix the "
            "flag with functools.partial",
            stacklevel=users_frame(),
        )


def _check_results(
    outputs: Any,
    others: Any,
    asked: Sequence[int],
    wanted: tuple[bool, ...],
    values: tuple[bool, ...],
    names: Sequence[str],
) -> None:
    """Raises if the results have different types, since each output of a model has one type."""
    if _types(outputs) == _types(others):
        return
    raise InvalidInputError(
        "different-results",
        f"the function returns {_shown(outputs)} for {_case(asked, wanted, names)}, but "
        f"{_shown(others)} for {_case(asked, values, names)}",
        help="the outputs of a model have fixed types: bind the flag with "
        "functools.partial, and export one model for each value",
    )


def _types(outputs: Any) -> object:
    leaves, tree = jax.tree_util.tree_flatten(outputs)
    return tree, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _shown(outputs: Any) -> str:
    def text(leaf: Any) -> str:
        return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"

    leaves = jax.tree_util.tree_leaves(outputs)
    return ", ".join(map(text, leaves)) or "nothing"


def _case(asked: Sequence[int], values: Sequence[bool], names: Sequence[str]) -> str:
    return ", ".join(f"`{names[i]}={value}`" for i, value in zip(asked, values, strict=True))
