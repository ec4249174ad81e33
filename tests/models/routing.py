"""Routing of tokens to the experts of a mixture."""

import jax


def gates(scores: jax.Array, chosen: int) -> jax.Array:
    """Returns the weight of every expert for every token: zero except for the best ones."""
    best, index = jax.lax.top_k(scores, chosen)
    weights = jax.nn.softmax(best)
    return (jax.nn.one_hot(index, scores.shape[-1]) * weights[..., None]).sum(axis=-2)
