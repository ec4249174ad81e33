"""PRNG keys as the unsigned integers that they consist of.

ONNX has no element type for them: an array of keys is represented by the underlying integers, which
have one more axis. An equation that creates or reads keys is expanded by the keys' implementation,
which works on these integers. One that only moves keys is mapped over the additional axis.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jax2onnx import _jax

Function = Callable[..., Any]
Expand = Callable[[Any], Function]


def is_key(aval: Any) -> bool:
    """Returns `True` if an array consists of keys."""
    return jnp.issubdtype(aval.dtype, jax.dtypes.prng_key)


def as_it_is(aval: Any) -> jax.ShapeDtypeStruct:
    """Returns the type of an array, to trace with."""
    weak_type = bool(getattr(aval, "weak_type", False))
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=weak_type)


def integers(aval: Any) -> jax.ShapeDtypeStruct:
    """Returns the type of an array, with integers in place of keys."""
    if not is_key(aval):
        return as_it_is(aval)
    key_shape = _jax.key_implementation(aval.dtype).key_shape
    return jax.ShapeDtypeStruct((*aval.shape, *key_shape), jnp.uint32)


def mapped(function: Function, axes: int) -> Function:
    """Maps `function` over that many leading axes of all arguments."""
    for _ in range(axes):
        function = jax.vmap(function)
    return function


def _moved(eqn: Any) -> Function:
    """Applies the primitive to the integers of each key."""
    if not all(is_key(var.aval) for var in eqn.outvars):
        raise NotImplementedError("its result for PRNG keys is not a key")
    return _for_each_integer(eqn)


def _for_each_integer(eqn: Any) -> Function:
    """Maps the primitive of an equation over the axes of its keys' integers."""
    keys = [var.aval.dtype for var in (*eqn.invars, *eqn.outvars) if is_key(var.aval)]
    axes = tuple(-1 if is_key(var.aval) else None for var in eqn.invars)

    def function(*operands: Any) -> Any:
        return eqn.primitive.bind(*operands, **eqn.params)

    for _ in _jax.key_implementation(keys[0]).key_shape:
        function = jax.vmap(function, in_axes=axes, out_axes=-1)
    return function


def _seed(eqn: Any) -> Function:
    seeds = eqn.invars[0].aval
    return mapped(eqn.params["impl"].seed, len(seeds.shape))


def _of_key(call: Callable[[Any, Any, Any], Any]) -> Expand:
    """Applies a function of the keys' implementation, a key and the parameters to each key."""

    def expand(eqn: Any) -> Function:
        keys = eqn.invars[0].aval
        implementation = _jax.key_implementation(keys.dtype)
        return mapped(lambda key: call(implementation, key, eqn.params), len(keys.shape))

    return expand


def _fold_in(eqn: Any) -> Function:
    result = eqn.outvars[0].aval
    implementation = _jax.key_implementation(result.dtype)
    fold_in = mapped(implementation.fold_in, len(result.shape))

    def function(keys: Any, numbers: Any) -> Any:
        keys = jnp.broadcast_to(keys, (*result.shape, *implementation.key_shape))
        return fold_in(keys, jnp.broadcast_to(numbers, result.shape))

    return function


def _gamma(eqn: Any) -> Function:
    return lambda keys, alpha: eqn.primitive.impl(keys, alpha, use_vmap=True, **eqn.params)


def _compared(combine: Function) -> Expand:
    """Compares keys by their integers, and combines the results of each key."""

    def expand(eqn: Any) -> Function:
        compare = _for_each_integer(eqn)
        key_shape = _jax.key_implementation(eqn.invars[0].aval.dtype).key_shape
        axes = tuple(range(-len(key_shape), 0))
        return lambda *operands: combine(compare(*operands), axis=axes)

    return expand


EXPANSIONS: dict[str, Expand] = {
    "all-equal": _compared(jnp.all),
    "any-differs": _compared(jnp.any),
    "key-bits": _of_key(lambda impl, key, p: impl.random_bits(key, p["bit_width"], p["shape"])),
    "key-fold-in": _fold_in,
    "key-gamma": _gamma,
    "key-seed": _seed,
    "key-split": _of_key(lambda impl, key, p: impl.split(key, p["shape"])),
    "moved": _moved,
}
