"""Reading source maps."""

import os
import re
from typing import Any

from jax2onnx import _core
from jax2onnx.errors import InvalidInputError

KEY = "pkg.jax2onnx.sourcemap"


class SourceMap:
    """Where the nodes of a model came from.

    Lookups go by the names of values first and of nodes second, so they still work after a runtime
    has optimised the model and dropped its metadata.
    """

    def __init__(self, core: "_core.SourceMap") -> None:
        self._core = core

    @classmethod
    def load(cls, source: Any) -> "SourceMap":
        """Reads a map from a map file, a model file, an `onnx.ModelProto` or an `onnx_ir.Model`."""
        if isinstance(source, (str, os.PathLike)):
            return cls(_core.SourceMap.read(os.fspath(source)))
        props = source.metadata_props
        if not isinstance(props, dict):
            props = {entry.key: entry.value for entry in props}
        if KEY not in props:
            raise InvalidInputError(
                "no-source-map",
                "the model has no source map",
                help='export with stacktrace_metadata="sourcemap", or pass the map file',
            )
        return cls(_core.SourceMap.parse(props[KEY]))

    def lookup(self, name: str) -> list["_core.Source"]:
        """The sources of the node that computes the value `name`, or else is named `name`.

        The node's own source comes first, then those that optimisations merged into it. The list is
        empty if the map does not have the name.
        """
        return self._core.lookup(name)

    def lookup_node(self, node: Any) -> list["_core.Source"]:
        """The sources of a node (an `onnx.NodeProto`) of an optimised model.

        A node fused by a runtime stands for everything between its inputs and its outputs. If the
        runtime introduced new values, use `lookup_model`.
        """
        found = self._core.lookup_between(list(node.input), list(node.output))
        return self._with_own(node, found)

    def lookup_model(self, model: Any) -> list[tuple[Any, list["_core.Source"]]]:
        """All nodes of an optimised model (an `onnx.ModelProto`), each with its sources.

        Nodes connected by values that the runtime introduced together stand for everything between
        the known values around them.
        """
        graphs = [model.graph, *model.functions]
        return [entry for graph in graphs for entry in self._lookup_graph(graph)]

    def _lookup_graph(self, graph: Any) -> list[tuple[Any, list["_core.Source"]]]:
        found = []
        for group in self._groups(graph.node):
            made = dict.fromkeys(name for node in reversed(group) for name in node.output)
            read = [name for node in group for name in node.input if name not in made]
            known = self._core.lookup_between(read, list(made))
            found += [(node, self._with_own(node, known)) for node in group]
            inner = [
                inner
                for node in group
                for attribute in node.attribute
                for inner in (attribute.g, *attribute.graphs)
            ]
            found += [entry for graph in inner for entry in self._lookup_graph(graph)]
        return found

    def _with_own(self, node: Any, found: list["_core.Source"]) -> list["_core.Source"]:
        """What was found for a node's values. If its name is that of a node in a function, that
        comes first: the map may list its result as the call's.
        """
        inlined = "_inlfunc_" in node.name or re.search(r"__\d+$", node.name)
        if found and not inlined:
            return found
        own = self.lookup(node.name)
        shown = set(map(repr, own))
        if own and inlined:
            found = [source for source in found if not source.rule.startswith("onnx_function.")]
        return own + [source for source in found if repr(source) not in shown]

    def _groups(self, nodes: Any) -> list[list[Any]]:
        """The nodes, grouped with those they share a value with that the map does not have."""
        leaders = list(range(len(nodes)))

        def leader(index: int) -> int:
            while leaders[index] != index:
                leaders[index] = leaders[leaders[index]]
                index = leaders[index]
            return index

        makers: dict[str, int] = {}
        for index, node in enumerate(nodes):
            for name in node.input:
                if name in makers:
                    leaders[leader(index)] = leader(makers[name])
            makers.update(dict.fromkeys(self._made_up(node), index))
        groups: dict[int, list[Any]] = {}
        for index, node in enumerate(nodes):
            groups.setdefault(leader(index), []).append(node)
        return list(groups.values())

    def _made_up(self, node: Any) -> list[str]:
        return [name for name in node.output if name and not self._core.has_value(name)]

    def __len__(self) -> int:
        """How many nodes the map lists."""
        return len(self._core)
