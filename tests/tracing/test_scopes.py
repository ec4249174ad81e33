import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from harness.checking import scopes
from jax2onnx import to_onnx
from jax2onnx._tracing import call_observers
from jax2onnx._tracing.trace import trace
from models.linen.mlp import mlp as linen_mlp
from models.nnx.gpt import Attention, Block, gpt

X = jax.ShapeDtypeStruct((2, 3), jnp.float32)


def traced(fn: Any, *args: Any) -> list[str]:
    return scopes(trace(fn, args or (X,), {}, double=False).jaxpr)


class Scale:
    """A module without a framework."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.factor


class Twice(Scale):
    def __call__(self, x: jax.Array) -> jax.Array:
        return super().__call__(super().__call__(x))


class Net:
    def __init__(self) -> None:
        self.layers = [Scale(2.0), Twice(3.0)]
        self.named = {"deep/er": Scale(4.0)}

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = layer(x)
        return jnp.sin(self.named["deep/er"](x))


def test_scopes_are_paths_relative_to_the_caller() -> None:
    model, (tokens,) = gpt(layers=2)
    found = traced(model, tokens)
    assert {"tokens", "blocks.0/attn_norm", "blocks.1/attn/q", "blocks.1/attn", "head"} <= {*found}


def test_any_class_with_a_call_is_a_module() -> None:
    assert traced(Net()) == ["layers.0", "layers.1", "named.deep.er", ""]


def test_the_way_to_the_model_changes_no_scope() -> None:
    model = Net()
    expected = traced(model)
    assert traced(lambda x: model(x)) == expected
    assert traced(model.__call__) == expected
    assert traced(jax.jit(model)) == expected
    first, second = Scale(1.0), Scale(2.0)
    assert traced(lambda x: second(first(x))) == ["first", "second"]


def test_equinox_scopes_give_way_to_paths() -> None:
    model = eqx.nn.MLP(3, 3, 4, 1, key=jax.random.key(0))
    found = traced(model, jax.ShapeDtypeStruct((3,), jnp.float32))
    assert {"layers.0", "layers.1"} <= {*found}
    assert not any("eqx" in scope for scope in found)
    pool = eqx.nn.Sequential([eqx.nn.MaxPool1d(2), eqx.nn.Identity()])
    assert traced(pool, jax.ShapeDtypeStruct((1, 4), jnp.float32)) == ["layers.0"]


def test_rebuilt_modules_have_the_scopes_of_their_parts() -> None:
    """`filter_jit` calls a copy of the module whose parameters are arguments."""
    model = eqx.nn.MLP(3, 3, 4, 1, key=jax.random.key(0))
    found = traced(eqx.filter_jit(model), jax.ShapeDtypeStruct((3,), jnp.float32))
    assert {"layers.0", "layers.1"} <= {scope.split("eqx.nn.MLP/")[-1] for scope in found}


@pytest.mark.slow
def test_rebuilt_modules_are_recognised_by_their_settings() -> None:
    """`nnx.vmap` and `eqx.filter_vmap` call copies of their modules."""

    class Stacked(eqx.Module):
        wide: eqx.nn.MLP
        deep: eqx.nn.MLP

        def __call__(self, x: jax.Array) -> jax.Array:
            run = eqx.filter_vmap(lambda mlp, x: mlp(x), in_axes=(eqx.if_array(0), None))
            return run(self.wide, x).sum() + run(self.deep, x).sum()

    def stack(width: int, depth: int) -> eqx.nn.MLP:
        def make(key: jax.Array) -> eqx.nn.MLP:
            return eqx.nn.MLP(3, 3, width, depth, key=key)

        return eqx.filter_vmap(make)(jax.random.split(jax.random.key(0), 2))

    found = traced(Stacked(stack(8, 1), stack(4, 2)), jax.ShapeDtypeStruct((3,), jnp.float32))
    assert {"wide/layers.1", "deep/layers.2"} <= {*found}
    twins = traced(Stacked(stack(4, 1), stack(4, 1)), jax.ShapeDtypeStruct((3,), jnp.float32))
    assert not any("wide" in scope or "deep" in scope for scope in twins), "which one is unknown"


def test_linen_names_its_own_scopes() -> None:
    bound, args = linen_mlp()
    assert traced(bound, *args) == ["MLP/Dense_0", "MLP", "MLP/Dense_1", "MLP/head"]


def test_scopes_of_the_user_stay() -> None:
    scale = Scale(2.0)

    def fn(x: jax.Array) -> jax.Array:
        with jax.named_scope("mine"):
            return scale(x)

    assert traced(fn) == ["mine"]
    assert traced(lambda x: (fn(x), Scale(3.0)(x))) == ["mine", ""]


def test_scopes_that_jax_opens_are_no_modules() -> None:
    def fn(x: jax.Array) -> jax.Array:
        with jax.named_scope("mine"):
            y = jnp.einsum("...i,...j->...ij", x, x)
            y = jnp.einsum("...ij -> ...ji", y)
        with jax.named_scope("in->out"):
            return jnp.einsum("...ij,...kj->...ik", y, y).sum(-1)

    names = {
        node.name.rpartition("/")[0]
        for node in to_onnx(fn, [("B", 3)], stacktrace_metadata="sourcemap").graph.node
    }
    assert names == {"/mine", "/in->out"}


def einsum(x: jax.Array) -> jax.Array:
    """A function of the user's, with the name of JAX's."""
    return jax.named_call(jnp.tanh, name="ij")(x)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: jnp.einsum("i,j", x[0], x[1]), {""}),
        (lambda x: jnp.einsum("ij,kl", x, x), {""}),
        (lambda x: jnp.einsum("ji", x), {""}),
        (lambda x: jnp.sin(jnp.einsum("ii", x)), {""}),
        (lambda x: jax.vmap(lambda row: jnp.einsum("i,j", row, row))(x), {""}),
        (jax.named_scope("q,k")(lambda x: jnp.einsum("i,j", x[0], x[1])), {"/q,k"}),
        (jax.named_scope("ij")(lambda x: jnp.einsum(x, [1, 0])), {"/ij"}),
        (jax.named_scope("ij")(jnp.sin), {"/ij"}),
        (einsum, {"/ij"}),
    ],
)
@pytest.mark.parametrize("metadata", [False, "sourcemap"])
def test_specifications_without_a_result_are_no_modules(
    fn: Callable[[jax.Array], jax.Array], expected: set[str], metadata: Any
) -> None:
    nodes = to_onnx(fn, [(3, 3)], stacktrace_metadata=metadata).graph.node
    assert {node.name.rpartition("/")[0] for node in nodes} == expected


def test_earlier_calls_change_nothing() -> None:
    def fresh() -> Any:
        model = Net()
        return jax.jit(lambda x: model(x))

    expected = traced(fresh())
    used = fresh()
    used(jnp.ones((2, 3)))
    jax.make_jaxpr(used)(X)
    assert traced(used) == traced(used) == expected
    jaxpr = jax.make_jaxpr(used)(X)
    assert scopes(jaxpr) == [""], "the export must not change what the user traces either"


def test_a_changed_model_is_traced_again() -> None:
    """Otherwise, JAX would take a jitted function that closes over a model from its cache."""
    model = Net()
    fn = jax.jit(lambda x: model(x))

    def factors() -> str:
        return str(trace(fn, (X,), {}, double=False).jaxpr)

    before = factors()
    model.layers[0].factor = 7.0
    assert "7.0" in factors()
    assert "7.0" not in before


def test_classes_are_restored() -> None:
    calls = {cls: cls.__dict__["__call__"] for cls in (Block, Attention, nnx.Linear)}
    model, (tokens,) = gpt(layers=1)
    traced(model, tokens)
    assert all(cls.__dict__["__call__"] is call for cls, call in calls.items())

    class Failing(Net):
        def __call__(self, x: jax.Array) -> jax.Array:
            super().__call__(x)
            raise RuntimeError("failed on purpose")

    call = Failing.__dict__["__call__"]
    with pytest.raises(RuntimeError, match="on purpose"):
        traced(Failing())
    assert Failing.__dict__["__call__"] is call
    assert getattr(call_observers._thread, "watch", None) is None


def test_other_threads_are_not_affected() -> None:
    model = Scale(2.0)
    seen: list[Any] = []

    def elsewhere() -> None:
        seen.append(float(model(jnp.float32(3))))
        seen.append(scopes(jax.make_jaxpr(model)(X)))

    def fn(x: jax.Array) -> jax.Array:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return model(x)

    assert traced(fn) == [""]
    assert seen == [6.0, [""]]


def test_exports_in_several_threads_agree() -> None:
    model, (tokens,) = gpt(layers=2)
    expected = traced(model, tokens)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: traced(model, tokens), range(8)))
    assert results == [expected] * 8
