"""Reads source maps of ONNX models: which lines of Python a node came from.

One file without dependencies, written from `source-map.md` alone. Copy it into any tool.

    sources = SourceMap.load("model.onnx")  # the map inside the model, or beside it
    for source in sources.lookup("/blocks.3/attn/q/MatMul_output_0"):
        print(source.site, source.scope, source.rule)

    $ python source_map_reader.py model.onnx /blocks.3/attn/q/MatMul
"""

import base64
import binascii
import hashlib
import io
import json
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

KEY = "pkg.jax2onnx.sourcemap"
DIGEST = "pkg.jax2onnx.sourcemap.digest"

VERSION = 1

# The largest map that is read, in bytes of JSON.
LARGEST = 64 << 20

# The field of ONNX's ModelProto that holds metadata.
METADATA = 14

# Kinds of frames.
USER, LIBRARY, JAX, CONVERTER = range(4)


class SourceMapError(ValueError):
    """A text is not a source map, or not one that this reader knows."""


@dataclass(frozen=True)
class Frame:
    """A frame of a call stack. Lines count from 1, columns from 0 in UTF-8 bytes."""

    file: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int
    kind: int = field(repr=False)

    def __str__(self) -> str:
        """Returns the line and the function."""
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True)
class Source:
    """A source of a node.

    Attributes:
        site: The innermost frame in the user's code; None if there is none.
        scope: The module instance, such as `blocks.3/attn`; empty for the model itself.
        rule: The rule or rewrite that emitted the node, with its line.
        stack: All frames, innermost first.
        callers: The stacks of other calls of the functions around the node. It is not known which
            call applies.
    """

    site: Frame | None
    scope: str
    rule: str
    stack: tuple[Frame, ...]
    callers: tuple[tuple[Frame, ...], ...]


class SourceMap:
    """The sources of a model's nodes.

    Attributes:
        tables: The tables of the map, as in the JSON text.
    """

    def __init__(self, text: str) -> None:
        """Reads a map from its text. Raises `SourceMapError` if there is anything wrong with it."""
        self.tables = _checked(_decoded(text))
        self._values: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        for position, (name, _, _, outputs) in enumerate(self.tables["nodes"]):
            for output in outputs or [f"{name}_output_0"]:
                self._values[output] = position
            self._nodes[name] = position
        self._values.pop("", None)
        self._nodes.pop("", None)
        self._other_calls = dict(self.tables.get("callers", []))

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> "SourceMap":
        """Reads the map of a model file, inside it or beside it, or a map file."""
        path = os.fspath(path)
        with open(path, "rb") as file:
            start = file.read(16).lstrip()
            if start.startswith((b"zlib:", b"{")):
                file.seek(0)
                return cls(_text(file.read(2 * LARGEST)))
            file.seek(0)
            properties = dict(_metadata(file, os.fstat(file.fileno()).st_size))
        if KEY in properties:
            return cls(properties[KEY])
        if DIGEST not in properties:
            raise SourceMapError(f"{path} has no source map")
        # A map is called `.next` until its model has been saved.
        for name in (f"{path}.map", f"{path}.map.next"):
            if os.path.isfile(name):
                with open(name, "rb") as file:
                    data = file.read(2 * LARGEST)
                if properties[DIGEST] == f"sha256:{hashlib.sha256(data).hexdigest()}":
                    return cls(_text(data))
        raise SourceMapError(f"the source map of {path} is a separate file that is not beside it")

    def lookup(self, name: str) -> list[Source]:
        """Returns the sources of the node that computes the value `name`, or else is named `name`.

        The node's own source comes first, then those that were merged into it.
        """
        node = self._values.get(name, self._nodes.get(name))
        if node is None:
            return []
        own = self.tables["nodes"][node][1]
        return [self._source(origin) for origin in (own, *self.tables["origins"][own][3])]

    def names(self) -> list[str]:
        """Returns the names of all nodes."""
        return list(self._nodes)

    def _source(self, origin: int) -> Source:
        call, scope, emitter, _ = self.tables["origins"][origin]
        name, stage, _, line = self.tables["emitters"][emitter]
        chain = list(self._chain(call))
        stack = self._stack(chain)
        users = (frame for frame in stack if frame.kind == USER)
        others = (frame for frame in stack if frame.kind != JAX)
        callers = [
            self._stack(list(self._chain(other)))
            for enclosing in chain[1:]
            for other in self._other_calls.get(enclosing, ())
        ]
        return Source(
            next(users, next(others, None)),
            self.tables["scopes"][scope],
            f"{name}:{line}" if stage == "custom" else f"{name}.{stage}:{line}",
            stack,
            tuple(callers),
        )

    def _chain(self, call: int) -> Iterator[int]:
        """Yields a call and those that enclose it."""
        while call != -1:
            yield call
            call = self.tables["calls"][call][1]

    def _stack(self, chain: list[int]) -> tuple[Frame, ...]:
        frames = []
        for call in chain:
            stack = self.tables["calls"][call][0]
            while stack != -1:
                frame, stack = self.tables["stacks"][stack]
                file, function, *span, kind = self.tables["frames"][frame]
                names = self.tables["files"][file][0], self.tables["functions"][function]
                line, column, end_line, end_column = span
                frames.append(Frame(*names, line, column, end_line, end_column, kind))
        return tuple(frames)


def _decoded(text: str) -> Any:
    text = text.strip()
    try:
        if text.startswith("zlib:"):
            inflate = zlib.decompressobj()
            data = inflate.decompress(base64.b64decode(text[5:], validate=True), LARGEST)
            if not inflate.eof:
                raise SourceMapError("the map is truncated, or larger than 64 MiB")
            text = _text(data)
        return json.loads(text)
    except (zlib.error, binascii.Error, ValueError, RecursionError) as error:
        raise SourceMapError(f"this is not a source map: {error}") from error


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SourceMapError(f"this is not a source map: {error}") from error


# The fields of each table's entries. The name of a table stands for a position in it, `earlier` for
# an earlier position in the same table, and `?` allows -1 or null. A single text means that entries
# are no lists.
_FIELDS: dict[str, str | tuple[str, ...]] = {
    "files": ("text", "text?", "text?"),
    "functions": "text",
    "frames": ("files", "functions", *["number"] * 5),
    "stacks": ("frames", "earlier?"),
    "scopes": "text",
    "emitters": ("text", "text", "text", "number"),
    "calls": ("stacks?", "earlier?", "emitters?"),
    "origins": ("calls?", "scopes", "emitters", "list of origins"),
    "inputs": "text",
    "nodes": ("text", "origins", "list of nodes", "list of text"),
    "callers": ("calls", "list of calls"),
    "edited": "files",
    "idle": ("origins", "list of origins"),
}

_OPTIONAL = ("callers", "edited", "idle")


def _checked(tables: Any) -> dict[str, Any]:
    """Returns the tables. Raises if an entry or a position in them is wrong."""
    if not isinstance(tables, dict) or not _is_number(tables.get("version")):
        raise SourceMapError("this is not a source map")
    if tables["version"] != VERSION:
        raise SourceMapError(f"the map has the unknown version {tables['version']}")
    for table in _FIELDS:
        if not isinstance(tables.get(table, [] if table in _OPTIONAL else None), list):
            raise SourceMapError(f"the table `{table}` is missing")
    for table, fields in _FIELDS.items():
        for position, row in enumerate(tables.get(table, ())):
            parts = [row] if isinstance(fields, str) else row
            kinds = [fields] if isinstance(fields, str) else fields
            if not isinstance(parts, list) or len(parts) != len(kinds):
                raise SourceMapError(f"entry {position} of `{table}` has other fields")
            if not all(_fits(tables, position, k, v) for k, v in zip(kinds, parts, strict=True)):
                raise SourceMapError(f"entry {position} of `{table}` is wrong: {row}")
    return tables


def _fits(tables: dict[str, Any], position: int, kind: str, value: Any) -> bool:
    """Returns `True` if a value may be in a field of an entry at a position."""
    if kind.startswith("list of "):
        inner = kind.removeprefix("list of ")
        return isinstance(value, list) and all(_fits(tables, position, inner, v) for v in value)
    name = kind.removesuffix("?")
    if name == "text":
        return isinstance(value, str) or (value is None and kind != name)
    if not _is_number(value):
        return False
    if name == "number":
        return bool(value >= 0)
    end = position if name == "earlier" else len(tables[name])
    return bool((0 if kind == name else -1) <= value < end)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _metadata(file: BinaryIO, size: int) -> Iterator[tuple[str, str]]:
    """Yields the metadata of a model file. Everything else is skipped, not read."""
    while file.tell() < size:
        tag = _varint(file)
        if tag >> 3 == METADATA and tag & 7 == 2:
            yield _entry(file.read(_varint(file)))
        elif tag & 7 == 0:
            _varint(file)
        elif tag & 7 in (1, 5):
            file.seek(8 if tag & 7 == 1 else 4, os.SEEK_CUR)
        elif tag & 7 == 2:
            file.seek(_varint(file), os.SEEK_CUR)
        else:
            raise SourceMapError("this is not an ONNX model")


def _entry(data: bytes) -> tuple[str, str]:
    """Reads a StringStringEntryProto: the key is field 1, the value is field 2."""
    fields, at = {1: "", 2: ""}, io.BytesIO(data)
    while at.tell() < len(data):
        tag = _varint(at)
        if tag & 7 != 2:
            raise SourceMapError("this is not an ONNX model")
        fields[tag >> 3] = _text(at.read(_varint(at)))
    return fields[1], fields[2]


def _varint(file: BinaryIO) -> int:
    value = shift = 0
    while True:
        byte = file.read(1)
        if not byte or shift > 63:
            raise SourceMapError("this is not an ONNX model, or it is truncated")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
        shift += 7


def main(*arguments: str) -> int:
    """Prints the lines of nodes or values, or of all nodes."""
    if not arguments or arguments[0].startswith("-"):
        print("usage: source_map_reader.py MODEL_OR_MAP [NODE_OR_VALUE ...]", file=sys.stderr)
        return 2
    path, *names = arguments
    try:
        sources = SourceMap.load(path)
    except (OSError, SourceMapError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        print(f"error: {path}: {why}", file=sys.stderr)
        return 1
    for name in names or sources.names():
        found = sources.lookup(name)[:1]
        if not found:
            print(f"warning: the map has no source of `{name}`", file=sys.stderr)
        for source in found:
            print(f"{name}\t{source.site or ''}\t{source.scope}\t{source.rule}")
    return 0


if __name__ == "__main__":
    try:
        status = main(*sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe has ended, as `head` does. Python would flush again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
