"""A part of `every_opset.py`: the building blocks of models at commonly used opsets."""

from typing import Any

import jax
import jax.numpy as jnp
import onnx
import pytest

from harness.checking import assert_close, run
from harness.every_opset import OPSETS, exported, outcome
from harness.programs import PROGRAMS
from jax2onnx import to_onnx
from jax2onnx.errors import InvalidInputError
from models import catalogue

MODELS = ("nnx/mlp", "nnx/cnn", "nnx/gpt", "equinox/rnn", "nnx/unet")
SAMPLE = sorted(PROGRAMS)[::9]

# Programs that cover every form that was introduced for or changed at an opset.
ALWAYS = (
    "reduce_max",
    "reduce_min.symbolic",
    "reduce_prod",
    "split",
    "pad",
    "xor.integers",
    "and.integers",
    "or.integers",
    "not.integers",
    "sort",
    "cumsum",
    "random_bits.bytes",
    "while.while",
)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", MODELS)
def test_models_agree(name: str, opset: int) -> None:
    assert outcome(name, opset) == ""


@pytest.mark.parametrize("name", MODELS)
def test_the_lowest_opset_costs_nothing(name: str) -> None:
    fn, args = catalogue.build(name)
    model, newer = to_onnx(fn, list(args)), to_onnx(fn, list(args), opset=23)
    lowest = model.opset_import[0].version
    assert 18 <= lowest <= 20
    assert model.graph.node == newer.graph.node
    assert to_onnx(fn, list(args), opset=lowest) == model


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 28])
@pytest.mark.parametrize("name", sorted({*SAMPLE, *ALWAYS} & PROGRAMS.keys()))
def test_programs_agree_or_name_the_opset_they_need(name: str, opset: int) -> None:
    outcome(name, opset)


def test_a_pad_before_a_max_pool_stays_one_of_zeros() -> None:
    def pool(x: jax.Array) -> jax.Array:
        padded = jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        return jax.lax.reduce_window(
            padded, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 1, 1), "VALID"
        )

    x = -1 - jax.random.uniform(jax.random.key(0), (1, 2, 4, 4))
    assert_close(run(exported(pool, [x], 13), [x]), [pool(x)])


def old_forms(x: jax.Array) -> tuple[jax.Array, ...]:
    """Returns results of operators that have another form at an opset from 9 to 12."""
    best = jnp.argmax(x, -1)
    values, places = jax.lax.top_k(best, 2)
    return (
        jax.nn.softmax(x, 1),
        jax.nn.log_softmax(x, -1),
        jnp.clip(x, -0.5, 0.5),
        jnp.pad(x, ((0, 0), (1, 2), (0, 0)), constant_values=0.5),
        x[:, 1:3, None],
        jnp.sum(x, (0, -1)),
        jnp.concatenate(jnp.split(x, (1, 3), 1)[::-1], 1),
        x[0] @ x[1].T,
        (x == 0.0) | (x >= 1.0) | (x <= -1.0) | jnp.isinf(x),
        values,
        places,
        jnp.sort(best, 0),
    )


@pytest.mark.parametrize("opset", [9, 10, 11, 12])
def test_older_forms_agree(opset: int) -> None:
    x = jax.random.normal(jax.random.key(0), (2, 4, 3))
    x = x.at[0, 0].set(jnp.array([0.0, jnp.inf, -jnp.inf])).at[1, 1].set(jnp.nan)
    assert_close(run(exported(old_forms, [x], opset), [x]), list(old_forms(x)))


@pytest.mark.parametrize("opset", [9, 10, 11, 12])
def test_ranges_of_symbolic_size_agree(opset: int) -> None:
    def rows(x: jax.Array) -> jax.Array:
        return jnp.arange(x.shape[0]) + x

    model = exported(rows, [("n",)], opset)
    for size in (0, 1, 5):
        x = jnp.ones(size)
        assert_close(run(model, [x]), [rows(x)])


def test_a_step_needs_a_newer_opset() -> None:
    def reverse(x: jax.Array) -> jax.Array:
        return x[::-1]

    with pytest.raises(InvalidInputError) as caught:
        to_onnx(reverse, [(3,)], opset=9)
    text = str(caught.value)
    assert "opset 9 is too old: `Slice` needs opset 10 (its step is not 1)" in text
    assert "return x[::-1]" in text


def test_the_error_names_the_line_and_the_opset() -> None:
    def add(x: jax.Array) -> jax.Array:
        return x.at[jnp.array([0, 0])].add(1.0)

    with pytest.raises(InvalidInputError) as caught:
        to_onnx(add, [(3,)], opset=15)
    text = str(caught.value)
    assert "opset 15 is too old: `ScatterND` needs opset 16" in text
    assert "test_opsets.py" in text
    assert "at[jnp.array([0, 0])].add(1.0)" in text


@pytest.mark.parametrize("target", ["onnxruntime", "any"])
def test_the_error_names_the_opset_that_has_the_type(target: Any) -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jax.lax.cond(x[0] > 0, lambda x: x + 1, lambda x: x * 2, x)

    x = jax.ShapeDtypeStruct((3,), jnp.bfloat16)
    with pytest.raises(InvalidInputError, match=r"`If` needs opset 16 \(for bf16\)"):
        to_onnx(fn, [x], opset=13, target=target)
    onnx.checker.check_model(to_onnx(fn, [x], opset=16, target=target), full_check=True)


@pytest.mark.slow
def test_the_error_about_a_type_names_a_line_that_uses_it() -> None:
    def fn(x: Any) -> Any:
        return x.astype(jnp.float8_e5m2).astype(jnp.float32)

    with pytest.raises(InvalidInputError) as error:
        to_onnx(fn, [(2,)], opset=18)
    assert "opset 18 is too old: `f8e5m2` needs opset 19" in str(error.value)
    assert "return x.astype(jnp.float8_e5m2)" in str(error.value)
