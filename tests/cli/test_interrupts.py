"""Commands that wait for a pipe."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

from jax2onnx import to_onnx

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows does not have such pipes")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    to_onnx(jnp.sin, [(2,)], return_mode="file", output_path=str(path))
    return path


# A process in the background of a shell ignores interrupts.
RUN = """
import signal, sys
from jax2onnx.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def test_a_command_that_waits_for_its_input_can_be_interrupted(model: Path) -> None:
    pipe = model.parent / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", RUN, "explain", str(model), str(pipe)]
    # Opening the pipe waits until the command reads it.
    with subprocess.Popen(command) as process, pipe.open("w"):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT


def test_a_pipe_is_not_a_source_map(model: Path) -> None:
    pipe = model.parent / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "jax2onnx", "show", str(model), "--map", str(pipe)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "pipe: it is not a regular file" in done.stderr
