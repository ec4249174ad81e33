"""Source maps of models."""

import hashlib
import os
from html import escape
from typing import Any

from jax2onnx import _core
from jax2onnx._export.result import bodies_of
from jax2onnx.errors import InvalidInputError

# The number of nodes that a notebook shows.
_ROWS = 50

KEY = "pkg.jax2onnx.sourcemap"
DIGEST = "pkg.jax2onnx.sourcemap.digest"


class SourceMap:
    """The sources of a model's nodes.

    Lookups go by the names of values first and of nodes second, so they still work after a runtime
    has optimised the model and dropped its metadata.
    """

    def __init__(self, core: "_core.SourceMap") -> None:
        if not isinstance(core, _core.SourceMap):
            raise InvalidInputError(
                "no-source-map",
                "a `SourceMap` is not created by its class",
                help="call SourceMap.load(model), with a ModelProto, an ir.Model or a path",
            )
        self._core = core

    @classmethod
    def load(cls, source: Any) -> "SourceMap":
        """Reads a map from a map file, a model file with the map inside it or beside it, an
        `onnx.ModelProto` or an `onnx_ir.Model`.
        """
        if isinstance(source, (str, os.PathLike)):
            return cls(_core.SourceMap.read(os.fspath(source)))
        props = getattr(source, "metadata_props", None)
        if props is None:
            raise InvalidInputError(
                "no-source-map",
                f"`{source!r}` is not a model",
                help="pass the path of a map or of a model, a ModelProto or an ir.Model; an "
                "`ExportedModel` has a ModelProto in its attribute `proto`",
            )
        props = _as_dict(props)
        if KEY not in props and DIGEST in props:
            raise InvalidInputError(
                "no-source-map",
                "the model's source map is a separate file",
                help="pass the path of the model or of the map",
            )
        if KEY not in props:
            raise InvalidInputError(
                "no-source-map",
                "the model has no source map",
                help='export with stacktrace_metadata="sourcemap", or pass the map file',
            )
        return cls(_core.SourceMap.parse(props[KEY]))

    def lookup(self, name: str) -> list["_core.Source"]:
        """Returns the sources of the node that computes the value `name`, or else is named `name`.

        The node's own source comes first, then those that optimisations merged into it. The list is
        empty if the map does not contain the name.
        """
        return self._core.lookup(name)

    def lookup_node(self, node: Any) -> list["_core.Source"]:
        """Returns the sources of a node (an `onnx.NodeProto`) of an optimised model.

        A node fused by a runtime has the sources of everything between its inputs and its outputs.
        If the runtime introduced new values, use `lookup_model`.
        """
        row = (node.name, node.op_type, 0, list(node.input), list(node.output))
        return self._core.lookup_nodes([row])[0]

    def lookup_model(self, model: Any) -> list[tuple[Any, list["_core.Source"]]]:
        """Returns all nodes of an optimised model (an `onnx.ModelProto`), each with its sources.

        Each node has the sources of the nodes that it replaced. The names of nodes identify the
        values that the runtime introduced. Otherwise, nodes connected by such values share the
        sources of everything between the known values around them. If nothing tells these nodes
        apart, each has one source without a `site`, whose `sites` are the possible lines.
        """
        self._check_model(_as_dict(model.metadata_props))
        bodies = [body for graph in (model.graph, *model.functions) for body in bodies_of(graph)]
        nodes = [(node, number) for number, body in enumerate(bodies) for node in body.node]
        rows = [(n.name, n.op_type, number, list(n.input), list(n.output)) for n, number in nodes]
        sources = self._core.lookup_nodes(rows)
        return [(node, found) for (node, _), found in zip(nodes, sources, strict=True)]

    def _check_model(self, props: dict[str, str]) -> None:
        """Raises if a model with these properties has another source map."""
        own, wanted = self._core.digest, props.get(DIGEST)
        if own is None:
            return
        if wanted is None and KEY in props:
            wanted = f"sha256:{hashlib.sha256(props[KEY].encode()).hexdigest()}"
        if wanted not in (None, own):
            raise InvalidInputError(
                "other-source-map",
                "this source map belongs to another export than the model",
                help="load the map of this model: SourceMap.load(model), or the path of its map",
            )

    def __repr__(self) -> str:
        """Returns the number of nodes."""
        return f"<SourceMap of {len(self)} node{'' if len(self) == 1 else 's'}>"

    def _repr_html_(self) -> str:
        rows = []
        for name in self._core.names()[:_ROWS]:
            sites = [source.site for source in self.lookup(name)[:1]]
            place = next((f"{s.file}:{s.line} in {s.function}" for s in sites if s), "")
            cells = (f'<td style="text-align:left">{escape(cell)}</td>' for cell in (name, place))
            rows.append(f"<tr>{''.join(cells)}</tr>")
        more = f"<p>… and {len(self) - _ROWS} more</p>" if len(self) > _ROWS else ""
        return f"{len(self)} nodes<table>{''.join(rows)}</table>{more}"

    def __len__(self) -> int:
        """Returns the number of nodes in the map."""
        return len(self._core)


def _as_dict(props: Any) -> dict[str, str]:
    return props if isinstance(props, dict) else {entry.key: entry.value for entry in props}
