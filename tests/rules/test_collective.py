"""Collectives over a `vmap` axis are reductions; placement has no effect."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harness.checking import check_model, check_sizes, op_types
from jax2onnx import UnsupportedError, to_onnx
from models.random_values import normal

COLLECTIVES = [lax.psum, lax.pmean, lax.pmax, lax.pmin]


def mapped(collective: Any) -> Any:
    def row(x: jax.Array, y: jax.Array) -> Any:
        return collective((x, y), "batch"), x - collective(x, "batch")

    return jax.vmap(row, axis_name="batch")


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
def test_a_mapped_axis(collective: Any) -> None:
    fn = mapped(collective)
    check_model(fn, (normal(3, 4), normal(3)))
    if collective is not lax.pmean:  # which needs a known size in JAX
        check_sizes(fn, [("B", 4), ("B",)], *([normal(n, 4), normal(n)] for n in (1, 5)))


def test_an_axis_without_elements() -> None:
    """The sum of an empty axis has the shape of each operand's own result."""
    check_model(mapped(lax.psum), (jnp.zeros((0, 4)), jnp.zeros(0)))


def test_a_sum_of_complex_numbers() -> None:
    """Real operands of the same sum stay real."""
    check_model(mapped(lax.psum), (normal(3, 4) + 1j * normal(3, 4), normal(3)))


@pytest.mark.parametrize("collective", [lax.pmax, lax.pmin], ids=lambda c: c.__name__)
def test_complex_extrema_are_refused(collective: Any) -> None:
    with pytest.raises(UnsupportedError, match="of complex numbers over a mapped axis"):
        to_onnx(mapped(collective), [jax.ShapeDtypeStruct((3, 4), np.complex64), (3,)])


def test_a_sum_is_one_node() -> None:
    fn = jax.vmap(lambda x: lax.psum(x, "batch"), axis_name="batch", out_axes=None)
    assert op_types(to_onnx(fn, [(3, 4)])) == ["ReduceSum"]


def test_where_an_array_lies_is_no_business_of_the_model() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    model = check_model(lambda x: lax.with_sharding_constraint(x * 2, rows) + 1, (normal(4, 4),))
    assert op_types(model) == ["Mul", "Add"]


def placements() -> dict[str, Any]:
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    old = jax.sharding.NamedSharding(
        jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",)),
        jax.sharding.PartitionSpec("data"),
    )
    return {
        "reshard": lambda x: jax.sharding.reshard(x, rows),
        "sharding_constraint": lambda x: lax.with_sharding_constraint(x, old),
    }


@pytest.mark.parametrize("name", ["reshard", "sharding_constraint"])
def test_sharded_values_may_be_complex_or_keys(name: str) -> None:
    place = placements()[name]
    placed = jax.make_jaxpr(place)(normal(4))
    assert [eqn.primitive.name for eqn in placed.eqns] == [name]
    check_model(lambda x: place(x * 2j) + 1, (normal(4, 4),))

    def bits(seeds: jax.Array) -> Any:
        return jax.vmap(jax.random.bits)(place(jax.vmap(jax.random.key)(seeds)))

    check_model(bits, (np.arange(4, dtype=np.int32),))
