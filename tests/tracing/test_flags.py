"""Flags: booleans whose value Python code reads."""

import functools
import itertools
import warnings
from collections import Counter

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from flax import nnx

from jax2onnx import allclose, to_onnx, verify
from jax2onnx.errors import InvalidInputError


def nodes(model):
    return Counter(node.op_type for node in model.graph.node)


def agree(fn, model, x, names):
    """Compares the model with the function for all values of its flags."""
    for values in itertools.product((True, False), repeat=len(names)):
        flags = dict(zip(names, values, strict=True))
        same, why = allclose(fn, model, [x], flags)
        assert same, (flags, why)


def run(model, **feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of inputs with a default value
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {name: np.asarray(value) for name, value in feeds.items()})[0]


X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)


class Classifier(nnx.Module):
    def __init__(self, rngs, layers=2):
        self.linears = nnx.List([nnx.Linear(8, 8, rngs=rngs) for _ in range(layers)])
        self.dropouts = nnx.List([nnx.Dropout(0.5, rngs=rngs) for _ in range(layers)])
        self.head = nnx.Linear(8, 4, rngs=rngs)

    def __call__(self, x, *, deterministic):
        for linear, dropout in zip(self.linears, self.dropouts, strict=True):
            x = dropout(nnx.gelu(linear(x)), deterministic=deterministic)
        return self.head(x)


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("batch", ["B", 3])
def test_dropout_of_nnx(default, batch):
    model = Classifier(nnx.Rngs(0), layers=3)
    exported = to_onnx(model, [(batch, 8)], input_params={"deterministic": default})
    agree(model, exported, X, ["deterministic"])
    # The layers occur once; only the masks are conditional.
    assert nodes(exported)["Gemm"] == 4
    assert nodes(exported)["If"] == 3


def test_the_given_value_is_the_default():
    model = Classifier(nnx.Rngs(0))
    for default in (True, False):
        exported = to_onnx(model, [("B", 8)], input_params={"deterministic": default})
        onnx.checker.check_model(exported, full_check=True)
        assert [i.name for i in exported.graph.input] == ["x", "deterministic"]
        by_default = run(exported, x=X)
        np.testing.assert_array_equal(by_default, run(exported, x=X, deterministic=default))
        assert not np.allclose(by_default, run(exported, x=X, deterministic=not default))


def test_attention_of_nnx():
    attention = nnx.MultiHeadAttention(
        num_heads=2,
        in_features=8,
        qkv_features=8,
        dropout_rate=0.3,
        decode=False,
        rngs=nnx.Rngs(1),
    )

    def attend(x, deterministic):
        return attention(x, deterministic=deterministic)

    x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    model = to_onnx(attend, [(2, 5, 8)], input_params={"deterministic": True})
    agree(attend, model, x, ["deterministic"])
    assert nodes(model)["Softmax"] == 1
    assert nodes(model)["MatMul"] == 6


class Trained(nnx.Module):
    """Batch statistics and a mask, controlled by one flag."""

    def __init__(self, rngs):
        self.linear = nnx.Linear(8, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)

    def __call__(self, x, train):
        x = self.norm(self.linear(x), use_running_average=not train)
        return self.dropout(nnx.relu(x), deterministic=not train)


def test_training_mode():
    model = Trained(nnx.Rngs(3))
    exported = to_onnx(model, [("B", 8)], input_params={"train": False})
    agree(model, exported, X, ["train"])
    assert nodes(exported)["Gemm"] == 1
    assert isinstance(model.norm.mean[...], jax.Array)  # and not a tracer
    assert not isinstance(model.norm.mean[...], jax.core.Tracer)


def test_functions():
    model = Classifier(nnx.Rngs(0), layers=4)
    exported = to_onnx(model, [(3, 8)], {"deterministic": True}, functions="modules")
    agree(model, exported, X, ["deterministic"])
    found = nodes(exported)
    assert found["Linear"] == 5
    assert found["DropoutFunction"] >= 4
    assert "If" not in found


def test_linen():
    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, deterministic):
            for _ in range(3):
                x = nn.Dropout(0.3)(nn.relu(nn.Dense(8)(x)), deterministic=deterministic)
            return x

    block = Block()
    params = block.init(jax.random.key(0), X, deterministic=True)

    def apply(x, deterministic):
        rngs = {"dropout": jax.random.key(2)}
        return block.apply(params, x, deterministic=deterministic, rngs=rngs)

    model = to_onnx(apply, [("B", 8)], {"deterministic": True})
    agree(apply, model, X, ["deterministic"])
    assert (nodes(model)["Gemm"], nodes(model)["If"]) == (3, 3)


def test_equinox():
    one, other = jax.random.split(jax.random.key(0))
    layers = eqx.nn.Linear(8, 8, key=one), eqx.nn.Linear(8, 4, key=other)
    dropout = eqx.nn.Dropout(0.4)

    def apply(x, inference):
        def single(row, key):
            row = dropout(jax.nn.relu(layers[0](row)), key=key, inference=inference)
            return layers[1](row)

        return jax.vmap(single)(x, jax.random.split(jax.random.key(1), 3))

    model = to_onnx(apply, [(3, 8)], {"inference": True})
    agree(apply, model, X, ["inference"])
    assert nodes(model)["If"] == 1


def test_several_flags():
    def fn(x, double, shift):
        if double:
            x = x * 2
        x = jnp.sin(x)
        if shift and not double:
            x = x + 1
        return jnp.cos(x)

    model = to_onnx(fn, [(3, 8)], {"double": True, "shift": False})
    agree(fn, model, X, ["double", "shift"])
    assert nodes(model)["Sin"] == nodes(model)["Cos"] == 1


def test_a_flag_may_be_asked_for_one_value_of_another_only():
    def fn(x, train, noisy):
        if train:
            return x + 1 if noisy else x - 1
        return x

    model = to_onnx(fn, [(3, 8)], {"train": False, "noisy": True})
    agree(fn, model, X, ["train", "noisy"])


def test_flags_in_a_pytree_and_by_position():
    def fn(x, on, flags):
        return x * 2 if on and flags["a"] else x

    flag = jax.ShapeDtypeStruct((), bool)
    model = to_onnx(fn, [(3, 8), flag], {"flags": {"a": True}})
    for on, a in itertools.product((True, False), repeat=2):
        expected = fn(X, on, {"a": a})
        np.testing.assert_array_equal(run(model, x=X, on=on, **{"flags.a": a}), expected)


def test_a_flag_that_changes_nothing_leaves_one_graph():
    def asked(x, flag):
        if flag:
            x = x.reshape(3, 8)
        return jnp.sin(x)

    for fn in (asked, lambda x, flag: jnp.sin(x)):
        model = to_onnx(fn, [(3, 8)], {"flag": True})
        assert nodes(model) == {"Sin": 1}
        assert [i.name for i in model.graph.input] == ["x", "flag"]
        agree(fn, model, X, ["flag"])


def test_a_flag_that_is_only_computed_with_is_not_asked():
    def fn(x, flag):
        return jnp.where(flag, x, -x)

    model = to_onnx(fn, [(3, 8)], {"flag": True})
    agree(fn, model, X, ["flag"])
    assert "If" not in nodes(model)


def test_static_arguments():
    @functools.partial(jax.jit, static_argnames="train")
    def fn(x, train):
        y = jnp.sin(x @ jnp.ones((8, 8)))
        return jnp.tanh(y + 1 if train else y)

    for call in (fn, lambda x, train: fn(x, train=train)):
        model = to_onnx(call, [(3, 8)], {"train": True})
        agree(call, model, X, ["train"])
        assert nodes(model) == {"MatMul": 1, "Sin": 1, "If": 1, "Tanh": 1}


def test_loops_that_differ_are_chosen_as_a_whole():
    def fn(x, train):
        def body(carry, row):
            carry = carry + jnp.sin(row) * (0.5 if train else 1.0)
            return carry, carry

        y = jnp.exp(x)
        return jnp.tanh(jax.lax.scan(body, y[0], y)[1])

    for batch in (3, "B"):
        model = to_onnx(fn, [(batch, 8)], {"train": True})
        agree(fn, model, X, ["train"])
        assert nodes(model)["Exp"] == nodes(model)["Tanh"] == 1


def test_branches_know_their_lines():
    def fn(x, flag):
        if flag:
            x = jnp.exp(x)
        return x

    model = to_onnx(fn, [(3, 8)], {"flag": True}, stacktrace_metadata=True)
    (choice,) = model.graph.node
    branches = [attribute.g for attribute in choice.attribute]
    (exp,) = [node for branch in branches for node in branch.node if node.op_type == "Exp"]
    sites = {entry.key: entry.value for entry in exp.metadata_props}
    line = fn.__code__.co_firstlineno + 2
    assert sites["pkg.jax2onnx.callsite"].endswith(f"fn:{line}")


@pytest.mark.slow
def test_verify_compares_both_answers():
    model = Classifier(nnx.Rngs(0))
    exported = to_onnx(model, [("B", 8)], {"deterministic": True})
    for value in (True, False):
        assert verify(model, exported, [X], {"deterministic": value})


def test_a_value_that_the_function_does_not_take():
    dropout = nn.Dropout(0.5)

    def fn(x, deterministic):
        return dropout.apply({}, x, deterministic=deterministic)  # there is no key

    with pytest.warns(UserWarning, match="fails for `deterministic=False`.* returns NaN"):
        model = to_onnx(fn, [(3, 8)], {"deterministic": True})
    np.testing.assert_array_equal(run(model, x=X), X)
    assert np.isnan(run(model, x=X, deterministic=False)).all()
    with pytest.raises(Exception, match="PRNG"):
        to_onnx(fn, [(3, 8)], {"deterministic": False})


def test_results_must_have_one_type():
    with pytest.raises(InvalidInputError, match=r"float32\[2\] for `flag=False`"):
        to_onnx(lambda x, flag: x if flag else x[:2], [(4,)], {"flag": True})


def test_too_many_flags():
    def fn(x, **flags):
        return x + sum(1 for flag in flags.values() if flag)

    with pytest.raises(InvalidInputError, match="branches on 5 flags"):
        to_onnx(fn, [(3, 8)], {f"f{i}": True for i in range(5)})


def test_questions_about_other_values_are_still_errors():
    def fn(x, flag):
        if flag:
            x = x + 1
        return x if x.sum() > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError, match="argument x"):
        to_onnx(fn, [(3, 8)], {"flag": True})


def test_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_onnx(Classifier(nnx.Rngs(0)), [("B", 8)], {"deterministic": True})


def test_refused_flags_are_not_traced_again() -> None:
    traced = []

    def fn(x, *, noisy, training):
        traced.append([isinstance(flag, jax.core.Tracer) for flag in (noisy, training)])
        return jnp.where(noisy, x * 2, x) + (1 if training else 0)

    to_onnx(fn, [(2,)], {"noisy": True, "training": True})
    assert traced == [[True, True], [False, False], [True, False], [True, False]]
