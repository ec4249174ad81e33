"""Reduces a failing program with `jax2onnx.reduce`, and prints it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import onnx

from fuzz import compare
from fuzz.check import Failure, resized
from fuzz.program import Kind, Program
from jax2onnx import _jax
from jax2onnx._checking.runtime import as_tensor
from jax2onnx._export.options import Options
from jax2onnx._reducing import reduce as reducing
from jax2onnx._reducing.case import Case
from jax2onnx._reducing.checks import Check, Raises, kind_of
from jax2onnx._reducing.export import USUAL, Exporter, Way
from jax2onnx.errors import InvalidInputError

PLAIN = Way(0, "unoptimised")
# The ways that a program is run in, by the stage of a failure.
WAYS = {
    "optimised: plain, onnxruntime's optimiser True": Way(0),
    "optimised: optimized, onnxruntime's optimiser False": Way(None, "unoptimised"),
    "optimised: optimized, onnxruntime's optimiser True": USUAL,
}


class Breaks(Raises):
    """The export, the checker or one of the runs raises an error of one kind."""

    def error(self, case: Case, way: Way = USUAL) -> Exception | None:
        ways = (PLAIN, *WAYS.values()) if way == USUAL else (way,)
        try:
            for one in ways:
                onnx.checker.check_model(self.exporter.proto(case, one.fuel), full_check=True)
                self.exporter.run(case, one)
        except Exception as error:
            return error
        return None


class Unlike(Check):
    """The results of a way differ by more than rounding explains, from JAX's or from those of the
    model without any optimisation.
    """

    def __init__(self, exporter: Exporter, way: Way, *, exact: bool) -> None:
        super().__init__(exporter)
        self._way = way
        self._exact = exact

    def failure(self, case: Case, way: Way = USUAL) -> str | None:
        found = self.exporter.run(case, self._way if way == USUAL else way)
        base = self._way == PLAIN
        expected = self.exporter.expected(case) if base else self.exporter.run(case, PLAIN)
        bad = self._wrong(case, expected, found)
        for i, (mask, one, other) in enumerate(zip(bad, expected, found, strict=True)):
            if mask.any():
                at = tuple(map(int, np.argwhere(mask)[0]))
                return f"output {i}{list(at)}: {one[at]} becomes {other[at]}"
        return None

    def _wrong(
        self, case: Case, expected: list[np.ndarray], found: list[np.ndarray]
    ) -> list[np.ndarray]:
        pairs = list(zip(found, expected, strict=True))
        if self._exact:
            return [~compare.same(one, other) for one, other in pairs]
        spreads: list[np.ndarray] = [np.zeros(x.shape) for x in expected]
        bad = [~_near(one, other, s) for (one, other), s in zip(pairs, spreads, strict=True)]
        if not any(mask.any() for mask in bad):
            return bad
        rng = np.random.default_rng(0)

        def again() -> list[np.ndarray]:
            def near(array: jax.Array) -> jax.Array:
                return jnp.asarray(compare.disturb(rng, np.asarray(array), zeros=True))

            return [as_tensor(x) for x in _disturbed(case, near)]

        spreads = compare.spread_of(self.exporter.expected(case), again)
        return [
            ~_near(one, other, spread) & ~np.isinf(spread)
            for (one, other), spread in zip(pairs, spreads, strict=True)
        ]


def _disturbed(case: Case, near: Callable[[jax.Array], jax.Array]) -> list[jax.Array]:
    """Returns JAX's results if every value is disturbed; of a symbolic program, every input."""
    args, consts = list(map(near, case.args)), list(map(near, case.closed.consts))
    if case.is_symbolic:
        return case.with_args(args, consts).expected
    jaxpr = case.jaxpr
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))
    for eqn in case.eqns:
        operands, function = _jax.equation(eqn, jaxpr)
        results = function(*[known[var] for var in operands])
        known.update(zip(eqn.outvars, map(near, results), strict=True))
    return [case.value(x) if _jax.is_literal(x) else known[x] for x in jaxpr.outvars]


def _near(one: np.ndarray, other: np.ndarray, spread: np.ndarray) -> np.ndarray:
    if not jnp.issubdtype(other.dtype, np.inexact):
        return compare.same(one, other)
    return compare.same(
        one, other, 64 * compare.eps(other.dtype), compare.tiny(other.dtype) + spread
    )


def shrunk(failure: Failure, seconds: float = 60) -> str:
    """Returns a short script for a failure, or the whole program if it fails only as a whole."""
    program = failure.program
    exporter = Exporter(
        Options(model_name="jax_model", detail="off", functions="decorated"), program.double
    )
    title = f"# {failure.stage} {failure.key}\n" + "".join(
        f"# {line}\n" for line in failure.message.splitlines()
    )
    for part in _parts(failure):
        with _jax.precision(double=program.double):
            cases = list(_cases(part, failure.names))
        check = _check(failure, exporter, cases)
        if check is None:
            continue
        whole = reducing.Program(cases, exporter)
        try:
            found = reducing.reduced(whole, check, seconds=seconds)
        except InvalidInputError:
            continue
        return f"{title}{found.program}"
    return f"{title}# (not reduced)\n{program.source(list(program.values()))}\n"


def _check(failure: Failure, exporter: Exporter, cases: list[Case]) -> Check | None:
    if failure.stage == "numbers":
        kinds = {
            equation.kind
            for equation in failure.program.equations
            if {v.name for v in equation.outputs} & set(failure.names)
        }
        return Unlike(exporter, PLAIN, exact=kinds <= {Kind.MOVES, Kind.ROUNDS})
    if failure.stage in WAYS:
        return Unlike(exporter, WAYS[failure.stage], exact=False)
    errors = (Breaks(exporter).error(case) for case in cases)
    error = next((error for error in errors if error is not None), None)
    return None if error is None else Breaks(exporter, kind_of(error))


def _parts(failure: Failure) -> Iterator[Program]:
    """Yields the equations of the wrong results alone, with JAX's operands, and the program."""
    program = failure.program
    if failure.stage == "numbers":
        with _jax.precision(double=program.double):
            known = program.evaluate()
        names = set(failure.names)
        kept = [e for e in program.equations if {v.name for v in e.outputs} & names]
        free = {n: np.asarray(known[n]) for e in kept for n in e.free()}
        given = {n: x for n, x in free.items() if n not in program.constants}
        sized = {n: x for n, x in program.inputs.items() if program.size in x.shape}
        yield replace(program, equations=kept, inputs={**sized, **given})
    yield program


def _cases(program: Program, names: list[str]) -> Iterator[Case]:
    """Yields the program with fixed sizes, and with a symbolic one if it has it."""
    outputs = [name for name in names if name in program.values()] or program.leaves()
    for size in dict.fromkeys([program.size, 1, 3]) if program.size else [0]:
        try:
            inputs = resized(program, size)
            args = tuple(jnp.asarray(x) for x in inputs.values())
            for specs in (args, program.specs()) if program.size else (args,):
                closed = jax.make_jaxpr(program.function(outputs))(*specs)
                yield Case(closed, args, tuple(inputs), (None,) * len(closed.consts))
        except Exception:
            continue  # This size does not suit the program.
