"""`verify` reports the first value that differs from JAX's; `allclose` is a predicate."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx

import jax2onnx
from harness.provenance_of import line_of
from jax2onnx import InvalidInputError, allclose, to_onnx, verify
from jax2onnx._checking import graph
from models.nnx.gpt import Attention, gpt

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with jax2onnx.local_lowerings():
        yield


def _spoil(primitive: str, scope: str = "") -> None:
    """Installs a rule with an error of one per cent inside a scope."""

    @jax2onnx.lowering(primitive, override=True)
    def spoiled(ctx: Any, *x: Any) -> Any:
        (y,) = ctx.built_in(*x)
        if not ctx.scope.startswith(scope):
            return y
        if y.is_complex:
            return ctx.complex(y.real, ctx.op("Mul", y.imag, 1.01))
        return ctx.op("Mul", y, 1.01)  # spoiled


def _small_gpt(layers: int) -> Any:
    # One size for all tests, so that they share JAX's compiled programs.
    return gpt(layers, width=8, heads=2, length=8)


def _line(mark: str) -> int:
    return line_of(mark, _line)


@pytest.mark.slow
def test_a_wrong_rule_in_the_middle_of_a_gpt_is_named() -> None:
    model, args = _small_gpt(3)
    _spoil("exp", "blocks.1/attn")
    proto = to_onnx(model, list(args))
    found = verify(model, proto, list(args))
    assert not found
    assert found.message.startswith("[value-differs] `exp` differs from JAX\n")
    source, first = Attention.__call__.__code__.co_filename, 0
    for number, text in enumerate(Path(source).read_text().splitlines(), 1):
        first = number if "jax.nn.softmax" in text else first
    assert f"models/nnx/gpt.py:{first}:47 in Attention.__call__ (blocks.1/attn)" in found.place
    assert f"\n      | {' ' * 46}{'^' * len('jax.nn.softmax(scores, axis=-1)')}" in found.place
    assert found.rule == f"_spoil.<locals>.spoiled:{_line('spoiled')}"
    assert found.value.startswith("/blocks.1/attn/Mul")
    assert "in JAX, " in found.message
    assert found.compared > 40


@pytest.mark.slow
def test_a_right_gpt_is_right() -> None:
    model, args = _small_gpt(2)
    found = verify(model, to_onnx(model, list(args)), list(args))
    assert found, found.message
    assert found.compared > 50


@pytest.mark.slow
def test_functions_are_looked_into() -> None:
    model, args = _small_gpt(2)
    proto = to_onnx(model, list(args), functions="modules")
    assert (found := verify(model, proto, list(args))), found
    assert found.compared >= 6
    _spoil("tanh")
    wrong = to_onnx(model, list(args), functions="modules")
    found = verify(model, wrong, list(args))
    assert "jax.nn.gelu(self.up(self.mlp_norm(x)))" in found.place
    assert "(blocks.0)" in found.place
    assert found.rule == f"_spoil.<locals>.spoiled:{_line('spoiled')}"


@pytest.mark.slow
def test_symbolic_dimensions() -> None:
    model, args = _small_gpt(1)
    dims = jax.export.symbolic_shape("B, T", constraints=["T <= 8"])
    proto = to_onnx(model, [jax.ShapeDtypeStruct(dims, jnp.int32)])
    assert (found := verify(model, proto, list(args))), found
    assert (found := verify(model, proto, [args[0][:1, :5]])), found
    assert found.compared > 30
    _spoil("tanh")
    wrong = verify(model, to_onnx(model, [jax.ShapeDtypeStruct(dims, jnp.int32)]), list(args))
    assert "`tanh` differs from JAX" in wrong.message


@pytest.mark.slow
def test_symbolic_dimensions_inside_loops() -> None:
    def fn(x: jax.Array) -> jax.Array:
        def body(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
            wide = jnp.concatenate([carry, row]).reshape(2, -1).sum(0)
            return wide, jnp.broadcast_to(wide.sum(), (x.shape[0], 2))

        total, rows = jax.lax.scan(body, jnp.zeros(x.shape[1]), x)
        return rows.sum() + total * x.shape[0]

    found = verify(fn, to_onnx(fn, [("B", "N")]), [X])
    assert found, found


def test_loops_are_looked_into() -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = jnp.cos(x)
        z = jax.lax.fori_loop(
            0,
            3,
            lambda _, v: jnp.sin(v),  # in the loop
            y,
        )
        return z * 2

    _spoil("sin")
    found = verify(fn, to_onnx(fn, [(2, 3)]), [X])
    assert f"test_verify.py:{_line('in the loop')}:" in found.place
    assert "inside: iteration 0 of `scan`" in found.message


def test_later_rounds_and_branches_are_looked_into() -> None:
    def fn(x: jax.Array) -> jax.Array:
        def body(state: tuple[Any, Any]) -> tuple[Any, Any]:
            i, v = state
            v = jax.lax.cond(
                i > 1,
                lambda w: jnp.exp(w) * 0.1,  # in the branch
                lambda w: w + 1,
                v,
            )
            return i + 1, v

        return jax.lax.while_loop(lambda s: s[0] < 4, body, (0, x))[1]

    _spoil("exp")
    found = verify(fn, to_onnx(fn, [(2, 3)]), [X])
    assert f"test_verify.py:{_line('in the branch')}:" in found.place
    assert "inside: iteration 2 of `while`\n  inside: branch 1 of `cond`" in found.message


def test_called_functions_are_looked_into() -> None:
    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        y = jax.nn.relu(x)
        return jnp.tanh(y)  # inside

    def fn(x: jax.Array) -> jax.Array:
        return jax.checkpoint(inner)(x + 1) * 2

    _spoil("tanh")
    found = verify(fn, to_onnx(fn, [(2, 3)]), [X])
    assert f"test_verify.py:{_line('inside')}:" in found.place


def test_a_rule_that_leaves_something_out() -> None:
    jax2onnx.lowering("neg", override=True)(lambda ctx, x: x)

    def fn(x: jax.Array) -> jax.Array:
        y = -x  # left out
        return y + 1

    found = verify(fn, to_onnx(fn, [(2, 3)]), [X])
    assert f"test_verify.py:{_line('left out')}:" in found.place


def test_operations_folded_into_a_constant() -> None:
    _spoil("neg")

    def fn(x: jax.Array) -> jax.Array:
        scale = -jax.lax.iota(np.float32, 3)  # folded
        return x * scale

    proto = to_onnx(fn, [(3,)])
    assert [node.op_type for node in proto.graph.node] == ["Mul"]
    found = verify(fn, proto, [X[0]])
    assert f"test_verify.py:{_line('folded')}:" in found.place


@pytest.mark.slow
def test_complex_numbers_and_keys() -> None:
    def fn(z: jax.Array, key: jax.Array) -> Any:
        one, two = jax.random.split(key)
        noise = jax.random.normal(one, z.shape)
        return jnp.exp(z) * noise, two

    args = [(X + 1j * X[::-1]).astype(np.complex64), jax.random.key(3)]
    proto = to_onnx(fn, args)
    assert (found := verify(fn, proto, args)), found
    assert (close := allclose(fn, proto, args)), close
    _spoil("exp")
    wrong = verify(fn, to_onnx(fn, args), args)
    assert "`exp` differs from JAX" in wrong.message


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "uint32"])
def test_element_types(dtype: str) -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = x * x + x
        return jnp.where(y > 1, y, jnp.asarray(3, dtype))

    args = [jnp.asarray(np.abs(X) * 2, dtype)]
    proto = to_onnx(fn, args)
    assert (found := verify(fn, proto, args)), found
    assert found.compared >= 4
    close, message = allclose(fn, proto, args, rtol=0.1)
    assert close, message


def test_scalars() -> None:
    def fn(x: jax.Array, at: jax.Array, by: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.lax.dynamic_slice(x, (at, 0), (1, 2)), by * 2

    args = [X, np.int32(1), np.float32(3)]
    proto = to_onnx(fn, args)
    assert (found := verify(fn, proto, args)), found
    assert (close := allclose(fn, proto, args)), close


def test_double_precision() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * (1 + 1e-6)

    args = [X.astype(np.float64)]
    proto = to_onnx(fn, args, enable_double_precision=True)
    assert (found := verify(fn, proto, args, enable_double_precision=True)), found
    close, message = allclose(fn, proto, args, rtol=1e-12, enable_double_precision=True)
    assert close, message

    def other(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    close, message = allclose(other, proto, args, rtol=1e-7, atol=0, enable_double_precision=True)
    assert not close
    assert "`output` differs: 6 of 6 elements" in message


def test_nan_and_infinity_have_their_places() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.log(x) / 2

    proto = to_onnx(fn, [(4,)])
    args = [np.array([-1, 0, 1, np.inf], np.float32)]
    assert (found := verify(fn, proto, args)), found

    def other(x: jax.Array) -> jax.Array:
        return jnp.log(jnp.abs(x)) / 2

    close, message = allclose(other, proto, args)
    assert not close
    assert message == (
        "`output` differs: 1 of 4 elements (25 %); largest difference at [0]: 0 in JAX, "
        "nan in the model"
    )


def test_layouts() -> None:
    def fn(image: jax.Array) -> jax.Array:
        return image * jnp.arange(3, dtype=image.dtype)

    image = np.arange(24, dtype=np.float32).reshape(1, 2, 4, 3)
    layout: Any = {"inputs_as_nchw": ["image"], "outputs_as_nchw": [0]}
    proto = to_onnx(fn, [("B", 2, 4, 3)], **layout)
    assert (found := verify(fn, proto, [image], **layout)), found
    close, message = allclose(fn, proto, [image], **layout)
    assert close, message


def test_models_in_files_with_weights_beside_them(tmp_path: Path) -> None:
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(64, 1024)), jnp.float32)

    def fn(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ weights)

    path = to_onnx(fn, [("B", 64)], return_mode="file", output_path=tmp_path / "m.onnx")
    proto = onnx.load(path)
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    x = np.ones((2, 64), np.float32)
    assert (found := verify(fn, path, [x])), found
    assert (found := verify(fn, to_onnx(fn, [("B", 64)], return_mode="ir"), [x])), found
    assert allclose(fn, path, [x])[0]


@pytest.mark.slow
def test_batches_of_values_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, args = _small_gpt(1)
    proto = to_onnx(model, list(args))
    whole = verify(model, proto, list(args))
    monkeypatch.setattr(graph, "BATCH", 8000)
    parts = verify(model, proto, list(args))
    assert (parts.message, parts.compared) == (whole.message, whole.compared)


@pytest.mark.slow
def test_an_older_export_with_other_options_is_matched() -> None:
    model, args = _small_gpt(1)
    proto = to_onnx(model, list(args), opset=19, input_names=["ids"], model_name="older")
    for node in proto.graph.node:
        node.name = f"renamed{node.name}"
    found = verify(model, proto, list(args))
    assert found, found
    assert found.compared > 30


def test_a_model_of_another_function() -> None:
    proto = to_onnx(lambda x: jnp.cos(x) + 1, [(2, 3)])
    found = verify(lambda x: jnp.sin(x) + 1, proto, [X])
    assert not found
    assert found.message.startswith("[value-differs] `output` differs from JAX")
    assert "it is one of 2 nodes between values that agree: /Cos, /Add." in found.certainty
    close, message = allclose(lambda x: (x, x), proto, [X])
    assert (close, message) == (False, "the model has 1 outputs, but the function has 2")
    with pytest.raises(jax2onnx.InvalidInputError, match=r"input `x` is float32\[2, 3\]"):
        allclose(jnp.sin, proto, [X[:1]])
    with pytest.raises(jax2onnx.InvalidInputError, match="there is no model"):
        allclose(jnp.sin, "nowhere.onnx", [X])


def test_shapes_become_random_numbers() -> None:
    def fn(x: jax.Array, *, scale: float) -> jax.Array:
        return jnp.tanh(x) * scale

    proto = to_onnx(fn, [("B", "2*B")], {"scale": 2.0})
    close, message = allclose(fn, proto, [("B", "2*B")], {"scale": 3.0})
    assert (close, message) == (True, "the output agrees (rtol=0.001, atol=1e-05)")


def test_the_model_may_be_passed_by_another_name() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return x.sum()

    assert allclose(fn, onnx_model_path=to_onnx(fn, [(2,)]), inputs=[(2,)])[0]
    with pytest.raises(InvalidInputError, match="one model"):
        allclose(fn, inputs=[(2,)])


def test_the_model_is_not_modified() -> None:
    norm = nnx.BatchNorm(3, rngs=nnx.Rngs(0))
    proto = to_onnx(norm, [(2, 3)], training="allow")
    before = np.asarray(norm.mean[...])
    assert verify(norm, proto, [X])
    assert allclose(norm, proto, [X])[0]
    np.testing.assert_array_equal(np.asarray(norm.mean[...]), before)


class Inner(nnx.Module):
    def __init__(self) -> None:
        self.linear = nnx.Linear(8, 8, rngs=nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        return jnp.tanh(self.linear(x))


class Deep(nnx.Module):
    def __init__(self) -> None:
        self.first, self.second = Inner(), Inner()

    def __call__(self, x: Any, *, deep: bool) -> Any:
        x = self.first(x)
        return self.second(x) if deep else x


@pytest.mark.parametrize("deep", [True, False])
def test_functions_that_are_called_in_a_branch(deep: bool) -> None:
    x, model = jnp.linspace(-1, 1, 24).reshape(3, 8), Deep()
    exported = to_onnx(model, [x], {"deep": True}, functions="modules")
    branches = [
        attribute.g
        for function in exported.functions
        for node in function.node
        for attribute in node.attribute
        if node.op_type == "If"
    ]
    assert any(node.domain for branch in branches for node in branch.node)
    found = verify(model, exported, [x], {"deep": deep})
    assert found
    assert found.by_line


@pytest.mark.parametrize("past", [0, 3])
def test_a_dimension_may_be_known_by_an_expression(past: int) -> None:
    def step(x: Any, cache: Any) -> Any:
        whole = jnp.concatenate([cache, x], 0)
        return whole * jnp.arange(whole.shape[0])[:, None]

    new, past_and_one = jax.export.symbolic_shape("S, P")
    specs = [jax.ShapeDtypeStruct((n, 4), jnp.float32) for n in (new, past_and_one - 1)]
    exported = to_onnx(step, specs)
    assert verify(step, exported, [jnp.ones((2, 4)), jnp.ones((past, 4))])
