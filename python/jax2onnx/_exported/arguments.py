"""Conversions between the arguments and results of a function and the tensors of its model."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jax2onnx import _jax
from jax2onnx.errors import wrong_arguments


def structure_text(tree: Any) -> str:
    """Returns the text of a structure of positional and keyword arguments."""
    positional, keyword = jax.tree_util.tree_unflatten(tree, ["*"] * tree.num_leaves)
    named = [f"{name}={value}" for name, value in keyword.items()]
    return f"({', '.join([*map(str, positional), *named])})".replace("'*'", "*")


def shape_text(shape: Sequence[Any]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def as_argument(name: str, value: Any, spec: Any) -> Any:
    """Converts an argument of the function to an array that the model takes. Numbers get the type
    of the input, and arrays may become narrower, as in JAX, but not another kind of number.
    """
    if isinstance(value, jax.core.Tracer):
        raise wrong_arguments(
            f"the argument `{name}` is traced by JAX, but the model runs in onnxruntime",
            "call the model outside of jax.jit, jax.grad and other transformations",
        )
    if isinstance(value, jax.Array):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "biufcV":
        raise wrong_arguments(f"the argument `{name}` cannot be {value!r}", "pass an array")
    # JAX gives a number of Python the type of the other operand, unless its kind is larger.
    is_float = jax.numpy.issubdtype(spec.dtype, np.inexact)
    is_number = isinstance(value, bool | int) or (isinstance(value, float) and is_float)
    if not is_number and array.dtype != spec.dtype:
        kinds: Any = (np.bool_, np.integer, np.floating, np.complexfloating)
        if not any(
            jax.numpy.issubdtype(array.dtype, kind) and jax.numpy.issubdtype(spec.dtype, kind)
            for kind in kinds
        ):
            raise wrong_arguments(
                f"the argument `{name}` is {array.dtype}, but the model takes {spec.dtype}",
                f"convert it: x.astype({str(spec.dtype)!r})",
            )
    if jax.numpy.issubdtype(spec.dtype, np.integer) and array.size:
        info: Any = jax.numpy.iinfo
        bounds = info(spec.dtype)
        if array.min() < bounds.min or array.max() > bounds.max:
            raise wrong_arguments(
                f"the argument `{name}` has values that {spec.dtype} cannot hold: "
                f"{array.min()} to {array.max()}",
                "export with x64=True to compute with 64 bits"
                if bounds.bits == 32
                else f"pass numbers from {bounds.min} to {bounds.max}",
            )
    return jax.numpy.asarray(array, dtype=spec.dtype)


def as_result(array: np.ndarray, spec: Any) -> Any:
    """Converts an output of the model to a result of the function."""
    if jax.numpy.issubdtype(spec.dtype, jax.dtypes.prng_key):
        implementation = _jax.key_implementation(spec.dtype).name
        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=implementation)
    if jax.numpy.issubdtype(spec.dtype, np.complexfloating):
        return (array[..., 0] + 1j * array[..., 1]).astype(spec.dtype)
    return array
