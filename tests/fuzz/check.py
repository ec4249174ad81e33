"""Checks one program with JAX, and with ONNX Runtime in four ways."""

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzz import arrays, compare, runtime
from fuzz.draw import first_line
from fuzz.program import Equation, Program, multiple
from jax2onnx import _jax
from jax2onnx.errors import UnsupportedError

# The stages of a check. JAX computes in the first and the last of them.
DRAW, CONVERT, RUN, COMPARE = "draw", "convert", "run", "compare"


@dataclass
class Failure:
    """A failed check. Two failures are the same if `stage` and `key` agree."""

    stage: str
    key: str
    message: str
    program: Program
    # The results that differ.
    names: list[str] = field(default_factory=list)


@dataclass
class Seen:
    """The statistics of a run."""

    programs: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)
    # Problems of the reference.
    passed_over: Counter[str] = field(default_factory=Counter)
    # Called with the next stage, so that a crash of the process can be attributed to it.
    enter: Callable[[str], None] = lambda _: None


def check(program: Program, seen: Seen | None = None) -> Failure | None:
    """Returns the first failure of a program."""
    seen = seen or Seen()
    with _jax.precision(double=program.double):
        return _check(program, seen)


def _check(program: Program, seen: Seen) -> Failure | None:
    names = list(program.values())
    seen.enter(CONVERT)
    try:
        plain = runtime.export(program, names, fuel=0)
        leaves = program.leaves()
        optimized = runtime.export(program, leaves, fuel=None)
    except UnsupportedError as error:
        seen.unsupported[first_line(error)] += 1
        return None
    except Exception as error:
        if not _is_ours(error):
            # JAX itself rejects the program, usually because of a symbolic size.
            kind = "with a symbolic size" if program.size else first_line(error)
            seen.passed_over[f"JAX does not trace it: {type(error).__name__} {kind}"] += 1
            return None
        return _failure("export", error, program)
    seen.programs += 1
    for equation in program.equations:
        seen.operations.update(e.op for e in equation.shows())
    sizes = [program.size, 1, 3] if program.size else [0]
    seen.enter(RUN)
    try:
        sessions = {
            (label, on): runtime.session(model, optimize=on)
            for label, model in (("plain", plain), ("optimized", optimized))
            for on in (False, True)
        }
    except Exception as error:
        return _failure("load", error, program)
    for size in sizes:
        try:
            inputs = resized(program, size)
            sized = Program(inputs, program.constants, program.equations, program.double, size)
            if size != program.size:
                seen.enter(COMPARE)
                sized.evaluate(size)
        except Exception:
            continue  # This size does not suit the program.
        failure = _run(sized, program, sessions, names, leaves, seen)
        if failure is not None:
            return failure
    return None


def _run(
    sized: Program,
    program: Program,
    sessions: Any,
    names: Sequence[str],
    leaves: Sequence[str],
    seen: Seen,
) -> Failure | None:
    seen.enter(RUN)
    size, inputs = sized.size, list(sized.inputs.values())
    dtypes = {v.name: v.dtype for v in program.values().values()}
    results = {}
    for (label, on), session in sessions.items():
        wanted = names if label == "plain" else leaves
        try:
            results[label, on] = runtime.run(session, inputs, [dtypes[n] for n in wanted])
        except Exception as error:
            return _failure(f"run {label}, onnxruntime's optimiser {on}", error, program)
    seen.enter(COMPARE)
    base = dict(zip(names, results["plain", False], strict=True))
    known = {**sized.inputs, **sized.constants, **base}
    for equation in sized.equations:
        found = [base[v.name] for v in equation.outputs]
        bad = compare.wrong(equation, known, found, size, seen.passed_over)
        if bad is None and compare.keeps_precision(equation, known):
            found = _alone(equation, known, sized)
            bad = compare.wrong(equation, known, found, size, seen.passed_over, alone=True)
        if bad is not None:
            return _difference(equation, known, found, bad, program, size)
    for key, found in results.items():
        wanted = names if key[0] == "plain" else leaves
        expected = [base[n] for n in wanted]
        bad = compare.wrong_as_a_whole(sized, wanted, expected, found, size)
        if bad:
            name, mask = bad[0]
            at = tuple(map(int, np.argwhere(mask)[0]))
            pairs = dict(zip(wanted, found, strict=True))
            message = f"{name}{list(at)}: {base[name][at]} becomes {pairs[name][at]}, size {size}"
            stage = f"optimised: {key[0]}, onnxruntime's optimiser {key[1]}"
            return Failure(stage, "", message, program, [n for n, _ in bad])
    return None


def _alone(equation: Equation, known: dict[str, np.ndarray], program: Program) -> list[np.ndarray]:
    """Runs an equation as a program, so that its operands are rounded."""
    operands = {name: np.asarray(known[name]) for name in equation.free()}
    alone = Program(operands, {}, [equation], program.double)
    names = [v.name for v in equation.outputs]
    model = runtime.export(alone, names, fuel=0)
    dtypes = [v.dtype for v in equation.outputs]
    return runtime.run(runtime.session(model, optimize=False), list(operands.values()), dtypes)


def _difference(
    equation: Any, known: Any, found: Any, bad: Any, program: Program, size: int
) -> Failure:
    expected = equation.run(known, size)
    lines = ["\n".join(equation.lines())]
    for value, one, other, mask in zip(equation.outputs, found, expected, bad, strict=False):
        if one.shape != other.shape or one.dtype != other.dtype:
            lines.append(f"{value.name}: {other.dtype}{other.shape} is {one.dtype}{one.shape}")
        elif mask.any():
            at = tuple(map(int, np.argwhere(mask)[0]))
            lines.append(
                f"{value.name}{list(at)} ({mask.sum()} of {mask.size}): JAX {other[at]!r}, "
                f"onnxruntime {one[at]!r}"
            )
    for name in equation.free():
        x = np.asarray(known[name])
        shown = str(x) if x.size <= 64 else f"{x.ravel()[:32]}…"
        lines.append(f"{name}: {x.dtype}{x.shape} = {shown}")
    inner = "+".join(sorted({e.op for e in equation.shows()}))
    dtypes = "/".join(sorted({np.asarray(known[n]).dtype.name for n in equation.free()}))
    return Failure(
        "numbers",
        f"{inner} {dtypes}",
        "\n".join(lines),
        program,
        [v.name for v in equation.outputs],
    )


def resized(program: Program, size: int) -> dict[str, np.ndarray]:
    """Returns the inputs for another size of the symbolic dimension."""
    if not program.size or size == program.size:
        return program.inputs
    rng = np.random.default_rng(size)
    found = {}
    for name, array in program.inputs.items():
        parts = (multiple(n, program.size) for n in array.shape)
        shape = tuple(factor * size + offset for factor, offset in parts)
        new = shape != array.shape
        found[name] = arrays.numbers(rng, shape, array.dtype, wild=False) if new else array
    return found


def _is_ours(error: Exception) -> bool:
    """Returns `True` if an error came from the converter rather than from tracing."""
    frames = traceback.extract_tb(error.__traceback__)
    return not any(frame.filename == "<program>" for frame in frames)


def _failure(stage: str, error: Exception, program: Program) -> Failure:
    message = f"{type(error).__name__}: {error}"
    return Failure(stage, f"{type(error).__name__} {first_line(error)[:60]}", message, program)
