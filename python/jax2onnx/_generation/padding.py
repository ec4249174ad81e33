"""Batches of prompts with padding after the shorter ones, as onnxruntime-genai passes them."""

from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jax2onnx._core import GraphListing
from jax2onnx._generation.decoder_cache import Storage

# The operator of onnxruntime that updates a shared buffer and attends to its used part.
GROUPED = "GroupQueryAttention"

# The argument of a decode function that is computed here: the index of each row's last token
# without padding.
LAST = "last_token"

# The argument that hides padding.
MASK = "attention_mask"

# The assumption that zeros of the mask are padding after prompts.
ASSUMPTION = "padded_prompts"

# Operators whose results are sizes, if the operands are.
_OF_SIZES = ("Add", "Cast", "Reshape", "Squeeze", "Sub", "Unsqueeze")


def counted(tokens: Sequence[Any], mask: jax.Array) -> dict[str, Any]:
    """Returns the positions of new tokens of this shape, and the index of each row's last token.

    A prompt has no past, and possibly padding at its end. A later token follows those of its row.
    """
    count = tokens[1]
    total = mask.sum(1, dtype=jnp.int32)
    past = jnp.maximum(total - count, 0)
    return {
        "position_ids": past[:, None] + jnp.arange(count, dtype=jnp.int32),
        LAST: mask[:, :count].sum(1, dtype=jnp.int32) - 1,
    }


def needs_equal_lengths(
    graph: GraphListing,
    storage: Storage,
    arguments: Collection[str],
    *,
    returns_last: bool,
    one_token: bool,
) -> str | None:
    """Returns the reason why prompts of a batch must have the same length, or None.

    `arguments` are those of the function. It returns the logits of all tokens or of the last one.
    """
    if storage is Storage.WINDOWED:
        return "layers keep only the tokens of their window"
    if one_token:
        return "the function takes one token at a time"
    if storage is not Storage.SHARED and MASK not in arguments:
        return f"the function has no argument `{MASK}`"
    readers = _readers_of_mask(graph)
    if all(op == "Shape" for op, _ in readers):
        return f"the function does not use `{MASK}`"
    if returns_last and not {LAST, MASK} & {*arguments}:
        return f"the logits are those of the last position; take an argument `{LAST}`"
    if storage is Storage.SHARED and _computes_with_length(graph, readers):
        return "positions are computed from shapes; take an argument `position_ids`"
    return None


def _readers_of_mask(graph: GraphListing) -> list[tuple[str, list[str]]]:
    """Returns the nodes that read the mask in any type: their operators and results."""
    readers, masks = [], [MASK]
    for name in masks:
        for op, results in graph.readers(name):
            if op == "Cast":
                masks += results
            else:
                readers.append((op, results))
    return readers


def _computes_with_length(
    graph: GraphListing, readers: Sequence[tuple[str, Sequence[str]]]
) -> bool:
    """Returns `True` if a node other than attention depends on the length of the mask."""
    shapes = [name for op, results in readers if op == "Shape" for name in results]
    # The first axis is the batch.
    sizes = [name for name in shapes if graph.integer(name, "end") != 1]
    for name in sizes:
        for op, results in graph.readers(name):
            if op in _OF_SIZES:
                sizes += results
            elif not op.endswith(GROUPED):
                return True
    return False
