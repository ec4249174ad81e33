"""JAX's own corpus: functions with arguments, in groups mostly named after primitives."""

import hashlib
import math
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from conformance import other_answers
from conformance.evaluate import SKIPPED, Result, evaluate, one_line

_WIDE = {"float64", "int64", "uint64", "complex128"}
# These depend on the last bit of a number: with any tolerance, the identity would pass.
_EXACT = {"nextafter", "reduce_precision"}


class Case(NamedTuple):
    """A function with its arguments."""

    group: str
    name: str
    harness: Any

    @property
    def dtype(self) -> str:
        """The element type of the case; empty if there is none."""
        return _dtype_name(self.harness.dtype)

    def evaluate(self) -> Result:
        """Exports the function, runs the model and compares the numbers with JAX's."""
        if not self.harness.filter("cpu"):
            return Result(SKIPPED, "JAX does not implement it on a CPU")
        try:
            args = _wide(partial(self.harness.dyn_args_maker, np.random.RandomState(0)))
        except Exception as error:
            return Result(SKIPPED, f"JAX cannot make the arguments: {one_line(error)}")
        args = [arg if isinstance(arg, jax.Array) else np.asarray(arg) for arg in args]
        kinds = [self.harness.dtype, *self.harness.params.values(), *(arg.dtype for arg in args)]

        def function(*args: Any) -> Any:
            return self.harness.dyn_fun(*args)

        return evaluate(
            function,
            args,
            double=any(_dtype_name(kind) in _WIDE for kind in kinds),
            exact=self.group in _EXACT,
            accept=partial(other_answers.are_right, self.group, self.harness.params),
        )


@cache
def cases() -> dict[str, Case]:
    """Returns all cases by name, sorted by group and name; JAX's own order varies."""
    found = [Case(h.group_name, h.fullname, h) for h in _wide(_harnesses)]
    return {case.name: case for case in sorted(found, key=lambda case: case[:2])}


def sample() -> dict[str, list[Case]]:
    """Returns a few cases of every group, with as many element types as possible.

    The choice depends only on the names, so that versions of JAX share most of the cases.
    """
    groups = defaultdict(list)
    for case in cases().values():
        groups[case.group].append(case)
    return {
        group: sorted(members, key=_turn(members))[: max(math.isqrt(len(members)), 4)]
        for group, members in groups.items()
    }


def _turn(members: list[Case]) -> Callable[[Case], tuple[int, bytes]]:
    """Returns a sort key that alternates between element types, in arbitrary order within each."""
    seen: dict[str, int] = defaultdict(int)
    turns = {}
    for case in sorted(members, key=_hash):
        turns[case.name] = seen[case.dtype]
        seen[case.dtype] += 1
    return lambda case: (turns[case.name], _hash(case))


def _hash(case: Case) -> bytes:
    return hashlib.sha256(case.name.encode()).digest()


def _harnesses() -> list[Any]:
    argv, sys.argv = sys.argv, sys.argv[:1]  # the module parses flags when it is imported
    np.random.seed(0)  # and draws data
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from jax._src.internal_test_util import test_harnesses
    finally:
        sys.argv = argv
    return test_harnesses.all_harnesses


def _wide(make: Callable[[], Any]) -> Any:
    """Calls a function with 64-bit types enabled, so that nothing is narrowed or omitted."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        return make()
    finally:
        jax.config.update("jax_enable_x64", before)


def _dtype_name(dtype: Any) -> str:
    if dtype is None or isinstance(dtype, str | int | float | list | tuple | dict):
        return ""
    try:
        return np.dtype(dtype).name
    except TypeError:
        return ""
