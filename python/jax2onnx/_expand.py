"""Expands equations into others, by letting JAX trace them.

What JAX can express with primitives that are already lowered needs no rule: reductions by any
function, loops that are not needed, functions that are primitives, and everything that has to do
with PRNG keys.
"""

from typing import Any

import jax

from jax2onnx import _keys, _maps, _reductions
from jax2onnx._keys import Expand, Function


class Expansions:
    """Expands the equations of one program. Equal equations share their expansion."""

    def __init__(self) -> None:
        self._known: dict[object, Any] = {}

    def of(self, eqn: Any) -> Any:
        """A closed jaxpr that computes the equation; None if it can stay as it is."""
        if eqn.primitive.name in _keys.TRANSPARENT and (
            eqn.primitive.name not in _OF_NUMBERS or _is_about_keys(eqn)
        ):
            return None
        avals = [var.aval for var in eqn.invars]
        key: object
        key = (eqn.primitive, *avals, *(var.aval for var in eqn.outvars), *eqn.params.items())
        try:
            hash(key)
        except TypeError:
            # Kept alive because the reader identifies jaxprs by their id.
            key = id(eqn)
        if key not in self._known:
            self._known[key] = _trace(eqn, avals)
        return self._known[key]


def _trace(eqn: Any, avals: list[Any]) -> Any:
    name = eqn.primitive.name
    if _is_about_keys(eqn):
        function = _OF_KEYS.get(name, _keys.moved)(eqn)
    else:
        function = _OF_NUMBERS[name](eqn)
    if function is None:
        return None
    spec = _keys.as_it_is if name in _TAKES_KEYS else _keys.integers
    try:
        return jax.make_jaxpr(function)(*map(spec, avals))
    except NotImplementedError:
        if name in _maps.EXPANSIONS:
            return None  # one of its primitives cannot be applied to many rows at once
        raise


def _is_about_keys(eqn: Any) -> bool:
    return any(_keys.is_key(var.aval) for var in (*eqn.invars, *eqn.outvars))


def _call_hi_primitive(eqn: Any) -> Function:
    return lambda *operands: eqn.primitive.to_lojax(*operands, **eqn.params)


_FUNCTIONS: dict[str, Expand] = {"call_hi_primitive": _call_hi_primitive}
_OF_NUMBERS = {**_FUNCTIONS, **_maps.EXPANSIONS, **_reductions.EXPANSIONS}
_OF_KEYS = {**_FUNCTIONS, **_keys.EXPANSIONS}

# Expansions that take keys as keys.
_TAKES_KEYS = frozenset({*_FUNCTIONS, "random_gamma"})
