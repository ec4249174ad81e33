"""Expands equations into others, by letting JAX trace them.

Equations that JAX can express with other primitives need no lowering rules: reductions by any
function, loops with independent iterations, functions that are primitives, and operations on PRNG
keys. The compiled half chooses the equations and their expansions, which are implemented here.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax2onnx import _jax
from jax2onnx._expansion import keys, one_device, reductions, stablehlo
from jax2onnx._expansion.keys import Expand, Function
from jax2onnx._frameworks.equinox import reports_error
from jax2onnx._tracing.primitives import BEYOND_MODELS


class Expansions:
    """Expands the equations of one program. Equal equations share their expansion."""

    def __init__(self) -> None:
        self._known: dict[object, Any] = {}

    def of(self, eqn: Any, how: str) -> Any:
        """Returns a closed jaxpr that computes the equation, or None if it cannot be expanded."""
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
    spec = keys.as_it_is if how in _TAKES_KEYS else keys.integers
    try:
        with _jax.without_mesh():
            return jax.make_jaxpr(EXPANSIONS[how](eqn))(*map(spec, avals))
    except NotImplementedError:
        if how in _OPTIONAL:
            return None
        raise


def _hi_primitive(eqn: Any) -> Function:
    return lambda *operands: eqn.primitive.to_lojax(*operands, **eqn.params)


def _map(eqn: Any) -> Function:
    """Applies the body of a scan without carry to all rows at once."""
    constants, _ = _jax.scan_operands(eqn.params)
    body = _jax.function_of(eqn.params["jaxpr"])

    def function(*operands: Any) -> Any:
        rows = operands[constants:]
        return jax.vmap(lambda *row: body(*operands[:constants], *row))(*rows)

    return function


def _scaled_product(eqn: Any) -> Function:
    """Expands `jax.nn.scaled_matmul`, which JAX implements only on accelerators."""

    def scaled(x: Any, scale: Any) -> Any:
        block = x.shape[-1] // scale.shape[-1]
        return x.astype(jnp.float32) * jnp.repeat(scale.astype(jnp.float32), block, axis=-1)

    def function(a: Any, b: Any, a_scale: Any, b_scale: Any) -> Any:
        product = jnp.einsum("bmk,bnk->bmn", scaled(a, a_scale), scaled(b, b_scale))
        return [product.astype(eqn.params["preferred_element_type"])]

    return function


def _implementation(eqn: Any) -> Function:
    """Expands a primitive of another library by an implementation that JAX can trace."""

    def function(*operands: Any) -> Any:
        for implementation in _jax.implementations(eqn.primitive):
            if (traced := _traced(implementation, eqn, operands)) is not None:
                return _jax.function_of(traced)(*operands)
        raise NotImplementedError("it has no implementation that can be traced")

    if eqn.primitive.name in _BY_NAME:
        return _BY_NAME[eqn.primitive.name](eqn)
    needs = BEYOND_MODELS.get(eqn.primitive.name)
    if needs == "devices":
        return one_device.shard_map(eqn)
    if needs == "python" and not eqn.effects and reports_error(_jax.callback_of(eqn)):
        return lambda *_: [_nothing(var.aval) for var in eqn.outvars]
    if eqn.effects or needs == "python":
        raise NotImplementedError("it has effects")
    return function


def _nothing(aval: Any) -> Any:
    """Returns the result that replaces an error, which a model cannot report."""
    inexact = jnp.issubdtype(aval.dtype, np.inexact)
    return jnp.full(aval.shape, np.nan if inexact else 0, aval.dtype)


def _traced(implementation: Function, eqn: Any, operands: Any) -> Any:
    """Returns the jaxpr of an implementation; None if it fails or contains the same equation."""
    try:
        traced = jax.make_jaxpr(lambda *x: implementation(*x, **eqn.params))(*operands)
    except Exception:  # whatever the code of another library raises
        return None
    found = [(aval.shape, aval.dtype) for aval in traced.out_avals]
    wanted = [(var.aval.shape, var.aval.dtype) for var in eqn.outvars]
    again = any(_is_again(eqn, inner) for inner in _jax.equations_in(traced.jaxpr))
    return traced if found == wanted and not again else None


def _is_again(eqn: Any, inner: Any) -> bool:
    """Returns `True` if two equations have the same primitive, operand types and parameters."""
    if inner.primitive is not eqn.primitive:
        return False
    one, other = ([v.aval for v in e.invars] for e in (eqn, inner))
    try:
        return one == other and bool(eqn.params == inner.params)
    except Exception:  # parameters of other libraries need not be comparable
        return True


# The expansions, by the names that the compiled half has for them.
EXPANSIONS: dict[str, Expand] = {
    "hi-primitive": _hi_primitive,
    "implementation": _implementation,
    "map": _map,
    "scaled-product": _scaled_product,
    **keys.EXPANSIONS,
    **reductions.EXPANSIONS,
}

# Primitives whose parameters hold a program that JAX can run in another way.
_BY_NAME: dict[str, Expand] = {
    "call_exported": lambda eqn: stablehlo.function_of(eqn.params["exported"]),
    "pallas_call": _jax.pallas_loops,
}

# Expansions that take PRNG keys rather than their integers.
_TAKES_KEYS = frozenset({"hi-primitive", "implementation", "key-gamma"})

# Expansions that may fail: a primitive without a batching rule stays in its loop, and an unknown
# primitive is reported with all others.
_OPTIONAL = frozenset({"implementation", "map"})
