"""Performs a new user's first steps with the installed package: export, compare, show, explain,
complete.

`scripts/check_packages.py` runs it in fresh environments. It must not be able to import anything
from the repository.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = """\
import jax.numpy as jnp


def predict(x):
    return jnp.tanh(x @ jnp.ones((3, 2))) * 2.0
"""

MESSAGE = (
    "[E:onnxruntime] Non-zero status code returned while running Tanh node. Name:'/Tanh' "
    "Status Message: out of memory"
)


def jax2onnx(*arguments: str, status: int = 0) -> str:
    command = shutil.which("jax2onnx", path=str(Path(sys.executable).parent))
    assert command, "the package has installed no command"
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout


def main() -> None:
    import jax2onnx as package

    assert "site-packages" in package.__file__, package.__file__
    Path("model.py").write_text(MODEL)
    jax2onnx("export", "model.py:predict", "--input=f32[B,3]", "--stacktrace=sourcemap")
    shown = jax2onnx("show", "predict.onnx")
    assert "model.py:5" in shown, shown
    explained = jax2onnx("explain", "predict.onnx", MESSAGE)
    assert "--> model.py:5" in explained, explained
    jax2onnx("view", "predict.onnx", "-o", "predict.html")
    assert "<script" in Path("predict.html").read_text()
    assert "complete" in jax2onnx("completions", "bash")
    report = json.loads(jax2onnx("doctor", "--json"))
    assert report["version"] == package.__version__, report
    assert report["python"]["problems"] == [], report
    subprocess.run([sys.executable, "-m", "jax2onnx", "--version"], check=True)

    import numpy as np
    from model import predict

    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    same, message = package.allclose(predict, "predict.onnx", [x])
    assert same, message
    print(f"Python {sys.version.split()[0]}: works")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        import os

        os.chdir(folder)
        sys.path.insert(0, folder)
        main()
        os.chdir("/")
