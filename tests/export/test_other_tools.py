"""Compatibility with other tools that process models."""

import copy
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.compose
import pytest
from jax import lax

from harness.checking import assert_close, run
from jax2onnx import to_onnx
from models import bert, catalogue

shape_inference = pytest.importorskip("onnxruntime.tools.symbolic_shape_infer")
quantization = pytest.importorskip("onnxruntime.quantization")
pre_processing = pytest.importorskip("onnxruntime.quantization.shape_inference")

PROGRAMS: dict[str, tuple[Any, list[Any]]] = {
    "while": (lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2 + 1, x), [(4,)]),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 2 + i, x), [(4,)]),
    "scan": (lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c), x[0], x), [(7, 4)]),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.exp, jnp.abs, x), [(2, 4)]),
    "nested": (
        lambda x: lax.fori_loop(
            0, 3, lambda i, c: lax.while_loop(lambda d: d.sum() < 9, lambda d: d * 2 + 1, c + i), x
        ),
        [(4,)],
    ),
    "softmax": (lambda x: jax.nn.softmax(x), [("B", 4)]),
    "sort": (lambda x: jnp.sort(x), [("B", 4)]),
    "mean": (lambda x: x.mean(axis=1), [("B", 4)]),
    "max": (lambda x: x / x.max(), [("B", 4)]),
    "all": (lambda x: jnp.where((x > 0).all(), x, -x), [("B", 4)]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_shapes_are_inferred(name: str, tmp_path: Path) -> None:
    model = to_onnx(*PROGRAMS[name])
    inferred = shape_inference.SymbolicShapeInference.infer_shapes(model, auto_merge=True)
    ranks = [len(output.type.tensor_type.shape.dim) for output in model.graph.output]
    assert [len(output.type.tensor_type.shape.dim) for output in inferred.graph.output] == ranks
    onnx.save(model, tmp_path / "m.onnx")
    pre_processing.quant_pre_process(tmp_path / "m.onnx", tmp_path / "q.onnx", auto_merge=True)
    onnx.checker.check_model(onnx.load(tmp_path / "q.onnx"))


@pytest.mark.parametrize("fn", [jnp.max, jnp.min])
def test_shapes_are_inferred_where_axes_of_maxima_are_attributes(fn: Any) -> None:
    model = to_onnx(lambda x: x - fn(x, axis=1, keepdims=True), [("B", 4)], opset=17)
    inferred = shape_inference.SymbolicShapeInference.infer_shapes(model, auto_merge=True)
    assert len(inferred.graph.output[0].type.tensor_type.shape.dim) == 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_models_are_merged(name: str) -> None:
    """Every value that a body reads gets the prefix of its model."""
    fn, specs = PROGRAMS[name]
    model = to_onnx(fn, specs)
    copies = [onnx.compose.add_prefix(copy.deepcopy(model), prefix) for prefix in ("a/", "b/")]
    merged = onnx.compose.merge_models(*copies, io_map=[])
    onnx.checker.check_model(merged, full_check=True)
    sizes = [3 if size == "B" else size for size in specs[0]]
    x = np.linspace(0.1, 1, int(np.prod(sizes)), dtype=np.float32).reshape(sizes)
    expected = jax.tree.leaves(fn(jnp.asarray(x)))
    assert_close(run(merged, [x, x]), expected * 2)


def test_parameters_of_a_body_stay_in_the_main_graph() -> None:
    weight = jnp.asarray(np.eye(4, dtype=np.float32))

    def fn(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 3, lambda _, c: c @ weight + 1, x)

    model = to_onnx(fn, [(2, 4)])
    assert "weight" in {tensor.name for tensor in model.graph.initializer}
    bodies = [a.g for node in model.graph.node for a in node.attribute if a.HasField("g")]
    assert [[tensor.dims for tensor in body.initializer] for body in bodies] == [[[]]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["nnx/vit", "linen/gpt", "haiku/unet"])
def test_every_weight_is_quantised(name: str, tmp_path: Path) -> None:
    pytest.importorskip(catalogue.FRAMEWORKS[name.partition("/")[0]])
    fn, args = catalogue.build(name)
    model = to_onnx(fn, list(args))
    onnx.save(model, tmp_path / "m.onnx")
    quantization.quantize_dynamic(tmp_path / "m.onnx", tmp_path / "q.onnx")
    quantised = onnx.load(tmp_path / "q.onnx")
    weights = {
        operand
        for node in model.graph.node
        if node.op_type in ("MatMul", "Gemm", "Conv")
        for operand in node.input[1:2]
    }
    left = {tensor.name for tensor in quantised.graph.initializer}
    assert weights
    assert not weights & left
    (found,), (expected,) = (run(m, jax.tree.leaves(args)) for m in (quantised, model))
    assert np.linalg.norm(found - expected) < 0.1 * np.linalg.norm(expected)


def test_scores_are_divided_as_the_transformer_optimiser_expects() -> None:
    """onnxruntime's optimiser matches `Softmax(Div(MatMul(...)))` in attention without a mask."""
    fn, args = catalogue.build("nnx/vit", width=64)
    model = to_onnx(fn, list(args))
    producers = {output: node for node in model.graph.node for output in node.output}
    softmaxes = [node for node in model.graph.node if node.op_type == "Softmax"]
    divisions = [producers[node.input[0]] for node in softmaxes]
    assert [node.op_type for node in divisions] == ["Div", "Div"]
    assert [producers[node.input[0]].op_type for node in divisions] == ["MatMul", "MatMul"]


def test_the_transformer_optimiser_fuses_masked_attention(tmp_path: Path) -> None:
    """A layer of BERT, with norms after the sums."""
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    width, heads, rng = 64, 4, np.random.default_rng(0)
    names = ("q", "k", "v", "o", "up", "down")
    sizes = dict.fromkeys(names, (width, width)) | {"up": (width, 128), "down": (128, width)}
    weights = {n: rng.normal(size=s).astype(np.float32) / 8 for n, s in sizes.items()}
    vectors = {n: rng.normal(size=s[1]).astype(np.float32) for n, s in sizes.items()}
    scale = rng.normal(size=width).astype(np.float32)

    def dense(name: str, x: jax.Array) -> jax.Array:
        return x @ weights[name] + vectors[name]

    def norm(x: jax.Array) -> jax.Array:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-6) * scale + scale

    def split(x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    def layer(x: jax.Array, mask: jax.Array) -> jax.Array:
        q, k, v = (split(dense(name, x)) for name in "qkv")
        scores = q @ k.swapaxes(-1, -2) / 4
        scores = scores + (1.0 - mask[:, None, None, :].astype(jnp.float32)) * -1e4
        y = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(x + dense("o", y))
        return norm(x + dense("down", jax.nn.gelu(dense("up", x), approximate=False)))

    def fn(x: jax.Array, mask: jax.Array) -> jax.Array:
        return layer(norm(x), mask)

    specs = [
        jax.ShapeDtypeStruct(("B", "T", width), jnp.float32),  # type: ignore[arg-type]
        jax.ShapeDtypeStruct(("B", "T"), jnp.int32),  # type: ignore[arg-type]
    ]
    to_onnx(fn, specs, return_mode="file", output_path=str(tmp_path / "m.onnx"))
    optimised = optimizer.optimize_model(
        str(tmp_path / "m.onnx"), "bert", num_heads=heads, hidden_size=width, opt_level=0
    )
    found = {op: n for op, n in optimised.get_fused_operator_statistics().items() if n}
    assert found["Attention"] == found["BiasGelu"] == 1, found
    x, mask = rng.normal(size=(2, 5, width)).astype(np.float32), np.ones((2, 5), np.int32)
    mask[1, 3:] = 0
    assert_close(run(optimised.model, [x, mask]), [fn(x, mask)])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("sizes", "target"), [(("B", "T"), "onnxruntime"), ((2, 7), "any")])
@pytest.mark.parametrize("framework", ["linen", "nnx", "equinox", "haiku"])
def test_the_transformer_optimiser_fuses_bert(
    framework: str, sizes: Any, target: Any, tmp_path: Path
) -> None:
    """Fuses as much as in a model from torch.onnx, with the same results."""
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    pytest.importorskip(catalogue.FRAMEWORKS[framework])
    fn = getattr(bert, framework)()
    path = str(tmp_path / "m.onnx")
    specs = [jax.ShapeDtypeStruct(sizes, jnp.int32)] * 3
    to_onnx(fn, specs, return_mode="file", output_path=path, target=target)
    options = {"num_heads": bert.HEADS, "hidden_size": bert.WIDTH, "opt_level": 0}
    optimised = optimizer.optimize_model(path, "bert", **options)
    found = optimised.get_fused_operator_statistics()
    fused = ("Attention", "BiasGelu")
    assert [found[op] for op in fused] == [bert.LAYERS] * 2, found
    assert found["SkipLayerNormalization"] >= 2 * bert.LAYERS, found
    rng = np.random.default_rng(0)
    ids, types = (rng.integers(0, n, (2, 7), np.int32) for n in (bert.WORDS, 2))
    # If all tokens are hidden, JAX takes the mean of all values.
    for hidden in (4, 0):
        mask = np.ones((2, 7), np.int32)
        mask[1, hidden:] = 0
        mask[0, 0] = 2
        expected = jax.tree.leaves(fn(*map(jnp.asarray, (ids, types, mask))))
        assert_close(run(path, [ids, types, mask]), expected)
        assert_close(run(optimised.model, [ids, types, mask]), expected)


@pytest.mark.filterwarnings("ignore")
def test_the_transformer_optimiser_fuses_embeddings_in_range(tmp_path: Path) -> None:
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    pytest.importorskip("flax")
    path = str(tmp_path / "m.onnx")
    specs = [jax.ShapeDtypeStruct(("B", "T"), jnp.int32)] * 3  # type: ignore[arg-type]
    options: dict[str, Any] = {"return_mode": "file", "output_path": path}
    to_onnx(bert.linen(), specs, assume=["indices_in_range"], **options)
    options = {"num_heads": bert.HEADS, "hidden_size": bert.WIDTH, "opt_level": 0}
    optimised = optimizer.optimize_model(path, "bert", **options)
    assert optimised.get_fused_operator_statistics()["EmbedLayerNormalization"] == 1


class Calibration(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, model: onnx.ModelProto, args: Any) -> None:
        names = [value.name for value in model.graph.input]
        self.feeds = iter([dict(zip(names, map(np.asarray, jax.tree.leaves(args)), strict=True))])

    def get_next(self) -> Any:
        return next(self.feeds, None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", ["nnx/vit", "linen/gpt", "haiku/unet", "equinox/cnn"])
def test_weights_are_quantised_for_given_ranges(name: str, form: str, tmp_path: Path) -> None:
    pytest.importorskip(catalogue.FRAMEWORKS[name.partition("/")[0]])
    fn, args = catalogue.build(name)
    model = to_onnx(fn, list(args))
    onnx.save(model, tmp_path / "m.onnx")
    products = ["Conv", "Gemm", "MatMul"]
    quantization.quantize_static(
        tmp_path / "m.onnx",
        tmp_path / "q.onnx",
        Calibration(model, args),
        quant_format=quantization.QuantFormat[form],
        op_types_to_quantize=products,
        # With signed types, onnxruntime moves the casts around shapes and gets their types wrong.
        activation_type=quantization.QuantType.QUInt8,
    )
    quantised = onnx.load(tmp_path / "q.onnx")
    stored = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    read = {node.input[1] for node in model.graph.node if node.op_type in products}
    weights = read & set(stored)
    found = {tensor.name: tensor.data_type for tensor in quantised.graph.initializer}
    assert weights
    assert {found.get(f"{name}_quantized") for name in weights} == {onnx.TensorProto.INT8}
    (one,), (other,) = (run(m, jax.tree.leaves(args)) for m in (quantised, model))
    assert np.linalg.norm(one - other) < 0.1 * np.linalg.norm(other)


@pytest.mark.filterwarnings("ignore")
def test_a_mask_of_tokens_keeps_its_lines(tmp_path: Path) -> None:
    """A comparison that all layers share is separate from the first layer's addition."""
    pytest.importorskip("flax")
    specs = [jax.ShapeDtypeStruct(("B", "T"), jnp.int32)] * 3  # type: ignore[arg-type]
    model = to_onnx(bert.linen(), specs, stacktrace_metadata="minimal")
    sites = {}
    for node in model.graph.node:
        found = {entry.key: entry.value for entry in node.metadata_props}
        sites[node.op_type] = next(value for key, value in found.items() if "callsite" in key)
    assert "Bert.__call__" in sites["Greater"]
    assert "Layer.__call__" in sites["Sub"]
