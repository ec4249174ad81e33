"""BERT in several frameworks: three embeddings, layers with a mask, a pooler."""

from typing import Any

import jax
import jax.numpy as jnp

WIDTH, HEADS, INNER, WORDS, LENGTH, LAYERS = 64, 4, 128, 100, 32, 2


def linen() -> Any:
    from flax import linen as nn

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
            x = nn.LayerNorm()(x + nn.MultiHeadDotProductAttention(HEADS)(x, x, mask=mask))
            inner = nn.gelu(nn.Dense(INNER)(x), approximate=False)
            return nn.LayerNorm()(x + nn.Dense(WIDTH)(inner))

    class Bert(nn.Module):
        @nn.compact
        def __call__(self, ids: jax.Array, types: jax.Array, mask: jax.Array) -> Any:
            positions = jnp.arange(ids.shape[1])[None]
            x = nn.Embed(WORDS, WIDTH)(ids) + nn.Embed(LENGTH, WIDTH)(positions)
            x = nn.LayerNorm()(x + nn.Embed(2, WIDTH)(types))
            for _ in range(LAYERS):
                x = Layer()(x, mask[:, None, None, :] > 0)
            return x, jnp.tanh(nn.Dense(WIDTH)(x[:, 0]))

    model = Bert()
    example = jnp.ones((1, 5), jnp.int32)
    variables = model.init(jax.random.key(0), example, example, example)
    return lambda ids, types, mask: model.apply(variables, ids, types, mask)


def nnx() -> Any:
    from flax import nnx

    rngs = nnx.Rngs(0)

    class Layer(nnx.Module):
        def __init__(self) -> None:
            self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, rngs=rngs, decode=False)
            self.up = nnx.Linear(WIDTH, INNER, rngs=rngs)
            self.down = nnx.Linear(INNER, WIDTH, rngs=rngs)
            self.norms = nnx.List([nnx.LayerNorm(WIDTH, rngs=rngs) for _ in range(2)])

        def __call__(self, x: jax.Array, mask: jax.Array) -> Any:
            x = self.norms[0](x + self.attention(x, mask=mask))
            return self.norms[1](x + self.down(nnx.gelu(self.up(x), approximate=False)))

    class Bert(nnx.Module):
        def __init__(self) -> None:
            sizes = (WORDS, LENGTH, 2)
            self.embed = nnx.List([nnx.Embed(size, WIDTH, rngs=rngs) for size in sizes])
            self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
            self.layers = nnx.List([Layer() for _ in range(LAYERS)])
            self.pool = nnx.Linear(WIDTH, WIDTH, rngs=rngs)

        def __call__(self, ids: jax.Array, types: jax.Array, mask: jax.Array) -> Any:
            words, positions, kinds = self.embed
            x = self.norm(words(ids) + kinds(types) + positions(jnp.arange(ids.shape[1])))
            for layer in self.layers:
                x = layer(x, mask[:, None, None, :].astype(bool))
            return x, jnp.tanh(self.pool(x[:, 0]))

    return Bert()


def equinox() -> Any:
    import equinox as eqx

    keys = iter(jax.random.split(jax.random.key(0), 20))
    biases = {f"use_{name}_bias": True for name in ("query", "key", "value", "output")}
    tables = [eqx.nn.Embedding(size, WIDTH, key=next(keys)) for size in (WORDS, LENGTH, 2)]
    norm = jax.vmap(eqx.nn.LayerNorm(WIDTH))
    layers = [
        (
            eqx.nn.MultiheadAttention(HEADS, WIDTH, **biases, key=next(keys)),  # type: ignore[arg-type]
            eqx.nn.Linear(WIDTH, INNER, key=next(keys)),
            eqx.nn.Linear(INNER, WIDTH, key=next(keys)),
        )
        for _ in range(LAYERS)
    ]
    pool = eqx.nn.Linear(WIDTH, WIDTH, key=next(keys))

    def bert(ids: jax.Array, types: jax.Array, mask: jax.Array) -> Any:
        length = ids.shape[0]
        words, positions, kinds = (jax.vmap(table) for table in tables)
        x = norm(words(ids) + positions(jnp.arange(length)) + kinds(types))
        shown = jnp.broadcast_to((mask > 0)[None, :], (length, length))
        for attention, up, down in layers:
            x = norm(x + attention(x, x, x, mask=shown))
            x = norm(x + jax.vmap(down)(jax.nn.gelu(jax.vmap(up)(x), approximate=False)))
        return x, jnp.tanh(pool(x[0]))

    return jax.vmap(bert)


def haiku() -> Any:
    import haiku as hk

    def bert(ids: jax.Array, types: jax.Array, mask: jax.Array) -> Any:
        def norm(x: jax.Array) -> jax.Array:
            return hk.LayerNorm(-1, create_scale=True, create_offset=True)(x)

        positions = hk.Embed(LENGTH, WIDTH)(jnp.arange(ids.shape[1]))
        x = norm(hk.Embed(WORDS, WIDTH)(ids) + positions + hk.Embed(2, WIDTH)(types))
        for _ in range(LAYERS):
            init = hk.initializers.VarianceScaling()
            attention = hk.MultiHeadAttention(HEADS, WIDTH // HEADS, w_init=init)
            x = norm(x + attention(x, x, x, mask=mask[:, None, None, :] > 0))
            inner = jax.nn.gelu(hk.Linear(INNER)(x), approximate=False)
            x = norm(x + hk.Linear(WIDTH)(inner))
        return x, jnp.tanh(hk.Linear(WIDTH)(x[:, 0]))

    transformed = hk.without_apply_rng(hk.transform(bert))
    example = jnp.ones((1, 5), jnp.int32)
    parameters = transformed.init(jax.random.key(0), example, example, example)
    return lambda ids, types, mask: transformed.apply(parameters, ids, types, mask)
