"""Scans with independent iterations, applied to all rows at once."""

from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._expansion.keys import Expand, Function


def _map(eqn: Any) -> Function:
    """Applies the body of a scan without carry to all rows."""
    constants, _ = _jax.scan_operands(eqn.params)
    body = _jax.function_of(eqn.params["jaxpr"])

    def function(*operands: Any) -> Any:
        rows = operands[constants:]
        return jax.vmap(lambda *row: body(*operands[:constants], *row))(*rows)

    return function


EXPANSIONS: dict[str, Expand] = {"map": _map}
