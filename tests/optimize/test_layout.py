"""Convolutional networks in ONNX's layout: numbers, transposes, and the location of parameters."""

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

from harness.checking import check_model
from harness.provenance_of import callsite, line_of, traceback
from jax2onnx import to_onnx, verify


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def exported(fn: Any, spec: Any, *inputs: np.ndarray, **options: Any) -> onnx.ModelProto:
    """Exports `fn`, and checks that onnxruntime computes the same."""
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
    """Returns the nodes whose operands are all constant."""
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
    # The squeezed values stay in the layout, and their convolutions keep their biases.
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
    # The convolution with a single channel also has its bias.
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
def test_equinox_norms_read_a_counter(steps: int) -> None:
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


def convolved(channels: int, blocks: int = 3, shared: bool = False) -> Any:
    """Blocks of a ConvNeXt, in NNX."""
    rngs = nnx.Rngs(0)

    class Block(nnx.Module):
        def __init__(self) -> None:
            self.conv = nnx.Conv(
                channels, channels, (7, 7), feature_group_count=channels, rngs=rngs
            )
            self.norm = nnx.LayerNorm(channels, rngs=rngs)
            self.wide = nnx.Linear(channels, 4 * channels, rngs=rngs)
            self.narrow = nnx.Linear(4 * channels, channels, rngs=rngs)
            self.scale = nnx.Param(jnp.linspace(0.5, 1.5, channels))
            self.wide.bias[...] = jnp.linspace(-1, 1, 4 * channels)

        def __call__(self, x: jax.Array) -> jax.Array:
            y = nnx.gelu(self.wide(self.norm(self.conv(x))))
            return x + self.scale[...] * self.narrow(y)

    class Net(nnx.Module):
        def __init__(self) -> None:
            self.stem = nnx.Conv(3, channels, (4, 4), strides=4, rngs=rngs)
            one = Block()
            self.blocks = nnx.List([one if shared else Block() for _ in range(blocks)])

        def __call__(self, x: jax.Array) -> jax.Array:
            x = self.stem(x)
            for block in self.blocks:
                x = block(x)
            return jnp.mean(x, axis=(1, 2))

    return Net()


class LinenBlock(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        channels = x.shape[-1]
        y = nn.LayerNorm()(nn.Conv(channels, (7, 7), feature_group_count=channels)(x))
        y = nn.Dense(channels)(nn.gelu(nn.Dense(4 * channels)(y)))
        return x + y * self.param("scale", nn.initializers.normal(1), (channels,))


def linen() -> Any:
    module = nn.Sequential([nn.Conv(16, (4, 4), strides=4), *(LinenBlock() for _ in range(3))])
    variables = module.init(jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
    return lambda x: jnp.mean(module.apply(variables, x), axis=(1, 2))


def haiku() -> Any:
    def forward(x: jax.Array) -> jax.Array:
        x = hk.Conv2D(16, 4, 4)(x)
        for i in range(3):
            y = hk.LayerNorm(-1, True, True)(hk.DepthwiseConv2D(1, 7)(x))
            y = hk.Linear(16)(jax.nn.gelu(hk.Linear(64)(y)))
            x = x + y * hk.get_parameter(f"scale_{i}", (16,), init=hk.initializers.RandomNormal())
        return jnp.mean(x, axis=(1, 2))

    net = hk.without_apply_rng(hk.transform(forward))
    params = net.init(jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
    return lambda x: net.apply(params, x)


class EquinoxBlock(eqx.Module):
    conv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    wide: eqx.nn.Linear
    narrow: eqx.nn.Linear
    scale: jax.Array

    def __init__(self, key: jax.Array) -> None:
        one, two, three = jax.random.split(key, 3)
        self.conv = eqx.nn.Conv2d(16, 16, 7, padding=3, groups=16, key=one)
        self.norm = eqx.nn.LayerNorm(16)
        self.wide = eqx.nn.Linear(16, 64, key=two)
        self.narrow = eqx.nn.Linear(64, 16, key=three)
        self.scale = jnp.linspace(0.5, 1.5, 16)

    def __call__(self, x: jax.Array) -> jax.Array:
        def pixel(y: jax.Array) -> jax.Array:
            return self.scale * self.narrow(jax.nn.gelu(self.wide(self.norm(y))))

        y = jax.vmap(jax.vmap(pixel))(jnp.moveaxis(self.conv(x), 0, -1))
        return x + jnp.moveaxis(y, -1, 0)


def equinox() -> Any:
    """Has channels last outside, like the others."""
    keys = jax.random.split(jax.random.key(0), 4)
    layers = [eqx.nn.Conv2d(3, 16, 4, 4, key=keys[0]), *(EquinoxBlock(key) for key in keys[1:])]

    def image(x: jax.Array) -> jax.Array:
        for layer in layers:
            x = layer(x)
        return jnp.mean(x, axis=(1, 2))

    return lambda x: jax.vmap(image)(jnp.transpose(x, (0, 3, 1, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("spec", [(2, 32, 32, 3), ("B", 32, 32, 3), ("B", "H", "W", 3)])
@pytest.mark.parametrize("net", [lambda: convolved(16), linen, haiku, equinox])
def test_products_between_convolutions_are_convolutions(net: Any, spec: Any) -> None:
    fn = net()
    sizes = [32, 28] if "H" in spec else [32]
    model = exported(fn, spec, *(normal(2, size, 32, 3) for size in sizes))
    ops = operators(model)
    # Each norm has two transposes, which onnxruntime merges into the adjacent convolutions.
    norms = ops["LayerNormalization"]
    assert norms == 3
    assert (ops["MatMul"], ops["Conv"], ops["Transpose"]) == (0, 1 + 3 * norms, 1 + 2 * norms)
    # The convolutions keep their biases, and only the shortcuts remain.
    # A mean over an image of any size divides by the number of pixels, which takes two sums.
    assert ops["Add"] in ({norms, norms + 2} if "H" in spec else {norms})
    assert constant_nodes(model) == []


def test_weights_of_products_keep_their_names() -> None:
    net = convolved(16)
    model = exported(net, ("B", 32, 32, 3), normal(1, 32, 32, 3))
    names = parameters(model)
    assert names["blocks.1.wide.kernel"] == [64, 16, 1, 1]
    assert names["blocks.1.wide.bias"] == [64]
    assert names["blocks.1.narrow.kernel"] == [16, 64, 1, 1]
    kernel = next(t for t in model.graph.initializer if t.name == "blocks.1.wide.kernel")
    expected = np.asarray(net.blocks[1].wide.kernel[...]).T[:, :, None, None]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(kernel), expected)


def test_weights_of_products_are_written_once() -> None:
    model = exported(convolved(16, shared=True), ("B", 32, 32, 3), normal(1, 32, 32, 3))
    assert operators(model)["MatMul"] == 0
    assert constant_nodes(model) == []
    kernels = [dims for dims in parameters(model).values() if sorted(dims)[-2:] == [16, 64]]
    assert kernels == [[64, 16, 1, 1], [16, 64, 1, 1]]


@pytest.mark.parametrize(
    "options",
    [
        {"operators": "elementary"},
        {"operators": {"Conv": "elementary"}},
        {"weights": "int8"},
        {"compute": "float16"},
        {"target": "any"},
        {"target": "onnxruntime-web"},
    ],
    ids=str,
)
def test_products_stay_if_that_is_better(options: Any) -> None:
    ops = operators(to_onnx(convolved(16), [("B", 32, 32, 3)], **options))
    assert (ops["MatMul"], ops["Conv"]) == (6, 4)


@pytest.mark.parametrize(
    ("channels", "size", "products"),
    [
        (16, 16, 0),
        (24, 16, 4),  # onnxruntime has blocks of 16 channels
        (16, 12, 4),  # 9 pixels
    ],
)
def test_products_stay_where_convolutions_are_slower(
    channels: int, size: int, products: int
) -> None:
    net = convolved(channels, blocks=2)
    model = exported(net, ("B", size, size, 3), normal(2, size, size, 3))
    assert operators(model)["MatMul"] == products


@pytest.mark.parametrize("is_tied", [True, False])
def test_tied_weights_of_products_stay(is_tied: bool) -> None:
    rngs = nnx.Rngs(0)
    first, last = (nnx.Conv(a, b, (3, 3), rngs=rngs) for a, b in ((3, 32), (32, 32)))
    weight = jnp.asarray(normal(32, 32)) / 6

    def fn(x: jax.Array) -> jax.Array:
        y = nnx.relu(first(x) @ weight)
        z = jnp.mean(last(y), axis=(1, 2))
        return jnp.sin(z) @ weight if is_tied else z

    model = exported(fn, (1, 16, 16, 3), normal(1, 16, 16, 3))
    weights = [dims for dims in parameters(model).values() if dims[:2] == [32, 32]]
    own = [32, 32] if is_tied else [32, 32, 1, 1]
    assert sorted(weights) == sorted([own, [32, 32, 3, 3]])
    assert constant_nodes(model) == []


def test_other_types_stay_products() -> None:
    weight = normal(16, 16).astype(np.float16)
    kernel = normal(1, 1, 16, 16).astype(np.float16)

    def fn(x: jax.Array) -> jax.Array:
        layout = ("NHWC", "HWIO", "NHWC")
        for _ in range(2):
            x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout)
            x = x @ weight
        return x

    model = to_onnx(fn, [jax.ShapeDtypeStruct((1, 8, 8, 16), jnp.float16)])
    ops = operators(model)
    assert (ops["MatMul"], ops["Conv"]) == (2, 2)


@pytest.mark.parametrize("is_flat", [True, False])
def test_transformers_behind_a_convolution_stay(is_flat: bool) -> None:
    """Tokens form a sequence or an image."""
    rngs = nnx.Rngs(0)
    patches = nnx.Conv(3, 32, (4, 4), strides=4, rngs=rngs)
    norms = nnx.List([nnx.LayerNorm(32, rngs=rngs) for _ in range(4)])
    wide, gate = (nnx.List([nnx.Linear(32, 64, rngs=rngs) for _ in "123"]) for _ in "12")
    narrow = nnx.List([nnx.Linear(64, 32, rngs=rngs) for _ in "123"])
    attention = nnx.MultiHeadAttention(4, 32, decode=False, rngs=rngs)

    def fn(x: jax.Array) -> jax.Array:
        x = patches(x)
        x = x.reshape(1, -1, 32) if is_flat else x
        for i in range(3):
            x = x + attention(norms[i](x))
            y = norms[i](x)
            x = x + narrow[i](nnx.silu(wide[i](y)) * gate[i](y))
        return norms[3](x)

    ops = operators(exported(fn, (1, 64, 64, 3), normal(1, 64, 64, 3)))
    assert ops["Conv"] == 1


def test_nan_stays_in_its_pixel() -> None:
    rngs = nnx.Rngs(0)
    layers = [
        nnx.Conv(3, 16, (1, 1), rngs=rngs),
        nnx.Linear(16, 64, rngs=rngs),
        nnx.relu,
        nnx.Linear(64, 16, rngs=rngs),
        nnx.Conv(16, 3, (1, 1), rngs=rngs),
    ]
    net = nnx.Sequential(*layers)
    x = normal(1, 8, 8, 3)
    x[0, 2, 3, 1], x[0, 5, 6] = np.nan, np.inf
    model = exported(net, (1, 8, 8, 3), x)
    assert (operators(model)["Conv"], operators(model)["Transpose"]) == (4, 2)


def test_a_product_that_is_a_convolution_names_its_lines() -> None:
    rngs = nnx.Rngs(0)
    first, last = (nnx.Conv(a, b, (3, 3), rngs=rngs) for a, b in ((3, 16), (16, 3)))
    weight, bias = jnp.asarray(normal(16, 16)), jnp.asarray(normal(16))

    def fn(x: jax.Array) -> jax.Array:
        x = first(x)
        x = x @ weight  # product
        x = x + bias  # bias
        return last(x)

    model = to_onnx(fn, [(1, 8, 8, 3)], stacktrace_metadata="full")
    assert operators(model) == {"Transpose": 2, "Conv": 3}
    node = [node for node in model.graph.node if node.op_type == "Conv"][1]
    product, bias_line = (line_of(mark, normal) for mark in ("product", "bias"))
    assert callsite(node).endswith(f"fn:{product}")
    own, other = "\n".join(traceback(node)).split("\nalso from:\n")
    assert f"test_layout.py:{product} " in own
    assert f"test_layout.py:{bias_line} " in other


@pytest.mark.slow
def test_products_that_are_convolutions_are_verified() -> None:
    net = convolved(16)
    model = to_onnx(net, [("B", 32, 32, 3)])
    x = normal(1, 32, 32, 3)
    assert verify(net, model, [x])
    kernel = next(t for t in model.graph.initializer if t.name == "blocks.1.wide.kernel")
    kernel.CopyFrom(
        onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(kernel) * 1.01, kernel.name)
    )
    found = verify(net, model, [x])
    assert not found
    assert found.message.startswith("[value-differs] `Conv` differs from JAX\n")
    assert "module: blocks.1/wide\n" in found.message


def test_weights_are_seen_by_quantisers(residual: Residual, tmp_path: Any) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path, small = tmp_path / "m.onnx", tmp_path / "q.onnx"
    onnx.save(exported(residual, (1, 16, 16, 3)), path)
    quantize_dynamic(path, small, weight_type=QuantType.QUInt8)
    ops = operators(onnx.load(small))
    assert (ops["Conv"], ops["ConvInteger"]) == (0, 4)
    onnx.save(exported(convolved(16), (1, 32, 32, 3)), path)
    quantize_dynamic(path, small, weight_type=QuantType.QUInt8)
    ops = operators(onnx.load(small))
    assert (ops["Conv"], ops["ConvInteger"]) == (0, 10)


def linen_points(widths: tuple[int, ...], scale: bool, bias: bool) -> Any:
    class Points(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            for width in widths:
                norm = nn.BatchNorm(use_running_average=True, use_scale=scale, use_bias=bias)
                x = nn.relu(norm(nn.Dense(width)(x)))
            return x

    module = Points()
    shapes = jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, 16, 3)))
    rng = np.random.default_rng(0)
    variables = jax.tree.map(lambda p: jnp.float32(rng.uniform(0.1, 1, p.shape)), shapes)
    return lambda x: module.apply(variables, x)


def nnx_points(widths: tuple[int, ...], scale: bool, bias: bool) -> Any:
    rngs = nnx.Rngs(0)
    layers: list[Any] = []
    for before, width in zip((3, *widths), widths, strict=False):
        norm = nnx.BatchNorm(
            width, use_running_average=True, use_scale=scale, use_bias=bias, rngs=rngs
        )
        norm.mean[...] = jnp.asarray(normal(width))
        norm.var[...] = abs(jnp.asarray(normal(width))) + 0.5
        layers += [nnx.Linear(before, width, rngs=rngs), norm, nnx.relu]
    return nnx.Sequential(*layers)


def haiku_points(widths: tuple[int, ...], scale: bool, bias: bool) -> Any:
    def forward(x: jax.Array, train: bool = False) -> jax.Array:
        for width in widths:
            norm = hk.BatchNorm(scale, bias, 0.9)
            x = jax.nn.relu(norm(hk.Linear(width)(x), is_training=train))
        return x

    net = hk.without_apply_rng(hk.transform_with_state(forward))
    x = normal(2, 16, 3)
    params, state = net.init(jax.random.key(0), x, True)
    _, state = net.apply(params, state, x, True)
    return lambda x: net.apply(params, state, x)[0]


@pytest.mark.parametrize(("scale", "bias"), [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize("spec", [(2, 32, 3), ("B", "N", 3)])
@pytest.mark.parametrize("net", [linen_points, nnx_points, haiku_points])
def test_dense_layers_with_norms_are_convolutions(
    net: Any, spec: Any, scale: bool, bias: bool
) -> None:
    points = net((10, 24, 40), scale, bias)
    model = exported(lambda x: jnp.max(points(x), axis=1), spec, normal(2, 32, 3))
    ops = operators(model)
    assert (ops["Conv"], ops["BatchNormalization"], ops["Transpose"]) == (3, 3, 1)
    assert ops["MatMul"] + ops["Add"] + ops["Sub"] + ops["Mul"] == 0
    assert constant_nodes(model) == []
    weights = [dims for dims in parameters(model).values() if len(dims) > 1]
    assert sorted(weights) == [[10, 3, 1], [24, 10, 1], [40, 24, 1]]


def test_dense_layers_with_norms_keep_the_names_of_their_parameters() -> None:
    points = linen_points((64, 64), True, True)
    names = parameters(exported(points, (2, 8, 8, 3), normal(2, 8, 8, 3)))
    assert names == {
        "Dense_0.kernel": [64, 3, 1, 1],
        "Dense_0.bias": [64],
        "BatchNorm_0.scale": [64],
        "BatchNorm_0.bias": [64],
        "batch_stats.BatchNorm_0.mean": [64],
        "batch_stats.BatchNorm_0.var": [64],
        "Dense_1.kernel": [64, 64, 1, 1],
        "Dense_1.bias": [64],
        "BatchNorm_1.scale": [64],
        "BatchNorm_1.bias": [64],
        "batch_stats.BatchNorm_1.mean": [64],
        "batch_stats.BatchNorm_1.var": [64],
    }


@pytest.mark.parametrize(
    "options",
    [{"operators": {"Conv": "elementary"}}, {"target": "webgpu"}, {"weights": {"*": "int8"}}],
)
def test_dense_layers_with_norms_stay_where_others_do(options: Any) -> None:
    points = linen_points((64, 64), True, True)
    assert operators(to_onnx(points, [(2, 128, 3)], **options))["Conv"] == 0


def test_a_single_dense_layer_with_a_norm_stays() -> None:
    rngs = nnx.Rngs(0)
    dense = nnx.Linear(64, 64, rngs=rngs)
    norm = nnx.BatchNorm(64, use_running_average=True, rngs=rngs)
    last = nnx.LayerNorm(64, rngs=rngs)
    model = exported(lambda x: last(nnx.relu(norm(dense(x)))), (2, 32, 64), normal(2, 32, 64))
    ops = operators(model)
    assert (ops["MatMul"], ops["Conv"], ops["Transpose"]) == (1, 0, 0)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_no_number_reaches_other_points(number: float) -> None:
    points = linen_points((8, 8), True, True)
    x = normal(2, 256, 3)
    x[1, 5, 1] = number
    assert operators(exported(points, (2, 256, 3), x))["Conv"] == 2


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
    """The mean keeps its axes, which differ between convolutions and dense layers."""
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
    """A size of zero in a `Reshape` would copy the operand's size."""

    def fn(x: Any) -> Any:
        y = lax.pad(x, np.int32(0), [(1, 2, 1), (1, 0, 0), (2, 2, 2)])
        return y.at[:, :, np.array([0, 0])].max(1)[:, np.int16(0)]

    check_model(fn, [np.zeros(shape, np.int32)])


def test_pixels_are_shuffled_between_convolutions_of_any_size() -> None:
    first = nnx.Conv(3, 8, (3, 3), rngs=nnx.Rngs(0))
    last = nnx.Conv(2, 4, (3, 3), rngs=nnx.Rngs(1))

    def upscale(x: Any) -> Any:
        x = first(x)
        b, h, w, c = x.shape
        x = x.reshape(b, h, w, 2, 2, c // 4).transpose(0, 1, 3, 2, 4, 5)
        return last(x.reshape(b, 2 * h, 2 * w, c // 4))

    model = exported(upscale, ("B", "H", "W", 3), normal(2, 5, 6, 3), normal(1, 3, 1, 3))
    found = [node.op_type for node in model.graph.node]
    assert found == ["Transpose", "Conv", "DepthToSpace", "Conv", "Transpose"]
