"""The format of the source map, as specified in `docs/source-map.md`: schema, vectors, and a reader
that was written from that document alone.
"""

import base64
import json
import zlib
from pathlib import Path
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


def decoded(text: str) -> dict[str, Any]:
    text = text.strip()
    if text.startswith("zlib:"):
        text = zlib.decompress(base64.b64decode(text[5:], validate=True)).decode()
    return json.loads(text)


class Reader:
    """A lookup of names."""

    def __init__(self, tables: dict[str, Any]) -> None:
        self.tables = tables
        self.values: dict[str, int] = {}
        self.nodes: dict[str, int] = {}
        for position, (name, _, _, outputs) in enumerate(tables["nodes"]):
            for output in outputs or [f"{name}_output_0"]:
                if output:
                    self.values[output] = position
            self.nodes[name] = position
        self.other_calls = dict(map(tuple, tables.get("callers", [])))

    def lookup(self, name: str) -> list[dict[str, Any]]:
        node = self.values.get(name, self.nodes.get(name))
        if node is None:
            return []
        own = self.tables["nodes"][node][1]
        return [self.source(o) for o in (own, *self.tables["origins"][own][3])]

    def source(self, origin: int) -> dict[str, Any]:
        call, scope, emitter, _ = self.tables["origins"][origin]
        name, stage, _, line = self.tables["emitters"][emitter]
        chain = self.chain(call)
        frames = self.stack(chain)
        site = next((f for kind, f in frames if kind == 0), None)
        site = site or next((f for kind, f in frames if kind != 2), None)
        callers = [
            self.stack(self.chain(other))
            for enclosing in chain[1:]
            for other in self.other_calls.get(enclosing, [])
        ]
        return {
            "site": site,
            "scope": self.tables["scopes"][scope],
            "rule": f"{name}:{line}" if stage == "custom" else f"{name}.{stage}:{line}",
            "stack": [f for _, f in frames],
            "callers": [[f for _, f in stack] for stack in callers],
        }

    def chain(self, call: int) -> list[int]:
        calls = []
        while call != -1:
            calls.append(call)
            call = self.tables["calls"][call][1]
        return calls

    def stack(self, chain: list[int]) -> list[tuple[int, dict[str, Any]]]:
        frames = []
        for call in chain:
            stack = self.tables["calls"][call][0]
            while stack != -1:
                frame, stack = self.tables["stacks"][stack]
                file, function, *span, kind = self.tables["frames"][frame]
                names = (self.tables["files"][file][0], self.tables["functions"][function])
                frames.append((kind, dict(zip(FIELDS, (*names, *span), strict=True))))
        return frames


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


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("vector", VECTORS["valid"], ids=lambda v: v["name"])
def test_valid_maps(vector: dict[str, Any]) -> None:
    tables = decoded(vector["text"])
    jsonschema.validate(tables, SCHEMA)
    reader, ours = Reader(tables), _core.SourceMap.parse(vector["text"])
    for name, expected in vector["lookups"].items():
        assert reader.lookup(name) == expected, name
        assert [as_data(source) for source in ours.lookup(name)] == expected, name


@pytest.mark.parametrize("vector", VECTORS["invalid"], ids=lambda v: v["name"])
def test_invalid_maps(vector: dict[str, Any]) -> None:
    with pytest.raises(jax2onnx.InvalidInputError, match="source map"):
        _core.SourceMap.parse(vector["text"])


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
    reader, ours = Reader(tables), _core.SourceMap.parse(text)
    names = [n.name for g in (model.graph, *model.functions) for n in g.node]
    assert len(names) > 3
    for name in names:
        found = reader.lookup(name)
        assert found, name
        assert found == [as_data(source) for source in ours.lookup(name)]
