"""Paths through a graph, such as `Gemm{transB=1}:Bx256 -> Relu:Bx256`."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jax2onnx._graph_view import Dims, Node, Value
from jax2onnx.errors import InvalidInputError

_STEP = re.compile(
    r"(?P<op>\*|[\w.]+(?:::\w+)?)\s*(?:\{(?P<attributes>[^}]*)\})?\s*(?::\s*(?P<shape>.+))?"
)
_DIM = re.compile(r"\?|\d+|[A-Za-z_]\w*")


@dataclass(frozen=True)
class Step:
    """One node of a path. `None` matches anything."""

    text: str
    op: str
    attributes: dict[str, Any]
    dims: Dims | None

    def matches(self, node: Node, value: Value | None) -> bool:
        """Whether a node matches. `value` is the result that the path continues with."""
        if self.op not in ("*", node.op):
            return False
        if any(node.attributes.get(key) != wanted for key, wanted in self.attributes.items()):
            return False
        values = node.outputs if value is None else [value]
        return self.dims is None or any(self._fits(value) for value in values)

    def _fits(self, value: Value) -> bool:
        dims = value.dims
        if dims is None or self.dims is None or len(dims) != len(self.dims):
            return False
        return all(want is None or want == dim for want, dim in zip(self.dims, dims, strict=True))


def parse(path: str) -> list[Step]:
    """The steps of a path."""
    return [_step(text.strip(), path) for text in path.split("->")]


def _step(text: str, path: str) -> Step:
    found = _STEP.fullmatch(text)
    if found is None:
        raise _malformed(path, f"`{text}` is not a step")
    attributes = {}
    for part in _parts(found["attributes"] or ""):
        key, equals, value = part.partition("=")
        try:
            attributes[key.strip()] = ast.literal_eval(value.strip())
        except (SyntaxError, ValueError):
            equals = ""
        if not equals:
            raise _malformed(path, f"`{part.strip()}` is not an attribute")
    return Step(text, found["op"], attributes, _dims(found["shape"], path))


def _parts(text: str) -> list[str]:
    """Splits at the commas outside brackets."""
    return [part for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


def _dims(text: str | None, path: str) -> Dims | None:
    if text is None:
        return None
    text = text.strip()
    if text in ("scalar", "[]"):
        return ()
    if text.startswith("[") and text.endswith("]"):
        parts = [part.strip() for part in text[1:-1].split(",")]
    else:
        parts = text.split("x")
    if not all(_DIM.fullmatch(part) for part in parts):
        raise _malformed(path, f"`{text}` is not a shape")
    return tuple(None if p == "?" else int(p) if p.isdigit() else p for p in parts)


def _malformed(path: str, reason: str) -> InvalidInputError:
    return InvalidInputError(
        "invalid-graph-path",
        f"{reason} in the path `{path}`",
        help="write operators, attributes and shapes: 'Gemm{transB=1}:Bx256 -> Relu:[B, 256]'",
    )


def longest_match(steps: list[Step], nodes: Iterable[Node]) -> list[Node]:
    """The nodes that match the most steps, starting with the first."""
    best: list[Node] = []
    # Depth first. An edge that failed at a step fails there however it is reached.
    failed: set[tuple[int, int, str]] = set()
    for node in nodes:
        way = _walk(steps, 0, node, best, [], failed)
        if way is not None:
            return way
    return best


def _walk(
    steps: list[Step],
    at: int,
    node: Node,
    best: list[Node],
    way: list[Node],
    failed: set[tuple[int, int, str]],
) -> list[Node] | None:
    last = at == len(steps) - 1
    if last:
        if not steps[at].matches(node, None):
            return None
        return [*way, node]
    for value, reader in node.readers:
        key = (at, id(reader), value.name)
        if key in failed or not steps[at].matches(node, value):
            continue
        if len(way) + 1 > len(best):
            best[:] = [*way, node]
        found = _walk(steps, at + 1, reader, best, [*way, node], failed)
        if found is not None:
            return found
        failed.add(key)
    if not node.readers and steps[at].matches(node, None) and len(way) + 1 > len(best):
        best[:] = [*way, node]
    return None
