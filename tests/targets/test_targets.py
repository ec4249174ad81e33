"""Targets: models avoid operators that the target lacks, and users learn about costs."""

import warnings
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

from harness.checking import assert_close, check_model, run
from jax2onnx import _core, to_onnx
from jax2onnx.errors import InvalidInputError, UnsupportedError

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
N = np.arange(12, dtype=np.int32).reshape(3, 4) - 5
DOUBLE = onnx.TensorProto.DOUBLE


def types_of(model: onnx.ModelProto) -> set[int]:
    infos = [*model.graph.value_info, *model.graph.output, *model.graph.input]
    return {info.type.tensor_type.elem_type for info in infos}


def for_webgpu(fn: Any, args: list[Any], **options: Any) -> onnx.ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_onnx(fn, args, target="webgpu", **options)


@pytest.mark.parametrize(
    ("fn", "args", "in_double"),
    [
        # Signed integers are summed as products with ones.
        (lambda n: n.sum(axis=1), [N], False),
        (lambda n: n.sum(), [N], False),
        (lambda n: (n * 500_000_003).sum(axis=0, keepdims=True), [N], False),
        (lambda n: n.astype(jnp.uint32).sum(), [N], True),
        # Sums of these are small, so runtimes compute them correctly in integers.
        (lambda n: n.astype(jnp.int8).sum(axis=0), [N], False),
        (lambda x: (x > 0).sum(axis=1), [X], False),
        (lambda n: n[:, :0].sum(axis=1), [N], False),
        (lambda x: jnp.sort(x, axis=0), [X], False),
        (lambda x: jnp.median(x, axis=0), [X], False),
        (lambda x: lax.top_k(x, 2), [X], True),
    ],
)
def test_webgpu_has_no_double_precision(fn: Any, args: list[Any], in_double: bool) -> None:
    assert (DOUBLE in types_of(to_onnx(fn, args))) == in_double
    model = for_webgpu(fn, args)
    assert DOUBLE not in types_of(model)
    assert_close(run(model, args), jax.tree_util.tree_leaves(fn(*map(jnp.asarray, args))))


def test_sums_of_any_size() -> None:
    model = for_webgpu(lambda n: n.sum(axis=0), [jax.ShapeDtypeStruct(("B", 4), jnp.int32)])
    for size in (0, 1, 5):
        n = np.arange(size * 4, dtype=np.int32).reshape(size, 4)
        assert_close(run(model, [n]), [n.sum(axis=0, dtype=np.int32)])


def test_nodes_that_leave_the_gpu_are_listed_by_line() -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = jnp.sin(x) @ x.T
        return jnp.cumsum(y.astype(jnp.int8), axis=0)

    with pytest.warns(UserWarning, match="webgpu runs these on the CPU") as caught:
        to_onnx(fn, [X], target="webgpu")
    text = str(caught[0].message)
    assert "test_targets.py" in text
    assert "Sin" not in text
    with pytest.warns(UserWarning, match=r"Sin on f32 at .*test_targets\.py"):
        to_onnx(fn, [X], target="webgpu", opset=23)


def test_a_target_does_not_load_every_opset() -> None:
    for target in ("onnxruntime-web", "webgpu"):
        with pytest.raises(InvalidInputError, match="loads opsets up to 26, not 28"):
            to_onnx(jnp.exp, [X], target=target, opset=28)
    # A newer opset does not help if the target lacks a type at every opset.
    with pytest.raises(UnsupportedError, match="cannot compute `Cast` on f64"):
        to_onnx(
            lambda x: x + jax.random.normal(jax.random.key(0), x.shape),
            [X],
            target="webgpu",
            opset=17,
        )


@pytest.mark.parametrize("opset", [9, 12, 13, 21])
def test_webgpu_has_no_short_integers(opset: int) -> None:
    spec = jax.ShapeDtypeStruct((3,), np.int16)
    with pytest.raises(UnsupportedError, match="cannot compute `Add` on i16") as caught:
        to_onnx(lambda x: x + x, [spec], target="webgpu", opset=opset)
    assert "x + x" in str(caught.value)
    to_onnx(lambda x: x + x, [spec], target="onnxruntime-web", opset=opset)


def test_the_default_opset_follows_the_target() -> None:
    def version(target: Any) -> int:
        return to_onnx(jnp.exp, [X], target=target).opset_import[0].version

    assert version("onnxruntime") == version("onnxruntime-web") == version("any") == 18
    assert version("webgpu") == 21


def test_double_precision_is_refused_with_the_line() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return x + 1

    spec = jax.ShapeDtypeStruct((2,), np.float64)
    with pytest.raises(UnsupportedError) as caught:
        to_onnx(fn, [spec], enable_double_precision=True, target="webgpu")
    assert "the WebGPU build of onnxruntime-web cannot compute `Add` on f64" in str(caught.value)
    assert "return x + 1" in str(caught.value)


def test_a_web_export_is_one_for_the_web() -> None:
    def metadata(**options: Any) -> dict[str, str]:
        model = to_onnx(jnp.exp, [X], **options)
        return {entry.key: entry.value for entry in model.metadata_props}

    assert "pkg.jax2onnx.target" not in metadata()
    with pytest.warns(UserWarning, match="only chooses the target"):
        assert metadata(export_mode="web")["pkg.jax2onnx.target"] == "onnxruntime-web"
    assert metadata(target="any")["pkg.jax2onnx.target"] == "any"


def test_unknown_targets_are_errors() -> None:
    with pytest.raises(InvalidInputError) as caught:
        to_onnx(jnp.exp, [X], target="tpu")
    assert f"choose one of: {', '.join(_core.targets())}" in str(caught.value)


@pytest.mark.parametrize("target", ["onnxruntime>=1.17", "onnxruntime>=1.23", "iree"])
def test_operators_that_are_too_new_for_a_target_are_replaced(target):
    x = np.array([1, -0.0, -3, np.inf], np.float32)
    model = check_model(jnp.signbit, [x], target=target)
    assert model.opset_import[0].version <= 22


@pytest.mark.parametrize("target", _core.targets())
def test_maxima_in_double_precision(target: Any, double: dict[str, Any]) -> None:
    """Runtimes that compute doubles as floats have no other kernels for them, either."""
    x = jax.ShapeDtypeStruct(("B", 3), jnp.float64)
    lacks_doubles = target in ("webgpu", "tensorrt")
    expected = pytest.raises(UnsupportedError, match="f64") if lacks_doubles else nullcontext()
    with expected:
        to_onnx(lambda x: (x.max(), jax.nn.softmax(x)), [x], target=target, **double)
