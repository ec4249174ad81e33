"""Notes for JAX's errors about symbolic dimensions, with the inputs and possible constraints."""

import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import jax

from jax2onnx import _frameworks, _jax
from jax2onnx._tracing.names import boundary_names, paths_of

# The positions of dimensions in messages: in quotes, in shapes, at the end.
_PLACES = re.compile(r"'[^']*'|\([^()]*\)|: .*$")
_SHAPE = re.compile(r"\([^()]*\)")
_NAME = re.compile(r"[^\W\d]\w*")
_ALIKE = re.compile("incompatible|same|differ")  # of shapes that have to be equal
_COMPARISON = re.compile(r"comparison '(.+)' (>=|<=|>|<) '(.+)' is inconclusive")
# The divisor is negative if JAX computes a size that is given as -1.
_MULTIPLE = re.compile(r"mod\(([^\W\d]\w*), (?:- ?)?(\d+)\) == 0")
_REMAINDER = re.compile(r"The remainder (.+) should be 0")


@contextmanager
def explained(
    fn: Any, signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[None]:
    """Adds a note to errors that mention symbolic dimensions of the arguments, or that a model for
    single examples raises.
    """
    try:
        yield
    except Exception as error:
        advice = _frameworks.advice_on_arguments(fn, args)
        if advice and isinstance(error, TypeError | ValueError):
            error.add_note(f"\n  help: {advice}")
            raise
        shapes = _shapes(signature, args, kwargs)
        if "lhs feature dimension" in str(error) and any(len(shape) == 4 for _, shape in shapes):
            error.add_note(
                "\n  help: convolutions of JAX's frameworks take NHWC: write that shape, with "
                'layout="nchw" in jax2onnx.Input if the model should take NCHW'
            )
            raise
        # A batch norm needs the size to average over the batch, which is not the fault.
        if any("in training mode" in note for note in getattr(error, "__notes__", ())):
            raise
        note = _note(error, _axes(shapes), shapes)
        if note:
            error.add_note(note)
        raise


def _shapes(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[str, tuple[Any, ...]]]:
    """Returns the names and shapes of the inputs."""
    names, _ = boundary_names(
        signature, paths_of((args, kwargs)), [], input_names=None, output_names=None
    )
    leaves = jax.tree_util.tree_leaves((args, kwargs))
    return [(name, tuple(leaf.shape)) for name, leaf in zip(names, leaves, strict=True)]


def _axes(shapes: Sequence[tuple[str, tuple[Any, ...]]]) -> dict[str, list[str]]:
    """Returns the axes of inputs that each dimension variable occurs in."""
    axes: dict[str, list[str]] = {}
    for name, shape in shapes:
        for axis, dim in enumerate(shape):
            if _jax.is_symbolic(dim):
                for variable in dict.fromkeys(_NAME.findall(str(dim))):
                    axes.setdefault(variable, []).append(f"axis {axis} of the input `{name}`")
    return axes


def _fixed_partner(
    message: str, found: Sequence[str], shapes: Sequence[tuple[str, tuple[Any, ...]]]
) -> str | None:
    """Returns advice for a name that an operand has where the one beside it has a number, which may
    come from an input.
    """
    operands = [text.strip("()").rstrip(",").split(", ") for text in _SHAPE.findall(message)]
    for one, other in pairwise(operands):
        if len(one) != len(other):
            continue
        for a, b in (*zip(one, other, strict=True), *zip(other, one, strict=True)):
            if a in found and b.isdigit():
                axes = [
                    f"axis {axis} of the input `{name}`"
                    for name, shape in shapes
                    if a not in _NAME.findall(str(shape))
                    for axis, dim in enumerate(shape)
                    if str(dim) == b and not _jax.is_symbolic(dim)
                ]
                if axes:
                    return (
                        f"{' and '.join(axes[:2])} is {b}, beside `{a}`; write the same name there "
                        "if the two sizes are always equal, or a number in both inputs"
                    )
                if _ALIKE.search(message):
                    return f"write {b} instead of `{a}`"
    return None


def _note(
    error: Exception,
    axes: dict[str, list[str]],
    shapes: Sequence[tuple[str, tuple[Any, ...]]],
) -> str | None:
    message = str(error).partition("\n")[0]
    mentioned = {name for text in _PLACES.findall(message) for name in _NAME.findall(text)}
    # Python's own messages mention only the type.
    found = [name for name in axes if name in mentioned or "_DimExpr" in mentioned]
    if not found or "scalar-output" in message:  # of jax.grad
        return None
    lines = [f"`{name}` is {' and '.join(axes[name][:3])}" for name in found]
    constraints = _constraints(message)
    if constraints or "inconclusive" in message:
        advice = "write a number instead, or add a constraint with jax.export.symbolic_shape"
        if multiple := _MULTIPLE.fullmatch("".join(constraints)):
            advice = f"write `{multiple[2]}*{multiple[1]}`, which is always divisible, or a number"
        elif constraints:
            advice += ": " + " or ".join(f"`{text}`" for text in constraints)
    elif fixed := _fixed_partner(message, found, shapes):
        advice = fixed
    elif len(found) > 1:
        advice = "write the same name for sizes that are always equal, or numbers"
    elif message.startswith("float() argument"):
        advice = "omit `float`: JAX computes with sizes (x / x.shape[0])"
        return "\n".join(["", *lines, f"  help: {advice}"])
    else:
        advice = f"write a number instead of `{found[0]}`"
        if message.endswith("cannot be interpreted as an integer"):  # by range, above all
            advice += " (in a loop: jax.lax.fori_loop instead of range)"
    if not constraints and "inconclusive" not in message:
        needs_integer = "_DimExpr" in message or "requires a constant" in message
        if needs_integer and (line := _map_of_rows(found, shapes)):
            advice += (
                f". If rows of `{found[0]}` do not depend on each other, export a map over batches "
                f"of one:\n    {line}"
            )
    return "\n".join(["", *lines, f"  help: {advice}"])


def _map_of_rows(found: Sequence[str], shapes: Sequence[tuple[str, tuple[Any, ...]]]) -> str | None:
    """Returns a function that maps the exported one over batches of one, so that code which needs
    an integer sees the size 1. Returns None unless one name is the size of first axes alone.
    """
    names = [name for name, _ in shapes]
    if len(found) != 1 or not all(name.isidentifier() for name in names):
        return None
    rows = [name for name, shape in shapes if shape and str(shape[0]) == found[0]]
    others = (str(dim) for name, shape in shapes for dim in shape[name in rows :])
    if not rows or any(found[0] in _NAME.findall(dim) for dim in others):
        return None
    given = ", ".join(f"{name}[None]" if name in rows else name for name in names)
    one = f"jax.tree.map(lambda out: out[0], fn({given}))"
    rows_text = ", ".join(rows)
    return f"lambda {', '.join(names)}: jax.vmap(lambda {rows_text}: {one})({rows_text})"


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
