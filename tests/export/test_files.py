"""Model files: reproducible to the byte, and replaced atomically."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from harness.checking import assert_close, run
from jax2onnx import to_onnx
from jax2onnx._export import result
from models.nnx.cnn import cnn
from models.nnx.gpt import gpt


def export(fn: Any, args: Any, path: Path, **options: Any) -> Path:
    return Path(to_onnx(fn, args, return_mode="file", output_path=path, **options))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def external(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores weights in a data file, regardless of their size."""
    monkeypatch.setitem(result.PLACEMENT, False, "external")


@pytest.mark.slow
@pytest.mark.usefixtures("external")
def test_weights_in_a_data_file(tmp_path: Path) -> None:
    model, args = gpt()
    path = export(model, args, tmp_path / "m.onnx")
    assert {*contents(tmp_path)} == {"m.onnx", "m.onnx.data"}
    onnx.checker.check_model(path, full_check=True)
    assert_close(run(str(path), args), [model(*args)])


@pytest.mark.usefixtures("external")
def test_a_model_for_the_web_is_one_file(tmp_path: Path) -> None:
    model, args = gpt()
    path = export(model, args, tmp_path / "m.onnx", export_mode="web")
    assert {*contents(tmp_path)} == {"m.onnx"}
    assert_close(run(str(path), args), [model(*args)])


@pytest.mark.usefixtures("external")
def test_a_model_may_be_exported_over_another(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    export(*gpt(), path)
    first = contents(tmp_path)
    model, args = cnn()
    export(model, args, path)
    assert_close(run(str(path), args), [model(*args)])
    export(*gpt(), path)
    assert contents(tmp_path) == first


def test_the_same_call_gives_the_same_bytes(tmp_path: Path) -> None:
    model, args = gpt()
    first = export(model, args, tmp_path / "a.onnx", stacktrace_metadata=True).read_bytes()
    model(*args)
    again = export(model, args, tmp_path / "a.onnx", stacktrace_metadata=True).read_bytes()
    assert first == again


SCRIPT = """
import sys
import jax
from jax2onnx import to_onnx
from models.nnx.gpt import gpt
model, args = gpt()
if sys.argv[2] == "warm":
    jax.jit(lambda *args: model(*args))(*args)
    jax.make_jaxpr(model)(*args)
    to_onnx(jax.vmap(model), [jax.numpy.stack([args[0], args[0]])], stacktrace_metadata="full")
to_onnx(
    model, args, return_mode="file", output_path=sys.argv[1], stacktrace_metadata="full"
)
"""


@pytest.mark.slow
def test_every_process_gives_the_same_bytes(tmp_path: Path) -> None:
    """The bytes depend neither on the hash seed nor on earlier work."""
    (tmp_path / "script.py").write_text(SCRIPT)
    found = set()
    for seed, state in (("1", "cold"), ("2", "cold"), ("3", "warm")):
        path = tmp_path / f"{seed}.onnx"
        subprocess.run(
            [sys.executable, str(tmp_path / "script.py"), str(path), state],
            check=True,
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": str(Path(__file__).parents[1]),
                "PYTHONWARNINGS": "error",
            },
        )
        found.add(path.read_bytes())
    assert len(found) == 1


EXPORTS_FOR_EVER = textwrap.dedent(
    """
    import sys
    import jax.numpy as jnp
    from jax2onnx import to_onnx
    from jax2onnx._export import result
    result.PLACEMENT[False] = sys.argv[2]
    count = 0
    while True:
        count += 1
        w = jnp.full((1024, 1024), float(count))
        to_onnx(lambda x: x @ w, [(1, 1024)], return_mode="file", output_path=sys.argv[1])
        print(count, flush=True)
    """
)


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["inline", "external"])
def test_a_killed_export_leaves_a_whole_model(placement: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    random = np.random.default_rng(0)
    for _ in range(3):
        command = [sys.executable, "-c", EXPORTS_FOR_EVER, str(path), placement]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "1"
            time.sleep(random.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
        (found,) = run(str(path), [jnp.ones((1, 1024))])
        value = found.flat[0] / 1024
        assert value == round(value) >= 1
        np.testing.assert_array_equal(found, np.full((1, 1024), found.flat[0], np.float32))


KILLED_BETWEEN = textwrap.dedent(
    """
    import os, signal, sys
    import jax.numpy as jnp
    from jax2onnx import to_onnx
    from jax2onnx._export import result

    def export(fn):
        path = sys.argv[1]
        to_onnx(fn, [(2,)], return_mode="file", output_path=path, source_map=path + ".map")

    def save(*args, **options):
        if sys.argv[2] == "after":
            whole(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    export(lambda x: jnp.sin(x))
    whole, result.save = result.save, save
    export(lambda x: jnp.exp(jnp.cos(x)))
    """
)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not have signals")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_export_leaves_a_model_with_its_map(when: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    killed = subprocess.run([sys.executable, "-c", KILLED_BETWEEN, str(path), when], check=False)
    assert killed.returncode == -signal.SIGKILL
    shown = subprocess.run(
        [sys.executable, "-m", "jax2onnx", "show", str(path), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert shown.stderr == ""
    nodes = json.loads(shown.stdout)["nodes"]
    assert [node["op"] for node in nodes] == (["Sin"] if when == "before" else ["Cos", "Exp"])
    assert all(node["sources"] for node in nodes)
    # The next export removes everything else.
    export(jnp.tan, [(2,)], path, source_map=str(path) + ".map")
    assert sorted(contents(tmp_path)) == ["m.onnx", "m.onnx.map"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not have such links")
def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    (tmp_path / "link.map").symlink_to("m.map")
    export(jnp.tan, [(2,)], tmp_path / "link.onnx", source_map=str(tmp_path / "link.map"))
    links = sorted(path.name for path in tmp_path.iterdir() if path.is_symlink())
    assert links == ["link.map", "link.onnx"]
    assert sorted(contents(tmp_path)) == ["link.map", "link.onnx", "m.map", "m.onnx"]


READS_FOR_EVER = textwrap.dedent(
    """
    import fcntl, os, sys
    import onnx

    def load(path):
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_SH)
            return onnx.load(path)
        finally:
            os.close(folder)

    for _ in range(int(sys.argv[2])):
        (tensor,) = load(sys.argv[1]).graph.initializer
        values = onnx.numpy_helper.to_array(tensor)
        assert (values == values.shape[1]).all(), values
    """
)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not have locks of folders")
@pytest.mark.usefixtures("external")
def test_a_reader_that_locks_the_folder_sees_a_pair(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"

    def save(columns: int) -> None:
        w = jnp.full((64, columns), float(columns))
        export(lambda x: x @ w, [(1, 64)], path)

    save(64)
    command = [sys.executable, "-c", READS_FOR_EVER, str(path), "300"]
    with subprocess.Popen(command) as reader:
        columns = 64
        while reader.poll() is None:
            columns = 64 + (columns + 1) % 64
            save(columns)
    assert reader.returncode == 0


INTERRUPTS_ITSELF = textwrap.dedent(
    """
    import os, signal, sys, threading
    import jax.numpy as jnp
    from jax2onnx import to_onnx
    from jax2onnx._export import result

    def export(value, columns):
        w = jnp.full((64, columns), value)
        to_onnx(lambda x: x @ w, [(1, 64)], return_mode="file", output_path=sys.argv[1])

    class Placement(dict):
        def __getitem__(self, key):
            # The other thread can go on as soon as this one lets it, which is while it writes.
            writing.release()
            return sys.argv[2]

    def interrupt():
        with writing:
            os.kill(os.getpid(), signal.SIGINT)

    result.PLACEMENT[False] = sys.argv[2]
    export(1.0, 64)
    # A shell may have started the tests in the background, where it ignores the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    writing = threading.Lock()
    writing.acquire()
    threading.Thread(target=interrupt).start()
    sys.setswitchinterval(1000)
    result.PLACEMENT = Placement()
    try:
        export(2.0, 1 << 20)
    except KeyboardInterrupt:
        print("interrupted")
    """
)


@pytest.mark.parametrize("placement", ["inline", "external"])
def test_an_interrupted_export_leaves_the_old_model(placement: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    command = [sys.executable, "-c", INTERRUPTS_ITSELF, str(path), placement]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout == "interrupted\n", done.stderr
    (found,) = run(str(path), [jnp.ones((1, 64))])
    np.testing.assert_array_equal(found, np.full((1, 64), 64, np.float32))
    files = {"m.onnx", "m.onnx.data"} if placement == "external" else {"m.onnx"}
    assert {*contents(tmp_path)} == files
