"""Evaluates a traced function equation by equation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._tracing.primitives import called_by

Path = tuple[int, ...]
SizeOf = Callable[[str], int]


@dataclass(frozen=True)
class EquationResult:
    """The results of an equation.

    Attributes:
        path: The number of the equation in its jaxpr, preceded by those of the calling equations.
        primitive: The name of its primitive.
        values: Its results.
        equation: The equation, if it has a body that JAX runs as a whole, else None.
        operands: The operands of such an equation.
    """

    path: Path
    primitive: str
    values: list[Any]
    equation: Any = None
    operands: Sequence[Any] = ()


def evaluate(closed: Any, args: Sequence[Any], size_of: SizeOf) -> Iterator[EquationResult]:
    """Runs a closed jaxpr and yields the results of its equations as they are computed, including
    those of called functions. The last step, without a path, has the results of the whole.

    Values are dropped once nothing reads them any more. JAX runs the bodies of loops and branches
    as a whole. `size_of` has the sizes of symbolic dimensions.
    """
    results = yield from _Frame(closed.jaxpr, size_of, ()).run(list(closed.consts), list(args))
    yield EquationResult((), "", results)


def variable_sizes(closed: Any, args: Sequence[Any]) -> dict[str, int]:
    """Returns the sizes of dimension variables, which follow from the shapes of the arguments."""
    return _jax.variables(
        pair
        for var, array in zip(closed.jaxpr.invars, args, strict=True)
        for pair in zip(var.aval.shape, array.shape, strict=True)
    )


def paths(closed: Any) -> Iterator[Path]:
    """Yields the paths of the equations that `evaluate` yields."""
    yield from _paths(closed.jaxpr, ())


def _paths(jaxpr: Any, outer: Path) -> Iterator[Path]:
    for number, eqn in enumerate(jaxpr.eqns):
        yield (*outer, number)
        if (called := called_by(eqn)) is not None:
            yield from _paths(_jax.open_jaxpr(called), (*outer, number))


class _Frame:
    """A call of a jaxpr."""

    def __init__(self, jaxpr: Any, size_of: SizeOf, path: Path) -> None:
        self._jaxpr = jaxpr
        self._size_of = size_of
        self._path = path
        self._values: dict[Any, Any] = {}

    def run(self, consts: list[Any], args: list[Any]) -> Any:
        jaxpr, values = self._jaxpr, self._values
        values.update(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))
        last = _last_reads(jaxpr)
        for number, eqn in enumerate(jaxpr.eqns):
            if eqn.outvars:
                results = yield from self._equation(eqn, (*self._path, number))
                values.update(zip(eqn.outvars, results, strict=True))
            for var in last[number]:
                values.pop(var, None)
        return [self._read(atom) for atom in jaxpr.outvars]

    def _read(self, atom: Any) -> Any:
        if _jax.is_literal(atom):
            return jax.numpy.asarray(atom.val, dtype=atom.aval.dtype)
        return self._values[atom]

    def _equation(self, eqn: Any, path: Path) -> Any:
        name = eqn.primitive.name
        if (called := called_by(eqn)) is not None:
            consts = list(getattr(called, "consts", ()))
            frame = _Frame(_jax.open_jaxpr(called), self._size_of, path)
            results = yield from frame.run(consts, [self._read(atom) for atom in eqn.invars])
        else:
            results = self._primitive(eqn)
            if any(_has_jaxpr(value) for value in eqn.params.values()):
                operands = [self._read(atom) for atom in eqn.invars]
                yield EquationResult(path, name, results, eqn, operands)
                return results
        yield EquationResult(path, name, results)
        return results

    def _primitive(self, eqn: Any) -> list[Any]:
        name, param = _jax.DIMENSION
        if eqn.primitive.name == name:
            dtype = eqn.outvars[0].aval.dtype
            return [jax.numpy.asarray(_jax.size(eqn.params[param], self._size_of), dtype)]
        invars, function = _jax.equation(eqn, self._jaxpr)
        values = [self._values[var] for var in invars]
        if not any(_is_symbolic(value) for value in eqn.params.values()):
            return list(function(*values))
        if any(_has_jaxpr(value) for value in eqn.params.values()):
            # A body contains many dimensions, so let JAX substitute them.
            specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in invars]
            exported = jax.export.export(jax.jit(function))(*specs)
            return list(exported.call(*values))
        params = {key: self._settled(value) for key, value in eqn.params.items()}
        _, function = _jax.equation(eqn.replace(params=params), self._jaxpr)
        return list(function(*values))

    def _settled(self, value: Any) -> Any:
        """Replaces the symbolic dimensions of a parameter by their sizes."""
        if _jax.is_symbolic(value):
            return _jax.size(value, self._size_of)
        if isinstance(value, tuple | list):
            items = [self._settled(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value


def _last_reads(jaxpr: Any) -> list[list[Any]]:
    """Returns for each equation the variables that no later equation reads."""
    kept = {atom for atom in jaxpr.outvars if not _jax.is_literal(atom)}
    last: list[list[Any]] = [[] for _ in jaxpr.eqns]
    for number in reversed(range(len(jaxpr.eqns))):
        eqn = jaxpr.eqns[number]
        for atom in (*eqn.invars, *eqn.outvars):
            if not _jax.is_literal(atom) and atom not in kept:
                kept.add(atom)
                last[number].append(atom)
    return last


def _is_symbolic(value: Any) -> bool:
    """Returns `True` if a parameter contains symbolic dimensions."""
    if _jax.is_symbolic(value):
        return True
    if isinstance(value, tuple | list):
        return any(map(_is_symbolic, value))
    if _jax.is_jaxpr(value):
        return any(
            any(map(_is_symbolic, getattr(var.aval, "shape", ())))
            for eqn in _jax.open_jaxpr(value).eqns
            for var in (*eqn.invars, *eqn.outvars)
        )
    return False


def _has_jaxpr(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_has_jaxpr, value))
    return _jax.is_jaxpr(value)
