"""Functions that are mapped over a mesh with a single device.

Every axis of such a mesh has size one, so collectives change at most the shape of their operand.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from jax2onnx import _jax
from jax2onnx._tracing.primitives import BEYOND_MODELS, called_by

Results = list[Any]


def shard_map(eqn: Any) -> Callable[..., Results]:
    """Returns the function that runs on the only device."""
    if eqn.params["mesh"].size != 1:
        raise NotImplementedError("it runs on several devices")
    return lambda *operands: _evaluate(eqn.params["jaxpr"], (), operands)


def _evaluate(jaxpr: Any, consts: Any, operands: Any) -> Results:
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *operands], strict=True))
    for eqn in jaxpr.eqns:
        inputs = [_read(values, atom) for atom in eqn.invars]
        with _jax.as_if_in(eqn):
            values.update(zip(eqn.outvars, _results(eqn, inputs), strict=True))
    return [_read(values, atom) for atom in jaxpr.outvars]


def _read(values: dict[Any, Any], atom: Any) -> Any:
    return atom.val if _jax.is_literal(atom) else values[atom]


def _results(eqn: Any, operands: Results) -> Results:
    if (collective := _collective(eqn.primitive)) is not None:
        return collective(eqn, operands)
    if (called := called_by(eqn)) is not None:
        return _evaluate(_jax.open_jaxpr(called), getattr(called, "consts", ()), operands)
    if any(_collective(inner.primitive) for inner in _jax.equations_inside(eqn)):
        raise NotImplementedError(f"its `{eqn.primitive.name}` contains a collective")
    return _jax.bind(eqn, operands)


def _collective(primitive: Any) -> Callable[[Any, Results], Results] | None:
    return _ALONE.get(BEYOND_MODELS.get(primitive.name, ""))


def _reshaped(eqn: Any, operands: Results) -> Results:
    """Adds or removes an axis of size one."""
    return [x.reshape(var.aval.shape) for x, var in zip(operands, eqn.outvars, strict=True)]


def _permuted(eqn: Any, operands: Results) -> Results:
    """Returns zeros if no device sends anything."""
    return operands if eqn.params["perm"] else [jnp.zeros_like(x) for x in operands]


# The collectives on a single device, by their names in the table of primitives.
_ALONE: dict[str, Callable[[Any, Results], Results]] = {
    "permuted": _permuted,
    "reshaped": _reshaped,
    "same": lambda _, operands: operands,
    "zero": lambda eqn, _: [jnp.zeros((), eqn.outvars[0].aval.dtype)],
}
