"""Modules as ONNX functions, in every framework."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import onnx
import onnx.inliner
import pytest
from flax import linen, nnx

from harness.checking import assert_close, check_model, run
from harness.functions_of import WEIGHTS, X, calls, domains
from harness.provenance_of import all_nodes
from jax2onnx import (
    InvalidInputError,
    onnx_function,
    to_onnx,
)
from models.equinox.mlp import mlp as eqx_mlp
from models.linen.cnn import cnn as linen_cnn
from models.nnx.gpt import gpt
from models.nnx.resnet50 import resnet50
from models.nnx.vit import vit


class NnxBlock(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return x + jnp.tanh(self.linear(x))


class EqxBlock(eqx.Module):
    linear: eqx.nn.Linear

    def __call__(self, x: Any) -> Any:
        return x + jnp.tanh(jax.vmap(self.linear)(x))


class LinenBlock(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return x + jnp.tanh(linen.Dense(4)(x))


class PlainBlock:
    def __init__(self, weight: Any) -> None:
        self.weight = weight

    def __call__(self, x: Any) -> Any:
        return x + jnp.tanh(x @ self.weight)


class LinenNet(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        for _ in range(3):
            x = LinenBlock()(x)
        return x * 2


class Net:
    def __init__(self, blocks: list[Any]) -> None:
        self.blocks = blocks

    def __call__(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x * 2


def nnx_net() -> Any:
    return Net([NnxBlock(nnx.Rngs(i)) for i in range(3)])


def eqx_net() -> Any:
    keys = jax.random.split(jax.random.key(0), 3)
    return Net([EqxBlock(eqx.nn.Linear(4, 4, key=key)) for key in keys])


def linen_net() -> Any:
    net = LinenNet()
    return net.bind(net.init(jax.random.key(0), X))


def plain_net() -> Any:
    return Net([PlainBlock(weight) for weight in WEIGHTS])


def haiku_net() -> Any:
    hk: Any = pytest.importorskip("haiku")

    class HaikuBlock(hk.Module):  # type: ignore[misc]
        def __call__(self, x: Any) -> Any:
            return x + jnp.tanh(hk.Linear(4)(x))

    def net(x: Any) -> Any:
        for _ in range(3):
            x = HaikuBlock()(x)
        return x * 2

    transformed = hk.without_apply_rng(hk.transform(net))
    return functools.partial(transformed.apply, transformed.init(jax.random.key(0), X))


NETS = {
    "NnxBlock": nnx_net,
    "EqxBlock": eqx_net,
    "LinenBlock": linen_net,
    "PlainBlock": plain_net,
    "HaikuBlock": haiku_net,
}


@pytest.mark.parametrize("name", NETS)
def test_modules_of_every_framework_become_functions(name: str) -> None:
    model = check_model(NETS[name](), [X], functions="modules")
    assert calls(model)[f"custom.{name}.1"] == 3
    assert [node.op_type for node in model.graph.node if node.domain] == [name] * 3
    # The model itself is not a function, and by default there are no functions.
    assert not {"Net", "LinenNet"} & {function.name for function in model.functions}
    assert not to_onnx(NETS[name](), [X]).functions


def test_recreated_modules_become_functions() -> None:
    class Stack(nnx.Module):
        def __init__(self) -> None:
            self.first, self.second = (NnxBlock(nnx.Rngs(i)) for i in range(2))

        def __call__(self, x: Any) -> Any:
            return self.second(self.first(x))

    graph, parameters = nnx.split(Stack())

    def step(x: Any) -> Any:
        gradient = jax.grad(lambda p: nnx.merge(graph, p)(x).sum())(parameters)
        return jax.tree_util.tree_leaves(gradient)

    model = check_model(step, [X], functions="modules")
    assert [n.name for n in model.graph.node if n.op_type == "NnxBlock"][:2] == [
        "/first/NnxBlock",
        "/second/NnxBlock",
    ]


@pytest.mark.parametrize(
    ("kind", "net"),
    [(NnxBlock, nnx_net), (EqxBlock, eqx_net), (LinenBlock, linen_net), (PlainBlock, plain_net)],
    ids=["nnx", "equinox", "linen", "plain"],
)
def test_a_decorated_class_is_a_function(
    kind: Any, net: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(vars(kind))
    monkeypatch.setattr("jax2onnx._tracing.functions._classes", {})
    assert onnx_function(kind) is kind
    assert dict(vars(kind)) == before
    model = check_model(net(), [X])
    assert calls(model) == {f"custom.{kind.__name__}.1": 3}
    assert onnx_function(kind) is kind  # idempotent
    with pytest.raises(InvalidInputError, match="decorate it once"):
        onnx_function(unique=True)(kind)


def test_a_subclass_that_calls_its_base_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(PlainBlock):
        def __call__(self, x: Any) -> Any:
            return super().__call__(super().__call__(x))

    model = check_model(Net([Twice(weight) for weight in WEIGHTS]), [X], functions="modules")
    assert calls(model) == {"custom.Twice.1": 3}


def test_a_method_can_be_decorated() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = WEIGHTS[0]

        @onnx_function
        def encode(self, x: Any) -> Any:
            return jnp.tanh(x @ self.weight)

        def __call__(self, x: Any) -> Any:
            return self.encode(self.encode(x))

    model = check_model(Model(), [X])
    assert calls(model) == {"custom.encode.1": 2}
    assert [value.name for value in model.graph.initializer] == ["weight"]


@pytest.mark.parametrize(
    "build",
    [gpt, vit, eqx_mlp, linen_cnn, functools.partial(resnet50, width=8, classes=10)],
    ids=["gpt", "vit", "equinox", "linen", "resnet50"],
)
def test_models_of_functions_compute_the_same(build: Callable[[], Any]) -> None:
    fn, args = build()
    model = to_onnx(fn, args, functions="modules")
    onnx.checker.check_model(model, full_check=True)
    assert model.functions
    leaves = jax.tree_util.tree_leaves(args)
    assert_close(run(model, leaves), run(to_onnx(fn, args), leaves))


def test_inputs_are_named_after_the_parameters_they_are_given() -> None:
    model, args = gpt(layers=2)
    exported = to_onnx(model, args, functions="modules")
    inputs = {f.domain: list(f.input) for f in exported.functions}
    assert inputs["custom.Block.1"][:2] == ["Block_in_0", "Block.attn_norm.scale"]
    assert "Block.attn.q.kernel" in inputs["custom.Block.1"]
    assert inputs["custom.Attention.1"][:3] == [
        "Attention_in_0",
        "Attention.q.kernel",
        "Attention.q.bias",
    ]
    assert [n.name for n in exported.graph.node if n.op_type == "Block"] == [
        "/blocks.0/Block",
        "/blocks.1/Block",
    ]


@pytest.mark.slow
def test_48_layers_are_one_body() -> None:
    model, args = gpt(layers=48)
    flat, folded = to_onnx(model, args), to_onnx(model, args, functions="modules")
    assert calls(folded)["custom.Block.1"] == 48
    assert domains(folded).count("custom.Block.1") == 1
    assert len(flat.graph.node) > 10 * len(all_nodes(folded))

    def structure(model: onnx.ModelProto) -> int:
        """Returns the size of the model without its weights."""
        return model.ByteSize() - sum(len(w.raw_data) for w in model.graph.initializer)

    assert structure(folded) * 4 < structure(flat)
    assert_close(run(folded, args), run(flat, args))
