"""Formats arrays in Python syntax."""

from typing import Any

import jax
import numpy as np

from jax2onnx import _jax
from jax2onnx._reducing.calls import dtype_text, number, text_of


def array_text(array: Any) -> str:
    """Formats an array in Python syntax."""
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        name = _jax.key_implementation(array.dtype).name
        return f"jax.random.wrap_key_data({array_text(jax.random.key_data(array))}, impl={name!r})"
    array = np.asarray(array)
    module = "np" if array.dtype.isbuiltin == 1 else "jnp"
    dtype = dtype_text(array.dtype).replace("jnp", module)
    flat = array.ravel()
    if array.size == 0:
        return f"np.zeros({text_of(array.shape)}, {dtype})"
    if array.ndim == 0:
        return f"np.array({element(flat[0])}, {dtype})"
    if (flat == flat[0]).all() and array.size > 1:
        return f"np.full({text_of(array.shape)}, {element(flat[0])}, {dtype})"
    count = np.arange(array.size)
    for start in (0, -(array.size // 2)):
        if array.size > 2 and array.dtype != bool and (flat == (count + start)).all():
            text = (
                f"np.arange({start}, {start + array.size})" if start else f"np.arange({array.size})"
            )
            shape = f".reshape({text_of(array.shape)})" if array.ndim > 1 else ""
            return f"{text}{shape}.astype({dtype})"
    return f"np.array({_nested(array)}, {dtype})"


def _nested(array: np.ndarray) -> str:
    return f"[{', '.join(map(_nested, array))}]" if array.ndim else element(array[()])


def element(value: Any) -> str:
    """Formats an element, with as few digits as identify it in its own type."""
    if value.dtype.kind in "biuc":
        return number(value.item()).replace("jnp.", "np.")
    shown = float(str(value)) if value.dtype.isbuiltin == 1 else float(value)
    return number(shown).replace("jnp.", "np.")
