"""Exports in one thread do not affect other threads."""

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from harness.checking import run, scopes
from harness.functions_of import calls
from harness.waiting import PATIENCE
from jax2onnx import to_onnx
from jax2onnx._tracing import call_observers

# The tests are about state that changes in training.
pytestmark = pytest.mark.filterwarnings("ignore:\\[training-mode\\]")

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def during() -> Iterator[Callable[[Callable[[], Any]], list[Any]]]:
    """Makes other threads run something each time that a `Block` is called during tracing."""

    def arrange(work: Callable[[], Any]) -> list[Any]:
        results: list[Any] = []

        def run() -> None:
            try:
                results.append(work())
            except Exception as error:
                results.append(error)

        def hook(x: Any) -> None:
            if isinstance(x, jax.core.Tracer) and threading.current_thread() is exporting:
                thread = threading.Thread(target=run)
                thread.start()
                thread.join()

        exporting = threading.current_thread()
        Block.hook = staticmethod(hook)
        return results

    yield arrange
    Block.hook = staticmethod(nothing)


def nothing(_: Any) -> None:
    pass


class Block(nnx.Module):
    """Updates itself when it is called, as in training."""

    hook = staticmethod(nothing)

    def __init__(self, seed: int) -> None:
        rngs = nnx.Rngs(seed)
        self.linear = nnx.Linear(4, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.noise = nnx.Dropout(0.5, rngs=rngs)
        self.calls = nnx.Variable(jnp.zeros((), jnp.int32))

    def __call__(self, x: Any) -> Any:
        self.calls.set_value(self.calls.get_value() + 1)
        y = self.noise(self.norm(self.linear(x)))
        self.hook(x)
        return y


class Unrelated(nnx.Module):
    def __call__(self, x: Any) -> Any:
        return x


class Net(nnx.Module):
    def __init__(self) -> None:
        self.blocks = nnx.List([Block(seed) for seed in range(2)])

    def __call__(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


MODEL: Any = None


def of_a_global(x: Any) -> Any:
    return MODEL(x)


def of_another_function(x: Any, depth: int = 2) -> Any:
    return of_another_function(x, depth - 1) if depth else (lambda: of_a_global(x))()


def as_a_global(model: Any, fn: Any) -> Any:
    global MODEL  # noqa: PLW0603
    MODEL = model
    return fn


WAYS: dict[str, Callable[[Any], Any]] = {
    "global": lambda model: as_a_global(model, of_a_global),
    "global of another function": lambda model: as_a_global(model, of_another_function),
    "model": lambda model: model,
    "method": lambda model: model.__call__,
    "partial": lambda model: functools.partial(lambda m, x: m(x), model),
    "closure": lambda model: lambda x: model(x),
    "default value": lambda model: lambda x, m=model: m(x),
    "default value of a keyword": lambda model: lambda x, *, m=model: m(x),
    "closure in a closure": lambda model: (lambda inner: lambda x: inner(x))(lambda x: model(x)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("functions", ["decorated", "modules"])
def test_a_model_in_training_mode_can_be_called_while_it_is_exported(
    way: str, functions: Any, during: Any
) -> None:
    model = Net()
    found = during(lambda: (model(X), int(model.blocks[0].calls.get_value())))
    exported = to_onnx(WAYS[way](model), [X], functions=functions)
    assert len(found) == 2
    twin = Net()
    for number, result in enumerate(found, start=1):
        assert not isinstance(result, Exception), result
        np.testing.assert_array_equal(result[0], twin(X))
        assert result[1] == number, "only the other thread's own calls count"
    names = {tensor.name.removeprefix("MODEL.") for tensor in exported.graph.initializer}
    assert {"blocks.0.linear.kernel", "blocks.1.norm.scale"} <= names
    assert bool(exported.functions) == (functions == "modules")


def test_a_model_that_is_reachable_twice_is_updated_once(during: Any) -> None:
    """A half of it cannot be a copy, so none of it is."""
    model, found = Net(), during(lambda: None)
    holder = [model]

    def fn(x: Any) -> Any:
        holder[0](x)
        return model(x) * model.blocks[0].calls.get_value()

    before = jax.tree.leaves(nnx.state(model))
    traced = to_onnx(fn, [X])
    assert len(found) == 4
    after = jax.tree.leaves(nnx.state(model))
    assert all(one is other for one, other in zip(before, after, strict=True))
    assert "0.blocks.0.calls" in {tensor.name for tensor in traced.graph.initializer}


CALLS = 0


def counting(x: Any) -> Any:
    global CALLS  # noqa: PLW0603
    CALLS += 1
    return MODEL(x)


def test_a_function_that_assigns_globals_has_the_real_ones() -> None:
    before = CALLS
    to_onnx(as_a_global(Net(), counting), [X])
    assert before + 1 == CALLS


FACTOR = 1.0


def scaled(x: Any) -> Any:
    return jnp.zeros_like(MODEL(x)) + FACTOR


def test_other_globals_are_read_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read after the model was called, which changes one."""
    change = functools.partial(monkeypatch.setitem, globals(), "FACTOR", 3.0)
    monkeypatch.setattr(Block, "hook", staticmethod(lambda _: change()))
    model = to_onnx(as_a_global(Net(), scaled), [X])
    np.testing.assert_array_equal(run(model, [X])[0], 3.0)


def test_shared_layers_stay_shared_in_a_copy() -> None:
    """A layer in two positions counts the calls of both."""
    net = Net()
    net.blocks[1] = net.blocks[0]
    _, count = run(to_onnx(lambda x: (net(x), net.blocks[0].calls.get_value()), [X]), [X])
    assert count == 2
    assert net.blocks[0].calls.get_value() == 0


def test_only_the_classes_of_the_model_are_wrapped() -> None:
    wrapped: set[type] = set()
    Block.hook = staticmethod(lambda _: wrapped.update(call_observers._wrapped))
    try:
        model = Net()
        to_onnx(model, [X], functions="modules")
    finally:
        Block.hook = staticmethod(nothing)
    assert {Net, Block, nnx.Linear, nnx.BatchNorm, nnx.Dropout} <= wrapped
    assert not wrapped & {nnx.Conv, nnx.Embed, Unrelated, eqx.nn.Linear, eqx.nn.MLP}
    assert not call_observers._wrapped


def made_here(x: Any) -> Any:
    """Creates layers that it does not hold."""
    return chosen()(x)


def chosen() -> Any:
    return nnx.Sequential(nnx.Linear(4, 4, rngs=nnx.Rngs(0)), jnp.tanh)


def taken_apart() -> Any:
    leaves, tree = jax.tree.flatten(EqxNet())
    return lambda x: jax.tree.unflatten(tree, leaves)(x)


class EqxNet(eqx.Module):
    layers: list[eqx.nn.Linear]

    def __init__(self) -> None:
        keys = jax.random.split(jax.random.key(0), 2)
        self.layers = [eqx.nn.Linear(4, 4, key=key) for key in keys]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = jax.vmap(layer)(x)
        return x


@pytest.mark.parametrize("fn", [lambda: made_here, taken_apart], ids=["by a function", "of leaves"])
def test_layers_that_are_made_while_tracing_are_functions(fn: Callable[[], Any]) -> None:
    model = to_onnx(fn(), [X], functions="modules")
    assert {function.name for function in model.functions} == {"Linear"}


def test_other_threads_see_unwrapped_classes(during: Any) -> None:
    model = Net()
    found = during(
        lambda: (
            scopes(jax.make_jaxpr(lambda x: Net()(x))(X)),
            hasattr(call_observers._thread, "watch"),
        )
    )
    exported = to_onnx(model, [X], functions="modules")
    assert calls(exported)["custom.Block.1"] == 2
    for result in found:
        assert not isinstance(result, Exception), result
        names, observed = result
        assert not any("blocks" in name or "jax2onnx" in name for name in names), names
        assert not observed


@pytest.mark.parametrize("functions", ["decorated", "modules"])
def test_exports_in_several_threads_are_the_same_model(functions: Any) -> None:
    shared = Net()

    def export(number: int) -> bytes:
        model = shared if number % 2 else Net()
        return to_onnx(model, [X], functions=functions).SerializeToString(deterministic=True)

    expected = export(0)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(export, range(6))) == {expected}
    assert not call_observers._wrapped


class Scale:
    def __call__(self, x: Any) -> Any:
        return x * 2


class Counter:
    """Counts calls and passes them on unchanged."""

    def __init__(self) -> None:
        self.entered = self.left = 0

    def enter(self, module: Any, call: Any, /) -> Any:
        self.entered += 1
        return nullcontext(), call_observers.bound(call, module)

    def leave(self) -> None:
        self.left += 1


def test_a_class_is_restored_by_the_last_that_needs_it() -> None:
    original, module = Scale.__dict__["__call__"], Scale()
    first, second = Counter(), Counter()
    inside, leave = threading.Event(), threading.Event()

    def elsewhere() -> None:
        with call_observers.observed({Scale}, second):
            inside.set()
            assert leave.wait(PATIENCE)
            module(1)

    with ThreadPoolExecutor(1) as pool:
        with call_observers.observed({Scale}, first):
            other = pool.submit(elsewhere)
            assert inside.wait(PATIENCE)
            assert module(1) == 2
        assert module(1) == 2, "this thread is done"
        assert Scale.__dict__["__call__"] is not original
        leave.set()
        other.result(PATIENCE)
    assert Scale.__dict__["__call__"] is original
    assert (first.entered, first.left, second.entered, second.left) == (1, 1, 1, 1)


def test_linen_is_intercepted_in_the_thread_of_the_export_only() -> None:
    class Inner(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            if isinstance(x, jax.core.Tracer) and not found:
                found.append([])
                with ThreadPoolExecutor(1) as pool:
                    found.append(scopes(pool.submit(jax.make_jaxpr(bind()), X).result(PATIENCE)))
            return linen.Dense(4)(x)

    class Outer(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return Inner()(x) * 2

    found: list[list[str]] = [[]]
    variables = Outer().init(jax.random.key(0), X)

    def bind() -> Any:
        return Outer().bind(variables)

    found.clear()
    model = to_onnx(bind(), [X], functions="modules")
    assert calls(model)["custom.Inner.1"] == 1
    assert len(found) == 2
    assert found[1]
    assert not any("jax2onnx" in scope for scope in found[1])
