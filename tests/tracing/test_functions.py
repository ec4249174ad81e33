"""ONNX functions: their extent, sharing and names."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.checking import assert_close, check_model, check_sizes, op_types, run
from harness.functions_of import WEIGHTS, X, calls, domains, layer, layers
from harness.provenance_of import all_nodes, strip
from jax2onnx import (
    InvalidInputError,
    onnx_function,
    to_onnx,
)
from models.nnx.gpt import gpt


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
        # One function for the forward pass, one for the backward pass.
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


def test_different_computations_are_different_functions() -> None:
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


@pytest.mark.slow
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


@pytest.mark.filterwarnings("ignore:\\[training-mode\\]")
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


def test_jax_caches_are_neither_used_nor_polluted() -> None:
    jitted = jax.jit(lambda x: layer(WEIGHTS[0], x) * 2)
    jitted(X)  # traced before the export
    model = check_model(lambda x: jitted(jitted(x)), [X])
    assert calls(model) == {"custom.layer.1": 2}
    inner = jax.make_jaxpr(jitted)(X).eqns[0].params["jaxpr"]
    assert not any("jax2onnx" in str(eqn.source_info.name_stack) for eqn in inner.eqns)


def test_exports_are_reproducible_with_and_without_metadata() -> None:
    model, args = gpt(layers=2)
    plain = strip(to_onnx(model, args, functions="modules"))
    for level in ("minimal", "full", "sourcemap"):
        one, two = (
            to_onnx(model, args, functions="modules", stacktrace_metadata=level) for _ in "12"
        )
        assert one.SerializeToString() == two.SerializeToString()
        assert strip(one) == plain


def test_a_function_may_be_defined_inside_another() -> None:
    def outer(x: Any) -> Any:
        @onnx_function
        def inner(x: Any) -> Any:
            return jnp.sin(x)

        return inner(x) + 1

    model = check_model(outer, [np.ones((2, 3), np.float32)])
    assert [function.name for function in model.functions] == ["inner"]
