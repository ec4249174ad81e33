"""Compares the description of a decoder with the sizes in its traced function."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jax2onnx import _jax
from jax2onnx._generation.decoder_cache import invalid
from jax2onnx._tracing.training import line_of

if TYPE_CHECKING:
    from jax2onnx._generation.description import Description

# Equations whose results are still positions, if an operand is. An index of JAX that may be
# negative passes through some of them.
_STILL_POSITIONS = frozenset(
    ("add", "broadcast_in_dim", "convert_element_type", "reshape", "select_n", "squeeze", "sub")
)


@dataclass
class Observations:
    """The sizes of a decoder, each with a line where it was seen.

    Attributes:
        heads: The number of heads in each product of queries and keys. Products in a loop count
            once per iteration.
        scores: The number of heads in all these products together.
        widths: The widths of embeddings and of the values that logits are computed from.
        positions: The lengths of tables that are indexed by positions.
    """

    heads: dict[int, str] = field(default_factory=dict)
    scores: int = 0
    widths: dict[int, str] = field(default_factory=dict)
    positions: dict[int, str] = field(default_factory=dict)

    def check(self, about: "Description") -> None:
        if self.heads and self.scores != about.heads * about.layers:
            count, line = next(iter(self.heads.items()))
            # Heads may be computed one by one.
            if self.scores % about.layers == 0:
                count = self.scores // about.layers
            if about.heads not in self.heads:
                raise _contradicted("heads", about.heads, f"queries have {count} heads", line)
        if self.widths and about.hidden_size not in (None, *self.widths):
            count, line = next(iter(self.widths.items()))
            what = f"the model has a width of {count}"
            raise _contradicted("hidden_size", about.hidden_size, what, line)
        for count, line in self.positions.items():
            if count < about.context_length:
                what = f"there are {count} rows for positions"
                raise _contradicted("context_length", about.context_length, what, line)

    def hidden_size(self, about: "Description") -> int:
        """Returns the width of the model: as described or seen, or that of all heads."""
        default = about.heads * about.head_size
        seen = default if default in self.widths else next(iter(self.widths), default)
        return about.hidden_size or seen


def _contradicted(name: str, value: Any, what: str, line: str) -> Exception:
    return invalid(
        f"`{name}` is {value}, but {what}" + (f" ({line})" if line else ""),
        "describe the decoder as the function computes it",
    )


def observe(
    jaxpr: Any,
    inputs: Sequence[str],
    about: "Description",
    *,
    batch: Any,
    sequence: Any,
    lengths: Iterable[Any],
) -> Observations:
    """Returns the sizes that a traced decoder reveals. `lengths` are possible numbers of keys."""
    found = Observations()
    closed = _jax.open_jaxpr(jaxpr)
    positions = {v for v, name in zip(closed.invars, inputs, strict=True) if name == "position_ids"}
    keys = tuple(lengths)
    # Without such an input, positions count the tokens from the length of the past.
    counted = None if positions else sequence
    for chain, count, is_position in _equations(closed, positions, counted, 1, ()):
        eqn = chain[0]
        if eqn.primitive.name == "dot_general":
            heads = _heads(eqn, about.head_size, batch, sequence, keys)
            if heads is not None:
                found.scores += heads * count
                found.heads.setdefault(heads, line_of(chain))
            elif (width := _width(eqn, about.vocabulary, batch)) is not None:
                found.widths.setdefault(width, line_of(chain))
        elif eqn.primitive.name == "gather" and len(eqn.invars[0].aval.shape) == 2:
            rows, width = eqn.invars[0].aval.shape
            if is_position:
                found.positions.setdefault(rows, line_of(chain))
            elif rows == about.vocabulary and eqn.outvars[0].aval.shape[-1] == width:
                found.widths.setdefault(width, line_of(chain))
    return found


def _equations(
    jaxpr: Any, positions: set[Any], counted: Any, count: int, callers: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], int, bool]]:
    """Yields every equation with those that enclose it, the number of its executions, and `True` if
    its last operand holds positions, or counts up to the size `counted`. Loops without a fixed
    number of iterations count once.
    """
    positions = set(positions)
    for eqn in jaxpr.eqns:
        # Literals are not hashable.
        holds = [not _jax.is_literal(v) and v in positions for v in eqn.invars]
        chain = (eqn, *callers)
        yield chain, count, holds[-1] if holds else False
        # `jnp.arange` multiplies by its step.
        is_count = eqn.primitive.name == "iota" or (eqn.primitive.name == "mul" and any(holds))
        counts = is_count and eqn.outvars[0].aval.shape == (counted,)
        if counts or (eqn.primitive.name in _STILL_POSITIONS and any(holds)):
            positions.update(eqn.outvars)
        for body in map(_jax.open_jaxpr, _jax.bodies_of(eqn)):
            is_call = len(body.invars) == len(eqn.invars)
            inside = {v for v, is_one in zip(body.invars, holds, strict=False) if is_one}
            times = eqn.params["length"] if eqn.primitive.name == "scan" else 1
            known = inside if is_call else set()
            yield from _equations(body, known, counted, count * times, chain)
            if is_call and eqn.primitive.name != "scan" and inside:
                # The results of a call that normalises an index.
                kept = _results(body, inside)
                positions.update(v for v, is_one in zip(eqn.outvars, kept, strict=True) if is_one)


def _results(jaxpr: Any, positions: set[Any]) -> list[bool]:
    """Returns `True` for each result that holds positions."""
    for eqn in jaxpr.eqns:
        operands = [v for v in eqn.invars if not _jax.is_literal(v)]
        if eqn.primitive.name in _STILL_POSITIONS and positions.intersection(operands):
            positions.update(eqn.outvars)
    return [not _jax.is_literal(v) and v in positions for v in jaxpr.outvars]


def _heads(eqn: Any, head_size: int, batch: Any, sequence: Any, lengths: Sequence[Any]) -> Any:
    """Returns the number of heads if an equation multiplies queries by keys."""
    left = eqn.invars[0].aval.shape
    (contracted, _), (common, _) = eqn.params["dimension_numbers"]
    if math.prod(left[axis] for axis in contracted) != head_size:
        return None
    # Weights have no axis for the batch.
    if not any(_is(left[axis], batch) for axis in common):
        return None
    rest = Counter(eqn.outvars[0].aval.shape)
    for length in lengths:
        wanted = Counter([length, batch, sequence])
        if not wanted - rest:
            heads = math.prod((rest - wanted).elements())
            return None if _jax.is_symbolic(heads) else heads
    return None


def _width(eqn: Any, vocabulary: int, batch: Any) -> int | None:
    """Returns the width of the values that logits are computed from."""
    left, right = (v.aval.shape for v in eqn.invars)
    (contracted, _), (common, _) = eqn.params["dimension_numbers"]
    result = eqn.outvars[0].aval.shape
    has_weight = not common and min(len(left), len(right)) == 2 and len(contracted) == 1
    if not has_weight or vocabulary not in result or batch not in result:
        return None
    width = left[contracted[0]]
    return None if _jax.is_symbolic(width) else width


def _is(one: Any, other: Any) -> bool:
    return _jax.is_symbolic(one) == _jax.is_symbolic(other) and bool(one == other)
