"""Files that are edited between their import and the export: no line of another text is shown."""

import base64
import importlib
import json
import linecache
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import onnx
import pytest

from jax2onnx import UnsupportedError, to_onnx, verify
from jax2onnx._core import main

BEFORE = """\
import jax.numpy as jnp


def apply(x):
    y = jnp.sin(x)
    return y * 2.0


def other(x):
    return jnp.tan(x)
"""

EDITED = {
    "a line above": "# a comment\n" + BEFORE,
    "another function": BEFORE.replace("sin", "cos"),
    "another constant": BEFORE.replace("2.0", "3.0"),
    "another operator": BEFORE.replace("y * 2.0", "y + 2.0"),
    "another column": BEFORE.replace("jnp.sin(x)", "jnp.sin( x)"),
    "not Python": BEFORE.replace("def apply(x):", "def apply(x"),
}

HARMLESS = {
    "a function below": BEFORE.replace("tan", "sinh"),
    "a comment at the end": BEFORE + "# the end\n",
}

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Writes and imports a module in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = []

    def load(text: str = BEFORE, name: str = "a_module_that_is_edited") -> ModuleType:
        Path(f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        linecache.cache.pop(str(tmp_path / f"{name}.py"), None)
        loaded.append(name)
        return importlib.import_module(name)

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


def path_of(module: ModuleType) -> Path:
    assert module.__file__ is not None
    return Path(module.__file__)


def export(module: ModuleType, **options: Any) -> onnx.ModelProto:
    options = {"stacktrace_metadata": "sourcemap", "source_text": True, **options}
    return to_onnx(module.apply, [(2,)], **options)


def files(model: onnx.ModelProto) -> tuple[dict[str, list[str | None]], list[str]]:
    """Returns the user's files in the map, with digests and texts, and the edited files."""
    (text,) = [p.value for p in model.metadata_props if p.key == "pkg.jax2onnx.sourcemap"]
    if text.startswith("zlib:"):
        text = zlib.decompress(base64.b64decode(text.removeprefix("zlib:"))).decode()
    tables = json.loads(text)
    found = {name: rest for name, *rest in tables["files"] if name.startswith("a_module")}
    return found, [tables["files"][at][0] for at in tables.get("edited", [])]


@pytest.mark.parametrize("how", EDITED)
def test_an_edited_file_has_no_text(how: str, load: Load, capfd: Any) -> None:
    module = load()
    path_of(module).write_text(EDITED[how])
    model = export(module)
    name = "a_module_that_is_edited.py"
    assert files(model) == ({name: [None, None]}, [name])
    onnx.save(model, "model.onnx")
    wrong = EDITED[how].splitlines()[4]
    for command in (
        ["show", "model.onnx", "--by", "line"],
        ["show", "model.onnx", "--node", "/Sin"],
        ["view", "model.onnx", "--out", "page.html"],
    ):
        main(command)
        shown = "".join(capfd.readouterr())
        if command[0] == "view":
            shown += Path("page.html").read_text()
        assert "was edited after Python had loaded it" in shown, command
        assert wrong.strip() not in shown, command
    Path("log.txt").write_text(
        "Non-zero status code returned while running Sin node. Name:'/Sin' Status Message: no"
    )
    main(["explain", "model.onnx", "log.txt"])
    shown = "".join(capfd.readouterr())
    assert "no source line: `a_module_that_is_edited.py` was edited" in shown
    assert wrong.strip() not in shown


@pytest.mark.parametrize("how", HARMLESS)
def test_lines_that_are_unchanged_keep_their_text(how: str, load: Load) -> None:
    module = load()
    path_of(module).write_text(HARMLESS[how])
    found, edited = files(export(module))
    assert edited == []
    assert found["a_module_that_is_edited.py"][1] == HARMLESS[how]


def test_an_unchanged_file_keeps_its_text(load: Load) -> None:
    found, edited = files(export(load()))
    assert edited == []
    assert found["a_module_that_is_edited.py"][1] == BEFORE


def test_a_text_that_was_read_before_the_edit_is_used(load: Load, capfd: Any) -> None:
    module = load()
    assert linecache.getline(str(path_of(module)), 5).strip() == "y = jnp.sin(x)"
    path_of(module).write_text(EDITED["another function"])
    model = export(module)
    found, edited = files(model)
    assert edited == []
    assert found["a_module_that_is_edited.py"][1] == BEFORE
    onnx.save(model, "model.onnx")
    main(["show", "model.onnx", "--by", "line"])
    assert "y = jnp.sin(x)" in capfd.readouterr().out


def test_a_deleted_file_is_not_an_edited_one(load: Load) -> None:
    module = load()
    path_of(module).unlink()
    assert files(export(module)) == ({"a_module_that_is_edited.py": [None, None]}, [])


def test_an_archive_that_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(text: str) -> None:
        with zipfile.ZipFile(tmp_path / "app.zip", "w", zipfile.ZIP_STORED) as file:
            file.writestr("a_module_in_an_archive.py", text)

    write(BEFORE)
    monkeypatch.syspath_prepend(str(tmp_path / "app.zip"))
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("a_module_in_an_archive")
    write(EDITED["another function"])
    try:
        model = export(module)
    finally:
        del sys.modules["a_module_in_an_archive"]
    (text,) = [p.value for p in model.metadata_props if p.key == "pkg.jax2onnx.sourcemap"]
    packed = base64.b64decode(text.removeprefix("zlib:"))
    tables = json.loads(zlib.decompress(packed) if text.startswith("zlib:") else text)
    edited = [tables["files"][at][0] for at in tables["edited"]]
    assert edited == ["app.zip/a_module_in_an_archive.py"]


def test_code_compiled_under_the_name_of_another_file(load: Load) -> None:
    module = load()
    namespace: dict[str, Any] = {}
    exec(compile(EDITED["another function"], path_of(module), "exec"), namespace)
    model = to_onnx(namespace["apply"], [(2,)], stacktrace_metadata="sourcemap")
    assert files(model)[1] == ["a_module_that_is_edited.py"]


def test_code_that_an_import_hook_rewrote_keeps_its_text() -> None:
    def function(x: jax.Array) -> jax.Array:
        assert x.shape == (2,)
        y = jnp.sin(
            x,
        )
        assert y.ndim == 1, y
        return y

    model = to_onnx(function, [(2,)], stacktrace_metadata="sourcemap", source_text=True)
    (text,) = [p.value for p in model.metadata_props if p.key == "pkg.jax2onnx.sourcemap"]
    tables = json.loads(zlib.decompress(base64.b64decode(text.removeprefix("zlib:"))))
    assert "edited" not in tables
    texts = {name: text for name, _, text in tables["files"]}
    assert texts["tests/provenance/test_edited_files.py"] == Path(__file__).read_text()


FAILS = """\
import jax


def apply(x):
    y = jax.pure_callback(lambda a: a, x, x)
    return y
"""


def test_errors_do_not_quote_another_text(load: Load) -> None:
    module = load(FAILS, "a_module_that_fails")
    with pytest.raises(UnsupportedError) as error:
        to_onnx(module.apply, [(2, 2)])
    assert "y = jax.pure_callback(lambda a: a, x, x)" in str(error.value)
    linecache.clearcache()
    path_of(module).write_text(FAILS.replace("lambda a: a, x, x", "len, x, x"))
    with pytest.raises(UnsupportedError) as error:
        to_onnx(module.apply, [(2, 2)])
    assert "a_module_that_fails.py:5" in str(error.value)
    assert "len" not in str(error.value)
    assert "was edited after Python had loaded it" in str(error.value)


def test_verify_does_not_quote_another_text(load: Load) -> None:
    module = load()
    path_of(module).write_text(EDITED["another function"])
    model = export(module)
    for node in model.graph.node:
        if node.op_type == "Sin":
            node.op_type = "Cos"
    answer = verify(module.apply, model, [jnp.ones(2)])
    assert not answer
    assert "a_module_that_is_edited.py:5" in answer.message
    assert "jnp.cos" not in answer.message
