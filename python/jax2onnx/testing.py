"""Assertions about the structure of exported models, for tests.

`expect_graph` asserts properties of a graph, `expect_golden` compares a whole graph with a file.
Both take a model file, an `onnx.ModelProto` or an `onnx_ir.Model`.
"""

import difflib
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from jax2onnx._core import GraphListing
from jax2onnx._export.result import path_or_bytes
from jax2onnx.errors import bad_option

__all__ = ["UPDATE", "expect_golden", "expect_graph", "graph_text"]

UPDATE = "UPDATE_SNAPSHOTS"
"""The environment variable that makes `expect_golden` update its files."""

Expected = str | re.Pattern[str] | Callable[[str], bool] | None


def expect_graph(
    model: Any,
    *paths: str,
    counts: Mapping[str, int] | None = None,
    absent: Iterable[str] = (),
    unused_inputs: Iterable[str] | None = None,
    initializers: Iterable[str] = (),
    metadata: Mapping[str, Mapping[str, Expected]] | None = None,
    mode: Literal["all", "any"] = "all",
    function: str | None = None,
) -> None:
    """Asserts that a model's graph looks as expected.

    This searches the main graph, the graphs inside nodes, and functions.

    Args:
        model: A model file, an `onnx.ModelProto` or an `onnx_ir.Model`.
        *paths: Operators that follow each other, such as `"Gemm{transB=1}:Bx256 -> Relu:Bx256"`.
            Each step is an operator (`*` for any, `domain::Name` outside ONNX's own domain), then
            attributes in braces, operands in parentheses and the shape of the result after a colon,
            if they matter. An operand is a constant (`2.0`, `True`, `[1, 2]`), a name, `none` if it
            is absent or `?`: `Clip(?, 0.0, 6.0)`. A shape is `Bx256` or `[B, 256]`, with `?` for
            any size; `scalar` has no axes.
        counts: The number of nodes of each operator.
        absent: Operators that do not occur.
        unused_inputs: Exactly the inputs of the model that nothing reads.
        initializers: Names of constants that exist.
        metadata: The expected metadata of an operator, or of one node by its name or the name of a
        result. A value is a string, a regular expression to search for, a function that
        returns whether the value is right, or `None` for a key that must be absent. For an
        operator, all its nodes are checked.
        mode: With `"any"`, one of the paths is enough.
        function: Searches only this function, given by its name with or without its domain.

    Raises:
        AssertionError: The graph differs. The message lists all differences and shows the graph.
        InvalidInputError: A path cannot be read, or there is no such function.
    """
    if mode not in ("all", "any"):
        raise bad_option("mode", mode, ("all", "any"))
    graph = GraphListing(path_or_bytes(model), function)
    missing = [_missing_path(graph, path) for path in paths]
    if mode == "any" and not all(missing):
        missing = []
    differences = [
        *itertools.chain.from_iterable(missing),
        *_wrong_counts(graph, {**dict.fromkeys(absent, 0), **(counts or {})}),
        *_wrong_inputs(graph, unused_inputs),
        *_missing_initializers(graph, initializers),
        *_wrong_metadata(graph, metadata or {}),
    ]
    if differences:
        text = graph.text(metadata is not None)
        raise AssertionError("\n".join([*differences, "", "the graph:", text]))


def expect_golden(model: Any, path: str | os.PathLike[str]) -> None:
    """Asserts that a whole graph, including metadata, equals the contents of a file.

    `UPDATE_SNAPSHOTS=1 pytest` updates the files of all tests that run. Review the difference
    before you commit it.

    Args:
        model: A model file, an `onnx.ModelProto` or an `onnx_ir.Model`.
        path: The file, in the form of `graph_text`.

    Raises:
        AssertionError: The graph differs or the file is missing. The message shows the difference.
    """
    file, found = Path(path), graph_text(model)
    if os.environ.get(UPDATE, "") not in ("", "0"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(found, encoding="utf-8")
        return
    advice = f"set {UPDATE}=1 to update it"
    if not file.exists():
        raise AssertionError(f"there is no {file.name}; {advice}")
    expected = file.read_text(encoding="utf-8")
    if found != expected:
        old, new = expected.splitlines(), found.splitlines()
        difference = difflib.unified_diff(old, new, file.name, "found", lineterm="", n=1)
        raise AssertionError("\n".join([f"the graph differs; {advice}", *difference]))


def graph_text(model: Any, *, metadata: bool = True) -> str:
    """Formats a model as text: one line for each input, constant, node and output.

    Constants with more than a few elements are shown only by type and shape.
    """
    return GraphListing(path_or_bytes(model)).text(metadata)


def _missing_path(graph: GraphListing, path: str) -> list[str]:
    found = graph.missing(path)
    return [] if found is None else [f"- {path}", f"+ {found}"]


def _wrong_counts(graph: GraphListing, counts: Mapping[str, int]) -> Iterator[str]:
    found = Counter(op for op, *_ in graph.nodes())
    for op, wanted in counts.items():
        if found[op] != wanted:
            yield f"- {op}: {wanted} times"
            yield f"+ {op}: {found[op]} times"


def _wrong_inputs(graph: GraphListing, expected: Iterable[str] | None) -> Iterator[str]:
    if expected is None:
        return
    found, wanted = set(graph.unused_inputs()), set(expected)
    yield from (f"- unused input {name}" for name in sorted(wanted - found))
    yield from (f"+ unused input {name}" for name in sorted(found - wanted))


def _missing_initializers(graph: GraphListing, names: Iterable[str]) -> Iterator[str]:
    known = set(graph.constants())
    yield from (f"- constant {name}" for name in names if name not in known)


def _wrong_metadata(
    graph: GraphListing, expected: Mapping[str, Mapping[str, Expected]]
) -> Iterator[str]:
    for which, entries in expected.items():
        nodes = [node for node in graph.nodes() if which and which in (*node[:2], *node[2])]
        if not nodes:
            yield f"- a node {which}"
        for op, name, _, metadata in nodes:
            for key, wanted in entries.items():
                found = dict(metadata).get(key)
                if not _agrees(found, wanted):
                    yield f"- {which}: {key} = {_shown(wanted)}"
                    yield f"+ {name or op}: {key} = {found}"


def _agrees(found: str | None, wanted: Expected) -> bool:
    if found is None or wanted is None:
        return found is wanted
    if isinstance(wanted, str):
        return found == wanted
    if isinstance(wanted, re.Pattern):
        return wanted.search(found) is not None
    return bool(wanted(found))


def _shown(wanted: Expected) -> str:
    if isinstance(wanted, re.Pattern):
        return f"/{wanted.pattern}/"
    return getattr(wanted, "__name__", str(wanted))
