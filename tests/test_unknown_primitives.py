"""Primitives that the table does not know: what they are implemented by is converted instead."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equinox import internal as eqxi
from jax import lax
from jax.experimental import sparse
from jax.extend.core import Primitive
from jax.interpreters import mlir

from checking import check_model
from jax2onnx import UnsupportedError, to_onnx
from models.random_values import normal

X = normal(4, 3)
SPARSE = sparse.BCOO.fromdense(jnp.array([[1.0, 0, 2], [0, 0, 3], [4, 0, 0]]))


def primitive(name: str) -> Primitive:
    made = Primitive(name)
    made.def_abstract_eval(lambda x, **_: x)
    return made


scaled_sine = primitive("scaled_sine")
scaled_sine.def_impl(lambda x, *, scale: jnp.sin(x) * scale)

numpy_sine = primitive("numpy_sine")
numpy_sine.def_impl(lambda x: np.sin(x))
mlir.register_lowering(numpy_sine, mlir.lower_fun(jnp.sin, multiple_results=False))

twice = primitive("twice")
twice.def_impl(lambda x: scaled_sine.bind(scaled_sine.bind(x, scale=2.0), scale=3.0))

opaque = primitive("opaque")
ping, pong = primitive("ping"), primitive("pong")
ping.def_impl(lambda x: pong.bind(x))
pong.def_impl(lambda x: ping.bind(x))


def from_dense(x: jax.Array) -> sparse.BCOO:
    return sparse.BCOO.fromdense(x, nse=12)


PROGRAMS: dict[str, Any] = {
    "an implementation": lambda x: scaled_sine.bind(x, scale=2.0) + 1,
    "a lowering rule": lambda x: numpy_sine.bind(x) + 1,
    "one inside another": lambda x: twice.bind(x),
    "in a loop": lambda x: lax.fori_loop(0, 3, lambda _, y: numpy_sine.bind(y), x),
    "grouped products": lambda x: lax.ragged_dot(
        x, jnp.arange(30.0).reshape(2, 3, 5), jnp.array([1, 3], jnp.int32)
    ),
    "a sparse matrix": lambda x: SPARSE @ x.T,
    "sparse to dense": lambda x: SPARSE.todense() + x[:3],
    "dense to sparse": lambda x: from_dense(x).todense(),
    "transposed": lambda x: from_dense(x).T.todense(),
    "a sparse sum": lambda x: sparse.bcoo_reduce_sum(from_dense(x), axes=(0,)).todense(),
    "sparse times dense": lambda x: sparse.bcoo_multiply_dense(from_dense(x), x),
    "sparse times sparse": lambda x: (SPARSE @ SPARSE).todense() + x[:3],
    "sparsify": lambda x: sparse.sparsify(lambda a, b: (a * 2) @ b)(SPARSE, x.T),
    "unvmap_any": lambda x: jax.vmap(lambda row: eqxi.unvmap_any(row.sum() > 1))(x),
    "unvmap_all": lambda x: jax.vmap(lambda row: eqxi.unvmap_all(row.sum() > 1))(x),
    "unvmap_max": lambda x: jax.vmap(lambda row: eqxi.unvmap_max(jnp.int32(row[0])))(x),
    "nonbatchable": lambda x: eqxi.nonbatchable(x) + 1,
    "nondifferentiable": lambda x: eqxi.nondifferentiable(x) + 1,
    "a bounded loop": lambda x: eqxi.while_loop(
        lambda state: state[0] < 3,
        lambda state: (state[0] + 1, state[1] * 2),
        (0, x),
        kind="checkpointed",
        checkpoints=2,
        max_steps=8,
    )[1],
    "buffers": lambda x: eqxi.while_loop(
        lambda state: state[0] < 3,
        lambda state: (state[0] + 1, state[1].at[state[0]].set(state[0] * 1.0)),
        (0, x),
        kind="lax",
        buffers=lambda state: state[1],
    )[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_primitive_with_an_implementation(name: str) -> None:
    check_model(PROGRAMS[name], [X])


def test_a_sparse_matrix_as_an_input() -> None:
    check_model(lambda matrix, x: matrix @ x.T, [SPARSE, X])


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (opaque.bind, "opaque"),
        (ping.bind, "ping"),
        (lambda x: jax.pure_callback(lambda x: x, x, x), "pure_callback"),
    ],
)
def test_what_cannot_be_traced_is_refused(fn: Any, name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"`{name}` has no ONNX lowering"):
        to_onnx(lambda x: fn(x) + 1, [X])


def test_all_that_is_refused_is_reported_at_once() -> None:
    with pytest.raises(UnsupportedError, match=r"2 primitives.*`opaque`, `pure_callback`"):
        to_onnx(lambda x: opaque.bind(jax.pure_callback(lambda x: x, x, x)), [X])
