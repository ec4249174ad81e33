"""`Attention` as one node, if requested: the same numbers, or a reason for the decomposition."""

import logging

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.checking import assert_close, op_types, run
from harness.provenance_of import CALLSITE, JAX_TRACEBACK, of_type
from jax2onnx import onnx_function, to_onnx

NATIVE = {"Attention": "native"}
BATCH, LENGTH, KEYS, HEADS, FEATURES = 2, 6, 9, 4, 8


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def heads(keys=LENGTH, groups=HEADS, dtype=np.float32, batch=BATCH, length=LENGTH):
    return (
        numbers(batch, length, HEADS, FEATURES, seed=1, dtype=dtype),
        numbers(batch, keys, groups, FEATURES, seed=2, dtype=dtype),
        numbers(batch, keys, groups, FEATURES, seed=3, dtype=dtype),
    )


def exported(fn, *args, **options):
    """Exports with native attention, checks the numbers and returns the operators."""
    model = to_onnx(fn, list(args), operators=NATIVE, **options)
    assert_close(run(model, args), jax.tree_util.tree_leaves(fn(*args)))
    return op_types(model)


def attention(**options):
    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **options)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_dot_product_attention(causal, groups, batch):
    args = heads(groups=groups, batch=batch)
    ops = exported(attention(is_causal=causal), *args)
    assert ops.count("Attention") == 1
    assert not {"MatMul", "Softmax", "Transpose", "Where"} & set(ops)
    assert "Attention" not in op_types(to_onnx(attention(is_causal=causal), list(args)))


def test_nothing_but_the_node():
    """Between dense layers, heads are only attributes."""
    wq, wk, wv, wo = (numbers(32, 32, seed=i) / 6 for i in range(4))

    def fn(x):
        q, k, v = ((x @ w).reshape(*x.shape[:-1], HEADS, FEATURES) for w in (wq, wk, wv))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return y.reshape(x.shape) @ wo

    assert exported(fn, numbers(2, 6, 32)) == [*["MatMul"] * 3, "Attention", "MatMul"]


@pytest.mark.parametrize("length", [1, 6])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_cross_attention(groups, length):
    args = heads(keys=KEYS, groups=groups, length=length)
    assert "Attention" in exported(attention(scale=0.3), *args)


def masked(given, fill):
    """Applies a mask or the result of a function; arrays from outside are parameters."""

    def fn(q, k, v):
        mask = given() if callable(given) else given
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(FEATURES)
        weights = jax.nn.softmax(jnp.where(mask, scores, fill), -1)
        return jnp.einsum("bhts,bshd->bthd", weights, v)

    return fn


def some(*shape):
    """Returns a mask that leaves something in each row."""
    mask = np.random.default_rng(0).uniform(size=shape) < 0.6
    mask[..., :1] = True
    return mask


@pytest.mark.parametrize("fill", [-1e9, -np.inf, float(jnp.finfo(jnp.float32).min)])
@pytest.mark.parametrize(
    "shape",
    [
        (LENGTH, KEYS),
        (BATCH, 1, LENGTH, KEYS),
        (1, HEADS, LENGTH, KEYS),
        (BATCH, HEADS, LENGTH, KEYS),
        (BATCH, 1, 1, KEYS),
        (1, KEYS),
    ],
)
def test_constant_masks(shape, fill):
    assert "Attention" in exported(masked(lambda: some(*shape), fill), *heads(keys=KEYS))


@pytest.mark.parametrize("keys", [LENGTH, KEYS])
def test_a_constant_triangle_is_an_attribute(keys):
    fn = masked(lambda: jnp.tri(LENGTH, keys, dtype=bool), -1e9)
    model = to_onnx(fn, list(heads(keys=keys)), operators=NATIVE)
    (node,) = of_type(model, "Attention")
    assert len(node.input) == 3
    assert {a.name: a.i for a in node.attribute}["is_causal"] == 1
    args = heads(keys=keys)
    assert_close(run(model, args), [fn(*args)])


@pytest.mark.parametrize("fill", [-1e9, float(jnp.finfo(jnp.float32).min)])
@pytest.mark.parametrize("shape", [(BATCH, 1, LENGTH, KEYS), (BATCH, 1, 1, KEYS), (KEYS,)])
def test_queries_that_see_nothing_get_a_mean(shape, fill):
    """A mask that is an input may hide all keys."""
    mask = some(*shape)
    mask.reshape(-1, KEYS)[0] = False

    def fn(q, k, v, mask):
        return masked(mask, fill)(q, k, v)

    assert "Attention" in exported(fn, *heads(keys=KEYS), mask)
    everything = np.zeros_like(mask)
    assert "Attention" in exported(fn, *heads(keys=KEYS), everything)
    if mask.any():
        assert "Attention" in exported(masked(lambda: mask & True, fill), *heads(keys=KEYS))


def reasons(caplog, fn, *args):
    with caplog.at_level(logging.INFO, "jax2onnx"):
        assert "Attention" not in exported(fn, *args)
    return " ".join(m for m in caplog.messages if m.startswith("Attention"))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_infinities_that_may_hide_everything(caplog):
    mask = some(LENGTH, KEYS)

    def fn(q, k, v, mask):
        return masked(mask, -jnp.inf)(q, k, v)

    assert "gets NaN in JAX" in reasons(caplog, fn, *heads(keys=KEYS), mask)


def test_a_mask_that_hides_little(caplog):
    mask = some(LENGTH, KEYS)
    assert "not far below" in reasons(caplog, masked(mask, -5.0), *heads(keys=KEYS))


def test_weights_that_are_returned(caplog):
    def fn(q, k):
        weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k), -1)
        return jnp.einsum("bhts,bshd->bthd", weights, k), weights

    assert "used elsewhere" in reasons(caplog, fn, *heads()[:2])


@pytest.mark.parametrize("shape", [(LENGTH, KEYS), (1, HEADS, LENGTH, KEYS), (BATCH, 1, 1, KEYS)])
@pytest.mark.parametrize("mask", [None, some(LENGTH, KEYS)])
def test_constant_biases(shape, mask):
    bias = numbers(*shape, seed=7)
    fn = attention(bias=bias, mask=None if mask is None else mask[None, None])
    assert "Attention" in exported(fn, *heads(keys=KEYS))


def test_computed_biases(caplog):
    def far(q, k, v, mask):
        bias = jnp.where(mask, 0.0, -1e9)
        return jax.nn.dot_product_attention(q, k, v, bias=bias)

    mask = some(BATCH, 1, LENGTH, KEYS)
    mask[0, 0, 0] = False
    assert "Attention" in exported(far, *heads(keys=KEYS), mask)

    def given(q, k, v, bias):
        return jax.nn.dot_product_attention(q, k, v, bias=bias)

    bias = numbers(1, 1, LENGTH, KEYS)
    assert "may be -inf" in reasons(caplog, given, *heads(keys=KEYS), bias)


def test_scales():
    def before(q, k, v):
        q = q / np.sqrt(FEATURES)
        weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k))
        return jnp.einsum("bhts,bshd->bthd", weights, v)

    def nothing(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k))
        return jnp.einsum("bhts,bshd->bthd", weights, v)

    for fn in (before, nothing):
        ops = exported(fn, *heads())
        assert "Attention" in ops
        assert not {"Div", "Mul"} & set(ops)

    def backwards(q, k, v):
        weights = jax.nn.softmax(-jnp.einsum("bthd,bshd->bhts", q, k) * 0.5)
        return jnp.einsum("bhts,bshd->bthd", weights, v)

    exported(backwards, *heads())


@pytest.mark.parametrize(
    ("first", "second", "shapes"),
    [
        ("bhtd,bhsd->bhts", "bhts,bhsd->bhtd", [(2, 4, 6, 8), (2, 4, 9, 8), (2, 4, 9, 8)]),
        ("bthd,bshd->bhts", "bhts,bshd->bthd", [(2, 6, 4, 8), (2, 9, 4, 8), (2, 9, 4, 8)]),
        ("bthd,bshd->btsh", "btsh,bshd->bthd", [(2, 6, 4, 8), (2, 9, 4, 8), (2, 9, 4, 8)]),
        ("thd,shd->hts", "hts,shd->thd", [(6, 4, 8), (9, 4, 8), (9, 4, 8)]),
        ("td,sd->ts", "ts,sd->td", [(6, 8), (9, 8), (9, 8)]),
        ("btd,bsd->bts", "bts,bsd->btd", [(2, 6, 8), (2, 9, 8), (2, 9, 5)]),
        ("btgd,bsd->bgts", "bgts,bsd->btgd", [(2, 6, 4, 8), (2, 9, 8), (2, 9, 8)]),
        ("btkgd,bskd->bkgts", "bkgts,bskd->btkgd", [(2, 6, 3, 2, 8), (2, 9, 3, 8), (2, 9, 3, 8)]),
        ("abhtd,abhsd->abhts", "abhts,abhsd->abhtd", [(2, 3, 4, 6, 8), *[(2, 3, 4, 9, 8)] * 2]),
        ("bhwcd,bshd->bhwcs", "bhwcs,bshd->bhwcd", [(2, 4, 6, 3, 8), (2, 9, 4, 8), (2, 9, 4, 8)]),
    ],
)
def test_einsums(first, second, shapes):
    axis = first.split("->")[1].index("s")

    def fn(q, k, v):
        return jnp.einsum(second, jax.nn.softmax(jnp.einsum(first, q, k) * 0.4, axis), v)

    q, k, v = (numbers(*shape, seed=i) for i, shape in enumerate(shapes))
    assert "Attention" in exported(fn, q, k, v)


def test_values_that_differ_in_heads():
    def fn(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("bhtd,bhsd->bhts", q, k))
        return jnp.einsum("bhts,bsd->bhtd", weights, v)

    exported(fn, numbers(2, 4, 6, 8), numbers(2, 4, 9, 8, seed=1), numbers(2, 9, 8, seed=2))


def test_sums_over_other_axes():
    """Normalises weights over queries, or sums over them."""

    def over_queries(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("bhtd,bhsd->bhts", q, k), -2)
        return jnp.einsum("bhts,bhsd->bhtd", weights, v)

    def summed_over_queries(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("bhtd,bhsd->bhts", q, k), -1)
        return jnp.einsum("bhts,bhtd->bhsd", weights, v)

    for fn in (over_queries, summed_over_queries):
        ops = exported(fn, *(numbers(2, 4, 6, 8, seed=i) for i in range(3)))
        assert "Attention" not in ops


def test_masks_stay_boolean_if_each_query_sees_a_key():
    def fn(q, k, v, lengths):
        mask = jnp.arange(k.shape[1])[None, None, None] < lengths[:, None, None, None]
        return jax.nn.dot_product_attention(q, k, v, mask=mask)

    args = (*heads(keys=KEYS), np.array([2, KEYS], np.int32))
    assert "Where" in exported(fn, *args)
    ops = exported(fn, *args, assume=["visible_keys"])
    assert "Attention" in ops
    assert "Where" not in ops


@pytest.mark.slow
def test_half_precision():
    """onnxruntime's kernel rounds scores to float16, where those of large numbers are infinite."""
    for causal in (False, True):
        fn, args = attention(is_causal=causal), heads(dtype=np.float16)
        assert "Attention" not in exported(fn, *args)
        large = [args[0] * 300, args[1] * 300, args[2]]
        assert np.isfinite(run(to_onnx(fn, large, operators=NATIVE), large)[0]).all()


def test_bfloat16():
    def fn(*args):
        args = [x.astype(jnp.bfloat16) for x in args]
        return attention(is_causal=True)(*args).astype(jnp.float32)

    model = to_onnx(fn, list(heads()), operators=NATIVE)
    assert "Attention" in op_types(model)
    np.testing.assert_allclose(run(model, heads())[0], fn(*heads()), rtol=2e-2, atol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("groups", [2, 4])
def test_symbolic_sizes(groups, causal):
    fn = attention(is_causal=causal)
    specs = [("B", "T", HEADS, FEATURES), *[("B", "T", groups, FEATURES)] * 2]
    model = to_onnx(fn, specs, operators=NATIVE)
    assert "Attention" in op_types(model)
    for batch, length in [(2, 6), (1, 1), (3, 4)]:
        args = heads(groups=groups, batch=batch, length=length, keys=length)
        assert_close(run(model, args), [fn(*args)])


@pytest.mark.slow
def test_frameworks():
    x = numbers(2, 6, 32)
    mask = some(2, 1, 6, 6)
    module = nnx.MultiHeadAttention(4, 32, decode=False, deterministic=True, rngs=nnx.Rngs(0))
    assert "Attention" in exported(module, x)
    assert "Attention" in exported(lambda x: module(x, mask=mask), x)
    assert "Attention" in exported(lambda x, m: module(x, mask=m), x, mask)

    linen = nn.MultiHeadDotProductAttention(4)
    variables = linen.init(jax.random.key(0), x)
    causal = nn.make_causal_mask(x[..., 0])
    assert "Attention" in exported(lambda x: linen.apply(variables, x), x)
    assert "Attention" in exported(lambda x: linen.apply(variables, x, mask=causal), x)

    equinox = eqx.nn.MultiheadAttention(4, 32, key=jax.random.key(0))
    assert "Attention" in exported(lambda x: equinox(x, x, x), x[0])
    assert "Attention" in exported(lambda x: equinox(x, x, x, mask=mask[0, 0]), x[0])
    assert "Attention" in exported(jax.vmap(lambda x: equinox(x, x, x)), x)


def test_in_a_loop_and_in_a_function():
    def carried(q, k, v):
        return jax.lax.scan(lambda c, _: (attention()(c, k, v), None), q, length=3)[0]

    model = to_onnx(carried, list(heads()), operators=NATIVE)
    assert of_type(model, "Attention")
    assert_close(run(model, heads()), [carried(*heads())])

    @onnx_function
    def inner(q, k, v):
        return attention(is_causal=True)(q, k, v)

    model = to_onnx(lambda q, k, v: inner(q, k, v) + 1, list(heads()), operators=NATIVE)
    assert of_type(model, "Attention")
    assert_close(run(model, heads()), [attention(is_causal=True)(*heads()) + 1])


@pytest.mark.slow
def test_a_step_of_decoding():
    """One query, a cache of keys and values, and a mask that depends on the position."""

    def fn(q, k, v, position):
        mask = (jnp.arange(KEYS) <= position)[None, None, None]
        return jax.nn.dot_product_attention(q, k, v, mask=mask)

    for groups in (2, 4):
        args = heads(keys=KEYS, groups=groups, length=1)
        for position in (3, 0, -1):
            assert "Attention" in exported(fn, *args, np.asarray(position, np.int32))


def with_lengths(visible):
    """Returns a function of one query per example, which attends to the first keys."""

    def fn(q, k, v, lengths):
        return jax.nn.dot_product_attention(q, k, v, mask=visible(lengths)[:, None, None])

    return fn


@pytest.mark.parametrize("length", [1, LENGTH])
@pytest.mark.parametrize(
    "visible",
    [
        lambda n: jnp.arange(KEYS) < jnp.maximum(n, 1)[:, None],
        lambda n: jnp.arange(KEYS) <= jnp.clip(n, 0, KEYS)[:, None],
        lambda n: jnp.maximum(n, 1)[:, None] > jnp.arange(KEYS),
        lambda n: (n % KEYS)[:, None] >= jnp.arange(KEYS),
        lambda n: jnp.arange(2, KEYS + 2) < jnp.maximum(n[:1], 3)[:, None],
    ],
)
def test_lengths_of_keys(visible, length):
    fn = with_lengths(visible)
    for groups in (2, 4):
        args = heads(keys=KEYS, groups=groups, length=length)
        given = np.zeros(BATCH, np.int32)
        model = to_onnx(fn, [*args, given], operators=NATIVE, opset=24)
        (node,) = of_type(model, "Attention")
        assert list(node.input[3:6]) == ["", "", ""]
        assert node.input[6]
        for lengths in ([3, 1], [KEYS, KEYS + 5], [-4, 2]):
            given = np.asarray(lengths, np.int32)
            assert_close(run(model, [*args, given]), [fn(*args, given)])


def test_lengths_that_may_be_nothing_stay_masks():
    """A query without visible keys would yield zeros, but yields a mean in JAX."""
    fn = with_lengths(lambda n: jnp.arange(KEYS) < n[:, None])
    args = heads(keys=KEYS, length=1)
    model = to_onnx(fn, [*args, np.zeros(BATCH, np.int32)], operators=NATIVE, opset=24)
    (node,) = of_type(model, "Attention")
    assert len(node.input) == 4
    for lengths in ([3, 1], [0, KEYS]):
        given = np.asarray(lengths, np.int32)
        assert_close(run(model, [*args, given]), [fn(*args, given)])


def test_nan_behind_the_last_key_is_not_seen():
    fn = with_lengths(lambda n: jnp.arange(KEYS) < jnp.maximum(n, 1)[:, None])
    q, k, v = heads(keys=KEYS, length=1)
    k[:, 5:] = np.nan
    given = np.asarray([3, 5], np.int32)
    model = to_onnx(fn, [q, k, v, given], operators=NATIVE, opset=24)
    assert_close(run(model, [q, k, v, given]), [fn(q, k, v, given)])


def test_older_opsets_have_no_lengths():
    fn = with_lengths(lambda n: jnp.arange(KEYS) < jnp.maximum(n, 1)[:, None])
    args = heads(keys=KEYS, length=1)
    model = to_onnx(fn, [*args, np.zeros(BATCH, np.int32)], operators=NATIVE)
    (node,) = of_type(model, "Attention")
    assert len(node.input) == 4


def test_lines():
    def fn(q, k, v):
        scores = jnp.einsum("bhtd,bhsd->bhts", q, k)
        scores = scores * 0.5
        weights = jax.nn.softmax(scores)
        return jnp.einsum("bhts,bhsd->bhtd", weights, v)

    args = [numbers(2, 4, 6, 8, seed=i) for i in range(3)]
    model = to_onnx(fn, args, operators=NATIVE, stacktrace_metadata="full")
    (node,) = of_type(model, "Attention")
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    start = fn.__code__.co_firstlineno
    assert metadata[CALLSITE].endswith(f":{start + 4}")
    for line in range(start + 1, start + 4):
        assert f":{line}" in metadata[JAX_TRACEBACK]


@pytest.mark.slow
def test_a_causal_mask_of_any_length_is_an_attribute():
    model = to_onnx(attention(is_causal=True), [("B", "T", HEADS, FEATURES)] * 3, operators=NATIVE)
    assert set(op_types(model)) == {"Reshape", "Attention"}
    for length in (1, 2, LENGTH):
        args = heads(keys=length, length=length)
        assert_close(run(model, args), [attention(is_causal=True)(*args)])


def repeat(x, axis):
    return jnp.repeat(x, 2, axis=axis)


def broadcast(x, axis):
    shape = (*x.shape[: axis + 1], 2, *x.shape[axis + 1 :])
    return jnp.broadcast_to(jnp.expand_dims(x, axis + 1), shape).reshape(
        (*x.shape[:axis], -1, *x.shape[axis + 1 :])
    )


@pytest.mark.parametrize("more", [repeat, broadcast])
@pytest.mark.parametrize("heads_first", [False, True])
def test_keys_that_are_repeated_for_groups_of_heads(more, heads_first):
    def fn(q, k, v):
        if not heads_first:
            k, v = more(k, 2), more(v, 2)
            return jax.nn.dot_product_attention(q, k, v, is_causal=True)
        q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
        k, v = more(k, 1), more(v, 1)
        weights = jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) * FEATURES**-0.5)
        return jnp.swapaxes(weights @ v, 1, 2)

    ops = exported(fn, *heads(groups=2))
    assert ops.count("Attention") == 1
    assert not {"Expand", "MatMul", "Transpose"} & set(ops)


def test_keys_that_are_tiled():
    def fn(q, k, v):
        tiled = (jnp.tile(x, (1, 1, 2, 1)) for x in (k, v))
        return jax.nn.dot_product_attention(q, *tiled)

    ops = exported(fn, *heads(groups=2))
    assert ops.count("Attention") == 1


def test_keys_that_are_repeated_and_values_that_are_not():
    """`Attention` has one number of heads for keys and values, so it would copy the keys."""
    q, k, _ = heads(groups=2)
    fn = lambda q, k, v: jax.nn.dot_product_attention(q, repeat(k, 2), v)  # noqa: E731
    ops = exported(fn, q, k, heads()[2])
    assert ops.count("MatMul") == 2
    assert not {"Attention", "Expand"} & set(ops)


def attention_with(capped=False, after=None):
    def fn(q, k, v):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4
        scores = jnp.tanh(scores / 5) * 5 if capped else scores
        weights = jax.nn.softmax(scores)
        weights = after(weights) if after else weights
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v)

    return fn


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (attention_with(capped=True), "its scores are capped by tanh"),
        (attention_with(after=lambda w: w * jnp.tri(3)), "after the softmax"),
        (attention_with(after=lambda w: jnp.where(jnp.tri(3) > 0, w, 0)), "after the softmax"),
    ],
)
def test_near_misses_of_attention_are_reported(fn, reason, caplog):
    x = jax.random.normal(jax.random.key(0), (2, 3, 2, 4))
    with caplog.at_level(logging.INFO, "jax2onnx"):
        assert "Attention" not in exported(fn, x, x, x)
    assert "Attention at " in caplog.text
    assert reason in caplog.text
