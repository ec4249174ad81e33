"""Notes for JAX's errors about symbolic dimensions, with the inputs and possible constraints."""

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from jax2onnx import _jax
from jax2onnx._tracing.names import boundary_names, paths_of

# The positions of dimensions in messages: in quotes, in shapes, at the end.
_PLACES = re.compile(r"'[^']*'|\([^()]*\)|: .*$")
_NAME = re.compile(r"[^\W\d]\w*")
_COMPARISON = re.compile(r"comparison '(.+)' (>=|<=|>|<) '(.+)' is inconclusive")
_REMAINDER = re.compile(r"The remainder (.+) should be 0")


@contextmanager
def explained(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[None]:
    """Adds a note to errors that mention symbolic dimensions of the arguments."""
    try:
        yield
    except Exception as error:
        note = _note(error, _axes(signature, args, kwargs))
        if note:
            error.add_note(note)
        raise


def _axes(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, list[str]]:
    """Returns the axes of inputs that each dimension variable occurs in."""
    names, _ = boundary_names(
        signature, paths_of((args, kwargs)), [], input_names=None, output_names=None
    )
    axes: dict[str, list[str]] = {}
    for name, leaf in zip(names, jax.tree_util.tree_leaves((args, kwargs)), strict=True):
        for axis, dim in enumerate(leaf.shape):
            if _jax.is_symbolic(dim):
                for variable in dict.fromkeys(_NAME.findall(str(dim))):
                    axes.setdefault(variable, []).append(f"axis {axis} of the input `{name}`")
    return axes


def _note(error: Exception, axes: dict[str, list[str]]) -> str | None:
    message = str(error).partition("\n")[0]
    mentioned = {name for text in _PLACES.findall(message) for name in _NAME.findall(text)}
    # Python's own messages mention only the type.
    found = [name for name in axes if name in mentioned or "_DimExpr" in mentioned]
    if not found:
        return None
    lines = [f"`{name}` is {' and '.join(axes[name][:3])}" for name in found]
    constraints = _constraints(message)
    if constraints or "inconclusive" in message:
        advice = "use a number instead, or add a constraint with jax.export.symbolic_shape"
        if constraints:
            advice += ": " + " or ".join(f"`{text}`" for text in constraints)
    else:
        advice = (
            "use a number instead in `inputs`, or the same name for sizes that are always equal"
            if len(found) > 1
            else "use a number instead in `inputs`"
        )
    return "\n".join(["", *lines, f"  help: {advice}"])


def _constraints(message: str) -> tuple[str, ...]:
    """Returns constraints that would decide the comparison in a message of JAX."""
    if compared := _COMPARISON.search(message):
        return _answers(*compared.groups())
    if divided := _REMAINDER.search(message):
        return (f"{divided[1]} == 0",)
    return ()


def _answers(left: str, sign: str, right: str) -> tuple[str, str]:
    """Returns the constraints that make a comparison true, and false."""
    more = f"{left} >= {_next(right, +1) if sign in ('>', '<=') else right}"
    less = f"{left} <= {right if sign in ('>', '<=') else _next(right, -1)}"
    return (more, less) if sign in (">", ">=") else (less, more)


def _next(size: str, step: int) -> str:
    if size.lstrip("-").isdigit():
        return str(int(size) + step)
    return f"{size} {'+' if step > 0 else '-'} 1"
