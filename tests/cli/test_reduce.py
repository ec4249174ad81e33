import json
from pathlib import Path

import numpy as np
import pytest

from jax2onnx import _core

SOURCE = """
import jax.numpy as jnp
import jax2onnx


@jax2onnx.lowering("tanh", override=True)
def wrong(ctx, x):
    return ctx.op("Sin", x)


def network(x):
    return jnp.exp(jnp.tanh(x * 2)).sum(0)
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "network.py"
    path.write_text(SOURCE)
    np.savez(tmp_path / "x.npz", x=np.ones((2, 3), np.float32))
    return path


def test_a_function_is_reduced(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import jax2onnx

    with jax2onnx.local_lowerings():
        assert (
            _core.main(["reduce", f"{model.name}:network", "--inputs", "x.npz", "-o", "out"]) == 0
        )
        printed = capfd.readouterr().out
        status = _core.main(["reduce", f"{model.name}:network", "-i", "f32[2,3]", "--json"])
    assert status == 0
    assert "a = lax.tanh(x0)" in printed
    assert "# network.py:12  return jnp.exp(jnp.tanh(x * 2)).sum(0)" in printed
    assert "verdict  the lowering rule `tanh`" in printed
    assert Path("out/program.py").read_text() in printed
    assert {"model.onnx", "program.jaxpr"} <= {path.name for path in Path("out").iterdir()}
    data = json.loads(capfd.readouterr().out)
    assert data["verdict"]["name"] == "tanh"
    assert data["equations"][1] == 1


def test_the_conversion_has_the_options_of_export(
    model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model.write_text("import jax.numpy as jnp\ndef f(x): return jnp.sin(x * 2) @ x\n")
    command = ["reduce", f"{model.name}:f", "-i", "f32[64,64]", "--rtol", "1e-6", "--atol", "1e-6"]
    assert _core.main(command) == 1
    assert "there is nothing to reduce" in capfd.readouterr().err
    assert _core.main([*command, "--compute-dtype", "float16", "--json"]) == 0
    assert "compute='float16'" in json.loads(capfd.readouterr().out)["program"]
    assert _core.main([*command, "--compute-dtype", "int9"]) == 2
    assert "`--compute-dtype`" in capfd.readouterr().err


def test_nothing_to_reduce(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fine.jaxpr"
    path.write_text("{ lambda ; a:f32[2]. let\n    b:f32[2] = sin a\n  in (b,) }")
    assert _core.main(["reduce", str(path)]) == 1
    assert "there is nothing to reduce" in capfd.readouterr().err
    assert _core.main(["reduce", str(path), "-i", "f32[2]"]) == 2
    assert "a recording, which has its own inputs" in capfd.readouterr().err
    assert _core.main(["reduce", str(tmp_path / "none.jaxpr")]) == 2
    assert "cannot read" in capfd.readouterr().err
