"""Checks of a program's model: each returns a description of its failure, or None."""

import re
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np

from jax2onnx import _jax
from jax2onnx._checking.compare import difference, error_of, not_numbers
from jax2onnx._checking.runtime import Runnable, as_tensor, is_float
from jax2onnx._reducing.case import Case
from jax2onnx._reducing.export import USUAL, Exporter, Way
from jax2onnx._reducing.replay import Replay
from jax2onnx.errors import invalid_option

# Decides whether a model is wrong, given its bytes, its inputs and JAX's results.
Predicate = Callable[[Any, Sequence[np.ndarray], Sequence[np.ndarray]], bool]


@dataclass(eq=False)
class Check(ABC):
    """A property of a program's model that must be preserved."""

    #: Describes a model that passes.
    passing: ClassVar[str] = "is right"

    exporter: Exporter

    def restart(self) -> None:  # noqa: B027 (most checks judge each program alone)
        """Compares later programs with the next one, not with the first one."""

    def advice(self, case: Case) -> str:  # noqa: ARG002
        """Returns advice for a program that passes."""
        return "pass the inputs that fail, smaller tolerances, or another `check`"

    @abstractmethod
    def failure(self, case: Case, way: Way = USUAL) -> str | None:
        """Returns a description of the failure, or None. Raises for an invalid program."""


# A result is as good as JAX's if its distance to the exact one is at most this multiple.
AS_GOOD = 4


@dataclass(eq=False)
class Differs(Check):
    """The model's results differ from JAX's.

    If rounding errors explain the difference of the first program, they have to explain that of
    later ones, too. If they do not, a search must not end at a subtraction that enlarges them.
    """

    rtol: float | None = None
    atol: float | None = None
    _genuine: bool | None = field(default=None, init=False)

    def failure(self, case: Case, way: Way = USUAL) -> str | None:
        found = self.exporter.run(case, way)
        apart = self._compared(self.exporter.expected(case), found)
        if apart is None or way != USUAL:
            return apart
        genuine = self.is_genuine(case)
        if self._genuine is None:
            self._genuine = genuine
        return apart if genuine == self._genuine else None

    def is_genuine(self, case: Case) -> bool:
        """Returns `False` if JAX in 32 bits is as far from JAX in 64 bits as the model is."""
        exact = None if self.exporter.double else in_double_precision(case)
        if exact is None:
            return True
        expected = self.exporter.expected(case)
        ours, theirs = distance(exact, self.exporter.run(case)), distance(exact, expected)
        return ours > AS_GOOD * theirs

    def _compared(self, expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> str | None:
        """Describes the first difference of two lists of results."""
        for i, (one, other) in enumerate(zip(expected, found, strict=True)):
            apart = difference(one, other, self.rtol, self.atol)
            if apart is not None:
                name = "the output" if len(expected) == 1 else f"output {i}"
                return f"{name} differs: {apart}"
        return None


def in_double_precision(case: Case) -> list[np.ndarray] | None:
    """Returns JAX's results with all floats in 64 bits; None if JAX refuses."""

    def widened(dtype: Any) -> Any:
        return np.dtype(np.float64) if is_float(dtype) else dtype

    def wide(array: Any) -> Any:
        array = jax.numpy.asarray(array)
        return array.astype(widened(array.dtype))

    try:
        with _jax.precision(double=True):
            consts, args = map(wide, case.closed.consts), map(wide, case.args)
            doubled = Replay(dtype=widened).case(case, list(args), list(consts))
            return [as_tensor(array) for array in doubled.expected]
    except Exception:  # an equation may need 32 bits
        return None


def distance(exact: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    """Returns the largest error of some results; infinite if other elements are finite."""
    largest = 0.0
    for one, other in zip(exact, found, strict=True):
        if not is_float(one.dtype):
            largest = max(largest, float("inf") if (one != other).any() else 0.0)
            continue
        error = error_of(one, other.astype(np.float64))
        largest = max(largest, 0.0 if error is None else error.largest)
    return largest


class NotANumber(Check):
    """The model's results contain NaN."""

    def failure(self, case: Case, way: Way = USUAL) -> str | None:
        for array in self.exporter.run(case, way):
            if count := not_numbers(array):
                return f"{count} of {array.size} elements are NaN"
        return None


@dataclass(eq=False)
class Raises(Check):
    """The export, the loading of the model or its run raises an error of one kind."""

    kind: str | None = None

    def failure(self, case: Case, way: Way = USUAL) -> str | None:
        error = self.error(case, way)
        if error is None or (self.kind is not None and kind_of(error) != self.kind):
            return None
        return f"{type(error).__name__}: {first_line(error)}"

    def error(self, case: Case, way: Way = USUAL) -> Exception | None:
        try:
            self.exporter.run(case, way)
        except Exception as error:
            return error
        return None


class Crashes(Check):
    """The process that runs the model is killed by a signal. Each run has its own process."""

    PATIENCE: ClassVar[int] = 60

    def failure(self, case: Case, way: Way = USUAL) -> str | None:
        if way.runtime == "reference":
            return None if self.exporter.run(case, way) else "there are no results"
        model = self.exporter.proto(case, way.fuel)
        names = [value.name for value in model.graph.input]
        arrays: dict[str, Any] = dict(zip(names, map(as_tensor, case.args), strict=True))
        if any(array.dtype.isbuiltin != 1 for array in arrays.values()):
            raise ValueError(".npz files cannot hold every element type")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "model.onnx").write_bytes(model.SerializeToString())
            np.savez(Path(folder, "inputs.npz"), **arrays)
            command = [sys.executable, "-m", "jax2onnx._reducing.isolated", folder, way.runtime]
            done = subprocess.run(command, capture_output=True, check=False, timeout=self.PATIENCE)
        if done.returncode >= 0:
            return None
        return f"onnxruntime crashes: {signal.Signals(-done.returncode).name}"


@dataclass(eq=False)
class Fires(Check):
    """The optimiser applies a rewrite or a pass."""

    rewrite: str

    def failure(self, case: Case, way: Way = USUAL) -> str | None:
        applied = self.exporter.model(case, way.fuel).applied.get(self.rewrite, 0)
        return f"`{self.rewrite}` is applied, {applied} ×" if applied else None

    def advice(self, case: Case) -> str:
        applied = self.exporter.model(case).applied
        return f"the optimiser applies {', '.join(applied) or 'nothing'}"


@dataclass(eq=False)
class Slower(Check):
    """onnxruntime takes longer than compiled JAX by a factor, and later programs lose at least half
    of the time that the first one loses. Tiny programs would only show the cost of a call.
    """

    SHARE: ClassVar[float] = 0.5
    passing: ClassVar[str] = "is fast enough"

    factor: float
    _lost: float | None = field(default=None, init=False)

    def restart(self) -> None:
        self._lost = None

    def failure(self, case: Case, way: Way = USUAL) -> str | None:
        ours, theirs = self._times(case, way)
        if ours <= self.factor * theirs:
            return None
        if way == USUAL:
            if self._lost is None:
                self._lost = ours - theirs
            if ours - theirs < self.SHARE * self._lost:
                return None
        return f"{1e6 * ours:.0f} µs in onnxruntime, {1e6 * theirs:.0f} µs in JAX"

    def _times(self, case: Case, way: Way) -> tuple[float, float]:
        """Returns the times of a run in onnxruntime and in JAX."""
        if way.runtime == "reference":
            raise ValueError("the reference evaluator's time says nothing")
        runnable = Runnable(self.exporter.proto(case, way.fuel))
        feeds = [as_tensor(array) for array in case.args]
        optimised = way.runtime == "optimised"
        with _jax.precision(double=self.exporter.double):
            compiled = jax.jit(_jax.function_of(case.closed))
            ours = _time(lambda: runnable.run(feeds, optimised=optimised))
            theirs = _time(lambda: jax.block_until_ready(compiled(*case.args)))
        return ours, theirs


def _time(run: Callable[[], Any], runs: int = 7) -> float:
    """Returns the shortest time of several runs, after one that is not counted."""
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


@dataclass(eq=False)
class Asks(Check):
    """The user's own predicate."""

    predicate: Predicate

    def failure(self, case: Case, way: Way = USUAL) -> str | None:
        model = self.exporter.proto(case, way.fuel)
        feeds = [as_tensor(array) for array in case.args]
        name = getattr(self.predicate, "__name__", "the check")
        failed = self.predicate(model, feeds, self.exporter.expected(case))
        return f"`{name}` returns True" if failed else None


def kind_of(error: Exception) -> str:
    """Returns the part of an error that does not depend on names, sizes and paths."""
    operator = re.search(r"while running (\w+) node", str(error))
    text = re.sub(r"Name:'.*?'", "", first_line(error))
    text = re.sub(r"`.*?`|'.*?'|\".*?\"|\{.*?\}|\(.*?\)|/\S+|\d+", "…", text)
    return " ".join([type(error).__name__, operator[1] if operator else "", text[:80]])


def first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "").strip()


def check_of(
    wanted: str | Predicate | Check | None,
    exporter: Exporter,
    case: Case,
    rtol: float | None,
    atol: float | None,
) -> Check:
    """Returns the check that the user asked for; by default, the one that fails."""
    if isinstance(wanted, Check):
        return wanted
    if callable(wanted):
        return Asks(exporter, wanted)
    name, _, argument = (wanted or "").partition(":")
    if name == "differs":
        return Differs(exporter, rtol, atol)
    if name == "crash":
        return Crashes(exporter)
    if name == "nan":
        return NotANumber(exporter)
    if name == "rewrite" and argument:
        return Fires(exporter, argument)
    if name == "slower" and argument:
        return Slower(exporter, _factor(argument))
    if name not in ("", "error"):
        raise invalid_option(
            f"there is no check `{wanted}`",
            "choose differs, nan, error, crash, rewrite:NAME or slower:FACTOR",
        )
    error = Raises(exporter).error(case)
    if error is not None or name == "error":
        return Raises(exporter, None if error is None else kind_of(error))
    return Differs(exporter, rtol, atol)


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise invalid_option(f"`{text}` is not a factor", "write slower:3") from error
