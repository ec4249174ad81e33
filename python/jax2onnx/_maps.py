"""Scans whose iterations are independent, such as `jax.lax.map`.

Applied to all rows at once, a body runs once instead of once per row, and onnxruntime needs about a
microsecond for every operator, whatever its size. `docs/control-flow.md` has measurements.
"""

import math
from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._keys import Expand, Function

# All rows at once take more memory. The values that a body computes may take this many bytes.
LARGEST = 1 << 26

# Where rows diverge: applied at once, every row would take every branch.
_BRANCHES = frozenset({"cond", "while"})


def _scan(eqn: Any) -> Function | None:
    """A scan without carry as one application of its body; None if it has to stay a loop."""
    params = eqn.params
    constants, carried = _jax.scan_operands(params)
    closed, length = params["jaxpr"], params["length"]
    if carried or len(eqn.invars) == constants or _jax.is_symbolic(length) or length < 2:
        return None
    size = _bytes(_jax.open_jaxpr(closed))
    if size is None or size * length > LARGEST:
        return None
    body = _jax.function_of(closed)

    def function(*operands: Any) -> Any:
        rows = operands[constants:]
        return jax.vmap(lambda *row: body(*operands[:constants], *row))(*rows)

    return function


def _bytes(jaxpr: Any) -> int | None:
    """How many bytes the results of all equations take; None if that is unknown, or if there is
    control flow that would not stay the same.
    """
    total = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _BRANCHES or eqn.effects:
            return None
        for var in eqn.outvars:
            shape = var.aval.shape
            if any(map(_jax.is_symbolic, shape)):
                return None
            total += math.prod(shape) * getattr(var.aval.dtype, "itemsize", 8)
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if _jax.is_jaxpr(inner):
                    size = _bytes(_jax.open_jaxpr(inner))
                    if size is None:
                        return None
                    total += size
    return total


EXPANSIONS: dict[str, Expand] = {"scan": _scan}
