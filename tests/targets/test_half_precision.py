"""Models in half precision for a GPU: no islands of float32, and errors as small as JAX's own."""

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import jmp
import numpy as np
import onnx
import pytest
from flax import linen, nnx

from harness.checking import quick
from harness.rounded import run_rounded
from jax2onnx import to_onnx
from models import catalogue

X = np.random.default_rng(0).normal(0.5, 2, (2, 16, 32)).astype(np.float32)
IMAGES = np.random.default_rng(1).normal(0, 1, (2, 8, 8, 8)).astype(np.float32)

Build = Callable[[Any], tuple[Callable[..., Any], np.ndarray]]
"""Returns the function that computes in a type, and its operand."""


def rounded(tree: Any, dtype: Any) -> Any:
    """Returns parameters that float16 and bfloat16 can hold, in `dtype`."""

    def one(x: Any) -> Any:
        if not jnp.issubdtype(jnp.result_type(x), jnp.floating):
            return x
        x = jnp.asarray(x) + 0.05 * jax.random.normal(jax.random.key(x.size), jnp.shape(x))
        return jnp.abs(x).astype(jnp.bfloat16).astype(jnp.float16).astype(dtype)

    return jax.tree.map(one, tree)


def nnx_model(make: Callable[..., Any], x: np.ndarray = X) -> Build:
    def build(dtype: Any) -> tuple[Callable[..., Any], np.ndarray]:
        model = make(dtype=dtype, param_dtype=dtype, rngs=nnx.Rngs(0))
        model.eval()
        nnx.update(model, rounded(nnx.state(make(rngs=nnx.Rngs(0))), dtype))
        return model, x

    return build


class ConvolutionAndNorm(nnx.Module):
    def __init__(self, **options: Any) -> None:
        self.conv = nnx.Conv(8, 8, (3, 3), **options)
        self.norm = nnx.BatchNorm(8, use_running_average=True, **options)

    def __call__(self, x: Any) -> Any:
        return self.norm(self.conv(x))


def linen_model(make: Callable[..., Any]) -> Build:
    def build(dtype: Any) -> tuple[Callable[..., Any], np.ndarray]:
        model = make(dtype=dtype, param_dtype=dtype)
        params = rounded(make().init(jax.random.key(0), X), dtype)
        return lambda x: model.apply(params, x), X

    return build


def equinox_norm(dtype: Any) -> tuple[Callable[..., Any], np.ndarray]:
    model = eqx.nn.LayerNorm(32)
    arrays, rest = eqx.partition(model, eqx.is_array)
    model = eqx.combine(rounded(arrays, dtype), rest)
    return jax.vmap(jax.vmap(model)), X


def haiku_policy(dtype: Any) -> tuple[Callable[..., Any], np.ndarray]:
    """Norms of a `jmp` policy compute in float32, and dense layers in half precision."""
    name = jnp.dtype(dtype).name

    def forward(x: Any) -> Any:
        x = hk.Linear(32)(x)
        norm = hk.LayerNorm(-1, create_scale=True, create_offset=True)
        policy = jmp.get_policy(f"params={name},compute=float32,output={name}")
        hk.mixed_precision.set_policy(hk.LayerNorm, policy)
        try:
            return hk.Linear(32)(norm(x))
        finally:
            hk.mixed_precision.clear_policy(hk.LayerNorm)

    model = hk.without_apply_rng(hk.transform(forward))
    params = rounded(model.init(jax.random.key(0), jnp.asarray(X)), dtype)
    return lambda x: model.apply(params, x), X


def attention(x: Any) -> Any:
    """Attention with scores and weights in float32."""
    scores = jnp.einsum("btd,bsd->bts", x, x, preferred_element_type=jnp.float32) / 32**0.5
    mask = jnp.tril(jnp.ones((16, 16), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1).astype(x.dtype)
    return weights @ x


def shared_heads(x: Any) -> Any:
    """Attention with grouped queries, whose scores are in float32."""
    heads = x.reshape(*x.shape[:-1], 4, 8)
    return jax.nn.dot_product_attention(heads, heads[:, :, :2], heads[:, :, 2:], is_causal=True)


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x.astype(jnp.float32), axis=-1).astype(x.dtype)


def product(x: Any) -> Any:
    return jnp.matmul(x, x.swapaxes(1, 2), preferred_element_type=jnp.float32).astype(x.dtype)


def experts(x: Any) -> Any:
    """A product for each token, whose operands are transposed."""
    weights = jnp.asarray(np.random.default_rng(3).normal(size=(16, 32, 8)), jnp.bfloat16)
    return jnp.einsum("btd,tdk->btk", x, weights.astype(x.dtype))


def rms_norm(x: Any) -> Any:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype)


CASES: dict[str, tuple[Build, list[str]]] = {
    "nnx LayerNorm": (
        nnx_model(lambda **o: nnx.LayerNorm(32, **o)),
        ["LayerNormalization"],
    ),
    "nnx RMSNorm": (nnx_model(lambda **o: nnx.RMSNorm(32, **o)), ["RMSNormalization"]),
    "nnx BatchNorm": (
        nnx_model(ConvolutionAndNorm, IMAGES),
        ["Transpose", "Conv", "Sub", "Transpose"],
    ),
    "linen LayerNorm": (linen_model(linen.LayerNorm), ["LayerNormalization"]),
    "linen RMSNorm": (linen_model(linen.RMSNorm), ["RMSNormalization"]),
    "equinox LayerNorm": (equinox_norm, ["LayerNormalization"]),
    "haiku with jmp": (haiku_policy, ["MatMul", "Add", "LayerNormalization", "MatMul", "Add"]),
    "softmax": (lambda _: (softmax, X), ["Softmax"]),
    "product": (lambda _: (product, X), ["Transpose", "MatMul"]),
    "experts": (lambda _: (experts, X), ["Transpose", "MatMul", "Transpose"]),
    "rms norm": (lambda _: (rms_norm, X), ["RMSNormalization"]),
    "attention": (lambda _: (attention, X), ["Attention"]),
    "shared heads": (lambda _: (shared_heads, X), ["Slice", "Slice", "Attention"]),
}


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def error(found: Any, exact: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(found, np.float64) - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_islands_become_one_operator(name: str, dtype: Any) -> None:
    build, expected = CASES[name]
    fn, x = build(dtype)
    x = np.asarray(jnp.asarray(x, jnp.bfloat16).astype(dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = to_onnx(fn, [x], target="cuda")
    found = [op for op in operators(model) if op not in ("Reshape", "Unsqueeze", "Squeeze")]
    assert found == expected
    wide, _ = build(jnp.float32)
    exact = np.asarray(wide(jnp.asarray(x, jnp.float32)), np.float64)
    ours = error(jnp.asarray(run_rounded(model, [x])[0]), exact)
    assert ours <= 1.2 * error(fn(jnp.asarray(x)), exact)


class MixedPrecision(linen.Module):
    """Convolutions and batch norms as in mixed precision: parameters and statistics in float32."""

    dtype: Any
    train: bool = False

    @linen.compact
    def __call__(self, x: Any) -> Any:
        for features in (16, 32, 32):
            x = linen.Conv(features, (3, 3), dtype=self.dtype)(x)
            x = linen.BatchNorm(not self.train, momentum=0.0, dtype=self.dtype)(x)
            x = linen.relu(x)
        return x


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_statistics_in_float32_become_part_of_the_convolution(dtype: Any) -> None:
    x = jnp.asarray(IMAGES, jnp.bfloat16)
    variables = MixedPrecision(jnp.float32).init(jax.random.key(0), IMAGES)
    params = jax.tree.map(
        lambda p: p + 0.2 * jax.random.normal(jax.random.key(p.size), p.shape), variables["params"]
    )
    training = MixedPrecision(jnp.float32, train=True)
    _, state = training.apply(variables | {"params": params}, IMAGES, mutable=["batch_stats"])
    variables = {"params": params, "batch_stats": state["batch_stats"]}
    model = MixedPrecision(dtype)
    found = to_onnx(lambda x: model.apply(variables, x), [x.astype(dtype)], target="cuda")
    assert operators(found) == ["Transpose", *3 * ["Conv", "Sub", "Relu"], "Transpose"]
    exact = np.asarray(MixedPrecision(jnp.float32).apply(variables, x.astype(jnp.float32)))
    own = error(model.apply(variables, x.astype(dtype)), exact.astype(np.float64))
    assert error(run_rounded(found, [x])[0], exact.astype(np.float64)) <= 1.2 * own
    # On a CPU, norms stay in float32.
    assert (
        operators(to_onnx(lambda x: model.apply(variables, x), [x.astype(dtype)])).count(
            "BatchNormalization"
        )
        == 3
    )


@pytest.mark.parametrize("compute", ["float16:all", "bfloat16:all", None])
def test_shared_heads_attend_in_one_node_in_half_precision(compute: str | None) -> None:
    """The provider has no fused kernel for them in float32."""
    model = to_onnx(shared_heads, [X], target="cuda", compute=compute)
    assert ("Attention" in operators(model)) == (compute is not None)


def test_the_biases_of_a_recurrent_layer_are_an_operand() -> None:
    """An additional input would cost a copy of the sequence."""

    def build(dtype: Any) -> tuple[Callable[..., Any], np.ndarray]:
        cell = nnx.OptimizedLSTMCell(32, 16, rngs=nnx.Rngs(0), dtype=dtype)
        cell.param_dtype = dtype
        nnx.update(cell, rounded(nnx.state(cell, nnx.Param), dtype))
        return nnx.RNN(cell), X

    fn, _ = build(jnp.float16)
    small = X.astype(np.float16)
    model = to_onnx(fn, [small], target="cuda")
    # The provider's layers accumulate in their own type, so they are computed in float32.
    found = [op for op in operators(model) if op != "Cast"]
    assert found == ["Transpose", "LSTM", "Squeeze", "Transpose"]
    exact = np.asarray(build(jnp.float32)[0](jnp.asarray(small, jnp.float32)), np.float64)
    assert error(run_rounded(model, [small])[0], exact) <= 1.2 * error(fn(small), exact)


def test_a_parameter_with_more_digits_keeps_its_norm_in_float32() -> None:
    scale = jnp.linspace(0.1, 1, 32)

    def norm(x: Any) -> Any:
        return (rms_norm(x.astype(jnp.float32)) * scale).astype(x.dtype)

    model = to_onnx(norm, [X.astype(np.float16)], target="cuda")
    assert operators(model) == ["Cast", "RMSNormalization", "Cast"]


def padded_attention(x: Any, lengths: Any) -> Any:
    heads = x.reshape(*x.shape[:-1], 4, 8)
    mask = jnp.arange(x.shape[1])[None, None, None] < lengths[:, None, None, None]
    return jax.nn.dot_product_attention(heads, heads, heads, mask=mask)


def padded_queries(x: Any, lengths: Any) -> Any:
    """Attention in which padded queries see no key."""
    heads = x.reshape(*x.shape[:-1], 4, 8)
    visible = jnp.arange(x.shape[1]) < lengths[:, None]
    mask = nnx.make_attention_mask(visible, visible, dtype=jnp.bool_)
    return jax.nn.dot_product_attention(heads, heads, heads, mask=mask)


def decoding(x: Any, lengths: Any) -> Any:
    """One query that reads a cache up to a position."""
    heads = x.reshape(*x.shape[:-1], 4, 8)
    mask = jnp.arange(x.shape[1]) <= lengths[0] - 6
    return jax.nn.dot_product_attention(heads[:, :1], heads, heads, mask=mask[None, None, None])


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("assume", [["visible_keys"], []])
@pytest.mark.parametrize("fn", [padded_attention, padded_queries])
def test_masked_attention_needs_no_island(fn: Any, assume: list[str], dtype: Any) -> None:
    args = [np.asarray(jnp.asarray(X, jnp.bfloat16).astype(dtype)), np.array([5, 16], np.int32)]
    if fn is padded_attention:
        args[1][0] = 0  # no query sees a key
    if assume:
        args[1][:] = [9, 16]
        if fn is padded_queries:
            return  # a promise that does not hold
    model = to_onnx(fn, args, target="cuda", assume=assume)
    found = operators(model)
    assert found.count("Attention") == 1
    assert "Softmax" not in found
    assert found.count("Where") == (0 if assume else 1)
    # Only masks are cast, for `ReduceMax`.
    assert found.count("Cast") == (0 if assume else 2)
    exact = fn(jnp.asarray(args[0], jnp.float32), jnp.asarray(args[1]))
    ours = error(jnp.asarray(run_rounded(model, args)[0]), np.asarray(exact, np.float64))
    assert ours <= 1.2 * error(fn(*map(jnp.asarray, args)), np.asarray(exact))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_one_query_is_attended_by_products(dtype: Any) -> None:
    """The provider's kernel leaves most of the GPU idle."""
    args = [np.asarray(jnp.asarray(X).astype(dtype)), np.array([9, 16], np.int32)]
    model = to_onnx(decoding, args, target="cuda")
    assert not {"Attention", "ReduceMax"} & {*operators(model)}
    assert operators(model).count("MatMul") == 2
    exact = decoding(jnp.asarray(args[0], jnp.float32), jnp.asarray(args[1]))
    ours = error(jnp.asarray(run_rounded(model, args)[0]), np.asarray(exact, np.float64))
    assert ours <= 1.2 * error(decoding(*map(jnp.asarray, args)), np.asarray(exact))


@pytest.mark.parametrize("compute", [None, "float16:all", "bfloat16:all"])
def test_masks_that_are_added_hide_no_row(compute: str | None) -> None:
    """The provider returns zeros for a query if its keys have addends of -1e30 and less."""
    args = [X, np.array([5, 16], np.int32)]
    model = to_onnx(padded_queries, args, target="cuda", compute=compute)
    assert "Attention" in operators(model)
    numbers = [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
    numbers += [
        onnx.numpy_helper.to_array(node.attribute[0].t)
        for node in model.graph.node
        if node.op_type == "Constant"
    ]
    assert min(float(array.min()) for array in numbers if array.size) > -1e30
    (found,) = run_rounded(model, args)
    assert error(found, np.asarray(padded_queries(*map(jnp.asarray, args)))) < 0.02


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_rotary_embeddings_and_norms_need_no_island(dtype: Any) -> None:
    angles = np.arange(16)[:, None] / 10000.0 ** (np.arange(4) / 4)
    cos, sin = (np.asarray(f(angles), np.float32)[None, :, None] for f in (np.cos, np.sin))

    def fn(x: Any, weight: Any) -> Any:
        heads = (rms_norm(x) @ weight).reshape(*x.shape[:-1], 4, 8)
        one, other = jnp.split(heads, 2, -1)
        c, s = jnp.asarray(cos, x.dtype), jnp.asarray(sin, x.dtype)
        heads = jnp.concatenate([one * c - other * s, other * c + one * s], -1)
        return jax.nn.dot_product_attention(heads, heads, heads, is_causal=True)

    weight = np.random.default_rng(2).normal(0, 0.2, (32, 32)).astype(np.float32)
    small = [np.asarray(jnp.asarray(a, jnp.bfloat16).astype(dtype)) for a in (X, weight)]
    model = to_onnx(fn, small, target="cuda")
    found = [op for op in operators(model) if op != "Reshape"]
    assert found == ["RMSNormalization", "MatMul", "RotaryEmbedding", "Attention"]
    # The same in a float32 model that computes in half precision.
    wide = to_onnx(
        lambda x: fn(x, weight) @ weight[:8, :8], [X], target="cuda", compute=jnp.dtype(dtype).name
    )
    found = operators(wide)
    assert found.count("Cast") <= 2, found


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.NAMES)
def test_models_compute_in_half_precision(name: str) -> None:
    fn, args = catalogue.build(name)
    if name.endswith("/ode"):
        return  # There are no products but the last ones.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = to_onnx(fn, list(args), target="cuda", compute="float16")
        plain = to_onnx(fn, list(args), target="cuda")
    boundary = [*model.graph.input, *model.graph.output]
    assert boundary == [*plain.graph.input, *plain.graph.output]
    count = Counter(operators(model))
    if name.endswith("/resnet50"):
        assert count["Cast"] <= 2
    wide = run_rounded(model, jax.tree.leaves(args))
    expected = map(np.asarray, jax.tree.leaves(quick(fn)(*args)))
    for one, other in zip(wide, expected, strict=True):
        if np.issubdtype(other.dtype, np.floating):
            assert error(one, other.astype(np.float64)) < 0.02
