"""The source lines of a model's values."""

from dataclasses import dataclass
from typing import Any

from jax2onnx import _core
from jax2onnx._export.result import path_or_bytes
from jax2onnx._export.source_map import SourceMap
from jax2onnx.errors import InvalidInputError


@dataclass(frozen=True)
class Line:
    """A line of the user's program, and the module that it runs for."""

    file: str
    line: int
    function: str
    module: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}" if self.file else ""


class SourceLines:
    """The source lines of a model's values, according to its source map."""

    def __init__(self, model: Any) -> None:
        self._model = path_or_bytes(model)
        try:
            self._map: SourceMap | None = SourceMap.load(model)
        except InvalidInputError:
            self._map = None

    def __bool__(self) -> bool:
        return self._map is not None

    def known(self, *names: str) -> str:
        """Returns the first of some names that the map contains, or else the first."""
        return next(filter(self._sources, names), names[0])

    def lines(self, name: str) -> list[Line]:
        """Returns the lines that a value comes from, its own first."""
        return [
            Line(source.site.file, source.site.line, source.site.function, source.scope)
            if source.site
            else Line("", 0, "", source.scope)
            for source in self._sources(name)
        ]

    def rule(self, name: str) -> str:
        """Returns the rule or rewrite that emitted the node that computes a value."""
        found = self._sources(name)
        return found[0].rule if found else ""

    def _sources(self, name: str) -> list[_core.Source]:
        return [] if self._map is None else self._map.lookup(_own(name))

    def excerpt(self, name: str) -> str:
        """Returns the location of a value with an excerpt of the source."""
        if self._map is None:
            return ""
        text = _core.explain(self._model, _own(name)) or ""
        lines = text.splitlines()
        end = next((i for i, line in enumerate(lines) if line.startswith("  node ")), 0)
        return "\n".join(lines[:end]) if text.startswith("  -->") else ""


def is_inlined(name: str) -> bool:
    """Returns `True` for names in a function that `Graph.inlined` has inlined."""
    return ":/" in name


def _own(name: str) -> str:
    """Returns the name of a node or value in the function that it is in."""
    return name[name.rindex(":/") + 1 :] if is_inlined(name) else name
