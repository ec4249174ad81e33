"""Masks that are added, because hidden NaN would reach the result anyway."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.checking import assert_close, check_model, op_types, run
from jax2onnx import to_onnx

WIDTH, HEADS, LENGTH = 16, 4, 6
LOWEST = float(np.finfo(np.float32).min)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def weights(*shape: int, seed: int) -> jax.Array:
    return jnp.asarray(numbers(*shape, seed=seed) / np.sqrt(shape[0]))


WQ, WK, WV = (weights(WIDTH, WIDTH, seed=seed) for seed in (1, 2, 3))
SCALE = jnp.asarray(1 + numbers(WIDTH, seed=4) / 10)
BIAS = jnp.asarray(numbers(WIDTH, seed=5) / 10)


def layer_norm(x, bias=BIAS):
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered**2).mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt(variance + 1e-6) * SCALE + bias


def rms_norm(x):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * SCALE


def split(x):
    return x.reshape(*x.shape[:-1], HEADS, -1).swapaxes(-3, -2)


def rotate(x):
    """Applies rotary embeddings to heads."""
    length, size = x.shape[-2:]
    angles = jnp.arange(length)[:, None] / 10 ** (jnp.arange(size // 2) / size)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def causal(length):
    return jnp.tril(jnp.ones((length, length), bool))


def window(length):
    """Returns a mask of nearby positions in both directions."""
    return abs(jnp.arange(length)[:, None] - jnp.arange(length)) < 3


def attend(q, k, v, mask=causal, fill=LOWEST):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    hidden = jnp.where(mask(scores.shape[-1]), scores, fill)
    out = jax.nn.softmax(hidden, axis=-1) @ v
    return out.swapaxes(-3, -2).reshape(*out.shape[:-3], out.shape[-2], -1)


def attention(norm=layer_norm, mask=causal, fill=LOWEST, before=lambda x: x):
    def fn(x):
        y = norm(x)
        q, k = before(split(y @ WQ)), before(split(y @ WK))
        return attend(q, k, split(y @ WV), mask, fill)

    return fn


def hostile() -> list[np.ndarray]:
    """Returns inputs with one damaged row, at the start, in the middle or at the end."""
    inputs = [numbers(2, LENGTH, WIDTH)]
    for row in (0, 2, LENGTH - 1):
        for value in (np.nan, np.inf, -np.inf, 1e15):
            inputs.append(numbers(2, LENGTH, WIDTH))
            inputs[-1][0, row, 3] = value
        inputs.append(numbers(2, LENGTH, WIDTH))
        inputs[-1][1, row] = np.nan
    return inputs


def agrees(fn: Callable, model, *more: np.ndarray) -> None:
    """Checks that NaN occur in the same elements as in JAX, and that all other numbers agree."""
    compiled = jax.jit(lambda *args: fn(*args))
    for x in hostile():
        assert_close([np.asarray(compiled(x, *more))], run(model, [x, *more]))


def is_added(model) -> bool:
    """Returns `True` if no mask is a `Where` or a `Trilu`, so that masks are sums."""
    return not {"Where", "Trilu"} & set(op_types(model))


@pytest.mark.parametrize("norm", [layer_norm, rms_norm])
@pytest.mark.parametrize("mask", [causal, window])
@pytest.mark.parametrize("fill", [-np.inf, LOWEST, -1e9])
def test_masks_behind_a_norm_are_added(norm, mask, fill):
    fn = attention(norm, mask, fill)
    model = check_model(fn, [numbers(2, LENGTH, WIDTH)])
    assert is_added(model)
    agrees(fn, model)


@pytest.mark.parametrize("before", [rotate, lambda x: x * 3 + 1, lambda x: x[..., ::-1] - x])
def test_bounded_operators_before_attention_keep_the_mask_an_addition(before):
    fn = attention(before=before)
    model = check_model(fn, [numbers(2, LENGTH, WIDTH)])
    assert is_added(model)
    agrees(fn, model)


def test_norms_of_heads_belong_to_the_rows_they_come_from():
    def normed(x):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * SCALE[:4]

    fn = attention(before=normed)
    model = check_model(fn, [numbers(2, LENGTH, WIDTH)])
    assert is_added(model)
    agrees(fn, model)


def test_biases_of_scores_are_bounded():
    table = jnp.asarray(numbers(2 * LENGTH, HEADS, seed=9))

    def fn(x):
        y = layer_norm(x)
        places = jnp.arange(LENGTH)[:, None] - jnp.arange(LENGTH) + LENGTH
        bias = table[places].transpose(2, 0, 1)
        q, k, v = split(y @ WQ), split(y @ WK), split(y @ WV)
        scores = jnp.where(causal(LENGTH), q @ k.swapaxes(-1, -2) + bias, LOWEST)
        return jax.nn.softmax(scores, axis=-1) @ v

    model = check_model(fn, [numbers(2, LENGTH, WIDTH)])
    assert is_added(model)
    agrees(fn, model)


def test_sizes_that_are_not_known_are_rows_as_well():
    fn = attention()
    model = to_onnx(fn, [("B", "T", WIDTH)])
    # The mask itself is a triangle. Scores are not.
    assert op_types(model).count("Trilu") == 1
    assert "Where" not in op_types(model)
    agrees(fn, model)
    assert_close([fn(x := numbers(1, 1, WIDTH))], run(model, [x]))


def test_masks_of_tokens_are_added():
    def fn(x, shown):
        y = layer_norm(x)
        q, k, v = split(y @ WQ), split(y @ WK), split(y @ WV)
        return attend(q, k, v, lambda _: shown[:, None, None, :])

    shown = np.arange(2 * LENGTH).reshape(2, LENGTH) % LENGTH < 4
    model = check_model(fn, [numbers(2, LENGTH, WIDTH), shown])
    chosen = [node for node in model.graph.node if node.op_type == "Where"]
    types = {value.name: value.type.tensor_type for value in model.graph.value_info}
    assert len(chosen) == 1
    assert [dim.dim_value for dim in types[chosen[0].output[0]].shape.dim] == [2, 1, 1, LENGTH]
    for mask in (shown, ~shown, np.zeros_like(shown)):
        agrees(fn, model, mask)


@pytest.mark.slow
def test_flax_layers_are_bounded():
    class Block(nnx.Module):
        def __init__(self, rngs):
            self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)

        def __call__(self, x):
            mask = nnx.make_causal_mask(x[..., 0])
            return x + self.attention(self.norm(x), mask=mask, deterministic=True)

    block = Block(nnx.Rngs(0))
    model = check_model(block, [numbers(2, LENGTH, WIDTH)])
    assert is_added(model)
    agrees(block, model)


def test_any_axis_of_the_rows_may_be_attended_along():
    """Each token attends to all batches: a batch of the norm is a token here."""

    def fn(x):
        y = layer_norm(x).swapaxes(0, 1)
        q, k, v = split(y @ WQ), split(y @ WK), split(y @ WV)
        return attend(q, k, v)

    model = check_model(fn, [numbers(2, LENGTH, WIDTH)])
    assert is_added(model)
    agrees(fn, model)


# Below, hidden elements may be NaN without effect, or larger than their replacement.


def not_normed(x):
    return x


def test_scores_without_a_norm_are_selected():
    fn = attention(norm=not_normed)
    model = check_model(fn, [numbers(2, LENGTH, WIDTH)])
    assert not is_added(model)
    agrees(fn, model)


def test_values_of_another_source_hide_nan():
    def fn(x, other):
        y = layer_norm(x)
        return attend(split(y @ WQ), split(y @ WK), split(layer_norm(other) @ WV))

    x, other = numbers(2, LENGTH, WIDTH), numbers(2, LENGTH, WIDTH, seed=7)
    model = check_model(fn, [x, other])
    assert not is_added(model)
    x[0, 4] = np.nan
    assert_close([np.asarray(fn(x, other))], run(model, [x, other]))


def test_weights_that_somebody_reads_hide_nan():
    def fn(x):
        y = layer_norm(x)
        scores = split(y @ WQ) @ split(y @ WK).swapaxes(-1, -2)
        weights = jax.nn.softmax(jnp.where(causal(LENGTH), scores, LOWEST), axis=-1)
        return weights @ split(y @ WV), weights

    x = numbers(2, LENGTH, WIDTH)
    model = check_model(fn, [x])
    assert not is_added(model)
    x[0, 4] = np.nan
    for expected, actual in zip(fn(x), run(model, [x]), strict=True):
        assert_close([np.asarray(expected)], [actual])


def test_values_of_other_rows_hide_nan():
    def fn(x):
        y = layer_norm(x)
        return attend(split(y @ WQ), split(y @ WK), split(y @ WV)[:, :, ::-1])

    def shifted(x):
        y = layer_norm(x)
        return attend(split(y @ WQ), split(y @ WK), split(y @ WV)[::-1])

    for of in (fn, shifted):
        model = check_model(of, [numbers(2, LENGTH, WIDTH)])
        assert not is_added(model)
        agrees(of, model)


def test_values_of_some_features_hide_nan():
    """Infinity in one feature becomes NaN there after the norm, and the others become zero."""

    def fn(x):
        y = rms_norm(x)
        return attend(split(y @ WQ), split(y @ WK), split(y))

    model = check_model(fn, [numbers(2, LENGTH, WIDTH)])
    assert not is_added(model)
    agrees(fn, model)


def test_values_of_features_without_nan_hide_it():
    def fn(x):
        y = rms_norm(x)
        part = y[..., WIDTH // 2 :] @ WV[: WIDTH // 2]
        return attend(split(y @ WQ), split(y @ WK), split(part))

    model = check_model(fn, [numbers(2, LENGTH, WIDTH)])
    assert not is_added(model)
    agrees(fn, model)


def test_norms_of_heads_without_epsilon_make_nan_of_their_own():
    def normed(x):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True)) * SCALE[:4]

    assert not is_added(to_onnx(attention(before=normed), [numbers(2, LENGTH, WIDTH)]))


@pytest.mark.parametrize("fill", [-1e3, -30.0, 0.5])
def test_scores_that_may_exceed_the_fill_are_selected(fill):
    fn = attention(fill=fill)
    large = attention(before=lambda x: x * 1e4, fill=-1e9)
    for of in (fn, large):
        model = check_model(of, [numbers(2, LENGTH, WIDTH)])
        assert not is_added(model)
        agrees(of, model)


def test_parameters_that_are_not_finite_are_cut_off():
    def fn(x):
        y = layer_norm(x, BIAS.at[3].set(np.inf))
        return attend(split(y @ WQ), split(y @ WK), split(y @ WV))

    assert not is_added(check_model(fn, [numbers(2, LENGTH, WIDTH)]))


def test_half_precision_overflows():
    def fn(x):
        y = layer_norm(x).astype(jnp.float16) * 100
        q, k, v = (split(y @ weight.astype(jnp.float16)) for weight in (WQ, WK, WV))
        return attend(q, k, v, fill=-np.inf)

    assert not is_added(to_onnx(fn, [numbers(2, LENGTH, WIDTH)]))


def test_narrower_computation_decides_nothing_early():
    model = to_onnx(attention(), [numbers(2, LENGTH, WIDTH)], compute="float16")
    assert not is_added(model)
