"""The format of the source map, as specified in `docs/source-map.md`: schema, vectors, and a reader
that was written from that document alone.
"""

import base64
import importlib.util
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import jsonschema
import pytest

import jax2onnx
from jax2onnx import _core, to_onnx

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "source-map.schema.json").read_text())
VECTORS = json.loads((DOCS / "source-map.vectors.json").read_text())
FIELDS = ("file", "function", "line", "column", "end_line", "end_column")


def _reader() -> ModuleType:
    """Returns the reader that others may copy. It imports nothing but the standard library."""
    spec = importlib.util.spec_from_file_location("reader", DOCS / "source_map_reader.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["reader"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reader = _reader()


def decoded(text: str) -> dict[str, Any]:
    text = text.strip()
    if text.startswith("zlib:"):
        text = zlib.decompress(base64.b64decode(text[5:], validate=True)).decode()
    return json.loads(text)


def as_data(source: Any) -> dict[str, Any]:
    def frame(one: Any) -> dict[str, Any]:
        return {field: getattr(one, field) for field in FIELDS}

    return {
        "site": frame(source.site) if source.site else None,
        "scope": source.scope,
        "rule": source.rule,
        "stack": [frame(one) for one in source.stack],
        "callers": [[frame(one) for one in stack] for stack in source.callers],
    }


def test_the_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("vector", VECTORS["valid"], ids=lambda v: v["name"])
def test_valid_maps(vector: dict[str, Any]) -> None:
    tables = decoded(vector["text"])
    jsonschema.validate(tables, SCHEMA)
    theirs, ours = reader.SourceMap(vector["text"]), _core.SourceMap.parse(vector["text"])
    for name, expected in vector["lookups"].items():
        assert [as_data(source) for source in theirs.lookup(name)] == expected, name
        assert [as_data(source) for source in ours.lookup(name)] == expected, name


@pytest.mark.parametrize("vector", VECTORS["invalid"], ids=lambda v: v["name"])
def test_invalid_maps(vector: dict[str, Any]) -> None:
    with pytest.raises(jax2onnx.InvalidInputError, match="source map"):
        _core.SourceMap.parse(vector["text"])
    with pytest.raises(reader.SourceMapError):
        reader.SourceMap(vector["text"])


def test_exported_maps_follow_the_document() -> None:
    @jax.jit
    def inner(x):
        return jnp.sin(x) @ jnp.ones((2, 2)) + 1.0

    @jax2onnx.onnx_function
    def twice(x):
        return jnp.cos(inner(x))

    model = to_onnx(lambda x: twice(twice(x)), [("B", 2)], stacktrace_metadata="sourcemap")
    (text,) = [p.value for p in model.metadata_props if p.key == "pkg.jax2onnx.sourcemap"]
    tables = decoded(text)
    jsonschema.validate(tables, SCHEMA)
    theirs, ours = reader.SourceMap(text), _core.SourceMap.parse(text)
    names = [n.name for g in (model.graph, *model.functions) for n in g.node]
    assert len(names) > 3
    for name in names:
        found = [as_data(source) for source in theirs.lookup(name)]
        assert found, name
        assert found == [as_data(source) for source in ours.lookup(name)]


@pytest.mark.parametrize("beside", [False, True])
def test_the_reader_needs_only_the_standard_library(beside: bool, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    where: dict[str, Any] = {"stacktrace_metadata": "sourcemap"}
    if beside:
        where = {"source_map": str(tmp_path / "model.onnx.map")}
    to_onnx(jnp.sin, [(2,)], return_mode="file", output_path=str(model), **where)
    script = [sys.executable, "-S", "-E", str(DOCS / "source_map_reader.py"), str(model), "/Sin"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    name, _, scope, rule = done.stdout.rstrip("\n").split("\t")
    assert (name, scope) == ("/Sin", "")
    assert rule.startswith("sin.lower:")
    if beside:
        Path(f"{model}.map").write_text("another map")
        with pytest.raises(reader.SourceMapError, match="is a separate file that is not beside it"):
            reader.SourceMap.load(model)


def test_the_reader_reports_mistakes_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text = tmp_path / "model.onnx", tmp_path / "text"
    to_onnx(
        jnp.sin,
        [(2,)],
        return_mode="file",
        output_path=str(model),
        stacktrace_metadata="sourcemap",
    )
    text.write_text("a text")
    for arguments, code, said in [
        ((), 2, "usage: source_map_reader.py MODEL_OR_MAP [NODE_OR_VALUE ...]"),
        ((tmp_path / "none",), 1, f"error: {tmp_path / 'none'}: No such file or directory"),
        ((tmp_path,), 1, f"error: {tmp_path}: Is a directory"),
        ((text,), 1, f"error: {text}: "),
        ((model, "/Cos"), 0, "warning: the map has no source of `/Cos`"),
    ]:
        assert reader.main(*map(str, arguments)) == code
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith(said)
        assert shown.err.count("\n") == 1


def test_the_reader_ends_quietly_if_nobody_reads_its_output(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    where: dict[str, Any] = {"stacktrace_metadata": "sourcemap"}
    to_onnx(jnp.sin, [(2,)], return_mode="file", output_path=str(model), **where)
    script = [sys.executable, str(DOCS / "source_map_reader.py"), str(model)]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(script, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_other_files_than_a_map_are_an_error(tmp_path: Path) -> None:
    to_onnx(jnp.sin, [(2,)], return_mode="file", output_path=str(tmp_path / "model.onnx"))
    (tmp_path / "text").write_text("a text")
    for name in ("model.onnx", "text"):
        with pytest.raises(reader.SourceMapError):
            reader.SourceMap.load(tmp_path / name)
    bomb = base64.b64encode(zlib.compress(b" " * (reader.LARGEST + 1))).decode()
    with pytest.raises(reader.SourceMapError, match="larger than 64 MiB"):
        reader.SourceMap(f"zlib:{bomb}")
