"""ONNX functions: what is one, what is shared, what it is called and where it came from."""

import functools
import inspect
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import pytest
from flax import linen, nnx

from checking import assert_close, check_model, check_sizes, op_types, run
from jax2onnx import (
    InvalidInputError,
    SourceMap,
    UnsupportedError,
    onnx_function,
    to_onnx,
    verify,
)
from models.equinox.mlp import mlp as eqx_mlp
from models.linen.cnn import cnn as linen_cnn
from models.nnx.gpt import gpt
from models.nnx.resnet50 import resnet50
from models.nnx.vit import vit
from provenance_of import CALLSITE, JAX_TRACEBACK, KEYS, all_nodes, line_of, metadata, strip

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
WEIGHTS = [np.random.default_rng(i).standard_normal((4, 4), np.float32) for i in range(3)]


@onnx_function
def layer(weight: Any, x: Any) -> Any:
    return x + jax.nn.gelu(jnp.tanh(x @ weight))


def layers(x: Any) -> Any:
    for weight in WEIGHTS:
        x = layer(weight, x)
    return x


def domains(model: onnx.ModelProto) -> list[str]:
    return [function.domain for function in model.functions]


def calls(model: onnx.ModelProto) -> Counter[str]:
    """How many nodes call each function, by its domain."""
    return Counter(node.domain for node in all_nodes(model) if node.domain)


def test_calls_of_a_function_share_it_and_pass_their_weights() -> None:
    model = check_model(layers, [X])
    assert calls(model) == {"custom.layer.1": 3}
    (function,) = model.functions
    assert (function.name, len(function.input)) == ("layer", 2)
    passed = [node.input[1] for node in model.graph.node]
    assert sorted(passed) == sorted(value.name for value in model.graph.initializer)


@pytest.mark.parametrize(
    ("transform", "x", "expected"),
    [
        (jax.vmap, np.stack([X, -X, 2 * X]), {"custom.layer.1": 3}),
        # One function for the way forward, one for the way back.
        (
            lambda f: jax.grad(lambda x: f(x).sum()),
            X,
            {"custom.layer.1": 3, "custom.layer.2": 3},
        ),
        (lambda f: lambda x: jax.jvp(f, (x,), (x * 2,)), X, {"custom.layer.1": 3}),
        (jax.jit, X, {"custom.layer.1": 3}),
        (jax.checkpoint, X, {"custom.layer.1": 3}),
    ],
    ids=["vmap", "grad", "jvp", "jit", "checkpoint"],
)
def test_transformations_keep_functions(transform: Any, x: Any, expected: dict[str, int]) -> None:
    assert calls(check_model(transform(layers), [x])) == expected


@pytest.mark.parametrize(
    "program",
    [
        lambda x: jax.lax.scan(lambda c, w: (layer(w, c), c.sum()), x, jnp.stack(WEIGHTS)),
        lambda x: jax.lax.scan(lambda c, _: (layer(WEIGHTS[0], c), None), x, length=3)[0],
        lambda x: jax.lax.fori_loop(0, 3, lambda _, c: layer(WEIGHTS[0], c), x),
        lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: layer(WEIGHTS[0], c) + 1, x),
    ],
    ids=["scan", "scan without arrays", "fori_loop", "while_loop"],
)
def test_functions_are_called_inside_loops(program: Callable[[Any], Any]) -> None:
    assert calls(check_model(program, [X])) == {"custom.layer.1": 1}


def test_branches_share_a_function() -> None:
    def program(x: Any) -> Any:
        first, second = (functools.partial(layer, weight) for weight in WEIGHTS[:2])
        return jax.lax.cond(x.sum() > 0, first, second, x)

    model = check_model(program, [X])
    assert calls(model) == {"custom.layer.1": 2}
    assert len(model.graph.initializer) >= 2  # weights of branches are stored outside


def test_what_differs_is_another_function() -> None:
    @onnx_function
    def power(x: Any, exponent: int) -> Any:
        return jnp.cos(x) ** exponent

    def program(x: Any) -> Any:
        narrow = power(x[:, :2], 2)
        return power(x, 2) + power(2 * x, 2), narrow, power(x, 3), power(x.astype(jnp.float16), 2)

    model = check_model(program, [X])
    assert domains(model) == [f"custom.power.{i}" for i in (1, 2, 3, 4)]
    assert calls(model) == dict(zip(domains(model), (1, 2, 1, 1), strict=True))


def test_a_call_that_is_asked_for_less_shares_the_function() -> None:
    @onnx_function
    def step(x: Any) -> Any:
        return {"next": jnp.sin(x), "seen": (x * 2, x - 3)}

    def program(x: Any) -> Any:
        first = step(x)
        second = step(first["next"])
        return first["seen"][0] + second["seen"][1]

    model = check_model(program, [X])
    assert calls(model) == {"custom.step.1": 2}
    assert len(model.functions[0].output) == 3


def test_functions_nest() -> None:
    @onnx_function
    def inner(x: Any) -> Any:
        return jnp.sin(x) * 2

    @onnx_function
    def outer(x: Any) -> Any:
        return inner(inner(x)) + 1

    model = check_model(lambda x: outer(outer(x)) * inner(x), [X])
    assert calls(model) == {"custom.inner.1": 3, "custom.outer.1": 2}
    assert [node.op_type for node in model.functions[1].node if node.domain] == ["inner"] * 2


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ({}, "custom.mix.1::mix", "custom.mix.2::mix"),
        ({"unique": True}, "custom.mix.unique::mix", "custom.mix.unique.2::mix"),
        ({"namespace": "my.model"}, "my.model.mix.1::mix", "my.model.mix.2::mix"),
        ({"type": "Mixer"}, "custom.Mixer.1::Mixer", "custom.Mixer.2::Mixer"),
        ({"name": "a mixer!"}, "custom.a_mixer.1::a_mixer", "custom.a_mixer.2::a_mixer"),
        ({"type": "A", "name": "B"}, "custom.A.1::A", "custom.A.2::A"),
    ],
)
def test_names_follow_the_options(options: dict[str, Any], first: str, second: str) -> None:
    @onnx_function(**options)
    def mix(x: Any) -> Any:
        return jnp.sin(x) + 1

    model = check_model(lambda x: (mix(mix(x)), mix(x[0])), [X])
    assert [f"{f.domain}::{f.name}" for f in model.functions] == [first, second]


def test_wrong_options_are_refused() -> None:
    for wrong in ({"namespace": "no spaces"}, {"namespace": ""}, {"type": "?"}):
        with pytest.raises(InvalidInputError):
            onnx_function(**wrong)(lambda x: x)
    with pytest.raises(InvalidInputError, match="cannot be called"):
        onnx_function(type("NotCallable", (), {}))
    with pytest.raises(InvalidInputError, match="functions"):
        to_onnx(layers, [X], functions="everything")  # type: ignore[call-overload]


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
    # The model itself is no function, and without being asked for there are none.
    assert not {"Net", "LinenNet"} & {function.name for function in model.functions}
    assert not to_onnx(NETS[name](), [X]).functions


def test_modules_that_are_made_anew_become_functions() -> None:
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
    from jax2onnx import _functions

    before = dict(vars(kind))
    monkeypatch.setattr(_functions, "_classes", {})
    assert onnx_function(kind) is kind
    assert dict(vars(kind)) == before
    model = check_model(net(), [X])
    assert calls(model) == {f"custom.{kind.__name__}.1": 3}
    assert onnx_function(kind) is kind  # the same again changes nothing
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


def test_48_layers_are_one_body() -> None:
    model, args = gpt(layers=48)
    flat, folded = to_onnx(model, args), to_onnx(model, args, functions="modules")
    assert calls(folded)["custom.Block.1"] == 48
    assert domains(folded).count("custom.Block.1") == 1
    assert len(flat.graph.node) > 20 * len(all_nodes(folded))

    def structure(model: onnx.ModelProto) -> int:
        """The size of the model without its weights."""
        return model.ByteSize() - sum(len(w.raw_data) for w in model.graph.initializer)

    assert structure(folded) * 8 < structure(flat)
    assert_close(run(folded, args), run(flat, args))


def test_constants_of_inner_functions_are_operands() -> None:
    stacked = np.random.default_rng(0).standard_normal((2, 30, 30), np.float32)

    @onnx_function
    def closed(i: int, x: Any) -> Any:
        weight = jnp.asarray(stacked[i])
        inner = jax.jit(lambda x: jnp.tanh(x @ weight))
        return jax.lax.scan(lambda c, _: (inner(c), None), x, length=2)[0]

    model = check_model(lambda x: closed(1, closed(0, x)), [np.ones((2, 30), np.float32)])
    assert calls(model) == {"custom.closed.1": 2}
    assert len(model.graph.initializer) == 2


def test_one_array_in_two_roles_is_not_two_arrays() -> None:
    @onnx_function
    def both(a: Any, b: Any, x: Any) -> Any:
        return (x @ a) @ b

    first, second = WEIGHTS[:2]
    model = check_model(lambda x: both(first, first, both(first, second, x)), [X])
    assert len(model.functions) == 2


def test_sizes_are_read_from_the_operands() -> None:
    @onnx_function
    def flatten(x: Any) -> Any:
        rows, columns, _ = x.shape
        ramp = jnp.arange(rows * columns, dtype=x.dtype)
        return (x.reshape(rows * columns, 4) * ramp[:, None]).reshape(x.shape)

    ones = functools.partial(np.ones, dtype=np.float32)
    sizes = [(ones((b, t, 4)),) for b, t in ((1, 1), (2, 3), (7, 2))]
    check_sizes(lambda x: flatten(flatten(x)), [("B", "T", 4)], *sizes)


def test_sizes_that_no_operand_has_are_operands() -> None:
    @onnx_function
    def inner(y: Any, size: Any) -> Any:
        return y.sum() + jnp.ones((size, 2))

    @onnx_function
    def outer(y: Any, size: Any) -> Any:
        return inner(y * 2, 3 * size) + 1

    def program(x: Any, y: Any) -> Any:
        return outer(y, x.shape[0]) + jnp.concatenate([x] * 3)

    y = np.ones(3, np.float32)
    runs = [(np.ones((b, 2), np.float32), y) for b in (1, 2, 7)]
    check_sizes(program, [("B", 2), (3,)], *runs)
    model = to_onnx(program, [("B", 2), (3,)])
    assert [list(f.input)[-1].startswith("size_of_B") for f in model.functions] == [True, True]


def test_complex_numbers_and_keys_pass_through_functions() -> None:
    @onnx_function
    def turn(z: Any) -> Any:
        return z * 1j + jnp.conj(z)

    @onnx_function
    def noise(key: Any, x: Any) -> Any:
        first, second = jax.random.split(key)
        return x + jax.random.normal(first, x.shape), second

    def noisy(x: Any) -> Any:
        key = jax.random.key(0)
        for _ in range(2):
            x, key = noise(key, x)
        return x

    assert len(check_model(noisy, [X]).functions) == 1
    model = to_onnx(lambda z: turn(turn(z)), [jax.ShapeDtypeStruct((3,), jnp.complex64)])
    z = np.array([1 + 2j, -1j, 3], np.complex64)
    assert_close(run(model, [z]), [turn(turn(z))])


@pytest.mark.parametrize("opset", [18, 20, 21, 23, 25])
def test_bodies_are_written_for_the_opset(opset: int) -> None:
    @onnx_function
    def act(x: Any) -> Any:
        return jax.nn.gelu(x, approximate=False) + jax.scipy.special.erf(x).astype(x.dtype)

    model = check_model(lambda x: act(act(x)), [X], opset=opset)
    assert {(o.domain, o.version) for o in model.functions[0].opset_import} == {("", opset)}


def test_bodies_are_adapted_to_the_runtime() -> None:
    @onnx_function
    def act(x: Any) -> Any:
        return jax.scipy.special.erf(x) + 1

    wide = to_onnx(lambda x: act(act(x)), [(3,)], enable_double_precision=True)
    x = np.array([-0.5, 0.0, 2.0])
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        assert_close(run(wide, [x]), [act(act(x))])
    check_model(lambda x: act(act(x)), [X.astype(np.float16)])


def test_functions_without_operands_or_work() -> None:
    @onnx_function
    def ramp() -> Any:
        return jnp.arange(4.0) * 2

    @onnx_function
    def same(x: Any) -> Any:
        return x

    @onnx_function
    def unread(x: Any) -> Any:
        return jnp.sin(x)

    def program(x: Any) -> Any:
        unread(x)
        return same(x) + ramp()

    model = check_model(program, [X])
    assert calls(model) == {"custom.ramp.1": 1}
    assert "Sin" not in op_types(model)


def test_state_that_a_function_updates_is_the_same() -> None:
    class Block(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.norm = nnx.BatchNorm(4, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.dropout(self.norm(x))

    def state() -> list[Any]:
        kinds = nnx.Any(nnx.BatchStat, nnx.RngCount)
        return [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(nnx.state(block, kinds))]

    block = Block(nnx.Rngs(0))
    before = state()
    flat = to_onnx(lambda x: block(block(x)), [X])
    model = to_onnx(lambda x: block(block(x)), [X], functions="modules")
    assert [node.op_type for node in all_nodes(model)].count("BatchNorm") == 2
    assert_close(run(model, [X]), run(flat, [X]))
    assert len(before) == 3
    assert all(map(np.array_equal, before, state()))


def test_outside_of_exports_nothing_changes() -> None:
    def plain(weight: Any, x: Any) -> Any:
        return x + jax.nn.gelu(jnp.tanh(x @ weight))

    assert layer.__name__ == "layer"
    assert inspect.signature(layer) == inspect.signature(plain)
    traced = jax.make_jaxpr(layer)(WEIGHTS[0], X)
    assert str(traced) == str(jax.make_jaxpr(plain)(WEIGHTS[0], X))
    assert not any(str(eqn.source_info.name_stack) for eqn in traced.eqns)


def test_what_jax_remembers_is_neither_used_nor_spoiled() -> None:
    jitted = jax.jit(lambda x: layer(WEIGHTS[0], x) * 2)
    jitted(X)  # traced before the export
    model = check_model(lambda x: jitted(jitted(x)), [X])
    assert calls(model) == {"custom.layer.1": 2}
    inner = jax.make_jaxpr(jitted)(X).eqns[0].params["jaxpr"]
    assert not any("jax2onnx" in str(eqn.source_info.name_stack) for eqn in inner.eqns)


def test_exports_are_reproducible_with_and_without_metadata() -> None:
    model, args = gpt(layers=2)
    plain = to_onnx(model, args, functions="modules").SerializeToString()
    for level in ("minimal", "full", "sourcemap"):
        one, two = (
            to_onnx(model, args, functions="modules", stacktrace_metadata=level) for _ in "12"
        )
        assert one.SerializeToString() == two.SerializeToString()
        assert strip(one) == plain


def test_every_node_of_a_body_carries_exactly_its_keys() -> None:
    model, args = gpt(layers=2)
    for level, keys in KEYS.items():
        detail = False if level == "off" else level
        exported = to_onnx(model, args, functions="modules", stacktrace_metadata=detail)
        assert exported.functions
        for node in all_nodes(exported):
            assert tuple(entry.key for entry in node.metadata_props) == keys, node.name


@onnx_function
def twice(x: Any) -> Any:
    return jnp.sin(x)  # body


def two_callers(x: Any) -> Any:
    y = twice(x)  # first
    for _ in range(2):
        y = twice(y)  # second
    return y


def test_bodies_name_their_line_and_calls_name_theirs() -> None:
    model = to_onnx(two_callers, [X], stacktrace_metadata="full")
    body = line_of("body", twice)
    first, second = (line_of(which, two_callers) for which in ("first", "second"))
    (sin,) = model.functions[0].node
    assert metadata(sin)[CALLSITE] == f"twice:{body}"
    sites = [metadata(node)[CALLSITE] for node in model.graph.node]
    assert sites == [f"two_callers:{first}", *[f"two_callers:{second}"] * 2]
    own, other = metadata(sin)[JAX_TRACEBACK].split("or called from:\n")  # one line calls it twice

    def users(traceback: str) -> list[str]:
        frames = re.findall(r"test_functions\.py:(\d+ \(\w+\))", traceback)
        return [str(frame) for frame in frames]

    assert users(own) == [f"{body} (twice)", f"{first} (two_callers)"]
    assert users(other) == [f"{second} (two_callers)"]


def test_the_source_map_knows_functions_after_inlining(tmp_path: Path) -> None:
    model = to_onnx(two_callers, [X], stacktrace_metadata="sourcemap")
    found = SourceMap.load(model)
    body = line_of("body", twice)
    first, second = (line_of(which, two_callers) for which in ("first", "second"))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    optimised = onnx.load(options.optimized_model_filepath)
    for inlined in (optimised, onnx.inliner.inline_local_functions(model)):
        assert [node.op_type for node in inlined.graph.node] == ["Sin"] * 3
        for (node, sources), caller in zip(
            found.lookup_model(inlined), (first, second, second), strict=True
        ):
            assert {source.site.line for source in sources} == {body}, node.name
            (stack,) = sources[0].callers
            assert [frame.line for frame in stack] == [second]
            assert caller in [*(frame.line for frame in sources[0].stack), second]


@onnx_function
def scaled(x: Any) -> Any:
    return x * 3.5  # constant


def test_the_source_map_knows_the_constants_of_functions() -> None:
    model = to_onnx(lambda x: scaled(scaled(x)), [X], stacktrace_metadata="sourcemap")
    found = SourceMap.load(model)
    assert [node.op_type for node in model.functions[0].node] == ["Constant", "Mul"]
    for node in model.functions[0].node:
        (source,) = found.lookup(node.name)
        assert source.site.line == line_of("constant", scaled), node.name


def test_every_node_of_an_optimised_model_is_found(tmp_path: Path) -> None:
    model, args = gpt(layers=3)
    exported = to_onnx(model, args, functions="modules", stacktrace_metadata="sourcemap")
    found = SourceMap.load(exported)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(exported.SerializeToString(), options)
    looked_up = found.lookup_model(onnx.load(options.optimized_model_filepath))
    assert len(looked_up) > 100
    assert [node.name for node, sources in looked_up if not sources] == []


def test_an_error_in_a_function_names_its_line() -> None:
    @onnx_function
    def broken(x: Any) -> Any:
        return jax.pure_callback(np.sin, x, x)  # calls back

    with pytest.raises(UnsupportedError, match=r"broken") as error:
        to_onnx(lambda x: broken(x), [X])
    assert str(line_of("calls back", broken)) in str(error.value)


def test_the_record_has_the_primitives_of_functions(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    to_onnx(layers, [X], record_primitive_calls_file=file)
    primitives = [json.loads(line)["primitive"] for line in file.read_text().splitlines()]
    assert primitives.count("dot_general") == 3
    assert "onnx_function" not in primitives


def test_a_wrong_body_is_found_at_its_first_call() -> None:
    model = to_onnx(two_callers, [X])
    assert verify(two_callers, model, [X])
    model.functions[0].node[0].op_type = "Cos"
    report = verify(two_callers, model, [X])
    assert not report
    assert f"test_functions.py:{line_of('first', two_callers)}" in str(report)
