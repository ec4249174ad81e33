"""Reading source maps."""

import os
from typing import Any

from jax2onnx import _core

KEY = "pkg.jax2onnx.sourcemap"


class SourceMap:
    """Where the nodes of a model came from.

    The map is found by the names of values first and of nodes second, so it still answers when a
    runtime has optimised the model and dropped its metadata.
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
        return cls(_core.SourceMap.parse(props.get(KEY, "")))

    def lookup(self, name: str) -> list["_core.Source"]:
        """The sources of the node that computes the value `name`, or else is called so.

        The node's own source comes first, then those that optimisation merged into it. The list is
        empty when the map does not know the name.
        """
        return self._core.lookup(name)

    def lookup_node(self, node: Any) -> list["_core.Source"]:
        """The sources of a node (an `onnx.NodeProto`) of an optimised model.

        A node that a runtime fused stands for everything between its inputs and its outputs.
        """
        found = self._core.lookup_between(list(node.input), list(node.output))
        return found or self.lookup(node.name)

    def __len__(self) -> int:
        """How many nodes the map knows."""
        return len(self._core)
