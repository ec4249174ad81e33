"""Models in onnxruntime-web: in Node, and in a browser on WebAssembly and on WebGPU."""

import base64
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from harness.browser import find_browser
from harness.checking import as_tensor, assert_close
from harness.onnxruntime_web import WebPage, node, package
from jax2onnx import InvalidInputError, allclose_onnxruntime_web, to_onnx
from models import catalogue

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
N = np.arange(24, dtype=np.int32).reshape(4, 6) - 7
MODELS = ("nnx/mlp", "nnx/cnn", "nnx/gpt", "equinox/rnn", "nnx/unet", "linen/vit")

FUNCTIONS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "sum of integers": (lambda n: (n.sum(axis=1), n.sum()), [N]),
    "sum that wraps": (lambda n: (n * 100_000_007).sum(axis=0), [N]),
    "count": (lambda x: (x > 0).sum(axis=0), [X]),
    "mean of booleans": (lambda x: (x > 0).mean(), [X]),
    "sort": (lambda x: jnp.sort(x, axis=1), [X]),
    "median": (lambda x: jnp.median(x, axis=1), [X]),
    "max": (lambda x: (x.max(axis=1), x.argmax(axis=1)), [X]),
    "sines": (lambda x: jnp.sin(x) + jnp.cos(x), [X]),
    "cond": (lambda x: jax.lax.cond(x.sum() > 0, jnp.exp, jnp.abs, x), [X]),
    "scan": (lambda x: jax.lax.scan(lambda c, y: (c + y, c * y), x[0], x), [X]),
    "softmax": (lambda x: jax.nn.softmax(x @ x.T), [X]),
}


@pytest.fixture
def in_node(monkeypatch: pytest.MonkeyPatch) -> None:
    node()
    monkeypatch.setenv("ONNXRUNTIME_WEB", str(package()))


@pytest.fixture(scope="module", params=["wasm", "webgpu"])
def page(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[tuple[str, WebPage]]:
    with WebPage(tmp_path_factory.mktemp("web"), package(), request.param) as opened:
        gpu = "navigator.gpu ? navigator.gpu.requestAdapter().then((a) => a !== null) : false"
        if request.param == "webgpu" and not opened.evaluate(gpu):
            pytest.skip("the browser has no WebGPU, not even in software")
        yield request.param, opened


def exported(fn: Any, args: Any, provider: str) -> onnx.ModelProto:
    target = {"wasm": "onnxruntime-web", "webgpu": "webgpu"}[provider]
    with warnings.catch_warnings():
        # Nodes that WebGPU leaves to the CPU are correct, too.
        warnings.simplefilter("ignore")
        return to_onnx(fn, list(args), target=target)


def run_on(page: WebPage, model: onnx.ModelProto, args: Any) -> list[np.ndarray]:
    inputs = []
    for leaf in jax.tree_util.tree_leaves(args):
        array = np.ascontiguousarray(as_tensor(leaf))
        data = base64.b64encode(array.tobytes()).decode()
        inputs.append([str(array.dtype), list(array.shape), data])
    found = page.call("run", base64.b64encode(model.SerializeToString()).decode(), inputs)
    return [
        np.frombuffer(base64.b64decode(data), dtype=dtype).reshape(dims)
        for dtype, dims, data in found
    ]


@pytest.mark.usefixtures("in_node")
@pytest.mark.parametrize("name", MODELS)
def test_models_agree_in_node(name: str, tmp_path: Path) -> None:
    fn, args = catalogue.build(name)
    path = tmp_path / "m.onnx"
    to_onnx(fn, list(args), return_mode="file", output_path=path, export_mode="web")
    agrees, message = allclose_onnxruntime_web(fn, path, list(args))
    assert agrees, message


@pytest.mark.usefixtures("in_node")
def test_differences_are_reported() -> None:
    model = to_onnx(lambda x: x + 1, [X], target="onnxruntime-web")
    agrees, message = allclose_onnxruntime_web(lambda x: x + 2, model, [X])
    assert not agrees
    assert "`output` differs" in message


@pytest.mark.usefixtures("in_node")
@pytest.mark.parametrize("runner", ["node", "chrome"])
def test_a_file_agrees_with_onnxruntime(runner: Any, tmp_path: Path) -> None:
    if runner == "chrome":
        find_browser()
    path = tmp_path / "m.onnx"
    fn = lambda x, *, scale: jnp.sin(x) @ jnp.ones((6, 2000)) * scale  # noqa: E731
    to_onnx(fn, [X], {"scale": np.float32(2)}, return_mode="file", output_path=path)
    given = {"scale": np.float32(3)}
    agrees, message = allclose_onnxruntime_web(str(path), [X], given, runner=runner)
    assert agrees, message
    named = allclose_onnxruntime_web(
        onnx_model_path=path, inputs=[(4, 6)], input_params=given, runner=runner
    )
    assert named == (agrees, message)
    other = lambda x, *, scale: fn(x, scale=scale) + 1  # noqa: E731
    agrees, message = allclose_onnxruntime_web(other, path, [X], given, runner=runner)
    assert not agrees
    assert "in JAX" in message
    damaged = onnx.load(path)
    damaged.graph.node[0].op_type = "Sinus"
    with pytest.raises(InvalidInputError, match="Sinus"):
        allclose_onnxruntime_web(fn, damaged, [X], given, runner=runner)


def test_a_missing_runner_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = to_onnx(lambda x: x + 1, [X])
    monkeypatch.setenv("ONNXRUNTIME_WEB", str(package()))
    with pytest.raises(InvalidInputError, match="no-such-node is not on PATH"):
        allclose_onnxruntime_web(model, [X], node_command="no-such-node")
    monkeypatch.setenv("JAX2ONNX_ONNXRUNTIME_WEB_RUNNER", "chrome")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInputError, match="no Chrome or Chromium is on PATH"):
        allclose_onnxruntime_web(model, [X])
    with pytest.raises(InvalidInputError, match="choose one of: node, chrome, browser"):
        allclose_onnxruntime_web(model, [X], runner="firefox")  # type: ignore[call-overload]
    monkeypatch.setenv("ONNXRUNTIME_WEB", str(tmp_path))
    with pytest.raises(InvalidInputError, match="npm install onnxruntime-web"):
        allclose_onnxruntime_web(model, [X], runner="chrome")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree_in_a_browser(name: str, page: tuple[str, WebPage]) -> None:
    provider, opened = page
    fn, args = FUNCTIONS[name]
    found = run_on(opened, exported(fn, args, provider), args)
    expected = jax.tree_util.tree_leaves(fn(*map(jnp.asarray, args)))
    if name == "sines" and provider == "webgpu":
        # WebGPU requires no better accuracy of its sines.
        np.testing.assert_allclose(found[0], expected[0], atol=2**-10)
    else:
        assert_close(found, expected)


@pytest.mark.parametrize("name", ["nnx/mlp", "nnx/cnn", "nnx/gpt", "nnx/unet"])
def test_models_agree_in_a_browser(name: str, page: tuple[str, WebPage]) -> None:
    provider, opened = page
    fn, args = catalogue.build(name)
    expected = jax.tree_util.tree_leaves(fn(*args))
    assert_close(run_on(opened, exported(fn, args, provider), args), expected)
