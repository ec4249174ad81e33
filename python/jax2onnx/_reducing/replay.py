"""Traces a program again, with changes."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from jax2onnx import _jax
from jax2onnx._reducing.case import Case, traced_case
from jax2onnx._tracing.primitives import called_by

# The position of an equation: its number in its jaxpr, preceded by the number of the equation and
# of the body around it.
Path = tuple[int, ...]
# Returns other results of an equation, given its operands.
Edit = Callable[[Any, Sequence[Any]], Sequence[Any]]

# The parameters that contain sizes of results, by primitive.
SIZES = {
    "broadcast_in_dim": ("shape",),
    "dynamic_slice": ("slice_sizes",),
    "gather": ("slice_sizes",),
    "iota": ("shape",),
    "random_bits": ("shape",),
    "reshape": ("new_sizes",),
    "scan": ("length",),
    "slice": ("limit_indices",),
    "split": ("sizes",),
}


class Replay:
    """An interpreter that traces the equations of a program again.

    Attributes:
        size: Maps each size of an axis to a new one.
        dtype: Maps each element type to a new one.
        edits: Replacements of single equations.
        inline: `True` to replace plain calls by the equations of the called jaxpr. Equations
            without a line of the user's code get the line of the call.
        line_of: Returns the user's line of an equation.
    """

    def __init__(
        self,
        *,
        size: Callable[[Any], Any] = lambda n: n,
        dtype: Callable[[Any], Any] = lambda dtype: dtype,
        edits: Mapping[Path, Edit] | None = None,
        inline: bool = False,
        line_of: Callable[[Any], str] = lambda _: "",
    ) -> None:
        self.size = size
        self.dtype = dtype
        self.edits = edits or {}
        self.inline = inline
        self.line_of = line_of
        self._calls: list[Any] = []

    def case(self, case: Case, args: Sequence[Any], consts: Sequence[Any]) -> Case:
        """Returns the program after the changes, with these arguments and constants."""
        count = len(consts)

        def run(*leaves: Any) -> list[Any]:
            return self._jaxpr(case.jaxpr, leaves[:count], leaves[count:], ())

        symbolic = [
            jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype)
            if any(map(_jax.is_symbolic, var.aval.shape))
            else array
            for var, array in zip(case.jaxpr.invars, args, strict=True)
        ]
        found = traced_case(run, consts, symbolic, args, case.names, case.parameters)
        found = replace(found, closed=_jax.without_dead_code(found.closed))
        return found.needed(found.jaxpr.outvars)

    def _jaxpr(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], at: Path) -> list[Any]:
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

        def read(atom: Any) -> Any:
            if _jax.is_literal(atom):
                dtype = self.dtype(atom.aval.dtype)
                is_same = dtype == atom.aval.dtype
                return atom.val if is_same else np.asarray(atom.val, dtype)
            return values[atom]

        for number, eqn in enumerate(jaxpr.eqns):
            operands = [read(atom) for atom in eqn.invars]
            with self._attributed(eqn):
                results = self._equation(eqn, operands, (*at, number))
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _attributed(self, eqn: Any) -> AbstractContextManager[Any]:
        if self._calls and not self.line_of(eqn):
            return _jax.as_if_in(self._calls[-1], _jax.levels(eqn))
        return _jax.as_if_in(eqn)

    def _equation(self, eqn: Any, operands: Sequence[Any], at: Path) -> Sequence[Any]:
        if at in self.edits:
            return self.edits[at](eqn, operands)
        called = called_by(eqn)
        if called is not None and self.inline:
            consts = getattr(called, "consts", ())
            self._calls.append(eqn if self.line_of(eqn) or not self._calls else self._calls[-1])
            try:
                return self._jaxpr(_jax.open_jaxpr(called), consts, operands, at)
            finally:
                self._calls.pop()
        return _jax.bind(self._changed(eqn, operands, at), operands)

    def _changed(self, eqn: Any, operands: Sequence[Any], at: Path) -> Any:
        name = eqn.primitive.name
        params = dict(eqn.params)
        bodies = 0
        for key, value in eqn.params.items():
            if _jax.is_jaxpr(value):
                params[key] = self._body(value, (*at, bodies))
                bodies += 1
            elif isinstance(value, tuple) and value and all(map(_jax.is_jaxpr, value)):
                params[key] = tuple(
                    self._body(body, (*at, bodies + i)) for i, body in enumerate(value)
                )
                bodies += len(value)
            elif isinstance(value, np.dtype):
                params[key] = self.dtype(value)
        for key in SIZES.get(name, ()):
            value = params[key]
            params[key] = tuple(map(self.size, value)) if isinstance(value, tuple) else value
            if isinstance(value, int):
                params[key] = self.size(value)
        if name == "reshape" and "new_sizes" in params:
            params["new_sizes"] = _filled(operands[0].shape, params["new_sizes"])
        return eqn.replace(params=params)

    def _body(self, body: Any, at: Path) -> Any:
        jaxpr, consts = _jax.open_jaxpr(body), getattr(body, "consts", ())
        avals = [
            jax.ShapeDtypeStruct(
                tuple(map(self.size, var.aval.shape)),
                self.dtype(var.aval.dtype),
                weak_type=bool(getattr(var.aval, "weak_type", False)),
            )
            for var in jaxpr.invars
        ]
        closed = jax.make_jaxpr(lambda *args: self._jaxpr(jaxpr, consts, args, at))(*avals)
        if hasattr(body, "consts"):
            return closed
        if closed.consts:
            raise ValueError("a body without constants needs one")
        return closed.jaxpr


def _filled(shape: Sequence[Any], sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Adjusts one of the new sizes of a reshape, so that the number of elements is preserved."""
    if not all(isinstance(n, int) for n in (*shape, *sizes)):
        return tuple(sizes)
    wanted, found = math.prod(shape), math.prod(sizes)
    if wanted == found or not found:
        return tuple(sizes)
    for axis in range(len(sizes) - 1, -1, -1):
        rest = found // sizes[axis]
        if wanted % rest == 0:
            return (*sizes[:axis], wanted // rest, *sizes[axis + 1 :])
    return tuple(sizes)
