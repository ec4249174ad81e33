"""Notes for errors of tracing: about values that are needed before the model runs, and about
indices that are floats.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from jax2onnx._python.notebooks import name_of_file
from jax2onnx._python.objects import is_users

# Advice by the type of JAX's error.
_INSTEAD: dict[type[Exception], str] = {
    jax.errors.TracerBoolConversionError: (
        "Python cannot branch on a value that is known only when the model runs: use jnp.where or "
        "jax.lax.cond instead of `if`; pass `size=` to functions such as jnp.compress"
    ),
    jax.errors.NonConcreteBooleanIndexError: (
        "the shape of a result cannot depend on values: use jnp.where(mask, x, 0), or "
        "jnp.nonzero with `size=`"
    ),
    jax.errors.TracerIntegerConversionError: (
        "Python cannot use an integer that is known only when the model runs: use "
        "jax.lax.fori_loop instead of range; a number that never changes is not an input, so bind "
        "it with functools.partial"
    ),
    jax.errors.TracerArrayConversionError: (
        "NumPy cannot compute with values that are known only when the model runs: use jax.numpy"
    ),
    jax.errors.ConcretizationTypeError: (
        "the shape of a result cannot depend on values: compute the largest possible shape "
        "and mask the rest (jnp.arange(10) < n), or pass `size=` to functions that have it; a "
        "number that never changes is not an input, so bind it with functools.partial"
    ),
}


_NUMBER = (
    "Python has no number for a value that is known only when the model runs: keep it as an array "
    "(x[0] instead of float(x[0]), x.astype(jnp.int32) instead of int(x))"
)

# A quotient of symbolic sizes is an array, and JAX's message has the operation.
_DIVIDED = " = div "
_SIZE = "; divide sizes by // (x.shape[0] // 2 instead of int(x.shape[0] / 2))"

# Parts of messages about conversions to Python's numbers.
_CONVERSIONS = ("The problem arose with the `", "item() method", "tolist() method")

_SLICE = (
    "the shape of a result cannot depend on values: use jax.lax.dynamic_slice with a fixed size, "
    "or mask the rest (jnp.where(jnp.arange(x.shape[0]) < n, x, 0))"
)

_STATIC = (
    "this argument has to be a Python number or another static value, so it cannot be an input: "
    "bind it with functools.partial"
)

# Advice for plain errors of JAX and Python, by a part of the message.
_PLAIN: dict[str, str] = {
    "Shapes must be 1D sequences of concrete values": _INSTEAD[jax.errors.ConcretizationTypeError],
    "Slice entries must be static integers": _SLICE,
    "Array slice indices must have static start/stop/step": _SLICE,
    "was not hashable": _STATIC,
    "Non-hashable static arguments": _STATIC,
}

# Parts of JAX's and Flax's messages about indices that are no integers.
_FLOAT_INDICES = ("Indexer must have integer", "Input type must be an integer")

_INTEGERS = (
    "an input that is used as an index has to be an integer, but a shape alone means float32: "
    'pass jax.ShapeDtypeStruct(shape, "int32") or an array of integers'
)


_RESULTS = "return arrays, or a dict, list, tuple or other pytree of arrays"


@contextmanager
def explained() -> Iterator[None]:
    """Adds a note with the line of the user's program, and advice."""
    try:
        yield
    except Exception as error:
        advice = _advice(error)
        if advice is not None:
            error.add_note(f"\n{_place(error)}  help: {advice}")
        raise


def _advice(error: Exception) -> str | None:
    is_general = type(error) is jax.errors.ConcretizationTypeError
    if is_general and any(part in str(error) for part in _CONVERSIONS):
        return _NUMBER + (_SIZE if _DIVIDED in str(error) else "")
    for kind, advice in _INSTEAD.items():
        if isinstance(error, kind):
            return advice
    message = str(error)
    if any(part in message for part in _FLOAT_INDICES):
        return _INTEGERS
    if isinstance(error, TypeError) and "returned a value of type" in message:
        return _RESULTS
    # The name of a tracer in the message distinguishes them from other errors.
    if isinstance(error, TypeError | IndexError | ValueError) and "Tracer" in message:
        return next((advice for part, advice in _PLAIN.items() if part in message), None)
    return None


def _place(error: Exception) -> str:
    """Returns the innermost line of the user's program in the traceback, with an excerpt."""
    found = [
        frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)
    ]
    if not found:
        return ""
    frame = found[-1]
    excerpt = f"\n    {frame.line}" if frame.line else ""
    return f"  --> {name_of_file(frame.filename)}:{frame.lineno} in {frame.name}{excerpt}\n"
