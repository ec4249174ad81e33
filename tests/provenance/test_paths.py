"""Models reveal nothing about the machine."""

import base64
import os
import re
import socket
import tempfile
import zlib
from pathlib import Path
from typing import Any

import jax
import onnx
import pytest

from harness.provenance_of import JAX_TRACEBACK, STACKTRACE, metadata, of_type, traceback
from jax2onnx import SourceMap

MODULE = """
import jax
import jax.numpy as jnp

scale = [2.0, 3.0]

def helper(x):
    return jnp.sin(x) * 2.0

def model(x):
    return jax.lax.scan(lambda c, v: (c + v, helper(v)), 0.0, x)

def entry(level, **options):
    from jax2onnx import to_onnx
    return to_onnx(model, [(4,)], stacktrace_metadata=level, **options)
"""


def load(folder: Path) -> dict[str, Any]:
    file = folder / "private_model.py"
    file.write_text(MODULE)
    namespace: dict[str, Any] = {"__name__": "private_model"}
    exec(compile(MODULE, str(file), "exec"), namespace)
    return namespace


def written(model: onnx.ModelProto) -> str:
    """Returns all text of a model, with the source map decompressed."""
    parts = [model.SerializeToString()]
    for entry in model.metadata_props:
        packed = entry.value.removeprefix("zlib:")
        if packed != entry.value:
            parts.append(zlib.decompress(base64.b64decode(packed)))
    return b"\n".join(parts).decode("latin-1")


@pytest.mark.parametrize("level", ["minimal", "full", "sourcemap", "map file"])
def test_no_path_of_the_machine_is_written(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    entry = load(tmp_path)["entry"]
    if level == "map file":
        model = entry("full", source_map="model.map", source_text=True)
        model.metadata_props.add(key="map", value=Path("model.map").read_text())
    else:
        model = entry(level)
    text = written(model)
    secrets = {
        str(tmp_path),
        os.path.realpath(tmp_path),
        str(Path.home()),
        os.path.join(tempfile.gettempdir(), ""),
        str(Path(__file__).parents[1]),
    }
    secrets |= {str(Path(module.__file__ or "").parent.parent) for module in (jax, onnx, os)}
    assert not [secret for secret in secrets if secret in text]
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text)
    assert "private_model.py" in text or level == "minimal"


def test_absolute_paths_are_written_when_asked_for(tmp_path: Path) -> None:
    entry = load(tmp_path)["entry"]
    file = str(tmp_path / "private_model.py")
    (node,) = of_type(entry("full", paths="absolute"), "Sin")
    assert any(entry.startswith(f"{file}:") for entry in traceback(node))
    assert any(line.startswith(f"{file}:") for line in metadata(node)[STACKTRACE].split("\n"))
    model = entry("sourcemap", paths="absolute")
    (source,) = SourceMap.load(model).lookup_node(of_type(model, "Sin")[0])
    assert source.site is not None
    assert source.site.file == file


def test_files_below_the_working_directory_keep_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    namespace = load(tmp_path / "deep" / "er")
    monkeypatch.chdir(tmp_path / "deep")
    (node,) = of_type(namespace["entry"]("full"), "Sin")
    line = MODULE.split("\n").index("    return jnp.sin(x) * 2.0") + 1
    own = [entry for entry in traceback(node) if entry.startswith("er/private_model.py:")]
    assert own[0] == f"er/private_model.py:{line} (helper)"
    assert JAX_TRACEBACK in metadata(node)


def test_files_outside_the_working_directory_have_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bob", "alice"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "alice")
    entry = load(tmp_path / "alice" / ".." / "bob")["entry"]
    for level in ("full", "sourcemap"):
        text = written(entry(level))
        assert "private_model.py" in text
        assert "bob" not in text


@pytest.mark.parametrize("level", ["full", "sourcemap"])
def test_no_user_name_is_written_if_the_working_directory_is_the_root(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "alice" / "project"
    (project / "deep").mkdir(parents=True)
    monkeypatch.chdir("/")
    monkeypatch.syspath_prepend("")
    text = written(load(project / "deep")["entry"](level))
    assert "private_model.py" in text
    assert "alice" not in text
    assert "deep/private_model.py" not in text
    (project / "pyproject.toml").touch()
    text = written(load(project / "deep")["entry"](level))
    assert "deep/private_model.py" in text
    assert "alice" not in text
    assert "project/deep" not in text


@pytest.mark.parametrize(
    "name",
    [
        "/home/alice/none.py",
        "../alice/none.py",
        "<made from /home/alice/none.html>",
        r"alice\none.py",
    ],
)
def test_no_user_name_is_written_for_code_of_no_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path, Path("/")):
        monkeypatch.chdir(folder)
        namespace: dict[str, Any] = {"__name__": "private_model"}
        exec(compile(MODULE, name, "exec"), namespace)
        text = written(namespace["entry"]("sourcemap"))
        assert "none" in text
        assert "alice" not in text
