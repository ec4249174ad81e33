"""`jax2onnx probe`: values from a device, compared at home by source line."""

import base64
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

from harness.browser import browser
from harness.onnxruntime_web import WebPage, node, package
from harness.provenance_of import line_of
from harness.viewed import line, view
from harness.viewed import show as show_page
from jax2onnx import InvalidInputError, _core, to_onnx, verify
from jax2onnx._checking.dump import Dump

HERE = "tests/checking/test_probe.py"
ROOT = Path(__file__).parents[2]
X = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)


def network(x: jax.Array) -> jax.Array:
    scores = x @ x.T / 3.0  # scores
    weights = jnp.exp(scores - scores.max(axis=1, keepdims=True))  # weights
    mixed = weights @ x  # mixed
    return jnp.tanh(mixed).sum(axis=1)  # result


def looped(x: jax.Array) -> jax.Array:
    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.sin(carry) + row, carry * row  # step

    return jax.lax.scan(step, x[0], x)[0] * 2.0  # after


def at(mark: str) -> str:
    """Returns the line of this file with a mark at its end, as `FILE:LINE`."""
    return f"{HERE}:{line_of(mark, at)}"


def command(*words: object) -> str:
    """Runs a command of the tool that must succeed, and returns its output."""
    status, output, errors = _core.command([str(word) for word in words])
    assert status == 0, errors
    return output


def export(fn: Callable[..., Any], path: Path, *args: Any, **options: Any) -> Path:
    options = {"stacktrace_metadata": "sourcemap", **options}
    to_onnx(fn, list(args or [X]), return_mode="file", output_path=str(path), **options)
    return path


@pytest.fixture
def probed(tmp_path: Path) -> Path:
    """Returns a model in which every value is an output."""
    model = export(network, tmp_path / "model.onnx")
    command("probe", model)
    return tmp_path / "model.probe.onnx"


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Returns the recorder for Python, as users get it."""
    path = tmp_path_factory.mktemp("recorder") / "recorder.py"
    path.write_text(command("probe", "--recorder", "py"))
    spec = importlib.util.spec_from_file_location("recorder", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded(
    recorder: ModuleType, model: Path, feeds: Mapping[str, np.ndarray], ran: Any = None
) -> Path:
    """Runs a model, or another one in its place as on a faulty device, and writes a dump."""
    proto = onnx.load(model) if ran is None else ran
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, dict(feeds)), strict=True))
    path = model.with_suffix(".safetensors")
    recorder.record(path, model, {**feeds, **outputs}, "test device")
    return path


def faulty(model: Path, op: str, change: Callable[[onnx.NodeProto], None]) -> onnx.ModelProto:
    """Returns a model as a device with a wrong kernel would run it."""
    proto = onnx.load(model)
    change(next(n for n in proto.graph.node if n.op_type == op))
    return proto


def becomes(op: str) -> Callable[[onnx.NodeProto], None]:
    def change(changed: onnx.NodeProto) -> None:
        changed.op_type = op

    return change


def test_values_become_outputs_and_the_model_stays_the_same(probed: Path) -> None:
    before, after = onnx.load(probed.with_name("model.onnx")), onnx.load(probed)
    onnx.checker.check_model(after, full_check=True)
    assert after.graph.output[: len(before.graph.output)] == before.graph.output
    made = {name for n in before.graph.node for name in n.output}
    assert {value.name for value in after.graph.output} == made
    assert after.graph.node == before.graph.node
    assert after.graph.initializer == before.graph.initializer
    assert verify(network, probed, [X]), "added outputs do not concern other checks"
    again = command("probe", probed, "-o", probed.with_name("again.onnx"))
    assert "0 values as additional outputs" in again


def test_a_wrong_kernel_is_found_by_line(probed: Path, recorder: ModuleType) -> None:
    dump = recorded(recorder, probed, {"x": X}, faulty(probed, "Exp", becomes("Tanh")))
    for function in (network, None):
        found = verify(function, probed, dump=dump)
        assert not found
        assert found.message.startswith("[device-differs] `Exp` differs on the device (test device")
        assert at("weights") in found.place
        assert found.certainty.startswith("certain")
        worst = found.by_line[0]
        assert worst.place == f"{at('weights')} in network"
        assert worst.from_inputs is not None
        assert worst.from_inputs < 20
        own = {row.place: row for row in found.by_line}
        result = own[f"{at('result')} in network"]
        assert result.signal_to_noise > 100, "it computes its results correctly,"
        assert result.from_inputs is not None
        assert result.from_inputs < 20, "from wrong operands"
        assert ("in JAX" in found.message) == (function is network)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_are_not_finite_on_the_device_alone(
    wrong: float, probed: Path, recorder: ModuleType
) -> None:
    dump = recorded(recorder, probed, {"x": X})
    arrays = dict(Dump.read(dump).arrays)
    (exponentials,) = next(n.output for n in onnx.load(probed).graph.node if n.op_type == "Exp")
    broken = arrays[exponentials].copy()
    broken[1, 2] = wrong
    recorder.record(dump, probed, arrays | {exponentials: broken}, "test device")
    found = verify(network, probed, dump=dump)
    assert at("weights") in found.place
    worst = found.by_line[0]
    assert worst.place == f"{at('weights')} in network"
    assert (worst.maximum, worst.signal_to_noise) == (np.inf, -np.inf)
    assert worst.from_inputs == -np.inf
    row = json.loads(found.to_json())["by_line"][0]
    assert row["maximum"] is None, "`view` shows it as not finite"


def test_several_nodes_between_recorded_values_are_named(
    tmp_path: Path, recorder: ModuleType
) -> None:
    model = export(network, tmp_path / "model.onnx")
    command("probe", model, "--line", at("mixed"), "-o", tmp_path / "some.onnx")
    some = tmp_path / "some.onnx"
    dump = recorded(recorder, some, {"x": X}, faulty(some, "Exp", becomes("Tanh")))
    found = verify(network, some, dump=dump)
    assert not found
    lines = next(text for text in found.message.splitlines() if text.startswith("  lines: "))
    assert lines.removeprefix("  lines: ").split(", ") == [
        at(m) for m in ("scores", "weights", "mixed")
    ]
    assert "it is one of" in found.certainty
    assert f"--line {at('weights')}" in found.message
    assert found.skipped_because["is not in the dump"] > 0


def test_a_device_that_agrees_and_one_that_is_only_imprecise(
    probed: Path, recorder: ModuleType
) -> None:
    dump = recorded(recorder, probed, {"x": X})
    found = verify(network, probed, dump=dump)
    assert found
    assert found.message.startswith("all recorded values agree with JAX: ")
    assert "test device" in found.message
    arrays = dict(Dump.read(dump).arrays)
    floats = {n: a for n, a in arrays.items() if n != "x" and a.dtype == np.float32}
    rounded = {n: a.astype(ml_dtypes.bfloat16).astype(np.float32) for n, a in floats.items()}
    recorder.record(dump, probed, arrays | rounded, "half")
    found = verify(network, probed, dump=dump)
    assert not found
    assert "within the tolerance of float16" in found.message


def test_small_errors_that_add_up_are_nobodys_fault(tmp_path: Path, recorder: ModuleType) -> None:
    def fn(x: jax.Array) -> jax.Array:
        for _ in range(8):
            x = jnp.sin(x)
        return x

    model = export(fn, tmp_path / "model.onnx")
    command("probe", model)
    probed = tmp_path / "model.probe.onnx"
    drifting = onnx.load(probed)
    nodes = list(drifting.graph.node)
    del drifting.graph.node[:]
    drifting.graph.initializer.append(
        onnx.numpy_helper.from_array(np.float32(1 + 7e-4), "seven ten-thousandths")
    )
    for one in nodes:
        (name,) = one.output
        one.output[0] = f"exact {name}"
        operands = [one.output[0], "seven ten-thousandths"]
        drifting.graph.node.extend([one, onnx.helper.make_node("Mul", operands, [name])])
    found = verify(fn, probed, dump=recorded(recorder, probed, {"x": X}, drifting))
    assert not found
    assert found.message.startswith("[errors-add-up] the output `output` differs from JAX on test")
    assert "small errors add up" in found.certainty


def test_a_model_that_is_wrong_everywhere_is_not_the_device(
    tmp_path: Path, recorder: ModuleType
) -> None:
    model = export(network, tmp_path / "model.onnx")
    onnx.save(faulty(model, "Exp", becomes("Tanh")), model)
    command("probe", model)
    probed = tmp_path / "model.probe.onnx"
    dump = recorded(recorder, probed, {"x": X})
    found = verify(network, probed, dump=dump)
    assert found.message.startswith("[model-differs] the device computes what the model says")
    assert "the export has Exp here" in found.message
    assert verify(None, probed, dump=dump), "the CPU computes the same"


def test_values_inside_loops_cannot_be_watched(tmp_path: Path) -> None:
    model = export(looped, tmp_path / "model.onnx")
    words = ["probe", str(model), "-o", str(tmp_path / "out.onnx")]
    status, _, errors = _core.command([*words, "--line", at("step")])
    assert status == 1
    assert f"({at('step')})" in errors
    assert f"inside the loop `/Scan` ({at('after')})" in errors
    status, output, errors = _core.command(words)
    assert status == 0
    assert "values as additional outputs" in output
    assert "only values of the main graph can be outputs" in errors


def test_weights_stay_in_their_file_and_the_map_follows(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)

    def fn(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ weights) * 2.0

    model = export(
        fn,
        tmp_path / "model.onnx",
        np.ones((2, 64), np.float32),
        source_map=str(tmp_path / "model.onnx.map"),
        stacktrace_metadata=False,
    )
    onnx.save(
        onnx.load(model), model, save_as_external_data=True, location="weights", size_threshold=0
    )
    said = command("probe", model)
    session = onnxruntime.InferenceSession(tmp_path / "model.probe.onnx")
    assert len(session.get_outputs()) > 1
    assert sorted(path.name for path in tmp_path.iterdir() if "onnx" not in path.name) == [
        "weights"
    ]
    assert "model.probe.onnx.map: the source map" in said
    assert "test_probe.py" in command("show", tmp_path / "model.probe.onnx", "--by", "line")
    status, _, errors = _core.command(["probe", str(model), "-o", str(tmp_path / "sub" / "p.onnx")])
    assert status == 2
    assert "beside it" in errors


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda about, arrays: about.update(model="sha256:00"), "was recorded with another model"),
        (lambda about, arrays: about.update(version="2"), "is not a dump that this version reads"),
        (lambda about, arrays: arrays.update(other=X), "which is not a value"),
        (lambda about, arrays: arrays.pop("x"), "does not have the input `x`"),
    ],
)
def test_dumps_of_something_else_are_errors(
    broken: Callable[[dict[str, str], dict[str, Any]], None],
    message: str,
    probed: Path,
    recorder: ModuleType,
) -> None:
    path = recorded(recorder, probed, {"x": X})
    dump = Dump.read(path)
    about = {"format": "jax2onnx.dump", "version": "1", "model": dump.model}
    arrays = dict(dump.arrays)
    broken(about, arrays)
    recorder.record(path, probed, arrays, "")
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.dumps({**json.loads(data[8 : 8 + length]), "__metadata__": about}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
    with pytest.raises(InvalidInputError, match=message):
        verify(network, probed, dump=path)


@pytest.mark.parametrize("text", [None, b"not a dump", b""])
def test_files_that_are_no_dumps_are_errors(
    text: bytes | None, probed: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(
        InvalidInputError, match=r"cannot read the dump .*run\.safetensors"
    ) as error:
        verify(network, probed, dump=path)
    assert error.value.code == "wrong-dump"
    assert "--recorder" in error.value.help


def test_the_command_compares_a_dump(
    tmp_path: Path,
    recorder: ModuleType,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("halves.py").write_text(
        "import jax.numpy as jnp\n\ndef halve(x):\n    y = jnp.exp(x)\n    return y / (y + 2)\n"
    )
    words = ["--input", "f32[B,8]", "--stacktrace", "sourcemap", "-o", "m.onnx", "--quiet"]
    assert _core.main(["export", "halves.py:halve", *words]) == 0
    # Inputs may be keyword arguments of the function.
    Path("named.py").write_text(
        "def fn(x, y=1, z=2, w=3, *, scale):\n    return x * scale - z * w\n"
    )
    named = ["--input", "z=f32[]", "--input", "w=f32[]", "--input", "scale=f32[]"]
    assert _core.main(["export", "named.py:fn", *words, *named]) == 0
    assert _core.main(["verify", "m.onnx", "--function", "named.py:fn"]) == 0
    assert _core.main(["export", "halves.py:halve", *words]) == 0
    np.savez("x.npz", x=X)
    check = ["verify", "m.onnx", "--function", "halves.py:halve"]
    assert _core.main([*check, "--inputs", "x.npz"]) == 0
    assert _core.main(check) == 0, "with random inputs"
    command("probe", "m.onnx", "--size", "B=4")
    probed = Path("m.probe.onnx")
    dump = recorded(recorder, probed, {"x": X}, faulty(probed, "Exp", becomes("Tanh")))
    capfd.readouterr()
    check = ["verify", str(probed), "--dump", str(dump)]
    assert _core.main([*check, "--function", "halves.py:halve"]) == 1
    printed = capfd.readouterr().out
    assert "  --> halves.py:4:9 in halve\n    4 |     y = jnp.exp(x)\n" in printed
    assert "from inputs values  line" in printed
    assert _core.main(check) == 1
    assert "the reference is onnxruntime on the CPU, not JAX" in capfd.readouterr().out
    assert _core.main(["verify", "m.onnx", "--dump", str(dump)]) == 2
    assert "was recorded with another model" in capfd.readouterr().err
    assert _core.main(["verify", "m.onnx"]) == 2, "there is nothing to compare with"


def test_other_inputs_than_those_of_the_dump_are_an_error(
    probed: Path, recorder: ModuleType
) -> None:
    dump = recorded(recorder, probed, {"x": X})
    assert verify(network, probed, [X], dump=dump)
    with pytest.raises(InvalidInputError, match="was recorded with another input `x`"):
        verify(network, probed, [X + 1], dump=dump)


def test_recorded_inputs_have_the_layout_and_types_of_the_model(
    tmp_path: Path, recorder: ModuleType
) -> None:
    def fn(image: jax.Array, index: jax.Array) -> jax.Array:
        return jnp.tanh(image)[..., index] * 2.0

    image = np.random.default_rng(2).normal(size=(1, 2, 3, 4)).astype(np.float32)
    model = export(
        fn, tmp_path / "model.onnx", image, np.int32(1), inputs_as_nchw=[0], input_names=["a", "i"]
    )
    command("probe", model)
    probed = tmp_path / "model.probe.onnx"
    feeds = {"a": image.transpose(0, 3, 1, 2).copy(), "i": np.array(1, np.int32)}
    dump = recorded(recorder, probed, feeds)
    found = verify(fn, probed, dump=dump, inputs_as_nchw=[0])
    assert found, found.message


ARRAYS = {
    'a "quoted" / name': np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(7, np.int64),
    "flags": np.array([True, False, True]),
    "half": np.array([1.5, -2], np.float16),
    "none": np.zeros((0, 4), np.float64),
    "bytes": np.array([1, 2, 255], np.uint8),
}


def same(path: Path, expected: Mapping[str, np.ndarray]) -> None:
    found = Dump.read(path).arrays
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_the_recorder_for_python(tmp_path: Path, recorder: ModuleType) -> None:
    (tmp_path / "model.onnx").write_bytes(b"a model")
    arrays = {**ARRAYS, "brain": np.ones(3, ml_dtypes.bfloat16)}
    recorder.record(tmp_path / "run", tmp_path / "model.onnx", arrays, "here")
    same(tmp_path / "run", arrays)


def test_the_recorder_for_javascript(tmp_path: Path) -> None:
    (tmp_path / "recorder.mjs").write_text(command("probe", "--recorder", "js"))
    script = tmp_path / "run.mjs"
    script.write_text("""
import { record } from './recorder.mjs';
import { readFileSync, writeFileSync } from 'node:fs';
const kinds = { float32: Float32Array, int64: BigInt64Array, bool: Uint8Array, float16: Uint16Array,
                float64: Float64Array, uint8: Uint8Array };
const tensors = {};
for (const [name, [type, dims, data]] of Object.entries(JSON.parse(readFileSync(0, 'utf8')))) {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  tensors[name] = { type, dims, getData: async () => new kinds[type](bytes.buffer) };
}
const model = new TextEncoder().encode('a model');
writeFileSync('run.safetensors', await record(model, tensors, 'node'));
""")
    given = {
        name: [a.dtype.name, list(a.shape), base64.b64encode(a.tobytes()).decode()]
        for name, a in ARRAYS.items()
    }
    subprocess.run(
        [node(), str(script)], input=json.dumps(given), text=True, cwd=tmp_path, check=True
    )
    same(tmp_path / "run.safetensors", ARRAYS)
    (tmp_path / "model").write_bytes(b"a model")
    assert Dump.read(tmp_path / "run.safetensors").model.startswith("sha256:")


@pytest.mark.slow
def test_the_recorder_for_cpp(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("a C++ compiler is not installed")
    (tmp_path / "recorder.hpp").write_text(command("probe", "--recorder", "cpp"))
    (tmp_path / "main.cpp").write_text(r"""
#include "recorder.hpp"
int main() {
  float floats[] = {0, 1, 2, 3, 4, 5};
  int64_t seven = 7;
  unsigned char flags[] = {1, 0, 1}, bytes[] = {1, 2, 255};
  uint16_t half[] = {0x3e00, 0xc000};
  Dump dump("a \"device\"", "sha256:12");
  dump.add("a \"quoted\" / name", "F32", std::vector<int64_t>{2, 3}, floats, sizeof floats);
  dump.add("scalar", Dump::of_onnx(7), std::vector<size_t>{}, &seven, sizeof seven);
  dump.add("flags", Dump::of_onnx(9), std::vector<int64_t>{3}, flags, sizeof flags);
  dump.add("half", Dump::of_onnx(10), std::vector<int64_t>{2}, half, sizeof half);
  dump.add("none", Dump::of_onnx(11), std::vector<int64_t>{0, 4}, nullptr, 0);
  dump.add("bytes", Dump::of_onnx(2), {3}, bytes, sizeof bytes);
  return dump.write("run.safetensors") ? 0 : 1;
}
""")
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *strict, "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([str(tmp_path / "main")], cwd=tmp_path, check=True)
    same(tmp_path / "run.safetensors", ARRAYS)
    dump = Dump.read(tmp_path / "run.safetensors")
    assert (dump.runtime, dump.model) == ('a "device"', "sha256:12")


def waves(x: jax.Array) -> jax.Array:
    angles = x * 100_000.0  # angles
    encoded = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)  # waves
    return encoded @ jnp.ones((16, 3))  # sum


@pytest.fixture(params=["wasm", "webgpu"])
def web(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, WebPage]]:
    with WebPage(tmp_path, package(), request.param) as opened:
        gpu = "navigator.gpu ? navigator.gpu.requestAdapter().then((a) => a !== null) : false"
        if request.param == "webgpu" and not opened.evaluate(gpu):
            pytest.skip("the browser has no WebGPU, not even in software")
        yield request.param, opened


@pytest.mark.slow
def test_values_of_a_browser_are_compared_by_line(web: tuple[str, WebPage], tmp_path: Path) -> None:
    provider, opened = web
    target = {"wasm": "onnxruntime-web", "webgpu": "webgpu"}[provider]
    model = export(waves, tmp_path / "model.onnx", target=target, source_text=True)
    command("probe", model)
    probed = tmp_path / "model.probe.onnx"
    dump = tmp_path / "run.safetensors"
    text = opened.call(
        "record",
        base64.b64encode(probed.read_bytes()).decode(),
        [["float32", list(X.shape), base64.b64encode(X.tobytes()).decode()]],
        command("probe", "--recorder", "js"),
        provider,
    )
    dump.write_bytes(base64.b64decode(text))
    found = verify(waves, probed, dump=dump)
    assert Dump.read(dump).runtime.startswith("onnxruntime-web ")
    if provider == "wasm":
        assert found, found.message
        return
    # WebGPU requires no accuracy of the sine of large angles.
    assert not found
    assert found.message.startswith("[device-differs] ")
    assert "differs on the device (onnxruntime-web " in found.message
    assert at("waves") in found.place
    assert found.by_line[0].place == f"{at('waves')} in waves"
    (tmp_path / "errors.json").write_text(found.to_json())
    page = view(probed, "--errors", tmp_path / "errors.json")
    with browser(tmp_path) as tab:
        show_page(tab, page)
        marks = f"({line('# waves')}).querySelector('.m').textContent"
        assert "dB" in tab.evaluate(marks), "the line is marked"
        assert tab.errors == []


@pytest.mark.slow
def test_values_of_openvino_are_compared_by_line(
    probed: Path, recorder: ModuleType, tmp_path: Path
) -> None:
    package = ROOT / "build" / "runtimes" / "openvino"
    if not package.is_dir():
        pytest.skip("OpenVINO is not in build/runtimes")
    np.save(tmp_path / "x.npy", X)
    script = f"""
import sys
sys.path.insert(0, {str(Path(recorder.__file__ or "").parent)!r})
import numpy as np
import openvino
from recorder import record
options = {{"INFERENCE_PRECISION_HINT": "f32"}}
compiled = openvino.Core().compile_model({str(probed)!r}, "CPU", options)
feeds = {{"x": np.load({str(tmp_path / "x.npy")!r})}}
results = compiled(feeds)
outputs = {{port.get_any_name(): results[port] for port in compiled.outputs}}
outputs = {{n: a * np.float32(1.01) if "Tanh" in n else a for n, a in outputs.items()}}
record({str(tmp_path / "ov")!r}, {str(probed)!r}, {{**feeds, **outputs}}, "OpenVINO")
"""
    environment = os.environ | {"PYTHONPATH": str(package)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    found = verify(network, probed, dump=tmp_path / "ov")
    assert not found
    assert found.message.startswith("[device-differs] `Tanh` differs on the device (OpenVINO)")
    assert at("result") in found.place
