"""Keys that identify equal equations and jaxprs of different traces."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jax2onnx import _jax


class Keys:
    """Keys of equations and jaxprs: equal if these compute the same from the same operands."""

    def __init__(self) -> None:
        self._jaxprs: dict[int, tuple[object, object]] = {}
        self._numbers: dict[object, int] = {}
        self._alive: list[Any] = []

    def of_equation(self, eqn: Any) -> object:
        """Returns a key for the operation of an equation, without its operands."""
        avals = tuple(_type(v.aval) for v in (*eqn.invars, *eqn.outvars))
        return self._number((eqn.primitive.name, avals, self._of(eqn.params)))

    def of_literal(self, atom: Any) -> object:
        value = np.asarray(_jax.unwrapped(atom.val))
        return ("literal", _type(atom.aval), value.tobytes())

    def _of_jaxpr(self, jaxpr: Any) -> object:
        closed_over = tuple(id(value) for value in getattr(jaxpr, "consts", ()))
        known = self._jaxprs.get(id(jaxpr))
        if known is not None:
            return known[1]
        inner = _jax.open_jaxpr(jaxpr)
        numbers: dict[Any, int] = {}
        for var in (*inner.constvars, *inner.invars):
            numbers[var] = len(numbers)

        def atom(a: Any) -> object:
            # A variable of an outer jaxpr is identified by its id.
            return self.of_literal(a) if _jax.is_literal(a) else numbers.get(a, id(a))

        steps = []
        for eqn in inner.eqns:
            steps.append((self.of_equation(eqn), tuple(map(atom, eqn.invars))))
            for var in eqn.outvars:
                numbers[var] = len(numbers)
        types = tuple(_type(var.aval) for var in (*inner.constvars, *inner.invars))
        results = tuple(map(atom, inner.outvars))
        key = self._number(("jaxpr", types, tuple(steps), results, closed_over))
        self._jaxprs[id(jaxpr)] = jaxpr, key  # kept alive: it is known by its id
        return key

    def _of(self, param: Any) -> object:
        if _jax.is_jaxpr(param):
            return self._of_jaxpr(param)
        if isinstance(param, Mapping):
            return tuple((str(name), self._of(value)) for name, value in param.items())
        if type(param) in (tuple, list):
            return tuple(map(self._of, param))
        if isinstance(param, jax.Array | np.ndarray):
            self._alive.append(param)
            return ("array", id(param))
        try:
            hash(param)
        except TypeError:
            self._alive.append(param)
            return ("object", id(param))
        return type(param), param

    def _number(self, what: object) -> int:
        """Returns a number for a key, so that nested keys stay small."""
        return self._numbers.setdefault(what, len(self._numbers))


def _type(aval: Any) -> object:
    return getattr(aval, "shape", None), getattr(aval, "dtype", None), type(aval).__name__
