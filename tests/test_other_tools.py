"""Tools that other people run over models."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import onnx
import pytest
from jax import lax

from jax2onnx import to_onnx

shape_inference = pytest.importorskip("onnxruntime.tools.symbolic_shape_infer")
quantization = pytest.importorskip("onnxruntime.quantization.shape_inference")

PROGRAMS: dict[str, tuple[Any, list[Any]]] = {
    "while": (lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2 + 1, x), [(4,)]),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 2 + i, x), [(4,)]),
    "scan": (lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c), x[0], x), [(7, 4)]),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.exp, jnp.abs, x), [(2, 4)]),
    "softmax": (lambda x: jax.nn.softmax(x), [("B", 4)]),
    "sort": (lambda x: jnp.sort(x), [("B", 4)]),
    "mean": (lambda x: x.mean(axis=1), [("B", 4)]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_shapes_are_inferred(name: str, tmp_path: Path) -> None:
    model = to_onnx(*PROGRAMS[name])
    inferred = shape_inference.SymbolicShapeInference.infer_shapes(model, auto_merge=True)
    ranks = [len(output.type.tensor_type.shape.dim) for output in model.graph.output]
    assert [len(output.type.tensor_type.shape.dim) for output in inferred.graph.output] == ranks
    onnx.save(model, tmp_path / "m.onnx")
    quantization.quant_pre_process(tmp_path / "m.onnx", tmp_path / "q.onnx", auto_merge=True)
    onnx.checker.check_model(onnx.load(tmp_path / "q.onnx"))
