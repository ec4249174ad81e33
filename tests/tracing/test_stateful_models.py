"""States as pytrees in inputs and outputs: batch statistics, caches, recurrent layers."""

from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import onnx
import pytest
from flax import nnx

from harness.checking import assert_close, check_model, quick, run
from jax2onnx import to_onnx
from models import catalogue
from models.random_values import filled, normal

# The tests are about state that changes in training.
pytestmark = pytest.mark.filterwarnings("ignore:\\[training-mode\\]")

X = normal(4, 3)
KEY = jax.random.key(0)


def boundary(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    """Returns the names of a model's inputs and outputs."""
    return [value.name for value in model.graph.input], [o.name for o in model.graph.output]


CACHES = ["0.k", "0.v", "1.k", "1.v"]


@pytest.mark.parametrize("framework", catalogue.FRAMEWORKS)
def test_caches_are_named_by_their_paths(framework: str) -> None:
    pytest.importorskip(catalogue.FRAMEWORKS[framework])
    fn, args = catalogue.build(f"{framework}/gpt_step", batch=1, width=8, capacity=4)
    model = to_onnx(fn, list(args))
    inputs, outputs = boundary(model)
    assert inputs[1:] == [*(f"cache.{path}" for path in CACHES), "first"]
    assert outputs == ["output_0", *(f"output_1.{path}" for path in CACHES)]


@pytest.mark.slow
@pytest.mark.parametrize("framework", catalogue.FRAMEWORKS)
def test_decoding_step_by_step_is_decoding_at_once(framework: str) -> None:
    """The returned caches become the next inputs; the position is an input."""
    pytest.importorskip(catalogue.FRAMEWORKS[framework])
    fn, (_, cache, _) = catalogue.build(f"{framework}/gpt_step", batch=1, width=8)
    tokens = jnp.asarray([[5, 1, 4]], jnp.int32)
    expected = jax.tree.leaves(quick(fn)(tokens, cache, jnp.int32(0)))

    model = to_onnx(fn, [tokens[:, :1], cache, jnp.int32(0)])
    logits, state = [], jax.tree.leaves(cache)
    for position in range(tokens.shape[1]):
        step, *state = run(model, [tokens[:, position : position + 1], *state, jnp.int32(position)])
        logits.append(step)
    assert_close([jnp.concatenate(logits, axis=1), *state], expected)


def test_states_of_recurrent_layers() -> None:
    expected = {"linen": ("0", "1"), "haiku": ("hidden", "cell")}
    for framework, (first, second) in expected.items():
        pytest.importorskip(catalogue.FRAMEWORKS[framework])
        fn, args = catalogue.build(f"{framework}/rnn")
        model = to_onnx(fn, list(args))
        assert boundary(model) == (
            ["x", f"state.{first}", f"state.{second}"],
            ["output_0", f"output_1.{first}", f"output_1.{second}"],
        )


def test_batch_statistics_in_linen() -> None:
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            return nn.BatchNorm(use_running_average=False, name="norm")(nn.Dense(3)(x))

    module = Net()
    params, statistics = (
        filled(jax.eval_shape(module.init, KEY, X)[part]) for part in ("params", "batch_stats")
    )

    def step(batch_stats: Any, x: jax.Array) -> Any:
        return module.apply(
            {"params": params, "batch_stats": batch_stats}, x, mutable=["batch_stats"]
        )

    model = check_model(step, (statistics, X))
    assert boundary(model) == (
        ["batch_stats.norm.mean", "batch_stats.norm.var", "x"],
        ["output_0", "output_1.batch_stats.norm.mean", "output_1.batch_stats.norm.var"],
    )
    assert "Dense_0.kernel" in {tensor.name for tensor in model.graph.initializer}


def test_batch_statistics_in_nnx() -> None:
    class Net(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.dense = nnx.Linear(3, 3, rngs=rngs)
            self.norm = nnx.BatchNorm(3, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.norm(self.dense(x))

    graph, statistics, rest = nnx.split(Net(nnx.Rngs(0)), nnx.BatchStat, ...)

    def step(state: nnx.State, x: jax.Array) -> tuple[jax.Array, nnx.State]:
        model = nnx.merge(graph, state, rest)
        return model(x), nnx.state(model, nnx.BatchStat)

    model = check_model(step, (statistics, X))
    assert boundary(model) == (
        ["state.norm.mean", "state.norm.var", "x"],
        ["output_0", "output_1.norm.mean", "output_1.norm.var"],
    )


def test_batch_statistics_in_equinox() -> None:
    """The mean over a mapped axis is a sum and a division."""
    state: eqx.nn.State
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="batch", mode="batch")

    def step(state: eqx.nn.State, x: jax.Array) -> Any:
        mapped = jax.vmap(norm, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
        return mapped(x, state)

    inputs, outputs = boundary(check_model(step, (state, X)))
    assert inputs == ["state.0", "state.1.0", "state.1.1", "x"]
    assert outputs == ["output_0", "output_1.0", "output_1.1.0", "output_1.1.1"]


def test_batch_statistics_in_haiku() -> None:
    hk = pytest.importorskip("haiku")

    def forward(x: jax.Array) -> jax.Array:
        return hk.BatchNorm(True, True, 0.9, name="norm")(hk.Linear(3)(x), is_training=True)

    pair = hk.without_apply_rng(hk.transform_with_state(forward))
    params, state = filled(jax.eval_shape(pair.init, KEY, X))

    def step(params: Any, state: Any, x: jax.Array) -> Any:
        return pair.apply(params, state, x)

    inputs, outputs = boundary(check_model(step, (params, state, X)))
    assert inputs[0] == "params.linear.b"
    assert "state.norm.~.mean_ema.average" in inputs
    assert "output_1.norm.~.mean_ema.average" in outputs
