"""Says what to do if the function needs the value of an array while it is traced."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax

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


@contextmanager
def explained() -> Iterator[None]:
    """Adds a note to errors about values that are known only when the model runs."""
    try:
        yield
    except tuple(_INSTEAD) as error:
        found = next(advice for kind, advice in _INSTEAD.items() if isinstance(error, kind))
        error.add_note(f"\n  help: {found}")
        raise
