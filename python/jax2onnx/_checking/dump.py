"""Values that a device computed, in the file of a recorder: safetensors with metadata."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jax2onnx._checking.graph import Graph
from jax2onnx._checking.runtime import Runnable
from jax2onnx._core import Safetensors
from jax2onnx._tracing.checkpoint import array_of
from jax2onnx.errors import InvalidInputError

FORMAT, VERSION = "jax2onnx.dump", "1"


@dataclass(frozen=True)
class Dump:
    """The inputs and values of one run of a model on a device.

    Attributes:
        path: The file.
        runtime: A description of the device by the recorder.
        model: The digest of the model file that ran; empty if the recorder did not write it.
        arrays: The inputs and values, by their names in the model.
    """

    path: str
    runtime: str
    model: str
    arrays: Mapping[str, np.ndarray]

    @classmethod
    def read(cls, path: "str | os.PathLike[str]") -> "Dump":
        """Reads the file of a recorder."""
        path = os.fspath(path)
        written = "write it with a recorder of `jax2onnx probe --recorder`"
        try:
            tensors = Safetensors(path)
        except InvalidInputError as error:
            raise InvalidInputError(
                "wrong-dump", f"cannot read the dump {error.message}", help=written
            ) from error
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = json.loads(file.read(length))
        about = header.pop("__metadata__", None) or {}
        if about.get("format") != FORMAT or about.get("version") != VERSION:
            raise InvalidInputError(
                "wrong-dump",
                f"`{path}` is not a dump that this version reads: its metadata has the format "
                f"{about.get('format')!r} and the version {about.get('version')!r}",
                help=written,
            )
        arrays = {name: array_of(w) for name in header if (w := tensors.get(name)) is not None}
        runtime = "".join(c for c in str(about.get("runtime", "")) if c.isprintable())
        return cls(path, runtime, str(about.get("model", "")), arrays)

    def check(self, model: Any, runnable: Runnable) -> None:
        """Fails unless this is a dump of the model."""
        if isinstance(model, str | os.PathLike) and self.model:
            found = hashlib.sha256(Path(model).read_bytes()).hexdigest()
            if self.model != f"sha256:{found}":
                raise self._wrong(
                    f"was recorded with another model than `{model}`: the digest of that one is "
                    f"{self.model}",
                    "pass the file that ran on the device",
                )
        graph = Graph.of(runnable)
        known = {*graph.producers, *graph.inputs}
        for name in self.arrays:
            if name not in known:
                raise self._wrong(f"has `{name}`, which is not a value of the model's main graph")
        for name in graph.inputs:
            if name not in self.arrays:
                raise self._wrong(
                    f"does not have the input `{name}`", "record the inputs along with the outputs"
                )
        if not any(name in graph.producers for name in self.arrays):
            raise self._wrong("has no value that the model computes", "record the outputs as well")

    def check_inputs(self, given: Mapping[str, np.ndarray]) -> None:
        """Fails unless the inputs of the run were these."""
        for name, array in given.items():
            found = self.arrays[name]
            if array.shape != found.shape or array.tobytes() != found.tobytes():
                raise self._wrong(
                    f"was recorded with another input `{name}`",
                    "pass the inputs of that run; if they are arrays, omit them",
                )

    def inputs(self, runnable: Runnable) -> list[np.ndarray]:
        return [self.arrays[value.name] for value in runnable.inputs]

    def _wrong(self, why: str, help: str = "") -> InvalidInputError:
        return InvalidInputError("wrong-dump", f"`{self.path}` {why}", help=help)
