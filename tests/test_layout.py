"""Convolutional networks in ONNX's layout: numbers, transposes, and where the parameters are."""

from collections import Counter
from typing import Any

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from flax import nnx
from jax import lax

from checking import check_model
from jax2onnx import to_onnx


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def exported(fn: Any, spec: Any, *inputs: np.ndarray, **options: Any) -> onnx.ModelProto:
    """The model of `fn`, which computes in onnxruntime what `fn` does."""
    model = to_onnx(fn, [spec], **options)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for x in inputs:
        (actual,) = session.run(None, {name: x})
        np.testing.assert_allclose(actual, np.asarray(fn(x)), rtol=2e-5, atol=2e-5)
    return model


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def parameters(model: onnx.ModelProto) -> dict[str, list[int]]:
    return {t.name: list(t.dims) for t in model.graph.initializer if not t.name.startswith("const")}


def constant_nodes(model: onnx.ModelProto) -> list[str]:
    """The nodes whose operands are all constant."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [node.name for node in model.graph.node if set(node.input) <= constants]


class Residual(nnx.Module):
    """Strided, grouped and pointwise convolutions with a shortcut, and squeeze-and-excite."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.stem = nnx.Conv(3, 8, (3, 3), strides=2, rngs=rngs)
        self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.depthwise = nnx.Conv(8, 8, (3, 3), feature_group_count=8, use_bias=False, rngs=rngs)
        self.squeeze = nnx.Conv(8, 2, (1, 1), rngs=rngs)
        self.excite = nnx.Conv(2, 8, (1, 1), rngs=rngs)
        self.head = nnx.Linear(16, 5, rngs=rngs)
        self.norm.mean[...] = jnp.asarray(normal(8))
        self.norm.var[...] = jnp.abs(jnp.asarray(normal(8))) + 0.5

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.norm(self.stem(x)))
        y = nnx.swish(self.depthwise(x))
        s = nnx.relu(self.squeeze(jnp.mean(y, axis=(1, 2), keepdims=True)))
        y = y * nnx.sigmoid(self.excite(s)) + x
        y = jnp.concatenate([nnx.max_pool(y, (2, 2), (2, 2)), nnx.avg_pool(y, (2, 2), (2, 2))], -1)
        return self.head(jnp.mean(y, axis=(1, 2)))


@pytest.fixture(scope="module")
def residual() -> Residual:
    return Residual(nnx.Rngs(0))


@pytest.mark.slow
def test_a_network_has_transposes_at_its_ends_only(residual: Residual) -> None:
    model = exported(residual, ("B", 16, 16, 3), normal(2, 16, 16, 3))
    ops = operators(model)
    assert ops["Transpose"] == 1
    assert (ops["Conv"], ops["BatchNormalization"], ops["AveragePool"]) == (4, 1, 1)
    # What is squeezed stays in the layout, and its convolutions keep their biases.
    assert ops["Reshape"] == 0
    assert constant_nodes(model) == []


def test_parameters_are_initializers_in_onnxs_layout(residual: Residual) -> None:
    model = exported(residual, ("B", 16, 16, 3))
    assert parameters(model) == {
        "stem.kernel": [8, 3, 3, 3],
        "stem.bias": [8],
        "norm.scale": [8],
        "norm.bias": [8],
        "norm.mean": [8],
        "norm.var": [8],
        "depthwise.kernel": [8, 1, 3, 3],
        "squeeze.kernel": [2, 8, 1, 1],
        "squeeze.bias": [2],
        "excite.kernel": [8, 2, 1, 1],
        "excite.bias": [8],
        "head.kernel": [16, 5],
        "head.bias": [5],
    }
    kernel = next(t for t in model.graph.initializer if t.name == "stem.kernel")
    expected = np.transpose(residual.stem.kernel[...], (3, 2, 0, 1))
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(kernel), expected)


def test_none_are_left_with_onnxs_layout_outside(residual: Residual) -> None:
    model = to_onnx(residual, [("B", 16, 16, 3)], inputs_as_nchw=[0])
    assert operators(model)["Transpose"] == 0


@pytest.mark.slow
def test_sizes_may_be_symbolic(residual: Residual) -> None:
    model = exported(
        residual,
        ("B", "H", "W", 3),
        normal(1, 16, 16, 3),
        normal(2, 17, 19, 3),
        normal(1, 8, 23, 3),
    )
    ops = operators(model)
    assert ops["Transpose"] == 1
    assert (ops["Conv"], ops["Pad"]) == (4, 0)


def pool(kind: Any, **options: Any) -> Any:
    return lambda x: kind(x, (3, 3), strides=(2, 2), padding="SAME", **options)


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (pool(nnx.max_pool), "MaxPool"),
        (pool(nnx.avg_pool), "AveragePool"),
        (pool(nnx.avg_pool, count_include_pad=False), "AveragePool"),
    ],
)
@pytest.mark.parametrize("sizes", [(7, 10), ("H", "W")])
def test_pools_are_one_operator(fn: Any, op: str, sizes: Any) -> None:
    model = exported(fn, ("B", *sizes, 3), normal(2, 7, 10, 3))
    if sizes == (7, 10):
        assert operators(model) == {"Transpose": 2, op: 1}
    else:
        exported(fn, ("B", *sizes, 3), normal(1, 8, 9, 3), normal(1, 1, 2, 3))


class Dense(nn.Module):
    """A block of a DenseNet, in Linen."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(4, (3, 3))(x)
        for _ in range(3):
            y = nn.relu(nn.BatchNorm(use_running_average=True)(x))
            x = jnp.concatenate([x, nn.Conv(4, (3, 3))(y)], axis=-1)
        return nn.ConvTranspose(2, (3, 3), strides=(2, 2))(x)


@pytest.mark.slow
def test_linen() -> None:
    module = Dense()
    variables = module.init(jax.random.key(0), jnp.zeros((1, 8, 8, 3)))
    model = exported(lambda x: module.apply(variables, x), ("B", 8, 8, 3), normal(2, 8, 8, 3))
    ops = operators(model)
    assert (ops["Transpose"], ops["Conv"], ops["ConvTranspose"]) == (2, 4, 1)
    assert (ops["BatchNormalization"], ops["Concat"], len(model.graph.node)) == (3, 3, 16)
    names = parameters(model)
    assert names["ConvTranspose_0.kernel"] == [16, 2, 3, 3]
    assert names["batch_stats.BatchNorm_0.var"] == [4]
    assert not [name for name in names if "/" in name]


@pytest.mark.slow
def test_haiku() -> None:
    def forward(x: jax.Array, train: bool = False) -> jax.Array:
        for stride in (1, 2):
            x = hk.Conv2D(4, 3, stride=stride)(x)
            x = jax.nn.leaky_relu(hk.BatchNorm(True, True, 0.9)(x, is_training=train))
        return hk.Linear(3)(jnp.mean(x, (1, 2)))

    net = hk.without_apply_rng(hk.transform_with_state(forward))
    x = normal(2, 8, 8, 3)
    params, state = net.init(jax.random.key(0), x, True)
    _, state = net.apply(params, state, x, True)
    model = exported(lambda x: net.apply(params, state, x)[0], ("B", 8, 8, 3), x)
    ops = operators(model)
    assert (ops["Transpose"], ops["Conv"], ops["BatchNormalization"]) == (1, 2, 2)
    assert constant_nodes(model) == []
    scales = [dims for name, dims in parameters(model).items() if name.endswith("norm.scale")]
    assert scales == [[4]]


def test_groups_of_channels_are_normalised_where_they_are() -> None:
    """Haiku splits the last axis into groups."""

    def forward(x: jax.Array) -> jax.Array:
        x = hk.GroupNorm(2)(hk.Conv2D(6, 3)(x))
        return hk.Conv2D(1, 3)(jax.nn.relu(x))

    net = hk.without_apply_rng(hk.transform(forward))
    x = normal(2, 8, 8, 3)
    params = jax.tree.map(
        lambda p: normal(*p.shape), jax.eval_shape(net.init, jax.random.key(0), x)
    )
    model = exported(lambda x: net.apply(params, x), ("B", 8, 8, 3), x)
    ops = [node.op_type for node in model.graph.node]
    assert ops[:4] == ["Transpose", "Conv", "Reshape", "InstanceNormalization"]
    assert ops.count("Transpose") == 1  # a single channel is moved without one
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    # A single channel has its bias, too.
    assert [len(node.input) for node in convolutions] == [3, 3]


class Image(eqx.Module):
    conv: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    up: eqx.nn.ConvTranspose2d

    def __init__(self, key: jax.Array) -> None:
        one, two = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(3, 4, 3, padding=1, key=one)
        self.norm = eqx.nn.BatchNorm(4, "batch", mode="ema", inference=True)
        self.up = eqx.nn.ConvTranspose2d(4, 2, 3, stride=2, key=two)

    def __call__(self, x: jax.Array, state: eqx.nn.State) -> jax.Array:
        x, _ = self.norm(self.conv(x), state)
        return self.up(jax.nn.relu(x))


@pytest.mark.slow
def test_equinox() -> None:
    net, state = eqx.nn.make_with_state(Image)(jax.random.key(0))

    def forward(x: jax.Array) -> jax.Array:
        return jax.vmap(lambda image: net(image, state), axis_name="batch")(x)

    model = exported(forward, ("B", 3, 8, 8), normal(2, 3, 8, 8))
    ops = operators(model)
    assert (ops["Transpose"], ops["BatchNormalization"], ops["ConvTranspose"]) == (0, 1, 1)
    assert len(model.graph.node) == 4
    assert constant_nodes(model) == []


@pytest.mark.parametrize("steps", [0, 3])
def test_equinox_asks_a_counter_whether_it_was_trained(steps: int) -> None:
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, "batch", mode="batch")
    for i in range(steps):
        batch = normal(8, 4, 6, 6) + i
        _, state = jax.vmap(norm, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(
            batch, state
        )
    norm = eqx.nn.inference_mode(norm)

    def forward(x: jax.Array) -> jax.Array:
        return jax.vmap(lambda image: norm(image, state)[0], axis_name="batch")(x)

    model = exported(forward, ("B", 4, 6, 6), normal(2, 4, 6, 6))
    assert [node.op_type for node in model.graph.node] == ["BatchNormalization"]


@pytest.mark.slow
def test_a_normalisation_over_channels_decides_by_cost() -> None:
    """ConvNeXt: two transposes a block, either way."""
    rngs = nnx.Rngs(0)
    conv = nnx.Conv(8, 8, (7, 7), feature_group_count=8, rngs=rngs)
    norm = nnx.LayerNorm(8, rngs=rngs)
    wide, narrow = nnx.Linear(8, 32, rngs=rngs), nnx.Linear(32, 8, rngs=rngs)

    def block(x: jax.Array) -> jax.Array:
        return x + narrow(nnx.gelu(wide(norm(conv(x)))))

    model = exported(lambda x: block(block(x)), ("B", 16, 16, 8), normal(1, 16, 16, 8))
    assert operators(model)["Transpose"] == 4


def test_weights_are_seen_by_quantisers(residual: Residual, tmp_path: Any) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path, small = tmp_path / "m.onnx", tmp_path / "q.onnx"
    onnx.save(exported(residual, (1, 16, 16, 3)), path)
    quantize_dynamic(path, small, weight_type=QuantType.QUInt8)
    ops = operators(onnx.load(small))
    assert (ops["Conv"], ops["ConvInteger"]) == (0, 4)


def test_a_parameter_of_several_layouts_stays() -> None:
    table = jnp.asarray(normal(300, 64))

    def tied(ids: jax.Array) -> jax.Array:
        return table[ids] @ table.T

    model = to_onnx(tied, [jax.ShapeDtypeStruct((4,), jnp.int32)])
    assert sum(len(t.raw_data) for t in model.graph.initializer) < 1.1 * table.nbytes


SHUFFLES = {  # of (B, H, W, C) by blocks of `r` pixels
    "blocks first": lambda x, r: (
        x.reshape(*x.shape[:3], r, r, -1)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(x.shape[0], x.shape[1] * r, x.shape[2] * r, -1)
    ),
    "blocks last": lambda x, r: (
        x.reshape(*x.shape[:3], -1, r, r)
        .transpose(0, 1, 4, 2, 5, 3)
        .reshape(x.shape[0], x.shape[1] * r, x.shape[2] * r, -1)
    ),
    "back": lambda x, r: (
        x.reshape(x.shape[0], x.shape[1] // r, r, x.shape[2] // r, r, -1)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(x.shape[0], x.shape[1] // r, x.shape[2] // r, -1)
    ),
}


@pytest.mark.parametrize("spec", [("B", 8, 8, 3), (2, 8, 8, 3)])
@pytest.mark.parametrize("shuffle", sorted(SHUFFLES))
def test_pixel_shuffles_are_one_node(shuffle: str, spec: Any) -> None:
    rngs = nnx.Rngs(0)
    first = nnx.Conv(3, 8, (3, 3), rngs=rngs)
    last = nnx.Conv(32 if shuffle == "back" else 2, 3, (3, 3), rngs=rngs)

    def fn(x: Any) -> Any:
        return last(SHUFFLES[shuffle](first(x), 2))

    op = "SpaceToDepth" if shuffle == "back" else "DepthToSpace"
    model = exported(fn, spec, normal(2, 8, 8, 3))
    assert operators(model) == {"Transpose": 2, "Conv": 2, op: 1}
    model = exported(fn, spec, normal(2, 8, 8, 3), operators={op: "elementary"})
    assert operators(model)[op] == 0


@pytest.mark.parametrize("batch", [2, "B"])
def test_squeeze_and_excitation_is_two_gemms(batch):
    """The mean keeps its axes, which are in other places for convolutions than for dense layers."""
    rng = np.random.default_rng(0)
    first, last = (rng.normal(size=s).astype("f") for s in ((3, 3, 3, 8), (1, 1, 8, 4)))
    narrow, wide = (rng.normal(size=s).astype("f") for s in ((8, 2), (2, 8)))
    shift, lift = (rng.normal(size=s).astype("f") for s in (2, 8))

    def conv(x, kernel):
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout)

    def fn(x):
        x = conv(x, first)
        y = jax.nn.relu(x.mean((1, 2), keepdims=True) @ narrow + shift)
        return conv(x * jax.nn.hard_sigmoid(y @ wide + lift), last)

    found = operators(exported(fn, (batch, 6, 5, 3), normal(2, 6, 5, 3)))
    assert found["Gemm"] == 2
    assert found["Transpose"] == 2
    assert found["MatMul"] == 0


@pytest.mark.parametrize("shape", [(1, 0, 1), (2, 0, 1), (1, 0, 3)])
def test_empty_axes_move(shape: tuple[int, ...]) -> None:
    """A size of zero in a `Reshape` would be the one of its operand."""

    def fn(x: Any) -> Any:
        y = lax.pad(x, np.int32(0), [(1, 2, 1), (1, 0, 0), (2, 2, 2)])
        return y.at[:, :, np.array([0, 0])].max(1)[:, np.int16(0)]

    check_model(fn, [np.zeros(shape, np.int32)])
