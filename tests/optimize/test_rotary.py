"""Rotary embeddings in common forms: one node, and the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness.checking import assert_close, op_types, run
from harness.provenance_of import CALLSITE, JAX_TRACEBACK, of_type
from jax2onnx import onnx_function, to_onnx

BATCH, LENGTH, HEADS, FEATURES = 2, 6, 3, 16


def angles(positions, features=FEATURES):
    return positions[..., None] / 10000 ** (jnp.arange(0, features, 2) / features)


def tables(positions, features=FEATURES):
    """Returns cosines and sines, with an axis for heads."""
    a = angles(positions, features)[..., None, :]
    return jnp.cos(a), jnp.sin(a)


def doubled(positions, features=FEATURES):
    a = angles(positions, features)
    a = jnp.concatenate([a, a], -1)[..., None, :]
    return jnp.cos(a), jnp.sin(a)


def turned(a, b, cos, sin, x):
    """Rotates in the type of `x`."""
    cos, sin = cos.astype(x.dtype), sin.astype(x.dtype)
    return a * cos - b * sin, b * cos + a * sin


def halves(x, positions):
    return jnp.concatenate(turned(*jnp.split(x, 2, -1), *tables(positions), x), -1)


def slices(x, positions):
    n = x.shape[-1] // 2
    return jnp.concatenate(turned(x[..., :n], x[..., n:], *tables(positions), x), -1)


def rotate_half(x):
    n = x.shape[-1] // 2
    return jnp.concatenate([-x[..., n:], x[..., :n]], -1)


def rotated_halves(x, positions):
    cos, sin = (table.astype(x.dtype) for table in doubled(positions))
    return (x * cos) + (rotate_half(x) * sin)


def neighbours(x, positions):
    pair = turned(x[..., ::2], x[..., 1::2], *tables(positions), x)
    return jnp.stack(pair, -1).reshape(x.shape)


def pairs(x, positions):
    y = x.reshape(*x.shape[:-1], FEATURES // 2, 2)
    pair = turned(y[..., 0], y[..., 1], *tables(positions), x)
    return jnp.stack(pair, -1).reshape(x.shape)


def rotate_every_two(x):
    return jnp.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)


def rotated_neighbours(x, positions):
    cos, sin = (table.repeat(2, -1).astype(x.dtype) for table in tables(positions))
    return x * cos + rotate_every_two(x) * sin


def partly(x, positions):
    n = FEATURES // 2
    first, second = jnp.split(x[..., :n], 2, -1)
    return jnp.concatenate([*turned(first, second, *tables(positions, n), x), x[..., n:]], -1)


def partly_nested(x, positions):
    n = FEATURES // 2
    first, second = jnp.split(x[..., :n], 2, -1)
    front = jnp.concatenate(turned(first, second, *tables(positions, n), x), -1)
    return jnp.concatenate([front, x[..., n:]], -1)


def partly_rotated_halves(x, positions):
    n = FEATURES // 2
    cos, sin = (table.astype(x.dtype) for table in doubled(positions, n))
    front = x[..., :n]
    return jnp.concatenate([front * cos + rotate_half(front) * sin, x[..., n:]], -1)


def partly_rotated_neighbours(x, positions):
    n = FEATURES // 2
    cos, sin = (table.repeat(2, -1).astype(x.dtype) for table in tables(positions, n))
    front = x[..., :n]
    return jnp.concatenate([front * cos + rotate_every_two(front) * sin, x[..., n:]], -1)


def partly_neighbours(x, positions):
    n = FEATURES // 2
    front = x[..., :n]
    pair = turned(front[..., ::2], front[..., 1::2], *tables(positions, n), x)
    return jnp.concatenate([jnp.stack(pair, -1).reshape(front.shape), x[..., n:]], -1)


def looked_up(x, positions):
    """Reads from a precomputed table."""
    a = np.arange(64)[:, None] / 10000 ** (np.arange(FEATURES // 2) / (FEATURES // 2))
    table = jnp.asarray(np.concatenate([np.sin(a), np.cos(a)], -1), np.float32)
    sin, cos = jnp.split(table[positions][..., None, :], 2, -1)
    return jnp.concatenate(turned(*jnp.split(x, 2, -1), cos, sin, x), -1)


SPELLINGS = {
    fn.__name__: fn
    for fn in (
        halves,
        slices,
        rotated_halves,
        neighbours,
        pairs,
        rotated_neighbours,
        partly,
        partly_nested,
        partly_rotated_halves,
        partly_rotated_neighbours,
        partly_neighbours,
        looked_up,
    )
}


def operands(dtype=np.float32, batch=BATCH, length=LENGTH):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch, length, HEADS, FEATURES)).astype(dtype)
    return x, rng.integers(0, 40, (batch, length)).astype(np.int32)


def check(fn, *args, inputs=None, **options):
    model = to_onnx(fn, list(args) if inputs is None else inputs, **options)
    assert_close(run(model, args), jax.tree_util.tree_leaves(fn(*args)))
    return op_types(model)


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings(name):
    fn, args = SPELLINGS[name], operands()
    ops = check(fn, *args)
    assert ops.count("RotaryEmbedding") == 1
    assert not {"Expand", "Neg", "Slice", "Sub"} & set(ops)
    assert "RotaryEmbedding" not in check(fn, *args, operators="elementary")


@pytest.mark.parametrize("name", SPELLINGS)
def test_half_precision(name):
    assert "RotaryEmbedding" in check(SPELLINGS[name], *operands(np.float16))


@pytest.mark.parametrize("name", SPELLINGS)
def test_bfloat16(name):
    fn, (x, positions) = SPELLINGS[name], operands()

    def small(x, p):
        return jnp.tanh(fn(jnp.tanh(x.astype(jnp.bfloat16)), p)).astype(jnp.float32)

    model = to_onnx(small, [x, positions])
    assert "RotaryEmbedding" in op_types(model)
    expected = small(x, positions)
    np.testing.assert_allclose(run(model, [x, positions])[0], expected, rtol=2e-2, atol=4e-2)


@pytest.mark.parametrize("name", SPELLINGS)
def test_symbolic_sizes(name):
    fn = SPELLINGS[name]
    inputs = [("B", "T", HEADS, FEATURES), ("B", "T")]
    model = to_onnx(lambda x, p: fn(x, p.astype(jnp.int32)), inputs)
    assert "RotaryEmbedding" in op_types(model)
    for batch, length in [(2, 6), (1, 1), (3, 5)]:
        x, positions = operands(batch=batch, length=length)
        expected = fn(x, positions)
        assert_close(run(model, [x, positions.astype(np.float32)]), [expected])


@pytest.mark.parametrize("batch", [1, 2, "B"])
@pytest.mark.parametrize("length", [6, "T"])
@pytest.mark.parametrize("heads_first", [False, True])
def test_positions_that_are_counted(batch, length, heads_first):
    """All examples share a table."""

    def fn(x):
        if heads_first:
            cos, sin = tables(jnp.arange(x.shape[2]))
            cos, sin = cos[:, 0], sin[:, 0]
        else:
            cos, sin = tables(jnp.arange(x.shape[1]))
        return jnp.concatenate(turned(*jnp.split(x, 2, -1), cos, sin, x), -1)

    shape = (batch, HEADS, length) if heads_first else (batch, length, HEADS)
    model = to_onnx(fn, [(*shape, FEATURES)])
    assert op_types(model).count("RotaryEmbedding") == 1
    sizes = {"B": 3, "T": 5}
    x = np.random.default_rng(0).normal(size=[sizes.get(n, n) for n in shape] + [FEATURES])
    x = x.astype(np.float32)
    assert_close(run(model, [x]), [fn(x)])


@pytest.mark.parametrize(
    ("shape", "positions"),
    [
        ((LENGTH, FEATURES), (LENGTH, 1)),
        ((LENGTH, HEADS, FEATURES), (LENGTH, 1, 1)),
        ((HEADS, LENGTH, FEATURES), (LENGTH, 1)),
        ((2, 1, HEADS, FEATURES), (1, 1, 1)),
        ((2, 1, HEADS, FEATURES), (2, 1, 1, 1)),
        ((2, HEADS, 1, FEATURES), (1, 1)),
        ((HEADS, FEATURES), (1,)),
        ((2, 3, LENGTH, HEADS, FEATURES), (2, 3, LENGTH, 1, 1)),
        ((2, 3, HEADS, LENGTH, FEATURES), (2, 3, 1, LENGTH, 1)),
        ((2, 3, HEADS, LENGTH, FEATURES), (LENGTH, 1)),
        ((2, 3, LENGTH, HEADS, FEATURES), (LENGTH, 1, 1)),
    ],
)
def test_where_positions_are(shape, positions):
    rng = np.random.default_rng(0)
    frequencies = np.linspace(0.1, 1, FEATURES // 2).astype(np.float32)

    def fn(x, p):
        a = p * frequencies
        return jnp.concatenate(turned(*jnp.split(x, 2, -1), jnp.cos(a), jnp.sin(a), x), -1)

    x, p = rng.normal(size=shape), rng.uniform(0, 9, positions)
    assert "RotaryEmbedding" in check(fn, x.astype(np.float32), p.astype(np.float32))


@pytest.mark.parametrize("positions", [(HEADS, 1), (BATCH, 1, HEADS, 1), (1, FEATURES // 2)])
def test_angles_of_heads(positions):
    """Each head has its own angles, or there are fewer angles than pairs."""
    frequencies = np.linspace(0.1, 1, FEATURES // 2).astype(np.float32)

    def fn(x, p):
        a = p * frequencies
        return jnp.concatenate(turned(*jnp.split(x, 2, -1), jnp.cos(a), jnp.sin(a), x), -1)

    p = np.random.default_rng(1).uniform(0, 9, positions).astype(np.float32)
    check(fn, operands()[0], p)


def test_different_angles_in_a_pair():
    def fn(x, cos, sin):
        return x * cos + rotate_half(x) * sin

    x, _ = operands()
    cos, sin = np.random.default_rng(0).normal(size=(2, LENGTH, 1, FEATURES)).astype(np.float32)
    assert "RotaryEmbedding" not in check(fn, x, cos, sin)


@pytest.mark.parametrize("change", [0, 1])
def test_constant_angles(change):
    """Constants are inspected. Parameters are not, because they may change."""

    def made():
        half = np.random.default_rng(0).normal(size=(2, LENGTH, 1, FEATURES // 2))
        cos, sin = np.concatenate([half, half], -1).astype(np.float32)
        cos[2, 0, 1] += change
        return cos, sin

    def fn(x, tables=None):
        cos, sin = tables or made()
        return x * cos + rotate_half(x) * sin

    x, _ = operands()
    assert ("RotaryEmbedding" in check(fn, x)) == (change == 0)
    tables = made()
    assert "RotaryEmbedding" not in check(lambda x: fn(x, tables), x)


def test_the_other_direction():
    """The opposite direction changes the sign of the sine, not the operator."""

    def fn(x, p):
        cos, sin = tables(p)
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate([a * cos + b * sin, b * cos - a * sin], -1)

    check(fn, *operands())


def test_mixed_precision():
    """Computed in float32 and rounded at the end."""

    def fn(x, p):
        return halves(x.astype(jnp.float32), p).astype(x.dtype)

    x, p = operands(np.float16)
    assert "RotaryEmbedding" in check(fn, x, p)


def test_half_of_it_is_used_elsewhere():
    def fn(x, p):
        cos, sin = tables(p)
        a, b = turned(*jnp.split(x, 2, -1), cos, sin, x)
        return jnp.concatenate([a, b], -1), a

    assert "RotaryEmbedding" not in check(fn, *operands())


def test_in_a_loop():
    """A loop of independent iterations is one application of its body, with an additional axis."""
    x, p = operands()
    xs = np.stack([x, x + 1])

    def independent(xs, p):
        return jax.lax.scan(lambda c, x: (c, halves(x, p)), 0, xs)[1]

    def carried(xs, p):
        return jax.lax.scan(lambda c, x: (halves(c + x, p), c), xs[0], xs)

    assert "RotaryEmbedding" in check(independent, xs, p)
    model = to_onnx(carried, [xs, p])
    assert_close(run(model, [xs, p]), jax.tree_util.tree_leaves(carried(xs, p)))
    assert of_type(model, "RotaryEmbedding")
    assert "RotaryEmbedding" not in op_types(model)


def test_in_a_function():
    @onnx_function
    def rotary(x, p):
        return halves(x, p)

    model = to_onnx(lambda x, p: rotary(x, p) + 1, list(operands()))
    assert "RotaryEmbedding" in [node.op_type for f in model.functions for node in f.node]
    assert_close(run(model, operands()), [halves(*operands()) + 1])


def test_an_older_opset_has_none():
    assert "RotaryEmbedding" not in check(halves, *operands(), opset=22)


def test_layers_share_their_tables():
    """Values that do not depend on the layer are computed once."""

    def fn(x, p):
        for _ in range(3):
            x = rotated_halves(x, p) + 1
        return x

    ops = check(fn, *operands())
    assert ops.count("RotaryEmbedding") == 3
    assert ops.count("Cos") == ops.count("Sin") == 1
    assert "Concat" not in ops


def test_lines():
    """The node has all lines that it represents; the first one computes its result."""

    def fn(x, cos, sin):
        a, b = jnp.split(x, 2, -1)
        first = a * cos - b * sin
        second = b * cos + a * sin
        return jnp.concatenate([first, second], -1)

    x, p = operands()
    cos, sin = (np.asarray(table) for table in tables(p))
    model = to_onnx(fn, [x, cos, sin], stacktrace_metadata="full")
    (node,) = of_type(model, "RotaryEmbedding")
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    start = fn.__code__.co_firstlineno
    assert metadata[CALLSITE].endswith(f":{start + 4}")
    for line in range(start + 1, start + 4):
        assert f":{line}" in metadata[JAX_TRACEBACK]


def test_an_island_in_bfloat16_keeps_its_rounding():
    """Everything else computes in float32: each step is rounded as the program states."""
    angles = np.arange(6)[:, None] / 100 ** (np.arange(4) / 4)

    def fn(x):
        cos, sin = (jnp.asarray(f(angles)[:, None], jnp.bfloat16) for f in (np.cos, np.sin))
        a, b = jnp.split(x.astype(jnp.bfloat16), 2, -1)
        turned = jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
        return turned.astype(jnp.float32)

    x = np.random.default_rng(0).normal(size=(2, 6, 3, 8)).astype(np.float32)
    for operators in ("auto", "native"):
        model = to_onnx(fn, [x], operators=operators)
        np.testing.assert_array_equal(run(model, [x])[0], np.asarray(fn(x)))
