"""Everything of JAX that is touched outside its documented API, for all supported versions.

The compiled half has a list of its own for what it reads of a jaxpr.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.experimental

from jax2onnx._walk import cells


def precision(*, double: bool) -> AbstractContextManager[Any]:
    """Turns 64-bit types on for the current thread, or leaves them as they are."""
    if not double:
        return nullcontext()
    namespace: Any = jax if hasattr(jax, "enable_x64") else jax.experimental  # before JAX 0.8
    context: AbstractContextManager[Any] = namespace.enable_x64(True)
    return context


def tracing_key(key: str) -> AbstractContextManager[Any]:
    """Sets apart what is traced inside: nothing is taken from JAX's tracing caches that was not
    traced under the same key.

    XLA metadata belongs to the cache key of traced functions and does not change the jaxpr. A
    context made by `jax.make_user_context` would serve too, but making one forgets every function
    that the process has compiled so far.
    """
    from jax.experimental.xla_metadata import set_xla_metadata

    context: AbstractContextManager[Any] = set_xla_metadata(jax2onnx=key)
    return context


def traceback() -> object:
    """The current call stack as jaxlib's `Traceback`."""
    from jax.extend import source_info_util

    return source_info_util.current().traceback


def is_symbolic(dim: Any) -> bool:
    """Whether `dim` is a symbolic dimension."""
    from jax import export

    return export.is_symbolic_dim(dim)


def symbolic_scope(dim: Any) -> Any:
    """The `jax.export.SymbolicScope` that a symbolic dimension belongs to."""
    return dim.scope


def opens_scope(function: object) -> bool:
    """Whether `function` was decorated with `jax.named_scope`."""
    return any(isinstance(value, _NAMED_SCOPE) for _, value in cells(function))


_NAMED_SCOPE = type(jax.named_scope(""))


def key_implementation(dtype: Any) -> Any:
    """What an element type of PRNG keys consists of: `key_shape`, `seed`, `split`, `random_bits`,
    `fold_in` and `name`.
    """
    return dtype._impl


def function_of(jaxpr: Any, consts: Any = ()) -> Any:
    """A jaxpr as a function, which returns a list."""
    from jax.extend import core

    closed = jaxpr if hasattr(jaxpr, "consts") else core.ClosedJaxpr(jaxpr, consts)
    return core.jaxpr_as_fun(closed)


def open_jaxpr(jaxpr: Any) -> Any:
    """A jaxpr without its constants."""
    return getattr(jaxpr, "jaxpr", jaxpr)
