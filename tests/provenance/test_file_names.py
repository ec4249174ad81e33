"""Files are named as Python imports them, and no two files share a name."""

import ast
import importlib
import linecache
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from jax2onnx import InvalidInputError, SourceMap, _core, to_onnx
from jax2onnx._core import main

LAYER = """
import jax.numpy as jnp


def apply(x):
    return jnp.{function}(x)
"""


def sources(model: onnx.ModelProto, op: str) -> tuple[str, int]:
    (node,) = [node for node in model.graph.node if node.op_type == op]
    site = SourceMap.load(model).lookup(node.name)[0].site
    assert site is not None
    return site.file, site.line


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Creates a project with two files of the same name, and enters its folder of scripts."""
    for folder, function in (("a", "sin"), ("b", "cos")):
        package = tmp_path / "src" / "a_project_of_mine" / folder
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "layers.py").write_text(LAYER.format(function=function))
    (tmp_path / "src" / "a_project_of_mine" / "__init__.py").touch()
    (tmp_path / "scripts").mkdir()
    monkeypatch.chdir(tmp_path / "scripts")
    monkeypatch.syspath_prepend(tmp_path / "src")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("a_project_of_mine")]:
        del sys.modules[name]


def both(x: Any) -> Any:
    first = importlib.import_module("a_project_of_mine.a.layers")
    second = importlib.import_module("a_project_of_mine.b.layers")
    return first.apply(second.apply(x))


@pytest.mark.usefixtures("project")
def test_two_files_of_one_name_are_two_files() -> None:
    model = to_onnx(both, [(2,)], stacktrace_metadata="sourcemap")
    assert sources(model, "Sin") == ("a_project_of_mine/a/layers.py", 6)
    assert sources(model, "Cos") == ("a_project_of_mine/b/layers.py", 6)


def test_explain_shows_the_line_of_the_right_file(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = project / "scripts" / "model.onnx"
    to_onnx(
        both, [(2,)], stacktrace_metadata="sourcemap", return_mode="file", output_path=str(path)
    )
    for op, code in (("Sin", "jnp.sin(x)"), ("Cos", "jnp.cos(x)")):
        failed = f"Non-zero status code returned while running {op} node. "
        log = f"{failed}Name:'/{op}' Status Message: no"
        (project / "log.txt").write_text(log)
        assert main(["explain", str(path), str(project / "log.txt")]) == 0
        assert code in capfd.readouterr().out


@pytest.mark.usefixtures("project")
def test_files_that_no_import_names_keep_apart(tmp_path: Path) -> None:
    functions = []
    for folder, function in (("x", "sin"), ("y", "cos")):
        path = tmp_path / folder / "layers.py"
        path.parent.mkdir()
        path.write_text(LAYER.format(function=function))
        namespace: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), namespace)
        functions.append(namespace["apply"])
    first, second = functions
    model = to_onnx(lambda x: first(second(x)), [(2,)], stacktrace_metadata="sourcemap")
    names = {sources(model, "Sin")[0], sources(model, "Cos")[0]}
    assert names == {"layers.py", "layers.py (2)"}


CELL = (
    "import jax.numpy as jnp, jax2onnx\ndef cell(x):\n    return jnp.sin(x)\n"
    "exported = jax2onnx.export(cell, (2,))\nexported\n"
)


def _cell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the names that are defined in the seventh cell of a notebook."""
    text = CELL
    path = "/tmp/ipykernel_12/3364276556.py"
    monkeypatch.setitem(linecache.cache, path, (len(text), None, text.splitlines(True), path))
    compiler = types.SimpleNamespace(_filename_map={path: 7})
    shell = types.SimpleNamespace(compile=compiler)
    notebook: Any = types.ModuleType("IPython")
    notebook.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    namespace: dict[str, Any] = {}
    for statement in ast.parse(text).body:  # as notebooks do
        exec(compile(ast.Module([statement], []), path, "exec"), namespace)
    return namespace


def test_errors_show_the_text_of_notebook_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = _cell(monkeypatch)["cell"]
    model = to_onnx(cell, [(2,)], stacktrace_metadata="sourcemap")
    said = _core.explain(model.SerializeToString(), model.graph.node[0].name)
    assert said is not None
    assert "In [7]:3" in said
    assert "return jnp.sin(x)" in said


def test_errors_about_arguments_name_notebook_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = _cell(monkeypatch)["cell"]
    with pytest.raises(InvalidInputError, match=r"--> In \[7\]:2 in cell"):
        to_onnx(cell, [(2,), (2,)])


def test_a_notebook_cell_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    names = _cell(monkeypatch)
    model = to_onnx(names["cell"], [(2,)], stacktrace_metadata="sourcemap", source_text=True)
    assert sources(model, "Sin") == ("In [7]", 3)
    files = SourceMap.load(model)
    assert "ipykernel" not in str(files.lookup(model.graph.node[0].name))
    assert written_text(model, "In [7]") == CELL
    assert "return jnp.sin(x)" in names["exported"].view().content


def test_code_in_an_archive_keeps_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_layers.py", LAYER.format(function="sin"))
    monkeypatch.syspath_prepend(str(archive))
    monkeypatch.chdir(tmp_path)
    layers = importlib.import_module("zipped_layers")
    try:
        model = to_onnx(layers.apply, [(2,)], stacktrace_metadata="sourcemap", source_text=True)
    finally:
        del sys.modules["zipped_layers"]
    name, line = sources(model, "Sin")
    assert (name.rsplit("/", 1)[-1], line) == ("zipped_layers.py", 6)
    assert written_text(model, name) == LAYER.format(function="sin")


def written_text(model: onnx.ModelProto, file: str) -> str | None:
    """Returns the text of a file in the model's source map."""
    import base64
    import json
    import zlib

    (text,) = [p.value for p in model.metadata_props if p.key == "pkg.jax2onnx.sourcemap"]
    if text.startswith("zlib:"):
        text = zlib.decompress(base64.b64decode(text.removeprefix("zlib:"))).decode()
    files: list[tuple[str, str | None, str | None]] = json.loads(text)["files"]
    return next(content for name, _, content in files if name == file)
