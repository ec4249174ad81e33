"""The operands of programs: their types, and values to run them with."""

import functools
import gc
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.extend.core import Primitive

Programs = dict[str, tuple[Any, ...]]
"""By name: a function and its operands. An operand is a type, or an array if its numbers matter."""


@dataclass(frozen=True)
class Key:
    """A PRNG key; not every version of JAX has every implementation."""

    implementation: str = "threefry2x32"


def spec(dtype: Any, *shape: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


f32 = functools.partial(spec, jnp.float32)
f64 = functools.partial(spec, jnp.float64)
bf16 = functools.partial(spec, jnp.bfloat16)
c64 = functools.partial(spec, jnp.complex64)
i32 = functools.partial(spec, jnp.int32)
u32 = functools.partial(spec, jnp.uint32)
u8 = functools.partial(spec, jnp.uint8)
i8 = functools.partial(spec, jnp.int8)
boolean = functools.partial(spec, jnp.bool_)


def symbolic(shape: str, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return spec(dtype, *export.symbolic_shape(shape))


X, V, Z, N, B = f32(2, 3), f32(4), c64(2, 3), i32(2, 3), boolean(2, 3)
BATCH = symbolic("b, 3")


@functools.cache
def primitives() -> dict[str, Any]:
    """Returns the primitives of this version of JAX, from all modules."""
    return {found.name: found for found in gc.get_objects() if isinstance(found, Primitive)}


def bind(name: str, **params: Any) -> Callable[..., Any]:
    return lambda *operands: primitives()[name].bind(*operands, **params)


def of_lax(name: str, **params: Any) -> Callable[..., Any]:
    """Returns a function of `jax.lax`, which some versions of JAX lack."""
    return lambda *operands: getattr(lax, name)(*operands, **params)


def type_of(operand: Any) -> jax.ShapeDtypeStruct:
    if isinstance(operand, Key):
        return spec(jax.random.key(0, impl=operand.implementation).dtype)
    return spec(operand.dtype, *operand.shape)


def numbers(name: str, operands: tuple[Any, ...]) -> list[Any]:
    """Returns reproducible operands to run a program with."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    return [_numbers(random, operand) for operand in operands]


SYMBOLIC_SIZE = 4


def _numbers(random: np.random.Generator, operand: Any) -> Any:
    if isinstance(operand, Key):
        return jax.random.key(17, impl=operand.implementation)
    if not isinstance(operand, jax.ShapeDtypeStruct):
        return operand
    shape = tuple(size if isinstance(size, int) else SYMBOLIC_SIZE for size in operand.shape)
    dtype = np.dtype(operand.dtype)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    if jnp.issubdtype(dtype, jnp.integer):
        least = 0 if jnp.issubdtype(dtype, jnp.unsignedinteger) else -4
        return random.integers(least, 8, shape).astype(dtype)
    drawn = random.uniform(-2, 2, shape)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        drawn = drawn + 1j * random.uniform(-2, 2, shape)
    return drawn.astype(dtype)
