"""Primitives that the table lacks: their implementation is converted instead."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equinox import internal as eqxi
from jax import lax
from jax.experimental import sparse
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from harness.checking import check_model, check_sizes, run
from harness.provenance_of import callsite, line_of
from jax2onnx import UnsupportedError, _core, to_onnx
from jax2onnx._expansion import one_device
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

halved = primitive("halved")
halved.def_impl(lambda x, *, times: halved.bind(x / 2, times=times - 1) if times else x)

opaque = primitive("opaque")
ping, pong = primitive("ping"), primitive("pong")
ping.def_impl(lambda x: pong.bind(x))
pong.def_impl(lambda x: ping.bind(x))


with_free_variables = primitive("with_free_variables")


def reads_outside(x: jax.Array) -> Any:
    """Returns a jaxpr that reads a variable of the enclosing one."""
    closed = jax.make_jaxpr(lambda y, z: jnp.sin(y) + z)(x, x)
    of_one = jax.make_jaxpr(jnp.sin)(x).jaxpr.debug_info
    return closed.jaxpr.replace(invars=closed.jaxpr.invars[:1], debug_info=of_one)


def from_dense(x: jax.Array) -> sparse.BCOO:
    return sparse.BCOO.fromdense(x, nse=12)


def with_references(x: jax.Array) -> jax.Array:
    ref = jax.new_ref(x)
    ref[...] = ref[...] * 2
    ref[0] += 1.0
    return jax.freeze(ref)


def with_references_in_a_loop(x: jax.Array) -> jax.Array:
    total = jax.new_ref(jnp.zeros(3))
    x = jnp.asarray(x)

    @jax.jit
    def add(i: jax.Array) -> None:
        total[...] += x[i]

    lax.fori_loop(0, 4, lambda i, _: add(i), None)
    return total[...]


PROGRAMS: dict[str, Any] = {
    "an implementation": lambda x: scaled_sine.bind(x, scale=2.0) + 1,
    "a lowering rule": lambda x: numpy_sine.bind(x) + 1,
    "one inside another": lambda x: twice.bind(x),
    "smaller cases of itself": lambda x: halved.bind(x, times=3),
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
    "error_if": lambda x: eqx.error_if(x, x.sum() > 1e9, "too large") + 1,
    "error_if of integers": lambda x: eqx.error_if(jnp.int32(x), x.sum() > 1e9, "too large"),
    "references": with_references,
    "references in a loop": with_references_in_a_loop,
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


def test_an_error_is_nan() -> None:
    """A model cannot raise it."""
    model = to_onnx(lambda x: eqx.error_if(x, x.sum() > 0, "positive"), [(2,)])
    assert np.isnan(run(model, [np.ones(2, np.float32)])[0]).all()
    assert (run(model, [-np.ones(2, np.float32)])[0] == -1).all()


MESH = Mesh(np.array(jax.devices()[:1]), ("i",))


def on_one_device(fn: Any) -> Any:
    return jax.shard_map(fn, mesh=MESH, in_specs=P("i"), out_specs=P("i"))


@pytest.mark.parametrize(
    "fn",
    [
        on_one_device(lambda x: lax.psum(x, "i") * 2 + x),
        on_one_device(lambda x: lax.pmax(x, "i") + lax.pmin(x, "i") - x),
        on_one_device(lambda x: lax.pmean(x, "i") + lax.axis_index("i") + x),
        on_one_device(lambda x: lax.all_gather(x, "i")[0] + lax.all_gather(x, "i", tiled=True)),
        on_one_device(lambda x: lax.ppermute(x, "i", [(0, 0)]) + lax.ppermute(x, "i", [])),
        on_one_device(lambda x: lax.psum_scatter(x, "i", tiled=True) * 2),
        on_one_device(lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True) * 2),
        on_one_device(lambda x: lax.all_to_all(x[None], "i", 0, x.ndim) * 2),
        on_one_device(lambda x: jax.jit(lambda y: lax.psum(y, "i") + y)(x)),
        lambda x: jax.pmap(lambda y: lax.psum(y, "i") + y, axis_name="i")(x[None]),
    ],
)
def test_a_mesh_of_one_device(fn: Any) -> None:
    check_model(fn, [X])


EXPLICIT = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))


def test_inputs_that_lie_on_a_mesh() -> None:
    """Their placement is part of their type, which the function relies on."""
    rows = jax.sharding.NamedSharding(EXPLICIT, P("i"))
    fn = jax.shard_map(
        lambda x: lax.psum(x, "i") * 2, mesh=EXPLICIT, in_specs=P("i"), out_specs=P()
    )
    check_model(fn, [jax.device_put(X, rows)])
    (b,) = jax.export.symbolic_shape("B")
    spec = jax.ShapeDtypeStruct((b, *X.shape[1:]), X.dtype, sharding=rows)
    check_sizes(fn, [spec], [jax.device_put(X, rows)], [jax.device_put(X[:1], rows)])


def test_keys_that_lie_on_a_mesh() -> None:
    with jax.set_mesh(EXPLICIT):
        check_model(lambda key: jax.random.normal(key, (3,)), [jax.random.key(1)])


def test_the_mesh_of_the_context() -> None:
    fn = jax.shard_map(lambda x: lax.psum(x, "i") * 2, in_specs=P("i"), out_specs=P())
    with jax.set_mesh(EXPLICIT):
        check_model(lambda x: fn(jax.sharding.reshard(x, P("i"))), [X])


def test_collectives_in_a_call() -> None:
    check_model(on_one_device(jax.checkpoint(lambda x: lax.psum(x, "i") + x)), [X])


def test_every_kind_of_collective_is_known() -> None:
    kinds = set(_core.beyond_models().values())
    assert kinds == {"devices", "python", *one_device._ALONE}


def test_equations_on_a_device_have_their_lines() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.sin(lax.psum(x, "i")) + x  # the line

    model = to_onnx(on_one_device(fn), [X], stacktrace_metadata=True)
    (sine,) = [node for node in model.graph.node if node.op_type == "Sin"]
    assert callsite(sine).endswith(f"fn:{line_of('the line', fn)}")


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (opaque.bind, "opaque"),
        (ping.bind, "ping"),
        (lambda x: halved.bind(x, times=1000), "halved"),
        (lambda x: with_free_variables.bind(x, body=reads_outside(x)), "with_free_variables"),
        (lambda x: jax.pure_callback(lambda x: x, x, x), "pure_callback"),
    ],
)
def test_untraceable_primitives_are_refused(fn: Any, name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"`{name}` has no ONNX lowering"):
        to_onnx(lambda x: fn(x) + 1, [X])


def test_all_that_is_refused_is_reported_at_once() -> None:
    with pytest.raises(UnsupportedError, match=r"2 primitives.*`opaque`, `pure_callback`"):
        to_onnx(lambda x: opaque.bind(jax.pure_callback(lambda x: x, x, x)), [X])
