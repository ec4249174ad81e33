"""The search: keeps the smallest program that fails in the same way."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from jax2onnx import _jax
from jax2onnx._checking.runtime import as_tensor, is_float
from jax2onnx._reducing import candidates
from jax2onnx._reducing.candidates import Candidate
from jax2onnx._reducing.case import Case
from jax2onnx._reducing.checks import Check, Differs, NotANumber

Kind = Callable[[Case], Iterator[Candidate]]

# The kinds of candidates after the equations, in order: those that make most of the others smaller
# come first.
KINDS: tuple[Kind, ...] = (
    candidates.bodies,
    candidates.fewer_outputs,
    candidates.simpler_bodies,
    candidates.shorter_chains,
    candidates.smaller_sizes,
    candidates.simpler_numbers,
)


class Search:
    """A search with a time limit.

    Attributes:
        best: The smallest failing program so far.
        failure: The description of its failure.
        tried: The number of candidates that were checked.
        is_complete: `False` if the time was up.
    """

    def __init__(
        self,
        case: Case,
        failure: str,
        check: Check,
        seconds: float,
        line_of: Callable[[Any], str] = lambda _: "",
    ) -> None:
        self.best, self.failure = case, failure
        self.tried = 0
        self.is_complete = True
        self._check = check
        self._line_of = line_of
        self._end = time.monotonic() + seconds

    def run(self) -> Case:
        """Reduces the program until no candidate fails, or until the time is up."""
        self._inline()
        progress = True
        while progress and self.is_complete:
            progress = self._equations()
            for kind in KINDS:
                while self._first(kind):
                    progress = True
        return self.best

    def _inline(self) -> None:
        """Replaces calls by their equations, if that preserves the failure."""
        for candidate in candidates.without_calls(self.best, self._line_of):
            self._adopt(candidate)

    def _first(self, kind: Kind) -> bool:
        """Adopts the first candidate of a kind that fails. Returns `False` if there is none."""
        return any(self._adopt(candidate) for candidate in kind(self.best))

    def _adopt(self, candidate: Candidate) -> bool:
        if time.monotonic() > self._end:
            self.is_complete = False
            return False
        self.tried += 1
        try:
            with _jax.precision(double=self._check.exporter.double):
                case = candidate()
                if not self._is_simpler(case):
                    return False
                failure = self._check.failure(case)
                if failure is None:
                    return False
                _ = case.values  # the candidates after this one need them
        except Exception:  # a candidate may be an invalid program
            return False
        self.best, self.failure = case, failure
        return True

    def _is_simpler(self, case: Case) -> bool:
        """Returns `False` for a program that is as large as the best one on the same inputs, and if
        JAX's results are no longer finite: that would be another failure.
        """
        if case.jaxpr is not self.best.jaxpr and case.cost >= self.best.cost:
            return False
        is_about_numbers = isinstance(self._check, Differs | NotANumber)
        return not is_about_numbers or _is_finite(case) or not _is_finite(self.best)

    def _equations(self) -> bool:
        """Removes equations: halves, quarters and so on, until no single one can be removed."""
        whole = self.best
        kept = list(range(len(whole.eqns)))
        chunks = 2
        while len(kept) > 1 and self.is_complete:
            parts = _split(kept, chunks)
            rests = [[n for n in kept if n not in set(part)] for part in parts]
            for numbers in [*parts, *(rests if chunks > 2 else [])]:
                if self._adopt(partial(candidates.some_equations, whole, numbers)):
                    kept, chunks = numbers, 2
                    break
            else:
                if chunks >= len(kept):
                    break
                chunks = min(2 * chunks, len(kept))
        return len(kept) < len(whole.eqns)


def _is_finite(case: Case) -> bool:
    return all(
        np.isfinite(as_tensor(array)).all() for array in case.expected if is_float(array.dtype)
    )


def _split(numbers: list[int], chunks: int) -> list[list[int]]:
    """Splits a list into chunks of nearly the same length."""
    count = len(numbers)
    bounds = [count * i // chunks for i in range(chunks + 1)]
    return [numbers[a:b] for a, b in pairwise(bounds) if a < b]
