"""A program with the values of its inputs: the thing that is reduced."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._checking.evaluate import evaluate, variable_sizes
from jax2onnx._tracing.inputs import place_of
from jax2onnx._tracing.user_frames import user_frame
from jax2onnx.errors import InvalidInputError


@dataclass(frozen=True)
class Case:
    """A closed jaxpr and its arguments.

    Attributes:
        closed: The program.
        args: The value of each input.
        names: The name of each input.
        parameters: For each constant, the path of the parameter, or None.
    """

    closed: Any
    args: tuple[Any, ...]
    names: tuple[str, ...]
    parameters: tuple[str | None, ...]

    @property
    def jaxpr(self) -> Any:
        return self.closed.jaxpr

    @property
    def eqns(self) -> list[Any]:
        return list(self.jaxpr.eqns)

    @cached_property
    def sizes(self) -> dict[str, int]:
        return variable_sizes(self.closed, self.args)

    @property
    def is_symbolic(self) -> bool:
        return any(_jax.is_symbolic(d) for v in self.jaxpr.invars for d in v.aval.shape)

    @cached_property
    def values(self) -> dict[Any, Any]:
        """JAX's value of every variable.

        Raises:
            InvalidInputError: JAX cannot evaluate an equation.
        """
        jaxpr = self.jaxpr
        known = dict(zip(jaxpr.constvars, self.closed.consts, strict=True))
        known.update(zip(jaxpr.invars, self.args, strict=True))
        next_equation = 0
        try:
            for done in evaluate(self.closed, self.args, lambda name: self.sizes.get(name, 2)):
                if len(done.path) == 1:
                    outvars = jaxpr.eqns[done.path[0]].outvars
                    known.update(zip(outvars, done.values, strict=True))
                    next_equation = done.path[0] + 1
        except Exception as error:
            raise _not_evaluated(self.eqns[next_equation], error) from error
        return known

    @cached_property
    def expected(self) -> list[Any]:
        return [self.value(atom) for atom in self.jaxpr.outvars]

    def value(self, atom: Any) -> Any:
        """Returns JAX's value of a variable or a literal."""
        if _jax.is_literal(atom):
            return jax.numpy.asarray(atom.val, dtype=atom.aval.dtype)
        return self.values[atom]

    def excerpt(self, eqns: Sequence[Any], outvars: Sequence[Any]) -> "Case":
        """Returns the program of some equations. Values of other equations become inputs."""
        made = {var for eqn in eqns for var in eqn.outvars}
        atoms = [atom for eqn in eqns for atom in eqn.invars] + list(outvars)
        read = dict.fromkeys(a for a in atoms if not _jax.is_literal(a) and a not in made)
        consts = dict(zip(self.jaxpr.constvars, self.closed.consts, strict=True))
        parameters = dict(zip(self.jaxpr.constvars, self.parameters, strict=True))
        names = dict(zip(self.jaxpr.invars, self.names, strict=True))
        given = dict(zip(self.jaxpr.invars, self.args, strict=True))
        constvars = [var for var in consts if var in read]
        invars = [var for var in self.jaxpr.invars if var in read]
        invars += [var for var in read if var not in consts and var not in names]
        taken = {names.get(var, "") for var in invars}
        numbered = (f"x{i}" for i in itertools.count())
        free = (name for name in numbered if name not in taken)
        jaxpr = _jax.excerpt(self.jaxpr, constvars, invars, eqns, outvars)
        case = Case(
            _jax.closed_jaxpr(jaxpr, [consts[var] for var in constvars]),
            tuple(given[var] if var in given else self.values[var] for var in invars),
            tuple(names[var] if var in names else next(free) for var in invars),
            tuple(parameters[var] for var in constvars),
        )
        if "values" in self.__dict__:  # the same numbers, so they need not be computed again
            known = {var: self.values[var] for var in (*read, *made) if var in self.values}
            case.__dict__["values"] = known
        return case

    def needed(self, outvars: Sequence[Any]) -> "Case":
        """Returns the part of the program that some outputs depend on."""
        wanted, kept = set(map(id, outvars)), []
        for eqn in reversed(self.eqns):
            if any(id(var) in wanted for var in eqn.outvars):
                wanted |= set(map(id, eqn.invars))
                kept.append(eqn)
        return self.excerpt(kept[::-1], outvars)

    def with_args(self, args: Sequence[Any], consts: Sequence[Any]) -> "Case":
        """Returns the same program on other numbers."""
        closed = _jax.closed_jaxpr(self.jaxpr, consts)
        return replace(self, closed=closed, args=tuple(args))

    @cached_property
    def cost(self) -> tuple[int, int, int]:
        """The number of equations, of outputs, and of elements of all variables. Bodies count, and
        loops with the number of their iterations.
        """
        elements = length = 0
        for var in variables(self.jaxpr):
            elements += math.prod(n for n in getattr(var.aval, "shape", ()) if isinstance(n, int))
        for eqn in _jax.equations_in(self.jaxpr):
            length += eqn.params["length"] if eqn.primitive.name == "scan" else 0
        return count(self.jaxpr), len(self.jaxpr.outvars), elements + length


def traced_case(
    function: Callable[..., Any],
    consts: Sequence[Any],
    specs: Sequence[Any],
    args: Sequence[Any],
    names: Sequence[str],
    parameters: Sequence[str | None],
) -> Case:
    """Traces a function of constants and inputs. The trace may add constants to those."""
    traced, count = jax.make_jaxpr(function)(*consts, *specs), len(consts)
    jaxpr = traced.jaxpr
    constvars = [*jaxpr.invars[:count], *jaxpr.constvars]
    whole = _jax.excerpt(jaxpr, constvars, jaxpr.invars[count:], jaxpr.eqns, jaxpr.outvars)
    closed = _jax.closed_jaxpr(whole, [*consts, *traced.consts])
    return Case(closed, tuple(args), tuple(names), (*parameters, *[None] * len(traced.consts)))


def _not_evaluated(eqn: Any, error: Exception) -> InvalidInputError:
    # The reason is the last line of what JAX says, before its remarks about tracebacks.
    lines = str(error).partition("\n-----")[0].strip().splitlines() or [""]
    reason = lines[-1] if len(lines) > 1 else f"{type(error).__name__}: {lines[0]}"
    frame = user_frame(_jax.frames_of(eqn))
    return InvalidInputError(
        "cannot-evaluate",
        f"JAX cannot evaluate `{eqn.primitive.name}` on these inputs: {reason}",
        place_of((frame.file_name, frame.function_name, frame.line_num)) if frame else "",
        help="pass inputs that the function itself can be called with",
    )


def count(jaxpr: Any) -> int:
    """Returns the number of equations, in bodies as well."""
    return sum(1 for _ in _jax.equations_in(jaxpr))


def variables(jaxpr: Any) -> Iterator[Any]:
    """Yields the variables of a jaxpr and of the bodies in it."""
    yield from (*jaxpr.constvars, *jaxpr.invars)
    for eqn in _jax.equations_in(jaxpr):
        yield from eqn.outvars
