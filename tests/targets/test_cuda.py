"""The target `cuda`: every node stays on the GPU, as onnxruntime's provider places them."""

import re
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

from harness import idle_cuda
from harness.checking import as_tensor, assert_close, quick, run
from jax2onnx import to_onnx
from models import catalogue

X = np.linspace(-2, 2, 48, dtype=np.float32).reshape(3, 16)

HOLDERS = {"If", "Loop", "Scan"}


def for_cuda(fn: Any, args: list[Any], **options: Any) -> onnx.ModelProto:
    """Exports for a GPU. A node that is left to the CPU is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return to_onnx(fn, args, target="cuda", **options)


def placed(
    folder: Path, models: dict[str, onnx.ModelProto]
) -> dict[str, tuple[idle_cuda.Placement, idle_cuda.Placement]]:
    """Returns where nodes run, without and with CUDA graphs."""
    if not idle_cuda.is_installed():
        pytest.skip("onnxruntime-gpu is not in build/cuda")
    paths = [folder / f"{name.replace('/', '_')}.onnx" for name in models]
    for path, model in zip(paths, models.values(), strict=True):
        path.write_bytes(model.SerializeToString())
    both = (idle_cuda.placements(paths), idle_cuda.placements(paths, capture=True))
    return dict(zip(models, zip(*both, strict=True), strict=True))


@pytest.fixture(scope="module")
def models() -> dict[str, onnx.ModelProto]:
    built = {name: catalogue.build(name) for name in catalogue.NAMES}
    return {name: for_cuda(fn, list(args)) for name, (fn, args) in built.items()}


@pytest.mark.slow
def test_the_provider_leaves_nothing_to_the_cpu(
    tmp_path: Path, models: dict[str, onnx.ModelProto]
) -> None:
    for name, (usual, captured) in placed(tmp_path, models).items():
        assert usual == idle_cuda.Placement([], 0), name
        has_bodies = any(node.op_type in HOLDERS for node in models[name].graph.node)
        assert ("control flow" in captured.error) == has_bodies, name
        assert has_bodies or captured == usual, name


# Nodes on the CPU and copies inside models that are not made for a GPU.
LEFT_BY_DEFAULT = {
    "linen/rnn": ([], 1),
    "equinox/rnn": ([], 1),
    "haiku/rnn": (["GRU"], 2),
}


@pytest.mark.slow
def test_models_without_a_target_stay_on_the_gpu_as_well(tmp_path: Path) -> None:
    models = {}
    for name in catalogue.NAMES:
        fn, args = catalogue.build(name)
        models[name] = to_onnx(fn, list(args))
    for name, (usual, _) in placed(tmp_path, models).items():
        assert usual == idle_cuda.Placement(*LEFT_BY_DEFAULT.get(name, ([], 0))), name


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.NAMES)
def test_models_for_the_gpu_compute_the_same(name: str, models: dict[str, onnx.ModelProto]) -> None:
    fn, args = catalogue.build(name)
    inputs = jax.tree_util.tree_leaves(args)
    expected = jax.tree_util.tree_leaves(quick(fn)(*args))
    for one, other in zip(run(models[name], inputs), map(as_tensor, expected), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        scale = max(1.0, float(np.abs(other).max()))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * scale)


def test_pooling_keeps_an_opset_with_kernels() -> None:
    def pooled(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def attend(x: jax.Array) -> jax.Array:
        x = pooled(x)[:, 0]
        weights = jax.nn.softmax(x @ x.transpose(0, 2, 1) / 2, axis=-1)
        return weights @ x

    x = np.linspace(-1, 1, 2 * 64, dtype=np.float32).reshape(2, 1, 8, 8)
    # `Attention` needs opset 23, and there is no `MaxPool` from 22 on.
    model = for_cuda(attend, [x])
    assert model.opset_import[0].version <= 21
    assert "MaxPool" in {node.op_type for node in model.graph.node}
    assert_close(run(model, [x]), [attend(jnp.asarray(x))])


CACHE = np.linspace(-1, 1, 2 * 8 * 3, dtype=np.float32).reshape(2, 8, 3)


@pytest.mark.parametrize("place", [0, 5, 7, 8, 100, -1, -8, -9])
@pytest.mark.parametrize("assume", [[], ["indices_in_range"]])
def test_a_step_selects_its_place_in_a_cache(place: int, assume: list[Any]) -> None:
    def step(cache: jax.Array, new: jax.Array, at: jax.Array) -> tuple[jax.Array, ...]:
        other = lax.dynamic_update_slice(cache, new[:1, None] + 1, (1, at, 0))
        return (
            lax.dynamic_update_slice(cache, new[:, None], (0, at, 0)),
            other,
            cache.at[0, at].set(9),
        )

    if assume and not -8 <= place < 8:
        return
    inputs = [CACHE, X[:2, :3], np.int32(place)]
    model = for_cuda(step, inputs, assume=assume)
    operators = [node.op_type for node in model.graph.node]
    assert "ScatterND" not in operators
    assert_close(run(model, inputs), step(*map(jnp.asarray, inputs)))


def test_biases_are_apart_from_products_and_convolutions() -> None:
    weights = np.linspace(-1, 1, 3 * 3 * 4 * 8, dtype=np.float32).reshape(3, 3, 4, 8)
    matrix, bias = X[:3, :8].repeat(3, 0)[:8], np.linspace(0.5, 2, 8, dtype=np.float32)

    def layer(x: jax.Array) -> jax.Array:
        x = lax.conv_general_dilated(
            x, weights, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu((x + bias) * (bias / 2) + 1)
        return jax.nn.gelu(x @ matrix + bias)

    x = np.linspace(-1, 1, 2 * 25 * 4, dtype=np.float32).reshape(2, 5, 5, 4)
    model = for_cuda(layer, [x])
    conv = next(node for node in model.graph.node if node.op_type == "Conv")
    assert len(conv.input) == 2
    assert "Sub" in {node.op_type for node in model.graph.node}
    assert [1, 8, 8] in [list(tensor.dims) for tensor in model.graph.initializer]
    assert_close(run(model, [x]), [layer(jnp.asarray(x))])


def test_norms_take_the_scales_of_examples_and_channels() -> None:
    scales, biases = np.linspace(-1, 2, 2 * 8, dtype=np.float32).reshape(2, 8)

    def norm(x: jax.Array, axes: Any) -> jax.Array:
        centred = x - x.mean(axes, keepdims=True)
        return centred * lax.rsqrt((centred * centred).mean(axes, keepdims=True) + 1e-6)

    def adaptive(x: jax.Array, condition: jax.Array) -> jax.Array:
        shift, scale = jnp.split(condition[:, None], 2, -1)
        return norm(x, -1) * (1 + scale) + shift

    def grouped(x: jax.Array) -> jax.Array:
        groups = norm(x.reshape(*x.shape[:3], 4, 2), (1, 2, 4))
        return jnp.sum(jax.nn.silu(groups.reshape(x.shape) * scales + biases), -1)

    x = np.random.default_rng(0).normal(1, 2, (2, 5, 3, 8)).astype(np.float32)
    condition = np.linspace(-1, 1, 2 * 16, dtype=np.float32).reshape(2, 16)
    cases: list[tuple[Callable[..., Any], list[Any]]] = [
        (adaptive, [x[:, :, 0], condition]),
        (grouped, [x]),
    ]
    for fn, inputs in cases:
        model = for_cuda(fn, inputs)
        count = Counter(node.op_type for node in model.graph.node)
        assert count["LayerNormalization"] == 1
        assert count["InstanceNormalization"] + count["ReduceMean"] == 0
        assert_close(run(model, inputs), [fn(*map(jnp.asarray, inputs))])


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (lambda t, i: t[i], [X, np.array([0, -1, 7], np.int32)]),
        (lambda t, i: lax.dynamic_slice(t, (i, 0), (2, 3)), [X, np.int32(5)]),
        (lambda t: jnp.where(t > 0, t < 1, t > -1), [X]),
        (lambda n: jnp.argmax(n, axis=-1), [(X * 10).astype(np.int32)]),
        (lambda n: jnp.pad(n, 1), [(X * 10).astype(np.int32)]),
        (lambda n: jnp.max(n, axis=0), [(X * 10).astype(np.int16)]),
        (lambda n: jnp.clip(n, 0, 3), [(X * 10).astype(np.int32)]),
    ],
)
def test_integers_and_booleans_stay_on_the_gpu(fn: Any, args: list[Any], tmp_path: Path) -> None:
    model = for_cuda(fn, args)
    assert_close(run(model, args), jax.tree_util.tree_leaves(fn(*map(jnp.asarray, args))))
    if idle_cuda.is_installed():
        ((usual, captured),) = placed(tmp_path, {"model": model}).values()
        assert usual == captured == idle_cuda.Placement([], 0)


TARGET = Path(__file__).parents[2] / "crates/optimize/src/targets/cuda/mod.rs"
SHORT = {"F32": "tensor(float)", "F16": "tensor(float16)", "BF16": "tensor(bfloat16)"}
# The constraint on the type of each operator's results.
RESULTS = {
    "GatherBlockQuantized": "T2",
    "GroupQueryAttention": "T",
    "MatMulNBits": "T1",
    "SkipSimplifiedLayerNormalization": "T",
}


def test_operators_of_onnxruntime_are_those_of_the_provider() -> None:
    if not idle_cuda.is_installed():
        pytest.skip("onnxruntime-gpu is not in build/cuda")
    registered: dict[str, set[str]] = {}
    for kernel in idle_cuda.kernels():
        if kernel["provider"] == idle_cuda.PROVIDER and kernel["op"] in RESULTS:
            types = kernel["types"].get(RESULTS[kernel["op"]], [])
            registered.setdefault(kernel["op"], set()).update(types)
    stated = {
        op: {SHORT[dtype] for dtype in dtypes.split(", ")}
        for op, dtypes in re.findall(r'\("(\w+)", &\[(.*?)\]\)', TARGET.read_text())
    }
    assert stated == registered


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_a_skip_norm_is_one_node_on_request(dtype: Any, tmp_path: Path) -> None:
    scale = jnp.linspace(0.5, 2, 16, dtype=dtype)

    def fn(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = x + y
        wide = x.astype(jnp.float32)
        norm = wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)
        return x, norm.astype(dtype) * scale

    args = [jnp.asarray(X, dtype), jnp.asarray(X[::-1] * 0.5 + 1, dtype)]
    name = "SkipSimplifiedLayerNormalization"
    model = for_cuda(fn, args, operators={name: "native"})
    assert [node.op_type for node in model.graph.node] == [name]
    if dtype != jnp.bfloat16:  # Python cannot pass bfloat16 to onnxruntime.
        found = run(model, [np.asarray(arg) for arg in args])
        for one, other in zip(found, fn(*args), strict=True):
            np.testing.assert_allclose(one, np.asarray(other), rtol=2e-3, atol=1e-4)
    if idle_cuda.is_installed():
        ((usual, captured),) = placed(tmp_path, {"model": model}).values()
        assert usual == captured == idle_cuda.Placement([], 0)


@pytest.mark.parametrize(("dtype", "compute"), [("float16", None), ("float32", "float16:all")])
def test_integers_are_read_by_products_and_lookups_in_half_precision(
    dtype: str, compute: str | None, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    table = jnp.asarray(rng.normal(size=(64, 128)), dtype)
    up, down = (jnp.asarray(rng.normal(size=(128, 128)) / 12, dtype) for _ in range(2))
    bias = jnp.asarray(rng.normal(size=128), dtype)

    def fn(ids: jax.Array) -> jax.Array:
        return jax.nn.relu(table[ids] @ up + bias) @ down @ table.T

    ids = rng.integers(0, 64, (2, 8)).astype(np.int32)
    names = {"MatMulNBits": "native", "GatherBlockQuantized": "native"}
    options = {"weights": "int4", "operators": names, "compute": compute}
    model = for_cuda(fn, [ids], **options)
    found = [node.op_type for node in model.graph.node]
    assert found.count("MatMulNBits") == 3
    assert found.count("GatherBlockQuantized") == 1
    assert not {"MatMul", "DequantizeLinear"} & set(found)
    (expected,) = run(to_onnx(fn, [ids], weights="int4", compute=compute), [ids])
    (small,) = run(model, [ids])
    assert small.dtype == expected.dtype
    worst = np.abs(small.astype(np.float32) - expected.astype(np.float32)).max()
    assert worst < 0.03 * np.abs(expected).max()  # operands are rounded to 8 bits
    if idle_cuda.is_installed():
        ((usual, captured),) = placed(tmp_path, {"model": model}).values()
        assert usual == captured == idle_cuda.Placement([], 0)


def test_nodes_on_the_cpu_are_listed_by_line() -> None:
    def fn(n: jax.Array) -> jax.Array:
        return (n ^ 5) + 1

    with pytest.warns(UserWarning, match=r"BitwiseXor on i32 at .*test_cuda\.py"):
        to_onnx(fn, [np.arange(4, dtype=np.int32)], target="cuda")
