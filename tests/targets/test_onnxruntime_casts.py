"""Properties of onnxruntime's casts that legalisation relies on.

Integers wrap around, floats round to nearest even, and a cast to a smaller type and back is not
optimised away.
"""

import ml_dtypes
import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SMALL_FLOATS: dict[int, type] = {
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
}


def cast(x: np.ndarray, *types: int) -> np.ndarray:
    """Casts `x` to each type in turn, in one model with every optimisation enabled."""
    nodes = []
    for i, code in enumerate(types):
        node = helper.make_node("Cast", [f"x{i}"], [f"x{i + 1}"], to=code)
        if np.dtype(SMALL_FLOATS.get(code, float)).itemsize == 1:
            node.attribute.append(helper.make_attribute("saturate", 0))
        nodes.append(node)
    given = helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    result = helper.make_tensor_value_info(f"x{len(types)}", types[-1], x.shape)
    graph = helper.make_graph(nodes, "casts", [given], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x0": x})[0]


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_integers_wrap_around(source: str, target: str) -> None:
    info = np.iinfo(source)
    rng = np.random.default_rng(0)
    x = rng.integers(info.min, info.max, 200, dtype=source, endpoint=True)
    x[:4] = info.min, info.max, 0, 1
    code = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    np.testing.assert_array_equal(cast(x, code), x.astype(target))


@pytest.mark.parametrize("code", [TensorProto.INT4, TensorProto.UINT4])
def test_four_bits_wrap_around(code: int) -> None:
    x = np.arange(-40, 40, dtype=np.int32)
    small = ml_dtypes.int4 if code == TensorProto.INT4 else ml_dtypes.uint4
    np.testing.assert_array_equal(
        cast(x, code, TensorProto.INT32), x.astype(small).astype(np.int32)
    )


@pytest.mark.parametrize("code", SMALL_FLOATS)
def test_small_floats_survive_single_precision(code: int) -> None:
    dtype = np.dtype(SMALL_FLOATS[code])
    bits = np.arange(256**dtype.itemsize, dtype=f"uint{8 * dtype.itemsize}")
    x = bits.view(dtype).astype(np.float32)
    np.testing.assert_array_equal(cast(x, code, TensorProto.FLOAT), x)


@pytest.mark.parametrize("code", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_rounding_is_kept(code: int) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(2000) * 10.0 ** rng.integers(-6, 4, 2000)).astype(np.float32)
    expected = x.astype(SMALL_FLOATS[code]).astype(np.float32)
    assert (expected != x).any()
    np.testing.assert_array_equal(cast(x, code, TensorProto.FLOAT), expected)
