"""Simpler programs, kind by kind. A candidate may be invalid: then its check raises."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jax2onnx import _jax
from jax2onnx._reducing.case import Case, variables
from jax2onnx._reducing.replay import Edit, Path, Replay
from jax2onnx._tracing.primitives import called_by, control

# A program in the making: it is built only if there is time to check it.
Candidate = Callable[[], Case]


def without_calls(case: Case, line_of: Callable[[Any], str]) -> Iterator[Candidate]:
    """Yields the program without calls, if it has some."""
    if any(called_by(eqn) is not None for eqn in _jax.equations_in(case.jaxpr)):
        inlined = Replay(inline=True, line_of=line_of)
        yield partial(inlined.case, case, case.args, case.closed.consts)


def fewer_outputs(case: Case) -> Iterator[Candidate]:
    """Yields the program with one output, or with one output fewer."""
    outvars = list(case.jaxpr.outvars)
    if len(outvars) == 1:
        return
    for var in outvars:
        yield partial(case.needed, [var])
    for i in range(len(outvars)) if len(outvars) > 2 else ():
        yield partial(case.needed, [*outvars[:i], *outvars[i + 1 :]])


def some_equations(case: Case, numbers: Sequence[int]) -> Case:
    """Returns the program of the equations with these numbers. All values that the rest of the
    program reads are outputs.
    """
    kept = [case.eqns[i] for i in numbers]
    made = dict.fromkeys(var for eqn in kept for var in eqn.outvars)
    chosen = set(numbers)
    outside = {id(v) for i, eqn in enumerate(case.eqns) if i not in chosen for v in eqn.invars}
    inside = {id(v) for eqn in kept for v in eqn.invars}
    results = set(map(id, case.jaxpr.outvars))
    outvars = [v for v in made if id(v) in outside | results or id(v) not in inside]
    used = [v for v in outvars if type(v).__name__ != "DropVar"]
    return case.excerpt(kept, used)


def bodies(case: Case) -> Iterator[Candidate]:
    """Yields the bodies of loops and branches with the values of their first iteration."""
    for eqn in case.eqns:
        kind, operands = control(eqn), [case.value(atom) for atom in eqn.invars]
        for body, args in _entered(eqn, kind, operands):
            yield partial(_program, body, args)


def _entered(
    eqn: Any, kind: str | None, operands: Sequence[Any]
) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Yields the bodies of an equation, each with its operands when it is first entered."""
    params = eqn.params
    name = eqn.primitive.name
    if name == "cond":
        branches = params["branches"]
        taken = int(np.clip(int(operands[0]), 0, len(branches) - 1))
        yield branches[taken], operands[1:]
    elif name == "while":
        first, second = params["cond_nconsts"], params["body_nconsts"]
        carried = operands[first + second :]
        yield params["body_jaxpr"], [*operands[first : first + second], *carried]
        yield params["cond_jaxpr"], [*operands[:first], *carried]
    elif name == "scan" and params["length"]:
        constants, carry = _jax.scan_operands(params)
        at = params["length"] - 1 if params["reverse"] else 0
        rows = [array[at] for array in operands[constants + carry :]]
        yield params["jaxpr"], [*operands[: constants + carry], *rows]
    elif kind is None:
        # A body that runs once, with the operands of the equation.
        for body in _jax.bodies_of(eqn):
            if len(_jax.open_jaxpr(body).invars) == len(operands):
                yield body, operands


def _program(body: Any, args: Sequence[Any]) -> Case:
    jaxpr, consts = _jax.open_jaxpr(body), list(getattr(body, "consts", ()))
    closed = _jax.closed_jaxpr(jaxpr, consts)
    names = tuple(f"x{i}" for i in range(len(args)))
    case = Case(closed, tuple(args), names, (None,) * len(consts))
    return case.needed(jaxpr.outvars)


def simpler_bodies(case: Case) -> Iterator[Candidate]:
    """Yields programs with one equation fewer inside a loop or a branch."""
    for at, eqn in _inner(case.jaxpr, ()):
        for edit in _replacements(eqn):
            yield partial(_edited, case, at, edit)


def _inner(jaxpr: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    """Yields the equations of bodies with their paths, last ones first."""
    for number in reversed(range(len(jaxpr.eqns))):
        eqn = jaxpr.eqns[number]
        for i, body in enumerate(_jax.bodies_of(eqn)):
            yield from _inner(_jax.open_jaxpr(body), (*at, number, i))
        if at:
            yield (*at, number), eqn


def _replacements(eqn: Any) -> Iterator[Edit]:
    """Yields replacements of an equation: one of its operands, or zeros."""
    avals = [var.aval for var in eqn.outvars]
    for i, atom in enumerate(eqn.invars):
        if len(avals) == 1 and _type(atom.aval) == _type(avals[0]):
            yield partial(_operand, i)
    if eqn.primitive.name not in ("broadcast_in_dim", "iota") and all(map(_is_number, avals)):
        yield lambda *_: [jax.numpy.zeros(aval.shape, aval.dtype) for aval in avals]


def _operand(number: int, _: Any, operands: Sequence[Any]) -> Sequence[Any]:
    return [operands[number]]


def _type(aval: Any) -> tuple[Any, ...]:
    return tuple(aval.shape), aval.dtype


def _is_number(aval: Any) -> bool:
    return not jax.numpy.issubdtype(aval.dtype, jax.dtypes.prng_key)


def _edited(case: Case, at: Path, edit: Edit) -> Case:
    return Replay(edits={at: edit}).case(case, case.args, case.closed.consts)


def shorter_chains(case: Case) -> Iterator[Candidate]:
    """Yields programs in which an equation is replaced by one of its operands."""
    for number in range(len(case.eqns)):
        eqn = case.eqns[number]
        for edit in _replacements(eqn):
            yield partial(_edited, case, (number,), edit)


def smaller_sizes(case: Case) -> Iterator[Candidate]:
    """Yields programs in which all axes of one size are shorter."""
    if case.is_symbolic:
        return
    sizes = {n for var in variables(case.jaxpr) for n in getattr(var.aval, "shape", ())}
    sizes |= {eqn.params["length"] for eqn in case.eqns if eqn.primitive.name == "scan"}
    for size in sorted((n for n in sizes if isinstance(n, int) and n > 1), reverse=True):
        for smaller in dict.fromkeys((1, 2, 3, size // 2)):
            if smaller < size:
                yield partial(_resized, case, size, smaller)


def _resized(case: Case, size: int, smaller: int) -> Case:
    def changed(n: Any) -> Any:
        return smaller if n == size else n

    def cut(array: Any) -> Any:
        return array[tuple(slice(0, changed(n)) for n in array.shape)]

    args, consts = map(cut, case.args), map(cut, case.closed.consts)
    return Replay(size=changed).case(case, list(args), list(consts))


def simpler_numbers(case: Case) -> Iterator[Candidate]:
    """Yields the same program on simpler inputs and constants."""
    arrays = [*case.args, *case.closed.consts]
    count = len(case.args)
    for i, array in enumerate(arrays):
        for simple in _simpler(array):
            changed = [*arrays[:i], simple, *arrays[i + 1 :]]
            yield partial(case.with_args, changed[:count], changed[count:])


def _simpler(array: Any) -> Iterator[Any]:
    """Yields arrays that are shorter to write, shortest first."""
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        return
    given = np.asarray(array)
    is_bool = given.dtype == bool
    found: list[np.ndarray] = [np.full(given.shape, n, given.dtype) for n in (0, 1, 2)]
    if given.size > 1:
        if not is_bool:
            count = np.arange(given.size).reshape(given.shape)
            found += [count.astype(given.dtype), (count - given.size // 2).astype(given.dtype)]
        found.append(np.full(given.shape, given.flat[0], given.dtype))
    if jax.numpy.issubdtype(given.dtype, np.inexact):
        wide = given.astype(complex if given.dtype.kind == "c" else float)
        found += [np.round(wide, digits).astype(given.dtype) for digits in (0, 1, 2)]
    for simple in found:
        if simple.tobytes() == given.tobytes():
            return  # the others are not simpler
        yield jax.numpy.asarray(simple)
