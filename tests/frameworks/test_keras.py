"""Keras with JAX as its backend: `model.export("model.onnx", format="onnx")` calls this package."""

import os
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from jax2onnx import InvalidInputError, to_onnx

if sys.modules.get("keras") is None:
    os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras", reason="Keras is not installed")
if keras.backend.backend() != "jax":
    pytest.skip(f"Keras runs on {keras.backend.backend()}, not on JAX", allow_module_level=True)

layers = keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64:UserWarning")

rng = np.random.default_rng(0)


def exported(model, folder: Path, *inputs: np.ndarray, **options) -> onnx.ModelProto:
    """Exports the model with Keras, and compares its numbers for two batches."""
    model(inputs[0] if len(inputs) == 1 else list(inputs))
    path = folder / "model.onnx"
    model.export(path, format="onnx", verbose=False, **options)
    session = onnxruntime.InferenceSession(path)
    for batch in (1, 3):
        feeds = [np.repeat(x[:1], batch, axis=0) for x in inputs]
        names = [i.name for i in session.get_inputs()]
        found = session.run(None, dict(zip(names, feeds, strict=True)))
        wanted = model(feeds[0] if len(feeds) == 1 else feeds, training=False)
        for one, other in zip(found, keras.tree.flatten(wanted), strict=True):
            np.testing.assert_allclose(one, np.asarray(other), rtol=1e-4, atol=1e-5)
    return onnx.load(path)


def names(model: onnx.ModelProto) -> set[str]:
    return {tensor.name for tensor in model.graph.initializer}


def test_a_functional_model(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("JAX2ONNX_ENABLE_STACKTRACE_METADATA", "1")
    x = keras.Input((16,), name="features")
    y = layers.Dense(8, activation="relu", name="stem")(x)
    y = layers.Dropout(0.3)(layers.BatchNormalization(name="norm")(y))
    model = keras.Model(x, layers.Dense(3, name="head")(y), name="classifier")
    found = exported(model, tmp_path, rng.standard_normal((1, 16)).astype("float32"))
    assert [i.name for i in found.graph.input] == ["features"]
    assert found.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert {"stem/kernel", "stem/bias", "head/kernel", "head/bias"} <= names(found)
    statistics = ("gamma", "beta", "moving_mean", "moving_variance")
    (norm,) = (node for node in found.graph.node if node.op_type == "BatchNormalization")
    assert list(norm.input[1:]) == [f"norm/{name}" for name in statistics]
    gemm = found.graph.node[0]
    assert gemm.name == "/classifier/stem/Gemm"
    metadata = {entry.key: entry.value for entry in gemm.metadata_props}
    assert metadata["pkg.jax2onnx.callsite"].startswith("Dense.call:")


def random_weights(model) -> None:
    for weight in model.weights:
        weight.assign(np.abs(rng.standard_normal(weight.shape)) + 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [True, False])
def test_normalisations_between_convolutions(scaled, tmp_path) -> None:
    """The mean is subtracted last, and scale and bias are optional."""
    x = keras.Input((8, 8, 3))
    y = layers.Conv2D(6, 3, padding="same", use_bias=False, name="stem")(x)
    y = layers.BatchNormalization(center=scaled, scale=scaled, name="norm")(y)
    y = layers.GroupNormalization(2, center=False, scale=False, name="groups")(y)
    model = keras.Model(x, layers.Conv2D(1, 1, activation="relu", name="head")(y))
    random_weights(model)
    found = exported(model, tmp_path, rng.standard_normal((1, 8, 8, 3)).astype("float32"))
    assert {v.path for v in model.weights} <= names(found)
    ops = [node.op_type for node in found.graph.node]
    assert ops[:3] == ["Transpose", "Conv", "BatchNormalization"]
    assert ops.count("InstanceNormalization") == 1
    assert ops.count("Transpose") == 1  # a single channel is moved without one
    (head,) = (node for node in found.graph.node if "head/kernel" in node.input)
    assert head.input[2] == "head/bias"


def test_groups_in_images_of_any_size() -> None:
    layer = layers.GroupNormalization(2)
    layer.build((None, None, None, 6))
    random_weights(layer)
    model = to_onnx(layer, [("B", "H", "W", 6)])
    ops = [node.op_type for node in model.graph.node]
    assert ops.count("InstanceNormalization") == 1
    assert len(ops) <= 7
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for shape in ((2, 5, 7, 6), (1, 1, 1, 6), (3, 1, 4, 6)):
        x = rng.standard_normal(shape).astype("float32")
        for value in (0.5, np.nan, np.inf):
            x[0, 0, 0, 0] = value
            (found,) = session.run(None, {model.graph.input[0].name: x})
            np.testing.assert_allclose(found, np.asarray(layer(x)), rtol=1e-4, atol=1e-5)


def test_the_users_own_layers(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("JAX2ONNX_ENABLE_STACKTRACE_METADATA", "1")

    class Block(layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.inner = layers.Dense(4, name="inner")

        def call(self, x):
            return keras.ops.tanh(self.inner(x)) * 2

    x = keras.Input((4,))
    model = keras.Model(x, Block(name="block")(x), name="model")
    found = exported(model, tmp_path, rng.standard_normal((1, 4)).astype("float32"))
    assert {"block/inner/kernel", "block/inner/bias"} <= names(found)
    sites = [e.value for n in found.graph.node for e in n.metadata_props if "callsite" in e.key]
    assert all("Block.call:" in site for site in sites)


@pytest.mark.slow
def test_a_subclassed_model(tmp_path, monkeypatch) -> None:
    """Every node has the line of the model's own `call`, regardless of the layer."""
    monkeypatch.setenv("JAX2ONNX_ENABLE_STACKTRACE_METADATA", "1")

    class Net(keras.Model):
        def __init__(self):
            super().__init__(name="net")
            self.stem = layers.Conv2D(4, 3, name="stem")
            self.norm = layers.BatchNormalization(name="norm")
            self.pool = layers.GlobalAveragePooling2D(name="pool")
            self.head = layers.Dense(3, name="head")

        def call(self, x, training=False):
            x = self.norm(self.stem(x), training=training)
            x = keras.activations.gelu(x)
            x = self.pool(x)
            return self.head(x)

    model = Net()
    found = exported(model, tmp_path, rng.standard_normal((1, 8, 8, 3)).astype("float32"))
    assert {weight.path for weight in model.weights} <= names(found)
    first = Net.call.__code__.co_firstlineno
    lines = {"stem": 1, "norm": 1, "Gelu": 2, "pool": 3, "head": 4}
    seen = set()
    for node in found.graph.node:
        (site,) = (e.value for e in node.metadata_props if e.key == "pkg.jax2onnx.callsite")
        part = node.name.split("/")[2]
        assert site.endswith(f"Net.call:{first + lines[part]}"), node.name
        seen.add(part)
    assert seen == lines.keys()


@pytest.mark.slow
def test_int64_inputs(tmp_path) -> None:
    ids = keras.Input((None,), dtype="int64", name="ids")
    x = layers.Embedding(30, 8, name="table")(ids)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4, name="attention")(x, x))
    model = keras.Model(ids, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))
    with pytest.warns(UserWarning, match="narrowed-inputs"):
        found = exported(model, tmp_path, rng.integers(0, 30, (1, 7)))
    assert found.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.INT64
    assert "table/embeddings" in names(found)


@pytest.mark.slow
def test_recurrent_layers(tmp_path) -> None:
    model = keras.Sequential(
        [layers.Input((12, 5)), layers.LSTM(6, return_sequences=True), layers.GRU(4)]
    )
    exported(model, tmp_path, rng.standard_normal((1, 12, 5)).astype("float32"))


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["sum", "concat"])
def test_bidirectional_layers(merge, tmp_path) -> None:
    lstm = layers.Bidirectional(layers.LSTM(6, return_sequences=True), merge_mode=merge)
    model = keras.Sequential([layers.Input((4, 5)), lstm])
    random_weights(model)
    found = exported(model, tmp_path, rng.standard_normal((1, 4, 5)).astype("float32"))
    ops = [node.op_type for node in found.graph.node]
    assert ops.count("LSTM") == (1 if merge == "concat" else 2)


def test_several_inputs_and_outputs(tmp_path) -> None:
    one, other = keras.Input((4,), name="one"), keras.Input((6,), name="other")
    both = layers.Concatenate()([layers.Dense(3)(one), layers.Dense(3)(other)])
    model = keras.Model([one, other], [layers.Dense(2)(both), layers.Dense(1)(both)])
    inputs = (rng.standard_normal((1, n)).astype("float32") for n in (4, 6))
    found = exported(model, tmp_path, *inputs)
    assert [i.name for i in found.graph.input] == ["one", "other"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["MobileNetV2", "EfficientNetB0", "ResNet50V2"])
def test_applications(kind, tmp_path) -> None:
    model = getattr(keras.applications, kind)(
        weights=None, input_shape=(32, 32, 3), include_top=False
    )
    found = exported(model, tmp_path, rng.standard_normal((1, 32, 32, 3)).astype("float32"))
    assert not [name for name in names(found) if "_value" in name]
    known = ("kernel", "gamma", "beta", "moving_mean", "moving_variance")
    weights = {v.path.replace("/", ".") for v in model.weights if v.path.endswith(known)}
    assert weights <= {name.replace("/", ".") for name in names(found)}


@pytest.mark.parametrize("adapted", [True, False])
def test_arrays_of_layers_have_their_names(adapted, tmp_path) -> None:
    """A `Normalization` computes with arrays, not with its variables."""
    known = {} if adapted else {"mean": [1.0, 2.0, 3.0], "variance": [1.0, 4.0, 9.0]}
    scale = layers.Normalization(name="scale", **known)
    x = rng.standard_normal((50, 3)).astype("float32")
    if adapted:
        scale.adapt(x)
    inputs = keras.Input((3,))
    model = keras.Model(inputs, layers.Dense(2, name="head")(scale(inputs)))
    found = exported(model, tmp_path, x[:1])
    assert {"scale/mean", "head/kernel"} <= names(found)
    assert not [name for name in names(found) if name.startswith("_")]


def test_functions(tmp_path) -> None:
    from jax2onnx import allclose, to_onnx

    model = keras.Sequential(
        [layers.Input((8,)), *(layers.Dense(8, name=f"dense_{i}") for i in range(3))]
    )
    x = rng.standard_normal((2, 8)).astype("float32")
    found = to_onnx(model, [("B", 8)], functions="modules")
    assert allclose(model, found, [x])[0]
    assert [f.name for f in found.functions] == ["Dense"]
    assert [node.op_type for node in found.graph.node] == ["Dense"] * 3


def test_a_model_without_weights_is_an_error() -> None:
    model = keras.Sequential([keras.layers.Dense(3)])
    with pytest.raises(InvalidInputError, match=r"`sequential.*` has no weights yet"):
        to_onnx(model, [("B", 4)])
    model(np.ones((2, 4), np.float32))
    to_onnx(model, [("B", 4)])
