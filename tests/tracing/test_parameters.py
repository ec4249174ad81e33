import dataclasses
import functools
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jax2onnx._tracing.parameters import function_of, tree_of
from jax2onnx._tracing.trace import trace
from models.linen.cnn import cnn as linen_cnn
from models.linen.mlp import mlp as linen_mlp
from models.nnx.gpt import GPT, gpt

X = jax.ShapeDtypeStruct((2, 3), jnp.float32)
KEY = jax.random.key(0)


class Dense(nnx.Module):
    def __init__(self) -> None:
        self.linear = nnx.Linear(3, 3, rngs=nnx.Rngs(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.linear(x)

    def encode(self, x: jax.Array) -> jax.Array:
        return self.linear(x)


DENSE = Dense()
OTHER = Dense()
SHIFT = jnp.arange(3.0)
PARAMS = {"layer": {"w": jnp.ones((3, 3)), "b": jnp.ones(3)}}
PATHS = ["linear.kernel", "linear.bias"]


def names(fn: Any, *args: Any) -> list[str | None]:
    """Returns the names of the constants of a traced function, in order of use."""
    traced = trace(fn, args or (X,), {}, double=False)
    return [traced.tree.name_of(const) for const in traced.jaxpr.consts]


def apply(params: Any, x: jax.Array) -> jax.Array:
    return x @ params["layer"]["w"] + params["layer"]["b"]


def calls_a_global(x: jax.Array) -> jax.Array:
    return DENSE(x)


def calls_a_function(x: jax.Array) -> jax.Array:
    return calls_a_global(x)


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@pytest.mark.parametrize(
    "fn",
    [
        DENSE,
        DENSE.encode,
        DENSE.__call__,
        lambda x: DENSE(x),
        (lambda model: lambda x: model(x))(DENSE),
        (lambda forward: lambda x: forward(x))(DENSE.encode),
        functools.partial(lambda model, x: model(x), DENSE),
        functools.partial(DENSE),
        calls_a_global,
        calls_a_function,
        decorated(calls_a_global),
        jax.vmap(DENSE),
        jax.checkpoint(DENSE),
        lambda x: [f(x) for f in (lambda x: DENSE(x),)],
        lambda x, model=DENSE: model(x),
        lambda x, *, model=DENSE: model(x),
        (lambda forward: lambda x: forward(x))(lambda x, model=DENSE: model(x)),
    ],
)
def test_the_way_to_a_model_is_not_part_of_its_names(fn: Any) -> None:
    assert names(fn) == PATHS


def test_a_jitted_model_has_its_names() -> None:
    """The constants belong to the inner jaxpr."""
    for fn in (jax.jit(DENSE), jax.jit(lambda x: DENSE(x)), jax.jit(DENSE.encode)):
        traced = trace(fn, (X,), {}, double=False)
        inner = traced.jaxpr.eqns[0].params["jaxpr"]
        assert [traced.tree.name_of(const) for const in inner.consts] == PATHS


def test_parameters_may_be_a_dictionary() -> None:
    paths = ["layer.w", "layer.b"]
    assert names(functools.partial(apply, PARAMS)) == paths
    assert names(lambda x: apply(PARAMS, x)) == paths


def test_several_models_keep_their_variables() -> None:
    assert names(lambda x: OTHER(DENSE(x))) == [
        "DENSE.linear.kernel",
        "DENSE.linear.bias",
        "OTHER.linear.kernel",
        "OTHER.linear.bias",
    ]


def test_a_bare_array_is_named_by_its_variable() -> None:
    local = jnp.full(3, 2.0)
    assert names(lambda x: DENSE(x + SHIFT) * local) == ["SHIFT", *PATHS, "local"]
    assert names(lambda x: x * np.float32(2) + HOST) == ["HOST"]


HOST = np.arange(3, dtype=np.float32)


def test_numpy_views_are_distinguished() -> None:
    whole = np.arange(6, dtype=np.float32)
    first, last = whole[:3], whole[3:]
    assert names(lambda x: x * last + first) == ["last", "first"]


def test_an_array_outside_the_model_has_no_name() -> None:
    assert names(lambda x: x + jnp.asarray(np.arange(3.0))) == [None]


def test_shared_parameters_have_the_shortest_path() -> None:
    class Tied:
        def __init__(self) -> None:
            self.deep = {"inner": [DENSE]}
            self.model = DENSE

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.deep["inner"][0](x)

    assert names(Tied()) == ["model.linear.kernel", "model.linear.bias"]


class State(NamedTuple):
    w: Any
    rest: Any


@dataclasses.dataclass
class Config:
    state: State
    scale: Any


class Slotted:
    __slots__ = ("empty", "weight")

    def __init__(self, weight: Any) -> None:
        self.weight = weight


def test_containers_and_plain_objects() -> None:
    config = Config(
        State(jnp.ones(3), [jnp.full(3, 2.0), {"k": Slotted(jnp.full(3, 3.0))}]),
        SimpleNamespace(a=jnp.full(3, 4.0)),
    )

    def fn(x: jax.Array) -> jax.Array:
        w, (first, rest) = config.state
        return x * w + first * rest["k"].weight - config.scale.a

    assert set(names(fn)) == {"state.w", "state.rest.0", "state.rest.1.k.weight", "scale.a"}


def test_properties_are_not_evaluated() -> None:
    class Lazy:
        def __init__(self) -> None:
            self.w = jnp.ones(3)

        @property
        def expensive(self) -> None:
            pytest.fail("the walk evaluated a property")

        def __getattr__(self, name: str) -> None:
            if not name.startswith("__"):
                pytest.fail(f"the walk asked for `{name}`")
            raise AttributeError(name)

        def __call__(self, x: jax.Array) -> jax.Array:
            return x * self.w

    model = Lazy()
    assert names(lambda x: model(x)) == ["w"]


def test_long_data_is_not_walked() -> None:
    vocabulary = {f"token{index}": index for index in range(100_000)}
    ids = list(range(100_000))
    w = jnp.ones(3)
    tree = tree_of(lambda x: x * w + len(vocabulary) + len(ids))
    assert len(tree.objects) < 100
    assert tree.name_of(w) == "w"


@pytest.mark.parametrize("name", ["code", "jaxmodels", "jax_models"])
def test_a_module_may_have_the_name_of_another(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
class Model:
    def __init__(self, w):
        self.w = w

    def __call__(self, x):
        return x * self.w
"""
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    module: Any = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, module)  # undone afterwards
    model = module.Model(jnp.ones(3))
    assert names(model) == ["w"]


def test_cycles_end() -> None:
    class Node:
        def __init__(self) -> None:
            self.w, self.me, self.all = jnp.ones(3), self, [self]

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.me.all[0].w * x

    assert names(Node()) == ["w"]


def test_equinox_modules() -> None:
    model = eqx.nn.MLP(3, 3, 4, 1, key=KEY)
    paths = ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
    row = jax.ShapeDtypeStruct((3,), jnp.float32)
    assert names(model, row) == paths
    assert names(lambda x: model(x), row) == paths
    assert names(eqx.filter_jit(model), row) == paths
    assert names(jax.vmap(model), X) == paths


def test_linen_modules() -> None:
    bound, args = linen_mlp()
    assert names(bound, *args)[:3] == ["Dense_0.kernel", "Dense_0.bias", "Dense_1.kernel"]
    applied, args = linen_cnn()
    assert set(names(applied, *args)) == {
        *("conv1.kernel", "conv1.bias", "norm1.scale", "norm1.bias"),
        *("batch_stats.norm1.mean", "batch_stats.norm1.var"),
        *("conv2.kernel", "conv2.bias", "norm2.scale", "norm2.bias"),
        *("batch_stats.norm2.mean", "batch_stats.norm2.var"),
        *("head.kernel", "head.bias"),
    }
    module = nn.Dense(3)
    params = module.init(KEY, jnp.ones((2, 3)))
    assert names(functools.partial(module.apply, params)) == ["kernel", "bias"]


def test_bound_methods_of_linen_modules() -> None:
    class Model(nn.Module):
        def setup(self) -> None:
            self.dense = nn.Dense(3)

        def encode(self, x: jax.Array) -> jax.Array:
            return self.dense(x)

    module = Model()
    bound = module.bind(module.init(KEY, jnp.ones((2, 3)), method="encode"))
    assert names(bound.encode) == ["dense.kernel", "dense.bias"]


def test_haiku_parameters() -> None:
    params = {"mlp/~/linear_0": {"w": jnp.ones((3, 3))}}
    assert names(lambda x: x @ params["mlp/~/linear_0"]["w"]) == ["mlp.~.linear_0.w"]


def test_states_keep_their_variable_beside_parameters() -> None:
    params, state = {"norm": {"scale": jnp.ones(3)}}, {"norm": {"mean": jnp.full(3, 2.0)}}

    def fn(x: jax.Array) -> jax.Array:
        return (x - state["norm"]["mean"]) * params["norm"]["scale"]

    assert names(fn) == ["state.norm.mean", "norm.scale"]
    assert names(lambda x: DENSE(x) + state["norm"]["mean"]) == [*PATHS, "state.norm.mean"]


def test_every_parameter_of_a_transformer_has_its_path() -> None:
    model, (tokens,) = gpt(layers=3, tied=True)
    expected = {
        ".".join(map(str, path)): variable for path, variable in nnx.to_flat_state(nnx.state(model))
    }
    found = names(model, tokens)
    assert None not in found
    assert set(found) == set(expected)


def test_modules_have_paths() -> None:
    model, _ = gpt(layers=2)
    paths = {path: type(module).__name__ for module, path in tree_of(model).modules}
    assert paths[""] == "GPT"
    assert paths["blocks.1"] == "Block"
    assert paths["blocks.1.attn.q"] == "Linear"
    assert "tokens" in paths


def test_the_key_changes_with_the_model() -> None:
    model, _ = gpt(layers=1)

    def key() -> str:
        return tree_of(model).key

    before = key()
    assert key() == before
    heads, model.blocks[0].attn.heads = model.blocks[0].attn.heads, 2
    assert key() != before
    model.blocks[0].attn.heads = heads
    assert key() == before
    nnx.update(model, jax.tree.map(lambda x: x + 1, nnx.state(model)))
    assert key() != before


def test_the_function_is_the_users_own() -> None:
    line = calls_a_global.__code__.co_firstlineno
    for fn in (calls_a_global, jax.jit(calls_a_global), decorated(calls_a_global)):
        assert function_of(fn) == (__file__, "calls_a_global", line)
    model: GPT = gpt(layers=1)[0]
    assert function_of(model) == (
        GPT.__call__.__code__.co_filename,
        "GPT.__call__",
        GPT.__call__.__code__.co_firstlineno,
    )
    assert function_of(jax.vmap(DENSE.encode))[1] == "Dense.encode"
    assert function_of(functools.partial(apply, PARAMS))[1] == "apply"
    assert function_of(len) is None


class _Odd(tuple[Any, ...]):
    """Looks like a named tuple."""

    _fields = (1, 2, 3)


def test_odd_objects_do_not_stop_the_walk() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = jnp.ones(3)
            self.__dict__[1] = jnp.zeros(3)  # type: ignore[index]
            self.odd = _Odd([jnp.full(3, 3.0)])

        def __call__(self, x: jax.Array) -> jax.Array:
            return x * self.weight + self.__dict__[1] + self.odd[0]  # type: ignore[index]

    assert names(Model(), X) == ["weight", "1", "odd.0"]
