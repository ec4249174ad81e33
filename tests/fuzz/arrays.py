"""Random numbers of every element type."""

import jax.numpy as jnp
import numpy as np

SIGNED = ["int8", "int16", "int32"]
UNSIGNED = ["uint8", "uint16", "uint32"]
SMALL_FLOATS = ["float16", "bfloat16"]


def dtype(name: str) -> np.dtype:
    return np.dtype(getattr(jnp, "bool_" if name == "bool" else name))


def is_float(dtype: np.dtype) -> bool:
    """Returns `True` for real floating-point types."""
    return jnp.issubdtype(dtype, jnp.floating)


def is_integer(dtype: np.dtype) -> bool:
    return dtype.kind in "iu"


def is_complex(dtype: np.dtype) -> bool:
    return dtype.kind == "c"


def is_inexact(dtype: np.dtype) -> bool:
    return is_float(dtype) or is_complex(dtype)


def numbers(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, *, wild: bool
) -> np.ndarray:
    """Draws an array of ordinary numbers; `wild` adds infinities, NaN and the ends of the range."""
    if dtype.kind == "b":
        return rng.random(shape) < rng.choice([0.2, 0.5, 0.8])
    if is_integer(dtype):
        return _integers(rng, shape, dtype, wild)
    if is_complex(dtype):
        part = np.dtype(f"float{dtype.itemsize * 4}")
        # Implementations disagree about infinite complex numbers.
        real, imag = (_floats(rng, shape, part, False) for _ in range(2))
        return (real + 1j * imag).astype(dtype)
    return _floats(rng, shape, dtype, wild)


def _integers(rng, shape, dtype, wild):
    limits = np.iinfo(dtype)
    if wild or rng.random() < 0.2:
        found = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        ends = rng.choice(np.array([limits.min, limits.max, 0, 1, limits.max - 1], dtype), shape)
        return np.asarray(np.where(rng.random(shape) < 0.3, ends, found), dtype)
    low = 0 if limits.min == 0 else -9
    return np.asarray(rng.integers(low, 10, shape), dtype)


def _floats(rng, shape, dtype, wild):
    style = rng.choice(["normal", "whole", "large"], p=[0.6, 0.3, 0.1])
    if style == "whole":
        found = rng.integers(-6, 7, shape).astype(dtype)
    else:
        scale = 30 if style == "large" else 1.5
        # Quantised, so that equal numbers and halves occur.
        found = (np.round(rng.normal(size=shape) * scale * 64) / 64).astype(dtype)
    if wild:
        limits = jnp.finfo(dtype)
        some = [np.nan, np.inf, -np.inf, -0.0, 0.0, limits.max, limits.min, limits.tiny, 1e4, -3e4]
        special = rng.choice(np.array(some, dtype), shape)
        found = np.where(rng.random(shape) < 0.3, special, found)
    return np.asarray(found, dtype)
