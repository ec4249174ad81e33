"""Expands equations into others, by letting JAX trace them.

What JAX can say with primitives that are lowered already needs no rule of its own: reductions by
any function, loops whose rounds can be computed at once, functions that are primitives, and
everything that has to do with PRNG keys. The compiled half decides which equations are expanded,
and how; here is what the ways of expanding do.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax2onnx import _jax
from jax2onnx._expansion import keys, maps, one_device, reductions
from jax2onnx._expansion.keys import Expand, Function
from jax2onnx._frameworks.equinox import reports_error
from jax2onnx._tracing.primitives import BEYOND_MODELS


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
    spec = keys.as_it_is if how in _TAKES_KEYS else keys.integers
    try:
        with _jax.without_mesh():
            return jax.make_jaxpr(WAYS[how](eqn))(*map(spec, avals))
    except NotImplementedError:
        if how in _OPTIONAL:
            return None
        raise


def _hi_primitive(eqn: Any) -> Function:
    return lambda *operands: eqn.primitive.to_lojax(*operands, **eqn.params)


def _scaled_product(eqn: Any) -> Function:
    """What `jax.nn.scaled_matmul` computes: JAX has kernels of accelerators only."""

    def scaled(x: Any, scale: Any) -> Any:
        block = x.shape[-1] // scale.shape[-1]
        return x.astype(jnp.float32) * jnp.repeat(scale.astype(jnp.float32), block, axis=-1)

    def function(a: Any, b: Any, a_scale: Any, b_scale: Any) -> Any:
        product = jnp.einsum("bmk,bnk->bmn", scaled(a, a_scale), scaled(b, b_scale))
        return [product.astype(eqn.params["preferred_element_type"])]

    return function


def _implementation(eqn: Any) -> Function:
    """What a primitive of another library does, by an implementation that JAX can trace."""

    def function(*operands: Any) -> Any:
        for implementation in _jax.implementations(eqn.primitive):
            if (traced := _traced(implementation, eqn, operands)) is not None:
                return _jax.function_of(traced)(*operands)
        raise NotImplementedError("it has no implementation that can be traced")

    needs = BEYOND_MODELS.get(eqn.primitive.name)
    if needs == "devices":
        return one_device.shard_map(eqn)
    if needs == "python" and not eqn.effects and reports_error(_jax.callback_of(eqn)):
        return lambda *_: [_nothing(var.aval) for var in eqn.outvars]
    if eqn.effects or needs == "python":
        raise NotImplementedError("it has effects")
    return function


def _nothing(aval: Any) -> Any:
    """What a program computes with after an error that a model cannot report."""
    inexact = jnp.issubdtype(aval.dtype, np.inexact)
    return jnp.full(aval.shape, np.nan if inexact else 0, aval.dtype)


def _traced(implementation: Function, eqn: Any, operands: Any) -> Any:
    """The jaxpr of an implementation; None if it has none, or one that is the equation again."""
    try:
        traced = jax.make_jaxpr(lambda *x: implementation(*x, **eqn.params))(*operands)
    except Exception:  # whatever the code of another library raises
        return None
    found = [(aval.shape, aval.dtype) for aval in traced.out_avals]
    wanted = [(var.aval.shape, var.aval.dtype) for var in eqn.outvars]
    again = any(_is_again(eqn, inner) for inner in _jax.equations_in(traced.jaxpr))
    return traced if found == wanted and not again else None


def _is_again(eqn: Any, inner: Any) -> bool:
    """Whether an equation does what another one does: a smaller case of it is something else."""
    if inner.primitive is not eqn.primitive:
        return False
    one, other = ([v.aval for v in e.invars] for e in (eqn, inner))
    try:
        return one == other and bool(eqn.params == inner.params)
    except Exception:  # parameters of other libraries need not be comparable
        return True


# The ways of expanding, by the names that the compiled half has for them.
WAYS: dict[str, Expand] = {
    "hi-primitive": _hi_primitive,
    "implementation": _implementation,
    "scaled-product": _scaled_product,
    **keys.WAYS,
    **maps.WAYS,
    **reductions.WAYS,
}

# Those that take keys as keys.
_TAKES_KEYS = frozenset({"hi-primitive", "implementation", "key-gamma"})

# Those that an equation can do without: JAX cannot apply one of its primitives to many rows, or the
# primitive will be reported with all others that are unknown.
_OPTIONAL = frozenset({"implementation", "map"})
