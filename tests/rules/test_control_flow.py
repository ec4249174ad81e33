"""Control flow and transformations, with numbers: whole programs in the usual style."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import lax
from jax.experimental import io_callback

from harness.checking import assert_close, check_model, run
from harness.provenance_of import all_nodes, callsite, of_type
from jax2onnx import UnsupportedError, onnx_function, to_onnx

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
V = np.linspace(0.1, 1, 5, dtype=np.float32)
ROWS = np.arange(14, dtype=np.float32).reshape(7, 2) / 7
CUBE = np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 6
A = (4 * np.eye(3) + np.arange(9).reshape(3, 3) / 10).astype(np.float32)

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def case(*args: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES[fn.__name__] = fn, args
        return fn

    return add


# scan


@case(V)
def scan_reverse(x: Any) -> Any:
    return lax.scan(lambda c, v: (c * 0.5 + v, c), 1.0, x, reverse=True)


@case(X)
def scan_length_only(x: Any) -> Any:
    return lax.scan(lambda c, _: (c * 0.5, c.sum()), x, None, length=5)


@case(X)
def scan_length_only_reverse(x: Any) -> Any:
    return lax.scan(lambda c, _: (c * 0.5, c.sum()), x, None, length=5, reverse=True)


@case(ROWS)
def scan_unroll(x: Any) -> Any:
    return lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.zeros(2), x, unroll=3)


@case(CUBE)
def scan_nested(x: Any) -> Any:
    def outer(carry: Any, rows: Any) -> Any:
        carry, ys = lax.scan(lambda c, v: (c + v, c * v), carry, rows)
        return carry, ys.sum(0)

    return lax.scan(outer, jnp.ones(2), x)


@case(X)
def scan_trees_and_closures(x: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        return {"a": carry["a"] @ A, "b": carry["b"] + row.sum()}, (row * 2, carry["b"])

    return lax.scan(body, {"a": x, "b": 0.0}, jnp.stack([x, x]))


@case(ROWS)
def scan_gradient(x: Any) -> Any:
    def last(x: Any) -> Any:
        return lax.scan(lambda c, v: (jnp.tanh(c + v), c), jnp.zeros(2), x)[0].sum()

    return jax.grad(last)(x)


@case(CUBE)
def scan_of_a_batch(x: Any) -> Any:
    return jax.vmap(lambda rows: lax.scan(lambda c, v: (c + v, c), jnp.zeros(2), rows))(x)


@case(ROWS)
def cumulative_by_association(x: Any) -> Any:
    return lax.associative_scan(jnp.add, x), lax.associative_scan(
        jnp.maximum, x, reverse=True, axis=1
    )


@case(ROWS)
def map_in_batches(x: Any) -> Any:
    return lax.map(lambda row: jnp.sin(row).sum(), x, batch_size=3)


@case(ROWS)
def map_row_by_row(x: Any) -> Any:
    return lax.map(lambda row: jnp.sin(row) * 2, x)


# while, fori


@case(np.array([1, 5, 9], np.int32))
def while_batched_predicate(n: Any) -> Any:
    def grow(k: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < k, lambda c: (c[0] + 1, c[1] * 1.5 + c[0]), (0, 1.0))

    return jax.vmap(grow)(n)


@case(np.array([0, 5, 2], np.int32), X)
def while_batched_predicate_over_matrices(n: Any, x: Any) -> Any:
    def shrink(k: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < k, lambda c: (c[0] + 1, c[1] * 0.5), (0, x))

    return jax.vmap(shrink)(n)


@case(X)
def while_forward_mode(x: Any) -> Any:
    def grow(v: Any) -> Any:
        return lax.while_loop(lambda c: c.sum() < 10, lambda c: c * 1.5 + 1, v)

    return jax.jvp(grow, (x,), (x,))


@case(X)
def while_that_never_runs(x: Any) -> Any:
    return lax.while_loop(lambda c: c.sum() > 1e6, lambda c: c * 2, x)


@case(X)
def fori_static(x: Any) -> Any:
    return lax.fori_loop(2, 6, lambda i, v: v * i, x)


@case(np.int32(1), np.int32(4), X)
def fori_dynamic(first: Any, last: Any, x: Any) -> Any:
    return lax.fori_loop(first, last, lambda i, v: v * i + 1, x)


@case(X)
def fori_unrolled(x: Any) -> Any:
    return lax.fori_loop(0, 6, lambda i, v: v * i + 1, x, unroll=4)


# cond, switch


@case(np.bool_(True), X)
def cond_of_a_boolean(p: Any, x: Any) -> Any:
    return lax.cond(p, lambda v: (v, v * 2), lambda v: (v * 3, v), x)


@case(X)
def cond_gradient(x: Any) -> Any:
    return jax.grad(lambda v: lax.cond(v.sum() > 0, jnp.sin, jnp.cos, v).sum())(x)


@case(np.array([0, 3, -2, 99], np.int32), V[:4])
def switch_batched(i: Any, x: Any) -> Any:
    branches = [jnp.sin, jnp.cos, jnp.tan, lambda v: v * 2]
    return jax.vmap(lambda k, v: lax.switch(k, branches, v))(i, x)


@pytest.mark.slow
def test_switch_with_many_branches() -> None:
    branches = [lambda v, k=k: v * k + 1 for k in range(70)]

    def fn(i: Any, x: Any) -> Any:
        return lax.switch(i, branches, x)

    model = to_onnx(fn, [np.int32(0), X])
    for i in (-5, 0, 1, 34, 35, 36, 68, 69, 1000):
        assert_close(run(model, [np.int32(i), X]), [fn(np.int32(i), X)])


# functions with custom rules


def cube_root(x: Any) -> Any:
    def newton(f: Any, start: Any) -> Any:
        def step(_: Any, y: Any) -> Any:
            return y - f(y) / (3 * y**2 + 1e-6)

        return lax.fori_loop(0, 20, step, jnp.ones_like(start))

    def tangent(g: Any, y: Any) -> Any:
        return y / g(jnp.ones_like(y))

    return lax.custom_root(lambda y: y**3 - x, x, newton, tangent)


def solve(b: Any) -> Any:
    return lax.custom_linear_solve(
        lambda x: A @ x,
        b,
        lambda _, b: jnp.linalg.solve(A, b),
        lambda _, b: jnp.linalg.solve(A.T, b),
    )


@case(V)
def custom_root(x: Any) -> Any:
    return cube_root(x), jax.grad(lambda x: cube_root(x).sum())(x)


@case(X[0])
def custom_linear_solve(b: Any) -> Any:
    return solve(b), jax.grad(lambda b: (solve(b) ** 2).sum())(b)


@jax.custom_vjp
def damped(x: Any) -> Any:
    return x * 2


damped.defvjp(lambda x: (x * 2, x), lambda x, g: (jnp.clip(g, -0.5, 0.5) * x,))


@case(X)
def custom_vjp(x: Any) -> Any:
    return damped(x), jax.grad(lambda v: damped(v).sum())(x)


@jax.custom_jvp
def softened(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x))


softened.defjvp(lambda x, t: (softened(x[0]), jax.nn.sigmoid(x[0]) * t[0]))


@case(X)
def custom_jvp(x: Any) -> Any:
    return jax.jvp(softened, (x,), (x,))


@case(X)
def remat(x: Any) -> Any:
    inner = jax.checkpoint(lambda v: jnp.sin(jnp.cos(v)))
    return jax.grad(lambda v: inner(v).sum())(x)


@case(X)
def named_call(x: Any) -> Any:
    return jax.named_call(lambda v: jnp.sin(v), name="wave")(x)


# transformations


@case(V)
def linearize(x: Any) -> Any:
    y, tangent = jax.linearize(lambda v: jnp.sin(v) * v, x)
    return y, tangent(jnp.ones_like(x))


@case(V)
def jvp(x: Any) -> Any:
    return jax.jvp(lambda v: jnp.exp(jnp.sin(v)), (x,), (2 * x,))


@case(V)
def vjp(x: Any) -> Any:
    y, pull = jax.vjp(lambda v: jnp.exp(jnp.sin(v)), x)
    return y, pull(y)


@case(V)
def hessian(x: Any) -> Any:
    return jax.hessian(lambda v: jnp.sum(v**3) * v[0])(x)


# unsupported programs


@case(X)
def debug_output_is_left_out(x: Any) -> Any:
    def body(carry: Any, _: Any) -> Any:
        jax.debug.print("carry {}", carry)
        return carry * 2, carry

    jax.debug.print("x {}", x, ordered=True)
    jax.debug.callback(lambda _: None, x + 1j)
    return lax.scan(body, x, None, length=3)


def test_debug_output_leaves_no_trace() -> None:
    def fn(x: Any) -> Any:
        jax.debug.print("sum {}", jnp.sin(x).sum())
        return x * 2

    assert [node.op_type for node in to_onnx(fn, [(3,)]).graph.node] == ["Mul"]


@pytest.mark.parametrize("callback", [jax.pure_callback, io_callback])
def test_callbacks_are_refused(callback: Callable[..., Any]) -> None:
    def fn(x: Any) -> Any:
        return callback(np.sin, jax.ShapeDtypeStruct((3,), np.float32), x)

    with pytest.raises(UnsupportedError, match="callback` has no ONNX lowering") as caught:
        to_onnx(fn, [(3,)])
    assert "callback(np.sin" in caught.value.place
    assert caught.value.help.startswith("a model cannot call Python; ")


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    fn, args = CASES[name]
    check_model(fn, args)


# weights


def test_weights_of_loop_bodies_are_stored_once() -> None:
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(64, 64)) / 8, jnp.float32)

    def cell(carry: Any, row: Any) -> Any:
        carry = lax.cond(row.sum() > 0, lambda c: jnp.tanh(c @ weights), lambda c: c - 1, carry)
        return carry, lax.fori_loop(0, 2, lambda _, v: v @ weights, row)

    def fn(x: Any) -> Any:
        return lax.scan(cell, x[0] @ weights, x)

    x = np.random.default_rng(1).normal(size=(5, 64)).astype(np.float32)
    model = check_model(fn, [x])
    large = [t for t in model.graph.initializer if len(t.raw_data) > 1024]
    assert [t.name for t in large] == ["weights"]
    bodies = [a.g for node in all_nodes(model) for a in node.attribute if a.HasField("g")]
    assert bodies
    assert all(len(t.raw_data) < 1024 for body in bodies for t in body.initializer)
    assert not of_type(model, "Constant")


# branches that are always taken


def _branch(x: Any) -> Any:
    return jnp.sin(x) * 2


def _other(x: Any) -> Any:
    return jnp.cos(x @ A.T)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: lax.cond(True, _branch, _other, x),
        lambda x: lax.cond(False, _other, _branch, x),
        lambda x: lax.switch(2, [_other, _other, _branch], x),
        lambda x: lax.switch(9, [_other, _branch], x),
        lambda x: lax.switch(-3, [_branch, _other, _other, _other], x),
        lambda x: lax.cond(jnp.arange(4).sum() > 3, _branch, _other, x),
        lambda x: lax.cond(lax.cond(True, lambda: True, lambda: False), _branch, _other, x),
        lambda x: lax.cond(True, lambda x: lax.cond(False, _other, _branch, x), _other, x),
        onnx_function(lambda x: lax.cond(True, _branch, _other, x)),
    ],
)
def test_a_branch_that_is_always_taken_takes_the_place_of_the_choice(
    fn: Callable[..., Any],
) -> None:
    model = check_model(fn, [X], stacktrace_metadata=True)
    bodies = [model.graph.node, *(f.node for f in model.functions)]
    nodes = [node for body in bodies for node in body if node.op_type in ("If", "Sin", "Mul")]
    assert [node.op_type for node in nodes] == ["Sin", "Mul"]
    assert {callsite(node) for node in nodes} == {f"_branch:{_at(_branch)}"}


def test_nodes_of_the_other_branch_are_removed() -> None:
    def fn(x: Any) -> Any:
        table = jnp.exp(x).sum()
        return lax.cond(True, lambda x, _: (x, x), lambda x, t: (x * t, x), x, table)

    assert _ops(fn, X) == {"Identity"}


def test_a_choice_by_an_input_stays() -> None:
    def fn(flag: Any, x: Any) -> Any:
        return lax.cond(True, lambda: lax.cond(flag, _branch, _other, x), lambda: x)

    assert _ops(fn, np.asarray(True), X) >= {"If", "Sin", "Cos"}


# loops that are replaced


def _ops(fn: Callable[..., Any], *args: Any) -> set[str]:
    return {node.op_type for node in all_nodes(check_model(fn, args))}


def test_a_map_is_applied_to_all_rows_at_once() -> None:
    def mlp(row: Any) -> Any:
        return jnp.tanh(row @ A[:2, :2]) @ A[:2]

    def fn(x: Any) -> Any:
        return lax.map(mlp, x)

    assert _ops(fn, ROWS) == {"MatMul", "Tanh"}
    model = to_onnx(fn, [ROWS], stacktrace_metadata=True)
    (tanh,) = of_type(model, "Tanh")
    assert callsite(tanh) == f"test_a_map_is_applied_to_all_rows_at_once.<locals>.mlp:{_at(mlp)}"


def _at(fn: Any) -> int:
    return fn.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: lax.scan(lambda _, row: (None, (row.sum(), row * 2)), None, x, reverse=True),
        lambda x: lax.map(lambda row: lax.scan(lambda c, v: (c + v, c), 0.0, row)[1], x),
        lambda x: jax.vmap(lambda m: lax.map(jnp.cumsum, m))(jnp.stack([x, x])),
        lambda x: lax.map(lambda row: jax.random.normal(jax.random.key(0), (2,)) + row, x),
    ],
    ids=["reversed", "a loop inside", "inside of vmap", "random"],
)
def test_maps(fn: Callable[..., Any]) -> None:
    check_model(fn, [ROWS])


def test_a_map_that_diverges_stays_a_loop() -> None:
    def fn(x: Any) -> Any:
        return lax.map(lambda row: lax.cond(row[0] > 0.5, jnp.sin, jnp.cos, row), x)

    assert "Scan" in _ops(fn, ROWS)


def test_a_map_over_much_stays_a_loop() -> None:
    def ops(columns: int) -> set[str]:
        model = to_onnx(lambda x: lax.map(jnp.sin, x), [(4, columns)])
        return {node.op_type for node in all_nodes(model)}

    whole = 1 << 22  # 64 MiB in four rows
    assert ops(whole) == {"Sin"}
    assert ops(whole + 1) == {"Scan", "Sin"}


def test_a_map_with_effects_stays_a_loop() -> None:
    def body(row: Any) -> Any:
        jax.debug.print("{}", row)
        return jnp.sin(row)

    assert "Scan" in _ops(lambda x: lax.map(body, x), ROWS)


def test_a_loop_that_runs_once_is_inlined() -> None:
    def fn(x: Any) -> Any:
        return lax.scan(lambda c, v: (c * 0.5 + v, c), jnp.zeros(2), x, reverse=True)

    def counted(x: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=1)

    assert _ops(fn, ROWS[:1]) & {"Scan", "Loop"} == set()
    assert _ops(counted, ROWS) & {"Scan", "Loop"} == set()


# training steps


def _loss(predicted: Any, wanted: Any) -> Any:
    return jnp.mean((predicted - wanted) ** 2)


def _adam(params: Any, state: Any, grads: Any) -> Any:
    count, mean, square = state
    count = count + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, grads)

    def update(p: Any, m: Any, s: Any) -> Any:
        m, s = m / (1 - 0.9**count), s / (1 - 0.99**count)
        return p - 0.01 * m / (jnp.sqrt(s) + 1e-8)

    return jax.tree.map(update, params, mean, square), (count, mean, square)


INPUT = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
WANTED = np.random.default_rng(1).normal(size=(4, 2)).astype(np.float32)


def _zeros(params: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, params)


@pytest.mark.slow
def test_a_training_step_of_linen_with_adam() -> None:
    class MLP(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(2)(nn.gelu(nn.LayerNorm()(nn.Dense(8)(x))))

    module = MLP()
    params = module.init(jax.random.key(0), INPUT)

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda p: _loss(module.apply(p, x), y))(params)
        params, state = _adam(params, state, grads)
        return loss, params, state

    state = (np.float32(0), _zeros(params), _zeros(params))
    check_model(step, [params, state, INPUT, WANTED])


@pytest.mark.slow
def test_a_training_step_of_equinox_with_sgd() -> None:
    model = eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def step(params: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            return _loss(jax.vmap(eqx.combine(params, static))(x), y)

        grads = jax.grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    check_model(step, [params, INPUT, WANTED])


def test_training_steps_of_nnx_in_a_loop() -> None:
    model = nnx.Sequential(
        nnx.Linear(3, 8, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(8, 2, rngs=nnx.Rngs(1))
    )
    graph, params = nnx.split(model)

    def train(params: Any, x: Any, y: Any) -> Any:
        def step(params: Any, _: Any) -> Any:
            loss, grads = jax.value_and_grad(lambda p: _loss(nnx.merge(graph, p)(x), y))(params)
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

        return lax.scan(step, params, None, length=4)

    check_model(train, [params, INPUT, WANTED])
