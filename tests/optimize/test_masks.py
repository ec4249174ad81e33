"""Masks as graphs: `Trilu` extracts triangles, and masked elements stay hidden, including NaN."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness.checking import assert_close, check_model, check_sizes, op_types, run
from jax2onnx import to_onnx

LOWEST = float(np.finfo(np.float32).min)
FILLS = [-np.inf, LOWEST, -1e9, -3.0, np.nan]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def special(*shape, seed=0):
    """Returns numbers that include NaN, infinities and zeros of both signs."""
    x = numbers(*shape, seed=seed)
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, LOWEST], np.float32)
    flat = x.reshape(-1)
    flat[:: max(len(flat) // 40, 1)] = np.resize(values, len(flat[:: max(len(flat) // 40, 1)]))
    return x


def causal(fill, softmax=jax.nn.softmax):
    def fn(x):
        length = x.shape[-1]
        mask = jnp.tril(jnp.ones((length, length), bool))
        return softmax(jnp.where(mask, x, fill), axis=-1)

    return fn


@pytest.mark.parametrize("k", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("cut", [jnp.tril, jnp.triu])
@pytest.mark.parametrize("shape", [(5, 5), (2, 3, 7), (2, 6, 4)])
def test_a_triangle_is_one_node(cut, k, shape):
    model = check_model(lambda x: cut(x, k), [special(*shape)])
    is_whole = bool(cut(np.ones(shape), k).all())
    assert op_types(model) == ["Identity" if is_whole else "Trilu"]


@pytest.mark.parametrize("cut", [jnp.tril, jnp.triu])
def test_a_triangle_of_any_size_is_one_node(cut):
    for k in (-1, 0, 2):
        runs = [[special(2, 5, 5)], [special(1, 1, 1)], [special(3, 2, 2)]]
        check_sizes(lambda x, k=k: cut(x, k), [("B", "T", "T")], *runs)
        assert op_types(to_onnx(lambda x, k=k: cut(x, k), [("B", "T", "T")])) == ["Trilu"]
    check_sizes(lambda x: cut(x, 1), [("M", "N")], [special(4, 7)], [special(7, 4)])


def test_types_that_have_no_kernel_are_chosen():
    x = np.arange(9, dtype=np.int8).reshape(3, 3)
    assert "Trilu" not in op_types(check_model(jnp.tril, [x]))


@pytest.mark.parametrize("softmax", [jax.nn.softmax, jax.nn.log_softmax])
@pytest.mark.parametrize("fill", FILLS)
def test_a_causal_mask_hides_the_same_scores_as_in_jax(fill, softmax):
    model = check_model(causal(fill, softmax), [special(2, 3, 9, 9)])
    last = "Softmax" if softmax is jax.nn.softmax else "LogSoftmax"
    assert op_types(model) == ["Trilu", "Add", last]
    plain = check_model(causal(fill, softmax), [numbers(2, 3, 9, 9)])
    assert "Where" not in op_types(plain)


@pytest.mark.parametrize("fill", FILLS[:3])
def test_a_causal_mask_of_any_length(fill):
    runs = [[special(2, 3, n, n)] for n in (1, 2, 9)]
    check_sizes(causal(fill), [("B", 3, "T", "T")], *runs)
    counts = Counter(op_types(to_onnx(causal(fill), [("B", 3, "T", "T")])))
    assert (counts["Trilu"], counts["Where"]) == (2, 0), "the mask itself is a triangle, once"


def test_a_mask_of_grouped_heads_is_stored_once():
    def fn(q, k):
        return jax.nn.dot_product_attention(q, k, k, is_causal=True)

    model = to_onnx(fn, [(2, 256, 4, 8), (2, 256, 2, 8)])
    largest = max(model.graph.initializer, key=lambda tensor: np.prod(tensor.dims))
    assert list(largest.dims) == [256, 256]
    assert "Trilu" in op_types(model)


def test_masked_scores_that_are_read_elsewhere_stay():
    def fn(x):
        masked = jnp.where(jnp.tril(jnp.ones((4, 4), bool)), x, -1e9)
        return jax.nn.softmax(masked), masked

    assert "Trilu" not in op_types(check_model(fn, [special(2, 4, 4)]))


def test_the_elementary_form_can_be_asked_for():
    ops = op_types(to_onnx(causal(-np.inf), [(2, 4, 4)], operators={"Trilu": "elementary"}))
    assert ops == ["Where", "Softmax"]


def test_webgpu_has_no_such_kernel():
    assert "Trilu" not in op_types(to_onnx(causal(-np.inf), [(2, 4, 4)], target="webgpu"))


def padded(fill):
    return lambda x, mask: jax.nn.softmax(jnp.where(mask[:, None, None], x, fill), axis=-1)


@pytest.mark.parametrize("fill", [-np.inf, LOWEST, 0.7 * LOWEST])
def test_masks_are_added_where_nan_cannot_be_hidden(fill):
    x, mask = numbers(2, 3, 5, 5), np.array([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], bool)
    model = check_model(padded(fill), [x, mask])
    assert "Add" not in op_types(model)
    model = check_model(padded(fill), [x, mask], assume=["no_nan"])
    assert op_types(model)[-2:] == ["Add", "Softmax"]
    everything = np.zeros((2, 5), bool)  # a completely masked row
    assert_close(run(model, [x, everything]), [padded(fill)(x, everything)])
    model = check_model(causal(fill), [x], assume=["no_nan"])
    assert op_types(model) == ["Add", "Softmax"]


def hidden_above(fill):
    """Masks the diagonal and everything above it, so that the first row is empty."""

    def fn(x):
        return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(x.shape[-2:], bool), -1), x, fill))

    return fn


@pytest.mark.parametrize("fill", [-1e4, -1e9, -1e30])
def test_masks_that_show_some_of_each_row_are_added(fill):
    x = 9 * numbers(2, 3, 7, 7)
    assume = {"assume": ["no_nan"]}
    assert op_types(check_model(causal(fill), [x], **assume)) == ["Add", "Softmax"]
    any_length = op_types(to_onnx(causal(fill), [("B", 3, "T", "T")], **assume))
    assert any_length[-3:] == ["Trilu", "Add", "Softmax"], "the triangle is that of the mask"
    check_sizes(causal(fill), [("B", 3, "T", "T")], [x], [x[:, :, :1, :1]], **assume)
    # In logarithms, and along columns, the added mask is visible.
    assert "Trilu" in op_types(check_model(causal(fill, jax.nn.log_softmax), [x], **assume))
    along_columns = causal(fill, lambda s, axis: jax.nn.softmax(s, -2))
    assert "Trilu" in op_types(check_model(along_columns, [x], **assume))
    assert "Trilu" in op_types(check_model(hidden_above(fill), [x], **assume))


@pytest.mark.parametrize("fill", [-1e9, -3.0])
def test_masks_are_not_added_if_a_hidden_row_would_change(fill):
    x, mask = numbers(2, 3, 5, 5), np.zeros((2, 5), bool)
    model = check_model(padded(fill), [x, mask], assume=["no_nan"])
    assert "Add" not in op_types(model)
