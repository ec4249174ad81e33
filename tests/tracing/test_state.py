"""Exporting does not change the user's model or Python's state."""

import gc
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jax2onnx._tracing.trace import trace
from models.nnx.cnn import cnn

X = jax.ShapeDtypeStruct((2, 3), jnp.float32)


def traced(fn: Any, *args: Any) -> Any:
    return trace(fn, args or (X,), {}, double=False).jaxpr


def leaves(model: Any) -> list[Any]:
    return jax.tree_util.tree_leaves(nnx.state(model))


@pytest.mark.slow
def test_training_mode_is_traced_and_undone() -> None:
    model, (image,) = cnn(training=True)
    before = leaves(model)
    primitives = {eqn.primitive.name for eqn in traced(model, image).eqns}
    assert any("random" in name or name == "jit" for name in primitives)
    after = leaves(model)
    assert all(one is other for one, other in zip(before, after, strict=True))

    twin, _ = cnn(training=True)
    np.testing.assert_array_equal(model(image), twin(image))
    updated = [one is not other for one, other in zip(before, leaves(model), strict=True)]
    assert any(updated), "the model still updates itself when it is called"


def test_training_mode_differs_from_evaluation() -> None:
    training, (image,) = cnn(training=True)
    evaluation, _ = cnn(training=False)
    assert str(traced(training, image)) != str(traced(evaluation, image))


def test_a_model_in_a_closure_may_update_itself() -> None:
    model, (image,) = cnn(training=True)
    before = leaves(model)
    traced(lambda x: model(x) + model(x), image)
    assert all(one is other for one, other in zip(before, leaves(model), strict=True))


def test_a_model_in_a_default_value_may_update_itself() -> None:
    model, (image,) = cnn(training=True)
    before = leaves(model)
    traced(lambda x, m=model: m(x) + m(x), image)
    assert all(one is other for one, other in zip(before, leaves(model), strict=True))


def test_linen_variables_and_counters_are_undone() -> None:
    class Noisy(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            count = self.variable("counts", "calls", lambda: jnp.zeros(()))
            count.value = count.value + 1
            return nn.Dropout(0.5, deterministic=False)(nn.Dense(3)(x)) + count.value

    module, key = Noisy(), jax.random.key(0)
    variables = module.init({"params": key, "dropout": key}, jnp.ones((2, 3)))

    def bound() -> Any:
        return module.bind(variables, rngs={"dropout": key}, mutable=["counts"])

    exported, fresh = bound(), bound()
    traced(exported)
    x = jnp.ones((2, 3))
    for _ in range(2):
        np.testing.assert_array_equal(exported(x), fresh(x))


class Remembering:
    """Writes to everything it holds."""

    __slots__ = ("__dict__", "last", "never")

    def __init__(self) -> None:
        self.last = None
        self.calls = 0
        self.inputs: list[Any] = ["first"]
        self.cache = {"a": 1, "b": 2}
        self.shapes = {(1,)}

    def __call__(self, x: jax.Array) -> jax.Array:
        self.last = self.never = x
        self.calls += 1
        self.added = x
        self.inputs.append(x)
        del self.cache["a"]
        self.cache["c"] = x
        self.shapes.add(x.shape)
        return x * self.calls

    def contents(self) -> Any:
        return (self.last, self.calls, self.inputs, list(self.cache.items()), self.shapes)


@pytest.mark.parametrize("fails", [False, True])
def test_plain_objects_are_restored(fails: bool) -> None:
    model = Remembering()

    def fn(x: jax.Array) -> jax.Array:
        if fails:
            model(x)
            raise RuntimeError("failed on purpose")
        return model(x)

    if fails:
        with pytest.raises(RuntimeError, match="on purpose"):
            traced(fn)
    else:
        traced(fn)
    assert model.contents() == (None, 0, ["first"], [("a", 1), ("b", 2)], {(1,)})
    assert not hasattr(model, "added")
    assert not hasattr(model, "never")


def test_variables_of_functions_are_restored_only_from_tracers() -> None:
    """Other code may use them at the same time."""
    shapes: list[Any] = []
    leaked: dict[str, Any] = {"old": [1]}

    def fn(x: jax.Array) -> jax.Array:
        shapes.append(x.shape)
        leaked["new"] = (x, 2)
        return x + 1

    traced(fn)
    assert shapes == [(2, 3)]
    assert leaked == {"old": [1]}


def test_unchanged_objects_are_not_written() -> None:
    class Watched(dict[str, Any]):
        def clear(self) -> None:
            pytest.fail("an unchanged dictionary was written")

    params = Watched(w=jnp.ones(3))
    traced(lambda x: x * params["w"])


def test_a_trained_model_is_exported_with_its_current_state() -> None:
    model, (image,) = cnn()

    def constants() -> list[Any]:
        return list(traced(model, image).consts)

    before = constants()
    nnx.update(model, jax.tree.map(lambda x: x + 1, nnx.state(model, nnx.Param)))
    assert any(not np.array_equal(a, b) for a, b in zip(before, constants(), strict=True))


class _Link(nnx.Module):
    def __init__(self, inner: Any) -> None:
        self.weight = nnx.Param(jnp.ones(3))
        self.inner = inner

    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.weight[...] * self.inner.weight[...]


def test_a_chain_of_modules_may_be_long() -> None:
    model = _Link(None)
    for _ in range(3000):
        model = _Link(model)
    assert len(traced(model).consts) == 2


def test_copies_are_gone_without_a_collection() -> None:
    model = _Link(_Link(None))
    traced(model)
    gc.collect()
    gc.disable()
    try:
        traced(model)
        links = [obj for obj in gc.get_objects() if type(obj) is _Link]
    finally:
        gc.enable()
    assert len(links) == 2


def test_the_garbage_collector_is_restored():
    before = gc.get_threshold()
    during = []

    def function(x):
        during.append(gc.get_threshold())
        return x + 1

    traced(function)
    assert during[0][0] > before[0]
    assert gc.get_threshold() == before

    def failing(x):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        traced(failing)
    assert gc.get_threshold() == before


def test_a_collector_that_is_off_stays_off():
    before = gc.get_threshold()
    during = []
    gc.set_threshold(0)
    try:
        traced(lambda x: (during.append(gc.get_threshold()), x)[1])
    finally:
        gc.set_threshold(*before)
    assert during[0][0] == 0
