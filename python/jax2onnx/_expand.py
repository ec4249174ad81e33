"""Expands equations into others, by letting JAX trace them.

What JAX can say with primitives that are lowered already needs no rule of its own: reductions by
any function, loops whose rounds can be computed at once, functions that are primitives, and
everything that has to do with PRNG keys. The compiled half decides which equations are expanded,
and how; here is what the ways of expanding do.
"""

from typing import Any

import jax

from jax2onnx import _keys, _maps, _reductions
from jax2onnx._keys import Expand, Function


class Expansions:
    """Expands the equations of one program. Equal equations share their expansion."""

    def __init__(self) -> None:
        self._known: dict[object, Any] = {}

    def of(self, eqn: Any, how: str) -> Any:
        """A closed jaxpr that computes the equation; None if JAX has none."""
        avals = [var.aval for var in eqn.invars]
        key: object
        key = (how, eqn.primitive, *avals, *(v.aval for v in eqn.outvars), *eqn.params.items())
        try:
            hash(key)
        except TypeError:
            # Kept alive because the reader identifies jaxprs by their id.
            key = id(eqn)
        if key not in self._known:
            self._known[key] = _trace(eqn, how, avals)
        return self._known[key]


def _trace(eqn: Any, how: str, avals: list[Any]) -> Any:
    spec = _keys.as_it_is if how in _TAKES_KEYS else _keys.integers
    try:
        return jax.make_jaxpr(WAYS[how](eqn))(*map(spec, avals))
    except NotImplementedError:
        if how in _OPTIONAL:
            return None
        raise


def _hi_primitive(eqn: Any) -> Function:
    return lambda *operands: eqn.primitive.to_lojax(*operands, **eqn.params)


# The ways of expanding, by the names that the compiled half has for them.
WAYS: dict[str, Expand] = {
    "hi-primitive": _hi_primitive,
    **_keys.WAYS,
    **_maps.WAYS,
    **_reductions.WAYS,
}

# Those that take keys as keys.
_TAKES_KEYS = frozenset({"hi-primitive", "key-gamma"})

# Those that an equation can do without, if JAX cannot apply one of its primitives to many rows.
_OPTIONAL = frozenset({"map"})
