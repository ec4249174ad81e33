"""Recorded programs: `jax2onnx convert` produces the same model from them, without Python."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

from jax2onnx import InvalidInputError, UnsupportedError, local_lowerings, lowering, to_onnx
from models import catalogue


def convert(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jax2onnx", "convert", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def both(tmp_path: Path, fn: Any, inputs: Any, **options: Any) -> tuple[bytes, bytes, str]:
    """Returns the exported model, the model converted from its recording, and the notes."""
    exported, again = tmp_path / "exported.onnx", tmp_path / "again.onnx"
    record = tmp_path / "model.jaxpr"
    options = {"record": record, "record_weights": True, **options}
    to_onnx(fn, inputs, return_mode="file", output_path=exported, export_mode="web", **options)
    done = convert(record, "-o", again, "--self-contained")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return exported.read_bytes(), again.read_bytes(), done.stderr


def loops(x: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.sin(carry) + row, carry * (1 + 2j)

    carry, rows = lax.scan(step, x[0], x)
    noise = jax.random.normal(jax.random.wrap_key_data(key), (4,))
    return carry + noise, rows


LOOPS = [jax.ShapeDtypeStruct((3, 4), jnp.complex64), jax.ShapeDtypeStruct((2,), jnp.uint32)]


@pytest.mark.parametrize("detail", [False, "minimal", "full", "sourcemap"])
def test_the_model_is_the_same(tmp_path: Path, detail: Any) -> None:
    exported, again, said = both(tmp_path, loops, LOOPS, stacktrace_metadata=detail)
    assert exported == again
    assert said == ""


@pytest.mark.parametrize("name", ["nnx/cnn", "equinox/moe", "nnx/gpt_step"])
@pytest.mark.parametrize("functions", ["decorated", "modules"])
def test_models_of_frameworks_are_the_same(tmp_path: Path, name: str, functions: str) -> None:
    fn, inputs = catalogue.build(name)
    exported, again, _ = both(tmp_path, fn, inputs, functions=functions, stacktrace_metadata="full")
    assert exported == again


def test_options_are_part_of_the_recording(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "model_name": 'a "model"',
        "opset": 21,
        "inputs_as_nchw": [0],
        "outputs_as_nchw": [0],
        "input_names": ["image"],
        "output_names": ["edges"],
        "stacktrace_metadata": "full",
        "source_map": tmp_path / "exported.map",
        "source_text": True,
        "paths": "absolute",
    }
    exported, again, _ = both(tmp_path, jnp.sin, [("B", "2*N", 8, 3)], **options)
    assert exported == again
    map_again = tmp_path / "again.map"
    record = tmp_path / "model.jaxpr"
    assert convert(record, "-o", tmp_path / "m.onnx", "--map", map_again).returncode == 0
    assert map_again.read_bytes() == (tmp_path / "exported.map").read_bytes()


def test_weights_stay_at_home_unless_asked_for(tmp_path: Path) -> None:
    fn, inputs = catalogue.build("nnx/gpt_step")
    exported, again, said = both(tmp_path, fn, inputs, record_weights=False)
    assert "recorded without weights" in said
    assert len((tmp_path / "model.jaxpr").read_text()) < len(exported) / 2
    models = [onnx.load_from_string(data) for data in (exported, again)]
    [note] = [p.value for p in models[1].metadata_props if p.key == "pkg.jax2onnx.weights"]
    assert "made-up values" in note
    # Only the values differ: no two weights were merged, and none was taken for zero.
    for model in models:
        del model.metadata_props[:]
        for tensor in model.graph.initializer:
            if np.prod(tensor.dims) * 4 > 64:
                tensor.ClearField("raw_data")
    first, second = models
    assert [n.SerializeToString() for n in first.graph.node] == [
        n.SerializeToString() for n in second.graph.node
    ]
    named = [{t.name: tuple(t.dims) for t in m.graph.initializer} for m in models]
    assert named[0] == named[1]


def test_a_program_that_cannot_be_converted_is_recorded(tmp_path: Path) -> None:
    def calls_back(x: jax.Array) -> jax.Array:
        return jax.pure_callback(np.sin, x, x)

    record = tmp_path / "folder" / "model.jaxpr"
    with pytest.raises(UnsupportedError) as raised:
        to_onnx(calls_back, [(2,)], record=record)
    done = convert(record, "-o", tmp_path / "model.onnx")
    assert done.returncode == 1
    assert done.stderr.startswith("UnsupportedError[unsupported-primitive] `pure_callback`")
    assert "test_record.py:" in done.stderr
    assert "in test_a_program_that_cannot_be_converted_is_recorded.<locals>.calls_back" in (
        done.stderr
    )
    assert str(raised.value).splitlines()[0] in done.stderr
    assert not (tmp_path / "model.onnx").exists()


def test_rules_of_users_cannot_be_recorded(tmp_path: Path) -> None:
    record = tmp_path / "model.jaxpr"
    with local_lowerings():
        lowering("sin", override=True)(lambda cx, x: [cx.op("Cos", x)])
        to_onnx(jnp.sin, [(2,)], record=record)
    done = convert(record, "-o", tmp_path / "model.onnx")
    assert done.returncode == 2
    assert "`sin` is lowered by rules written in Python" in done.stderr


def test_a_recording_does_not_describe_the_machine(tmp_path: Path) -> None:
    record = tmp_path / "model.jaxpr"
    to_onnx(loops, LOOPS, record=record)
    assert str(Path(__file__).parents[1]) not in record.read_text()
    assert '"loops"' in record.read_text()


def test_wrong_options() -> None:
    with pytest.raises(InvalidInputError, match="no effect without `record`"):
        to_onnx(jnp.sin, [(2,)], record_weights=True)
    with pytest.raises(InvalidInputError, match="`record` needs a file name"):
        to_onnx(jnp.sin, [(2,)], record="/dev/null/model.jaxpr")


def test_export_records(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import jax.numpy as jnp\n\ndef net(x):\n    return jnp.sin(x)\n"
    )
    command = [sys.executable, "-m", "jax2onnx", "export", "model.py:net", "--input=f32[2]", "-q"]
    command += ["--record=net.jaxpr", "--record-weights"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert convert(tmp_path / "net.jaxpr", "-o", tmp_path / "again.onnx").returncode == 0
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "net.onnx").read_bytes()
