"""Attention and dense layers as graphs: products read their operands in place."""

from collections import Counter

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx

from harness.checking import assert_close, check_model, check_sizes, op_types, run
from jax2onnx import to_onnx

MOVEMENTS = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Expand", "Shape", "Concat")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def movements(model: onnx.ModelProto) -> dict[str, int]:
    counted = Counter(op_types(model))
    return {op: counted[op] for op in MOVEMENTS if counted[op]}


def heads(batch, length, groups=8, seed=0):
    return [
        numbers(batch, length, 8, 16, seed=seed),
        numbers(batch, length, groups, 16, seed=seed + 1),
        numbers(batch, length, groups, 16, seed=seed + 2),
    ]


def attention(**options):
    return lambda q, k, v, *rest: jax.nn.dot_product_attention(
        q, k, v, **options, **dict(zip(("mask",), rest, strict=False))
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_scores_do_not_move(causal, batch):
    model = check_model(attention(is_causal=causal), heads(batch, 12))
    assert movements(model) == {"Transpose": 4}
    assert op_types(model).count("MatMul") == 2
    assert "GreaterOrEqual" not in op_types(model)  # the mask is a constant


@pytest.mark.slow
def test_scores_of_any_length_do_not_move():
    specs = [("B", "T", 8, 16)] * 3
    check_sizes(attention(), specs, heads(2, 5), heads(1, 1), heads(3, 9))
    model = to_onnx(attention(), specs)
    assert movements(model) == {"Transpose": 4}
    check_sizes(attention(is_causal=True), specs, heads(2, 5), heads(1, 1), heads(3, 9))


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups_of_queries_are_a_batch(groups):
    model = check_model(attention(is_causal=True), heads(2, 12, groups))
    one = groups == 1  # keys and values of a single head need no transpose
    assert movements(model) == {"Transpose": 3 if one else 4, "Reshape": 1 if one else 2}
    specs = [("B", "T", 8, 16), ("B", "T", groups, 16), ("B", "T", groups, 16)]
    check_sizes(attention(is_causal=True), specs, heads(2, 5, groups), heads(1, 1, groups))


def test_one_query_and_a_cache():
    q, k, v = numbers(2, 1, 8, 16), numbers(2, 12, 2, 16, seed=1), numbers(2, 12, 2, 16, seed=2)
    mask = np.arange(12)[None, None, None] < 7
    check_model(attention(), [q, k, v, mask])


@pytest.mark.parametrize("shape", [(2, 1, 12, 12), (1, 1, 12, 12), (2, 8, 12, 12), (1, 1, 1, 12)])
def test_masks(shape):
    mask = np.random.default_rng(3).random(shape) < 0.7
    mask[..., 0] = True
    model = check_model(attention(), [*heads(2, 12), mask])
    assert movements(model) == {"Transpose": 4}
    bias = numbers(*shape, seed=4)

    def added(q, k, v, bias):
        return jax.nn.dot_product_attention(q, k, v, bias=bias)

    model = check_model(added, [*heads(2, 12), bias])
    assert movements(model) == {"Transpose": 4}


def test_numbers_that_are_none_stay_where_they_are():
    q, k, v = heads(1, 6)
    q[0, 2, 1, 3], k[0, 4, 2, 0], v[0, 1, 3, 5] = np.nan, np.inf, -np.inf
    check_model(attention(is_causal=True), [q, k, v])
    mask = np.tril(np.ones((6, 6), bool))[None, None]
    mask[0, 0, 3] = False  # a query without visible keys
    check_model(attention(), [q, k, v, mask])


@pytest.mark.slow
def test_einsum_spellings():
    def scaled(q, k, v):
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / 4
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, -1), v)

    def split(x, w):
        batch, length, width = x.shape
        q, k, v = jnp.split((x @ w).reshape(batch, length, 24, 8).transpose(0, 2, 1, 3), 3, axis=1)
        scores = jnp.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(8)
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        out = jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(scores, -1), v)
        return out.transpose(0, 2, 1, 3).reshape(batch, length, width)

    model = check_model(scaled, heads(2, 12))
    assert movements(model) == {"Transpose": 4}
    check_model(split, [numbers(2, 6, 64), numbers(64, 192, seed=1)])


def test_nnx_attention():
    module = nnx.MultiHeadAttention(4, 32, decode=False, rngs=nnx.Rngs(0))
    model = check_model(lambda x: module(x), [numbers(2, 6, 32)])
    assert movements(model) == {"Transpose": 4, "Reshape": 4}
    assert {tuple(p.dims) for p in model.graph.initializer if "kernel" in p.name} == {(32, 32)}
    model = to_onnx(lambda x: module(x), [("B", "T", 32)])
    assert movements(model) == {"Transpose": 4, "Reshape": 4}
    check_sizes(lambda x: module(x), [("B", "T", 32)], [numbers(2, 6, 32)], [numbers(1, 1, 32)])


@pytest.mark.slow
def test_linen_attention():
    module = nn.MultiHeadDotProductAttention(num_heads=4)
    params = module.init(jax.random.key(0), jnp.zeros((1, 6, 32)))
    mask = np.tril(np.ones((6, 6), bool))[None, None]

    def fn(x):
        return module.apply(params, x, mask=mask)

    model = check_model(fn, [numbers(2, 6, 32)])
    assert movements(model) == {"Transpose": 4, "Reshape": 4}


@pytest.mark.slow
def test_equinox_attention():
    module = eqx.nn.MultiheadAttention(4, 32, key=jax.random.key(0))
    fn = jax.vmap(lambda x: module(x, x, x, mask=jnp.tril(jnp.ones((6, 6), bool))))
    model = check_model(fn, [numbers(2, 6, 32)])
    params = {p.name for p in model.graph.initializer}
    moved = [n for n in model.graph.node if n.op_type == "Transpose" and n.input[0] not in params]
    assert len(moved) == 4
    assert op_types(model).count("Reshape") == 4


@pytest.mark.slow
def test_dense_layers():
    rngs = nnx.Rngs(0)
    dense, split = nnx.Linear(8, 6, rngs=rngs), nnx.LinearGeneral(8, (2, 3), rngs=rngs)
    joined = nnx.LinearGeneral((2, 4), 6, axis=(-2, -1), rngs=rngs)
    assert op_types(to_onnx(lambda x: dense(x), [("B", "T", 8)])) == ["MatMul", "Add"]
    assert op_types(to_onnx(lambda x: split(x), [("B", "T", 8)])) == ["MatMul", "Add", "Reshape"]
    assert op_types(to_onnx(lambda x: joined(x), [("B", "T", 2, 4)])) == [
        "Reshape",
        "MatMul",
        "Add",
    ]
    check_sizes(lambda x: split(x), [("B", "T", 8)], [numbers(2, 3, 8)], [numbers(1, 1, 8)])
    check_sizes(lambda x: joined(x), [("B", "T", 2, 4)], [numbers(2, 3, 2, 4)])
    linear = eqx.nn.Linear(8, 6, key=jax.random.key(0))
    for fn, shape in [(jax.vmap(linear), (3, 8)), (jax.vmap(jax.vmap(linear)), (2, 3, 8))]:
        model = check_model(fn, [numbers(*shape)])
        params = {p.name for p in model.graph.initializer}
        assert all(n.input[0] in params for n in model.graph.node if n.op_type == "Transpose")


def random_product(rng):
    """Returns an einsum of two small arrays, with axes split and merged around it."""
    sizes = {letter: int(rng.integers(1, 5)) for letter in "abcdefg"}
    shared, left, right = (
        "ab"[: rng.integers(0, 3)],
        "cd"[: rng.integers(0, 3)],
        "ef"[: rng.integers(0, 3)],
    )
    summed = "g" if rng.random() < 0.9 else ""

    def mix(letters):
        return "".join(rng.permutation(list(letters))) if letters else ""

    one, other = mix(shared + left + summed), mix(shared + right + summed)
    result = mix(shared + left + right)
    shapes = [tuple(sizes[letter] for letter in letters) for letters in (one, other)]

    def fn(x, y):
        out = jnp.einsum(f"{one},{other}->{result}", x.reshape(shapes[0]), y.reshape(shapes[1]))
        if out.ndim > 1 and rng_after < 0.5:
            out = (out * 2).reshape(out.shape[0], -1).T
        return out

    rng_after = rng.random()
    flat = [shape if rng.random() < 0.5 else (int(np.prod(shape)),) for shape in shapes]
    return fn, flat


@pytest.mark.parametrize("seed", range(60))
def test_any_product(seed):
    fn, shapes = random_product(np.random.default_rng(seed))
    args = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    model = to_onnx(fn, args)
    assert_close(run(model, args), [fn(*args)])
