"""Loop bodies: no iteration computes loop-invariant values."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

from harness.checking import assert_close, check_model, op_types, run
from harness.provenance_of import of_type
from jax2onnx import to_onnx


def body_ops(model: onnx.ModelProto, op: str) -> list[str]:
    """Returns the operators in the body of a model's only loop."""
    (loop,) = of_type(model, op)
    (body,) = (a.g for a in loop.attribute if a.name == "body")
    return [node.op_type for node in body.node]


def cube_root(a: Any) -> Any:
    def cond(s: Any) -> Any:
        x, i = s
        return jnp.logical_and(i < 50, jnp.max(jnp.abs(x * x * x - a)) > 1e-3)

    def body(s: Any) -> Any:
        x, i = s
        return x - (x * x * x - a) / (3 * x * x), i + 1

    return lax.while_loop(cond, body, (jnp.ones_like(a), 0))


def test_the_condition_and_the_next_iteration_share_nodes() -> None:
    x = np.abs(np.random.default_rng(0).normal(size=64)).astype(np.float32) + 0.5
    ops = body_ops(check_model(cube_root, [x]), "Loop")
    assert ops.count("Mul") == 4
    assert ops.count("Sub") == 2
    assert len(ops) == 15


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 0.0])
@pytest.mark.parametrize("at", [0, 5, 63])
def test_loops_end_where_they_do_in_jax(special: float, at: int) -> None:
    x = np.abs(np.random.default_rng(0).normal(size=64)).astype(np.float32) + 0.5
    x[at] = special
    assert_close(run(to_onnx(cube_root, [x]), [x]), jax.tree.leaves(cube_root(x)))


def test_loop_invariants_are_computed_before_the_loop() -> None:
    def fn(w: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (jnp.tanh(c * jnp.exp(w) + x), c), jnp.zeros(3), xs)

    w, xs = np.array([0.1, -0.2, 0.3], np.float32), np.random.default_rng(0).normal(size=(5, 3))
    model = check_model(fn, [w, xs.astype(np.float32)])
    assert op_types(model)[:2] == ["Exp", "Scan"]
    assert "Exp" not in body_ops(model, "Scan")


def test_state_that_stays_the_same_is_not_carried() -> None:
    def fn(w: Any, x: Any) -> Any:
        def step(_: Any, s: Any) -> Any:
            return s[0], jnp.tanh(s[1] @ s[0]), s[2] + 1

        return lax.fori_loop(0, 4, step, (w, x, 0))[:2]

    w, x = np.eye(3, dtype=np.float32) / 2, np.ones((2, 3), np.float32)
    model = check_model(fn, [w, x])
    (loop,) = of_type(model, "Loop")
    assert len(loop.output) == 1


def test_loops_without_iterations() -> None:
    def fn(x: Any) -> Any:
        def body(s: Any) -> Any:
            return s[0] * s[1], s[1], jnp.exp(s[1]) + s[2]

        return lax.while_loop(lambda s: s[0].sum() < 3, body, (x, x + 1, x))

    for x in (np.array([1, 0.5], np.float32), np.array([5, 5], np.float32)):
        check_model(fn, [x])
