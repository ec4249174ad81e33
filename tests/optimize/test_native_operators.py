"""Operators that JAX decomposes and ONNX has: one node each, and the same numbers."""

import json
import logging

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from flax import nnx

from harness.checking import assert_close, op_types, run
from jax2onnx import _core, to_onnx, verify
from jax2onnx.errors import InvalidInputError

SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 90.0, -90.0, 1e-7, -1e-7, 3.0, -3.0])


def rows(*shape, dtype=np.float32):
    """Returns numbers, with one special value in each of the first rows."""
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    flat = x.reshape(-1, shape[-1])
    for i, value in enumerate(SPECIALS[: len(flat)]):
        flat[i, i % shape[-1]] = value
    flat[-1] = -np.inf
    return x


def exported(fn, *args, **options):
    """Exports `fn`, checks the numbers, and returns the operators."""
    model = to_onnx(fn, list(args), **options)
    assert_close(run(model, args), jax.tree_util.tree_leaves(fn(*args)))
    return op_types(model)


#: The spelling of an RMS norm that onnxruntime fuses.
RMS_NORM = ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]


def operators_after_loading(model, folder):
    """Returns the operators that onnxruntime runs, inside loops, too."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(model.SerializeToString(), options)

    def walk(graph):
        for node in graph.node:
            yield node.op_type
            for attribute in node.attribute:
                yield from walk(attribute.g)

    return [*walk(onnx.load(folder / "optimised.onnx").graph)]


def mean_of(x, axis=-1):
    return jnp.mean(x, axis, keepdims=True)


def hand_written_softmax(x):
    e = jnp.exp(x - jnp.max(x, -1, keepdims=True))
    return e / jnp.sum(e, -1, keepdims=True)


ACTIVATIONS = {
    "Relu": jax.nn.relu,
    "Clip": jax.nn.relu6,
    "LeakyRelu": jax.nn.leaky_relu,
    "Elu": lambda x: jax.nn.elu(x, 0.5),
    "Selu": jax.nn.selu,
    "Celu": lambda x: jax.nn.celu(x, 2.0),
    "Gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "HardSigmoid": jax.nn.hard_sigmoid,
    "HardSwish": jax.nn.hard_swish,
    "Softplus": jax.nn.softplus,
    "Softsign": jax.nn.soft_sign,
    "Mish": jax.nn.mish,
    "Softmax": jax.nn.softmax,
    "LogSoftmax": jax.nn.log_softmax,
    "ReduceLogSumExp": lambda x: jax.nn.logsumexp(x, -1),
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("op", ACTIVATIONS)
def test_one_node(op):
    fn, x = ACTIVATIONS[op], rows(12, 40)
    assert exported(fn, x, operators="native") == [op]
    assert op not in exported(fn, x, operators="elementary")
    exported(fn, x)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("op", ACTIVATIONS)
@pytest.mark.parametrize("operators", ["auto", "native"])
def test_other_types(op, dtype, operators):
    x = rows(12, 40, dtype=dtype)
    if (op, dtype, operators) == ("LogSoftmax", np.float64, "native"):
        x = x[np.isfinite(x).all(-1)]  # onnxruntime loses NaN, which only `native` accepts
    with jax.enable_x64(dtype == np.float64):
        options = {"operators": operators, "enable_double_precision": dtype == np.float64}
        exported(ACTIVATIONS[op], x, **options)


@pytest.mark.parametrize("op", ACTIVATIONS)
def test_bfloat16(op):
    """Computed in float32, with one round trip."""
    fn = ACTIVATIONS[op]
    x = np.random.default_rng(0).normal(size=(4, 40)).astype(np.float32)
    model = to_onnx(
        lambda x: fn(x.astype(jnp.bfloat16)).astype(jnp.float32), [x], operators="native"
    )
    assert op in op_types(model)
    expected = np.asarray(fn(jnp.asarray(x, jnp.bfloat16)), np.float32)
    np.testing.assert_allclose(run(model, [x])[0], expected, rtol=4e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda x: jnp.clip(x, -1, 2), "Clip"),
        (jax.nn.hard_tanh, "Clip"),
        (lambda x: jnp.minimum(jnp.maximum(x, 0), 6), "Clip"),
        (jax.nn.gelu, "Gelu"),
        (lambda x: x * 0.5 * (1 + jax.scipy.special.erf(x / np.sqrt(2))), "Gelu"),
        (lambda x: 0.5 * x * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), "Gelu"),
        (lambda x: jnp.where(x > 0, x, 0.2 * x), "LeakyRelu"),
        (lambda x: x * jax.nn.relu6(x + 3) / 6, "HardSwish"),
        (hand_written_softmax, "Softmax"),
        (lambda x: jax.nn.softmax(x, 0), "Softmax"),
        (lambda x: jnp.mean(x, 0), "ReduceMean"),
        (lambda x: jnp.mean(x, (0, 1), keepdims=True), "ReduceMean"),
        (lambda x: jnp.sum(x, 1) / x.shape[1], "ReduceMean"),
    ],
)
def test_spellings(fn, op):
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    assert exported(fn, x) == [op]


def test_a_slope_that_is_a_parameter():
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    assert exported(nnx.PReLU(), x, operators="native") == ["PRelu"]


def keras_prelu(x, slope):
    return jax.nn.relu(x) + -slope * jax.nn.relu(-x)


def signed_prelu(x, slope):
    return jnp.maximum(x, 0) + slope * jnp.minimum(x, 0)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("prelu", [keras_prelu, signed_prelu])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_slope_that_is_added(prelu, dtype):
    x = rows(12, 6, dtype=dtype)
    slope = jnp.asarray([0.1, 0, -2, 1, 0.5, 3], dtype)

    def layer(x):
        return prelu(x, slope)

    assert exported(layer, x, operators="native") == ["PRelu"]
    assert exported(layer, x) == ["Relu", "Min", "Mul", "Add"]


def test_a_slope_that_is_not_finite():
    slope = jnp.asarray([0.1, np.inf, np.nan], np.float32)
    x = np.array([[1, 1, 1], [0, 0, 0], [-1, -1, -1]], np.float32)
    assert "PRelu" not in exported(lambda x: keras_prelu(x, slope), x, operators="native")


INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_between_bounds(dtype):
    """One node where the CPU and GPUs have it; the one for int64 compares large numbers wrongly."""
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 1, 2, 3, 99, 100, 101, limits.max - 1, limits.max], dtype)
    with jax.enable_x64():
        for form in ("auto", "native"):
            options = {"operators": form, "enable_double_precision": True}
            ops = exported(lambda x: jnp.clip(x, 2, 100), x, **options)
            assert (ops == ["Clip"]) == (dtype in (np.int8, np.uint8, np.uint64))
            assert "Clip" not in exported(lambda x: jnp.clip(x, 100, 2), x, **options)
            largest = jnp.asarray(limits.max - 1, dtype)  # with 64 bits, no float represents it
            exported(lambda x, most=largest: jnp.clip(x, 2, most), x, **options)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.where(x > 0, x, 0),  # NaN becomes zero
        lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True),  # overflows
        lambda x: jnp.maximum(x, 0.5),
        lambda x: jnp.where(x > 0, x, 0.2 * jnp.abs(x)),
        lambda x: jnp.sum(x, 1) / 6,
    ],
)
def test_near_misses_stay_elementary(fn):
    native = {"Relu", "Softmax", "LeakyRelu", "ReduceMean", "Clip"}
    assert not native & set(exported(fn, rows(12, 7), operators="native"))


def test_masks():
    x, mask = rows(6, 5), np.random.default_rng(1).random((6, 5)) > 0.3
    mask[0] = False
    ops = exported(lambda x, m: jax.nn.softmax(x, where=m), x, mask)
    assert ops == ["Where", "Softmax", "Where"]
    ops = exported(lambda x, m: jax.nn.softmax(jnp.where(m, x, -1e9)), x, mask)
    assert ops == ["Where", "Softmax"]


def hand_written_layer_norm(x):
    mean = mean_of(x)
    return (x - mean) / jnp.sqrt(mean_of((x - mean) ** 2) + 1e-5)


def hand_written_rms_norm(x):
    return x / jnp.sqrt(mean_of(x * x) + 1e-6) * np.linspace(1, 2, 64, dtype=np.float32)


def linen_layer_norm(x):
    parameters = {"scale": jnp.linspace(1, 2, 64), "bias": jnp.linspace(0, 1, 64)}
    return nn.LayerNorm().apply({"params": parameters}, x)


LAYER_NORMS = {
    "nnx": lambda: nnx.LayerNorm(64, rngs=nnx.Rngs(0)),
    "nnx, slow variance": lambda: nnx.LayerNorm(64, use_fast_variance=False, rngs=nnx.Rngs(0)),
    "nnx, no scale": lambda: nnx.LayerNorm(64, use_scale=False, rngs=nnx.Rngs(0)),
    "nnx, no bias": lambda: nnx.LayerNorm(64, use_bias=False, rngs=nnx.Rngs(0)),
    "linen": lambda: linen_layer_norm,
    "by hand": lambda: hand_written_layer_norm,
    "jax.nn": lambda: jax.nn.standardize,
}


@pytest.mark.filterwarnings("ignore:(invalid value|overflow)")
@pytest.mark.parametrize("spelling", LAYER_NORMS)
@pytest.mark.parametrize("shape", [(12, 64), (2, 6, 64)])
def test_layer_norm(spelling, shape):
    fn, x = LAYER_NORMS[spelling](), rows(*shape)
    ops = exported(fn, x)
    assert ops[0] == "LayerNormalization"
    # A bias without a scale is a separate addition.
    assert ops[1:] in ([], ["Add"])
    assert "LayerNormalization" not in exported(fn, x, normalization_mode="force_decomposed")
    assert "LayerNormalization" not in exported(fn, x, operators="elementary")
    both = {"operators": "elementary", "normalization_mode": "prefer_native"}
    assert "LayerNormalization" in exported(fn, x, **both)


def test_layer_norm_of_symbolic_shapes():
    model = to_onnx(nnx.LayerNorm(64, rngs=nnx.Rngs(0)), [("B", "T", 64)])
    assert op_types(model) == ["LayerNormalization"]
    assert {i.name for i in model.graph.initializer} == {"scale", "bias"}
    for shape in ((1, 2, 64), (3, 5, 64)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32) + 100
        expected = nnx.LayerNorm(64, use_fast_variance=False, rngs=nnx.Rngs(0))(x)
        np.testing.assert_allclose(run(model, [x])[0], expected, rtol=1e-4, atol=1e-4)


def test_layer_norm_in_half_precision():
    """The statistics are computed in float32; scale and bias have the layer's precision."""
    norm = nnx.LayerNorm(64, dtype=jnp.float16, rngs=nnx.Rngs(0))
    x = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float16)
    ops = exported(norm, x)
    assert ops.count("LayerNormalization") == 1
    assert set(ops) <= {"LayerNormalization", "Cast"}


@pytest.mark.filterwarnings("ignore:(invalid value|overflow)")
@pytest.mark.parametrize(
    "norm", [lambda: nnx.RMSNorm(64, rngs=nnx.Rngs(0)), lambda: hand_written_rms_norm]
)
def test_rms_norm(norm):
    fn, x = norm(), rows(12, 64)
    assert exported(fn, x, opset=23) == ["RMSNormalization"]
    assert exported(fn, x, operators={"RMSNormalization": "native"}) == ["RMSNormalization"]
    assert exported(fn, x, opset=22) == RMS_NORM
    assert op_types(to_onnx(fn, [("B", "T", 64)])) == RMS_NORM


@pytest.mark.parametrize("opset", [9, 13, 17, None])
def test_an_rms_norm_of_an_old_opset_is_fused_when_it_is_loaded(opset, tmp_path):
    def fn(x):
        def step(h, _):
            return hand_written_rms_norm(h + x), None

        return jax.lax.scan(step, nnx.RMSNorm(64, rngs=nnx.Rngs(0))(x), length=3)[0]

    model = to_onnx(fn, [("B", 2, 64)], **({} if opset is None else {"opset": opset}))
    assert model.opset_import[0].version == (opset or 18)
    x = np.random.default_rng(0).normal(size=(3, 2, 64)).astype(np.float32)
    assert_close(run(model, [x]), [fn(x)])
    loaded = operators_after_loading(model, tmp_path)
    assert loaded.count("SimplifiedLayerNormalization") == 2
    assert not {"Pow", "ReduceMean", "Sqrt", "Div"} & {*loaded}


def test_an_rms_norm_in_half_precision_of_an_old_opset():
    norm = nnx.RMSNorm(64, dtype=jnp.float16, rngs=nnx.Rngs(0))
    x = 3000 * np.random.default_rng(0).normal(size=(3, 64)).astype(np.float16)
    assert "RMSNormalization" not in exported(norm, x, opset=18)


def test_equinox():
    eqx = pytest.importorskip("equinox")
    x = rows(12, 64)
    norm = jax.vmap(eqx.nn.LayerNorm(64))
    np.testing.assert_array_equal(exported(norm, x), ["LayerNormalization"])
    norm = jax.vmap(eqx.nn.RMSNorm(64, use_bias=False))
    np.testing.assert_array_equal(exported(norm, x, opset=23), ["RMSNormalization"])


def test_haiku():
    hk = pytest.importorskip("haiku")
    x = rows(12, 64)
    for norm, op in [
        (
            lambda x: hk.LayerNorm(-1, create_scale=True, create_offset=True)(x),
            "LayerNormalization",
        ),
        (lambda x: hk.RMSNorm(-1)(x), "RMSNormalization"),
    ]:
        model = hk.without_apply_rng(hk.transform(norm))
        parameters = model.init(jax.random.key(0), x)
        parameters = jax.tree.map(lambda p: p + jnp.linspace(0, 1, p.size), parameters)
        assert exported(lambda x, m=model, p=parameters: m.apply(p, x), x, opset=23) == [op]


def test_a_fused_node_names_all_lines():
    norm = nnx.LayerNorm(8, rngs=nnx.Rngs(0))

    def fn(x):
        y = jnp.sin(x)
        z = norm(y)
        e = jnp.exp(z - jnp.max(z, -1, keepdims=True))
        total = jnp.sum(e, -1, keepdims=True)
        return e / total

    model = to_onnx(fn, [(3, 8)], stacktrace_metadata="full")
    first = fn.__code__.co_firstlineno
    lines = {}
    for node in model.graph.node:
        metadata = {entry.key: entry.value for entry in node.metadata_props}
        site = metadata["pkg.jax2onnx.callsite"].rsplit(":", 1)[-1]
        lines[node.op_type] = int(site) - first
        if node.op_type == "Softmax":
            trace = metadata["pkg.jax2onnx.jax_traceback"]
            assert all(f":{first + line}" in trace for line in (3, 4, 5)), trace
    assert lines == {"Sin": 1, "LayerNormalization": 2, "Softmax": 5}


def test_a_norm_with_a_returned_intermediate_value(caplog):
    def fn(x):
        mean = mean_of(x)
        variance = mean_of((x - mean) ** 2)
        return (x - mean) / jnp.sqrt(variance + 1e-5), variance

    with caplog.at_level(logging.INFO, "jax2onnx"):
        assert "LayerNormalization" not in exported(fn, rows(12, 64))
    (message,) = caplog.messages
    line = fn.__code__.co_firstlineno + 3
    assert message.startswith("LayerNormalization at ")
    assert f"test_native_operators.py:{line} stays elementary: the variance" in message


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("count", [7, 16, 40, 300])
@pytest.mark.parametrize("reverse", [False, True])
def test_products_of_all_elements_before(reverse, count):
    """`CumProd` has no measurements, so it has to be requested."""
    fn, x = lambda x: jax.lax.cumprod(x, 1, reverse), rows(12, count)
    native = {"operators": {"CumProd": "native"}}
    assert exported(fn, x, **native) == exported(fn, x, opset=26, **native) == ["CumProd"]
    for options in ({"opset": 26}, {"opset": 25} | native, {"target": "tract"} | native):
        assert "CumProd" not in exported(fn, x, **options)


def test_operators_that_the_runtime_lacks(caplog):
    """`Swish` is for other runtimes."""
    x, native = rows(12, 7), {"operators": {"Swish": "native"}}
    model = to_onnx(jax.nn.silu, [x], target="any", **native)
    assert (op_types(model), model.opset_import[0].version) == (["Swish"], 24)
    with caplog.at_level(logging.INFO, "jax2onnx"):
        assert exported(jax.nn.silu, x, **native) == ["Sigmoid", "Mul"]
    assert caplog.messages == ["Swish stays elementary: onnxruntime has no kernel for it in f32"]


def test_inside_of_loops():
    norm = nnx.LayerNorm(8, rngs=nnx.Rngs(0))

    def fn(x):
        return jax.lax.fori_loop(0, 3, lambda _, x: jax.nn.relu(norm(x)) + x, x)

    model = to_onnx(fn, [(4, 8)])
    inner = [node.op_type for node in bodies(model.graph)]
    assert inner.count("LayerNormalization") == 1
    assert inner.count("Relu") == 1
    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    assert_close(run(model, [x]), [fn(x)])


def bodies(graph):
    """Yields the nodes of all subgraphs."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from attribute.g.node
                yield from bodies(attribute.g)


def test_a_mapping_speaks_of_single_operators():
    def fn(x):
        return jax.nn.softmax(jax.nn.gelu(x))

    x = rows(3, 8)
    ops = exported(fn, x, operators={"Gelu": "elementary"})
    assert "Gelu" not in ops
    assert ops[-1] == "Softmax"
    ops = exported(fn, x, operators={"*": "elementary", "Gelu": "native"})
    assert ops[0] == "Gelu"
    assert "Softmax" not in ops


@pytest.mark.parametrize("shape", [(2, 8, 8, 64), ("B", 8, 8, 64), ("B", "H", "W", 64)])
def test_group_norm(shape):
    norm = nnx.GroupNorm(64, num_groups=8, rngs=nnx.Rngs(0))
    norm.scale[...], norm.bias[...] = jnp.linspace(1, 2, 64), jnp.linspace(-1, 1, 64)
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 64)).astype(np.float32)
    model = to_onnx(norm, [shape])
    ops = op_types(model)
    assert ops.count("InstanceNormalization") == 1
    assert len(ops) <= 9
    assert_close(run(model, [x]), [norm(x)])
    # The variance of large numbers cancels in ONNX's group norm.
    for options in ({"normalization_mode": "prefer_native"}, {"operators": "native"}):
        model = to_onnx(norm, [shape], **options)
        assert op_types(model) == ops
        assert_close(run(model, [x]), [norm(x)])


def test_group_norm_of_single_channels():
    norm = nnx.GroupNorm(6, num_groups=6, use_fast_variance=False, rngs=nnx.Rngs(0))
    scale, bias = jnp.linspace(1, 2, 6), jnp.linspace(-1, 1, 6)

    def of_haiku(x):
        split = x.reshape(2, 4, 4, 6, 1)
        mean = split.mean((1, 2, 4), keepdims=True)
        spread = jax.lax.rsqrt(split.var((1, 2, 4), keepdims=True) + 1e-5)
        return ((split - mean) * spread).reshape(x.shape) * scale + bias

    x = np.random.default_rng(0).normal(size=(2, 4, 4, 6)).astype(np.float32)
    for fn in (norm, of_haiku):
        assert_close(run(to_onnx(fn, [x]), [x]), [fn(x)])


def two_pass(x, axes):
    deviation = x - mean_of(x, axes)
    return deviation / jnp.sqrt(mean_of(deviation**2, axes) + 1e-5)


def split_group_norm(x):
    split = x.reshape(2, 8, 8, 8, 8)
    return two_pass(split, (1, 2, 4)).reshape(x.shape)


def group_norm_centered_last(x):
    split = x.reshape(2, 8, 8, 8, 8)
    mean = mean_of(split, (1, 2, 4))
    factor = jax.lax.rsqrt(mean_of((split - mean) ** 2, (1, 2, 4)) + 1e-5)
    factor = factor * jnp.linspace(1, 2, 64).reshape(8, 8)
    return (split * factor + (-mean * factor + 0.5)).reshape(x.shape)


FRAMEWORK_GROUP_NORM = nnx.GroupNorm(64, 8, use_fast_variance=False, rngs=nnx.Rngs(0))

HOSTILE_NORMS = {
    "layer": lambda x: two_pass(x, -1),
    "rms": lambda x: x * jax.lax.rsqrt(mean_of(x * x) + 1e-6),
    "instance": lambda x: two_pass(x, (1, 2)),
    "group": split_group_norm,
    "centered last": group_norm_centered_last,
    "nnx group": lambda x: FRAMEWORK_GROUP_NORM(x),
}


@pytest.mark.parametrize(
    "options", [{}, {"operators": "native"}, {"normalization_mode": "prefer_native"}]
)
@pytest.mark.parametrize("name", HOSTILE_NORMS)
def test_norms_of_hostile_numbers(name, options):
    """No form may lose more digits than elementary operators."""
    fn, normal = HOSTILE_NORMS[name], np.random.default_rng(0).normal(size=(2, 8, 8, 64))
    model = to_onnx(fn, [(2, 8, 8, 64)], **options)
    elementary = to_onnx(fn, [(2, 8, 8, 64)], operators="elementary")

    def errors(x):
        x = x.astype(np.float32)
        with jax.enable_x64(True):
            exact = np.asarray(fn(jnp.asarray(x, np.float64)))
        return [np.abs(run(m, [x])[0] - exact).max() for m in (model, elementary)]

    # The sum of a single constant may happen to be exact.
    constants = np.max([errors(normal * 0 + c) for c in (12.3, 333.3, 777.7)], axis=0)
    samples = (normal + 1e4, normal * 1e-6, 1 + normal * 1e-4)
    for found in (constants, *map(errors, samples)):
        assert found[0] <= max(4 * found[1], 4e-6), found


@pytest.mark.parametrize("mean", [3.0, 1e5])
def test_batch_norm_of_a_large_mean(mean):
    """`x * a + b` would cancel."""
    means = np.full(4, mean, np.float32)
    variance, scale = np.linspace(1, 2, 4, dtype=np.float32), np.linspace(1, 3, 4, dtype=np.float32)

    def fn(x):
        shape = (1, 4, 1, 1)
        factor = jax.lax.rsqrt(jnp.asarray(variance) + 1e-3) * scale
        return (x - means.reshape(shape)) * factor.reshape(shape) + 0.5

    x = (np.random.default_rng(0).normal(size=(2, 4, 5, 5)) + mean).astype(np.float32)
    model = to_onnx(fn, [x])
    assert_close(run(model, [x]), [fn(x)])


@pytest.mark.parametrize(
    ("symbolic", "shape"),
    [
        (("B", 4), (20000, 4)),
        ((8, 50, 50, 4), (8, 50, 50, 4)),
        (("B", "H", "W", 4), (4, 60, 50, 4)),
    ],
)
@pytest.mark.parametrize("operators", ["auto", "elementary"])
def test_statistics_of_a_batch_with_a_large_mean(symbolic, shape, operators):
    """The mean of the squares minus the square of the mean, as Flax writes it, would cancel."""
    norm = nn.BatchNorm(use_running_average=False)
    variables = norm.init(jax.random.key(0), jnp.ones((1, 4)))

    def fn(x):
        return norm.apply(variables, x, mutable=["batch_stats"])[0]

    model = to_onnx(fn, [symbolic], training="allow", operators=operators)
    x = (np.random.default_rng(0).normal(size=shape) + 100).astype(np.float32)
    exact = x.astype(np.float64).reshape(-1, 4)
    exact = (exact - exact.mean(0)) / np.sqrt(exact.var(0) + 1e-5)
    assert np.abs(run(model, [x])[0].reshape(-1, 4) - exact).max() < 1e-3
    # The difference to the mean is computed once.
    assert op_types(model).count("Sub") == 1


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("symbolic", [(2, 50, 50, 8), ("B", 50, 50, 8)])
def test_groups_without_a_scale_and_with_a_large_mean(symbolic, use_bias):
    norm = nnx.GroupNorm(8, 4, use_scale=False, use_bias=use_bias, rngs=nnx.Rngs(0))
    x = (np.random.default_rng(0).normal(size=(2, 50, 50, 8)) + 1000).astype(np.float32)
    exact = x.astype(np.float64).reshape(2, 2500, 4, 2)
    exact = exact - exact.mean((1, 3), keepdims=True)
    exact = (exact / np.sqrt(exact.var((1, 3), keepdims=True) + 1e-6)).reshape(x.shape)
    assert np.abs(run(to_onnx(norm, [symbolic]), [x])[0] - exact).max() < 1e-2


@pytest.mark.parametrize("shape", [(2, 8, 8, 64), ("B", "H", "W", 64)])
def test_instance_norm(shape):
    norm = nnx.InstanceNorm(64, rngs=nnx.Rngs(0))
    norm.scale[...], norm.bias[...] = jnp.linspace(1, 2, 64), jnp.linspace(-1, 1, 64)
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 64)).astype(np.float32)
    model = to_onnx(norm, [shape])
    assert op_types(model) == ["Transpose", "InstanceNormalization", "Transpose"]
    assert_close(run(model, [x]), [norm(x)])


def test_channels_that_stand_second():
    def fn(x):
        mean = mean_of(x, (2, 3))
        return (x - mean) / jnp.sqrt(mean_of((x - mean) ** 2, (2, 3)) + 1e-5)

    x = np.random.default_rng(0).normal(size=(2, 8, 5, 6)).astype(np.float32)
    assert exported(fn, x) == ["InstanceNormalization"]


@pytest.mark.parametrize("operators", ["fast", {"Gelu": "fast"}, {"Add": "native"}, 3])
def test_wrong_choices(operators):
    with pytest.raises(InvalidInputError, match="operators"):
        to_onnx(jax.nn.relu, [(3,)], operators=operators)


@pytest.mark.parametrize("operators", ["auto", "native", "elementary"])
def test_verification_knows_the_choice(operators):
    norm = nnx.LayerNorm(8, rngs=nnx.Rngs(0))

    def fn(x):
        return jax.nn.softmax(jax.nn.elu(norm(x)) @ jnp.ones((8, 3)))

    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    model = to_onnx(fn, [x], operators=operators)
    assert verify(fn, model, [x]).ok


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:Mean of empty slice")
@pytest.mark.parametrize("operators", ["auto", "native", "elementary"])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.mean(x, 0),
        lambda x: jnp.mean(jnp.concatenate([x, x]), 0),
        jnp.mean,
        lambda x: jnp.var(x, 0),
        lambda x: jnp.std(x, 0),
        lambda x: jnp.sum(x, 0),
        lambda x: jnp.linalg.norm(x, axis=0),
        lambda x: jax.nn.logsumexp(jnp.pad(x, ((0, 0), (0, 1))), 0),
        lambda x: jnp.prod(x, 0),
    ],
)
def test_reductions_of_nothing(fn, operators):
    """JAX assumes sizes of at least one, but models must also run without rows."""
    model = to_onnx(fn, [("T", 3)], operators=operators)
    x = np.zeros((0, 3), np.float32)
    np.testing.assert_array_equal(run(model, [x])[0], np.asarray(fn(x)))
    x = np.random.default_rng(0).normal(size=(1, 3)).astype(np.float32)
    assert_close(run(model, [x]), [fn(x)])


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:Mean of empty slice")
def test_the_mean_of_all_rows_but_one():
    fn = lambda x: jnp.mean(x[1:], 0)  # noqa: E731
    x = np.ones((1, 3), np.float32)
    assert np.isnan(run(to_onnx(fn, [("T", 3)]), [x])[0]).all()


def test_means_that_are_not_empty():
    assert op_types(to_onnx(lambda x: jnp.mean(x, 0), [(4, 3)])) == ["ReduceMean"]
    (size,) = jax.export.symbolic_shape("T", constraints=["T >= 2"])
    spec = jax.ShapeDtypeStruct((size, 3), jnp.float32)
    assert op_types(to_onnx(lambda x: jnp.mean(x, 0), [spec])) == ["ReduceMean"]
    model = to_onnx(lambda x: jnp.mean(jnp.pad(x, ((1, 0), (0, 0))), 0), [("T", 3)])
    assert op_types(model) == ["Pad", "ReduceMean"]


def narrow(x):
    return x.astype(jnp.bfloat16).astype(jnp.float32)


ROUNDED = {
    "ReduceMean": lambda x: narrow(jnp.sum(x, -1)) / x.shape[-1],
    "LayerNormalization": lambda x: (
        narrow(x - mean_of(x)) / jnp.sqrt(mean_of(jnp.square(narrow(x - mean_of(x)))) + 1e-5)
    ),
    "RMSNormalization": lambda x: (
        narrow(x * jax.lax.rsqrt(mean_of(x * x) + 1e-6)) * jnp.linspace(0.5, 1.5, 64)
    ),
    "Gelu": lambda x: 0.5 * x * (1 + narrow(jax.scipy.special.erf(x / np.sqrt(2)))),
}


@pytest.mark.parametrize("operators", ["auto", "native"])
@pytest.mark.parametrize("op", ROUNDED)
def test_roundings_on_the_way_are_kept(op, operators):
    x = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    model = to_onnx(ROUNDED[op], [x], operators=operators)
    np.testing.assert_allclose(run(model, [x])[0], ROUNDED[op](x), rtol=1e-5, atol=2e-6)


def test_norms_in_float16_may_be_finite_where_jax_overflows():
    """Only the squares overflow in JAX; infinities and NaN propagate."""
    fn = lambda x: jnp.linalg.norm(x, axis=-1)  # noqa: E731
    x = np.array([[300, 400], [np.inf, 1], [np.nan, 1], [3, 4]], np.float16)
    model = to_onnx(fn, [x], operators="native")
    assert op_types(model) == ["ReduceL2"]
    expected = np.array([500, np.inf, np.nan, 5], np.float16)
    np.testing.assert_array_equal(run(model, [x])[0], expected)


def with_unit_axis(x):
    return x.reshape(2, 1, 3, 4)


def rms_of_another_axis(x):
    squares = (with_unit_axis(x) ** 2).mean(2).reshape(2, 1, 4)
    return x * jax.lax.rsqrt(squares + 1e-5)


def norm_of_another_axis(x):
    y = with_unit_axis(x)
    mean, variance = y.mean((1, 2)).reshape(2, 1, 4), y.var((1, 2)).reshape(2, 1, 4)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-2)


def softmax_of_a_unit_axis(x):
    y = with_unit_axis(x)
    e = jnp.exp(x - y.max(1).reshape(2, 3, 4))
    return e / with_unit_axis(e).sum(1).reshape(2, 3, 4)


def norm_of_all_channels(x):
    mean = x.reshape(2, 3, 1, 4).mean((1, 3), keepdims=True).reshape(2, 1, 1)
    variance = x.reshape(2, 3, 1, 4).var((1, 3), keepdims=True).reshape(2, 1, 1)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


@pytest.mark.parametrize(
    "fn",
    [rms_of_another_axis, norm_of_another_axis, softmax_of_a_unit_axis, norm_of_all_channels],
)
@pytest.mark.parametrize("operators", ["auto", "native"])
def test_statistics_of_another_shape(fn, operators):
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    exported(fn, x, operators=operators)


def keras_group_norm(x, groups, axis, scale, bias):
    """Subtracts the mean last; channels keep an axis for their groups."""
    each = x.shape[axis] // groups
    split = x.reshape(*x.shape[:axis], groups, each, *x.shape[axis + 1 :])
    axes = tuple(i for i in range(1, split.ndim) if i != axis)
    mean, variance = split.mean(axes, keepdims=True), split.var(axes, keepdims=True)
    sizes = (1,) * axis + (groups, each) + (1,) * (split.ndim - axis - 2)
    factor = jax.lax.rsqrt(variance + 1e-3)
    if scale is not None:
        factor = factor * scale.reshape(sizes)
    rest = -mean * factor
    if bias is not None:
        rest = rest + bias.reshape(sizes)
    return (split * factor + rest).reshape(x.shape)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("axis", [1, 3])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize(("scaled", "biased"), [(True, True), (True, False), (False, True)])
def test_group_norms_that_subtract_the_mean_last(axis, groups, scaled, biased):
    scale = jnp.arange(1, 7, dtype=np.float32) if scaled else None
    bias = jnp.arange(-3, 3, dtype=np.float32) if biased else None
    x = np.random.default_rng(0).normal(size=(5, 6, 4, 6)).astype(np.float32)
    x[0, 0, 0, 0], x[1, 1, 1, 1], x[2, 2, 2, 2] = np.nan, np.inf, -np.inf
    x[3] = 1.5

    def norm(x):
        return keras_group_norm(x, groups, axis, scale, bias)

    native, chosen = exported(norm, x, operators="native"), exported(norm, x)
    exported(norm, x, operators="elementary")
    for ops in (native, chosen):
        assert "InstanceNormalization" in ops
        assert "ReduceMean" not in ops


@pytest.mark.slow
def test_group_norms_of_one_and_of_all_channels():
    x = np.random.default_rng(0).normal(size=(2, 5, 6)).astype(np.float32)
    for operators in ("auto", "native"):
        for groups in (1, 6):
            norm = nnx.GroupNorm(6, num_groups=groups, rngs=nnx.Rngs(0))
            exported(lambda x, norm=norm: norm(x), x, operators=operators)
        eqx = pytest.importorskip("equinox")
        for groups in (1, 5):
            norm = jax.vmap(eqx.nn.GroupNorm(groups, 5))
            exported(lambda x, norm=norm: norm(x), x, operators=operators)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_group_norms_are_one_node_where_it_is_exact(dtype):
    """They are not exact if they are rounded to half precision before scaling."""

    def norm(x):
        groups = x.reshape(2, 5, 5, 2, 4)
        mean = groups.mean((1, 2, 4), keepdims=True)
        variance = jnp.square(groups - mean).mean((1, 2, 4), keepdims=True)
        normal = (groups - mean) * jax.lax.rsqrt(variance + 1e-5)
        return normal.reshape(x.shape) * np.linspace(1, 2, 8).astype(dtype)

    x = np.random.default_rng(0).normal(size=(2, 5, 5, 8)).astype(dtype)
    ops = exported(norm, x)
    assert ("InstanceNormalization" in ops) == (dtype == "float32")
    ops = exported(norm, x, operators="native")
    assert "InstanceNormalization" in ops


def test_a_model_records_near_misses(tmp_path, capfd):
    def fn(x):
        mean = mean_of(x)
        variance = mean_of((x - mean) ** 2)
        return (x - mean) / jnp.sqrt(variance + 1e-5), variance

    path = tmp_path / "model.onnx"
    to_onnx(fn, [(3, 64)], stacktrace_metadata=True, return_mode="file", output_path=path)
    assert _core.main(["show", str(path), "--missed"]) == 0
    line = fn.__code__.co_firstlineno + 3
    shown = capfd.readouterr().out
    assert shown.startswith("LayerNormalization at ")
    assert f"test_native_operators.py:{line} stays elementary: the variance" in shown
    assert _core.main(["show", str(path), "--missed", "--json"]) == 0
    (entry,) = json.loads(capfd.readouterr().out)["missed"]
    assert entry["op"] == "LayerNormalization"
    assert entry["callsite"].endswith(f"test_native_operators.py:{line}")

    to_onnx(fn, [(3, 64)], stacktrace_metadata=False, return_mode="file", output_path=path)
    assert b"pkg.jax2onnx.missed" not in path.read_bytes()
