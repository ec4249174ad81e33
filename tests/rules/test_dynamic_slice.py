import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from harness.checking import check_model, check_sizes, op_types


def normal(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)


@pytest.mark.parametrize("start", [-2, 0, 3, 9])
@pytest.mark.parametrize("size", [(2, 3, 4), (6, 1, 4), (6, 5, 2), (1, 1, 1), (6, 5, 4)])
class TestStarts:
    def test_slice(self, start, size):
        x = normal(6, 5, 4)
        check_model(lambda x, i: lax.dynamic_slice(x, (i, i, i), size), [x, np.int32(start)])
        model = check_model(lambda x: lax.dynamic_slice(x, (start, 1, 1), size), [x])
        assert not {"Gather", "Clip", "Max", "Min"} & set(op_types(model))
        check_model(lambda x, i: lax.dynamic_slice(x, (i, 1, start), size), [x, np.int32(start)])

    def test_update(self, start, size):
        x, update = normal(6, 5, 4), normal(*size) + 9

        def fn(*starts):
            return lambda x, u: lax.dynamic_update_slice(x, u, starts)

        check_model(lambda x, u, i: fn(i, i, i)(x, u), [x, update, np.int32(start)])
        check_model(fn(start, 1, 1), [x, update])
        check_model(lambda x, u, i: fn(start, i, 2)(x, u), [x, update, np.int32(start)])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.int16])
def test_index_types(dtype):
    def fn(x, i):
        return lax.dynamic_slice(x, (i, i), (2, 3)), lax.dynamic_update_slice(x, x[:1] + 9, (i, i))

    check_model(fn, [normal(5, 3), dtype(3)])


def test_a_cache_stays_where_it_is():
    def fn(cache, update, i):
        return lax.dynamic_update_slice(cache, update, (0, i, 0, 0))

    args = [normal(2, 8, 3, 4), normal(2, 1, 3, 4), np.int32(5)]
    assert "Transpose" not in op_types(check_model(fn, args))
    # Too many positions to index them one by one.
    args = [normal(3000, 8, 1, 2), normal(3000, 1, 1, 2), np.int32(5)]
    assert "Transpose" not in op_types(check_model(fn, args))
    args = [normal(3000, 8, 1, 2), normal(3000, 3, 1, 2), np.int32(7)]
    assert "Transpose" not in op_types(check_model(fn, args))


def test_symbolic_sizes():
    batch, rows = export.symbolic_shape("batch, rows", constraints=["rows >= 4"])
    index = jax.ShapeDtypeStruct((), np.int32)
    specs = [jax.ShapeDtypeStruct((batch, rows, 3), np.float32), index]
    runs = [[normal(2, 5, 3), np.int32(3)], [normal(1, 7, 3), np.int32(-1)]]
    check_sizes(lambda x, i: lax.dynamic_slice(x, (0, i, i), (x.shape[0], 3, 2)), specs, *runs)
    specs = [specs[0], jax.ShapeDtypeStruct((batch, 2, 3), np.float32), index]
    runs = [[x, normal(x.shape[0], 2, 3) + 9, i] for x, i in runs]
    check_sizes(lambda x, u, i: lax.dynamic_update_slice(x, u, (0, i, 0)), specs, *runs)
