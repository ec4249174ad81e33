"""Which experts of a mixture see which tokens."""

import jax


def gates(scores: jax.Array, chosen: int) -> jax.Array:
    """The weight of every expert for every token: zero but for the `chosen` best ones."""
    best, index = jax.lax.top_k(scores, chosen)
    weights = jax.nn.softmax(best)
    return (jax.nn.one_hot(index, scores.shape[-1]) * weights[..., None]).sum(axis=-2)
