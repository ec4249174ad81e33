"""Says what to do if the function needs the value of an array while it is traced."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from jax2onnx._python.objects import INSTALLED, PACKAGE

# What to do instead, by the error of JAX.
_INSTEAD: dict[type[Exception], str] = {
    jax.errors.TracerBoolConversionError: (
        "the model cannot choose between lines of Python by a value: use jnp.where or "
        "jax.lax.cond instead of `if`; pass `size=` to functions such as jnp.compress"
    ),
    jax.errors.NonConcreteBooleanIndexError: (
        "the shape of a result cannot depend on values: use jnp.where(mask, x, 0), or "
        "jnp.nonzero with `size=`"
    ),
    jax.errors.TracerIntegerConversionError: (
        "Python cannot count to a number that is known only when the model runs: use "
        "jax.lax.fori_loop, or pass a Python number"
    ),
    jax.errors.TracerArrayConversionError: (
        "NumPy cannot compute with values that are known only when the model runs: use jax.numpy"
    ),
    jax.errors.ConcretizationTypeError: (
        "the shape of a result cannot depend on values: compute the largest one that can occur "
        "and mask the rest (jnp.arange(10) < n), or pass `size=` to functions that have it"
    ),
}


_SLICE = (
    "the shape of a result cannot depend on values: use jax.lax.dynamic_slice with a fixed size, "
    "or mask the rest (jnp.where(jnp.arange(x.shape[0]) < n, x, 0))"
)

# The same for what JAX and Python raise as plain errors, by a part of the message.
_PLAIN: dict[str, str] = {
    "Shapes must be 1D sequences of concrete values": _INSTEAD[jax.errors.ConcretizationTypeError],
    "Slice entries must be static integers": _SLICE,
    "Array slice indices must have static start/stop/step": _SLICE,
    "was not hashable": (
        "this argument decides what is computed, so it has to be a Python number, not one that is "
        "known only when the model runs"
    ),
}


@contextmanager
def explained() -> Iterator[None]:
    """Adds a note to errors about values that are known only when the model runs: the line of the
    user's program, and what to do instead.
    """
    try:
        yield
    except Exception as error:
        advice = _advice(error)
        if advice is not None:
            error.add_note(f"\n{_place(error)}  help: {advice}")
        raise


def _advice(error: Exception) -> str | None:
    for kind, advice in _INSTEAD.items():
        if isinstance(error, kind):
            return advice
    # A traced value in the message is what tells them from other errors.
    message = str(error)
    if isinstance(error, TypeError | IndexError) and "Tracer" in message:
        return next((advice for part, advice in _PLAIN.items() if part in message), None)
    return None


def _place(error: Exception) -> str:
    """The last line of the user's program on the way to the error, with an excerpt."""
    found = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((PACKAGE, *INSTALLED, "<"))
    ]
    if not found:
        return ""
    frame = found[-1]
    excerpt = f"\n    {frame.line}" if frame.line else ""
    return f"  --> {frame.filename}:{frame.lineno} in {frame.name}{excerpt}\n"
