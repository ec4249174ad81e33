"""The compiled half: from a traced function to an ONNX model."""

from collections.abc import Callable, Sequence
from typing import Final, Self, final

__all__ = [
    "Frame",
    "Model",
    "Source",
    "SourceMap",
    "Tensors",
    "__version__",
    "convert",
    "explain",
    "main",
    "primitives",
]
__version__: Final[str]

@final
class Model:
    """A converted model. Its large tensors are views of the arrays that JAX holds."""

    def save(self, path: str, placement: str) -> None:
        """Writes the model atomically.

        `placement` says where the weights go: "inline" in the model's file, "external" in a data
        file beside it, "auto" by their size.
        """

    def to_bytes(self) -> bytes:
        """The serialised `ModelProto`, with all weights."""

    def skeleton(self) -> bytes:
        """The serialised `ModelProto` without the bytes of its large tensors."""

    @property
    def source_map(self) -> str | None:
        """The text of the source map, if one was asked for."""

    def tensors(self) -> Tensors:
        """Name and raw bytes of each tensor that `skeleton` leaves empty, one after the other."""

@final
class Tensors:
    """The large tensors of a model."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, bytes]: ...

@final
class Frame:
    """A frame of a call stack."""

    @property
    def file(self) -> str:
        """The file, relative to the export's working directory or to its package's folder."""

    @property
    def line(self) -> int:
        """The line, from 1."""

    @property
    def column(self) -> int:
        """The column, from 0."""

    @property
    def end_line(self) -> int:
        """The line on which the expression ends."""

    @property
    def end_column(self) -> int:
        """The column behind the end of the expression."""

    @property
    def function(self) -> str:
        """The function's qualified name."""

@final
class Source:
    """One source of a node."""

    @property
    def site(self) -> Frame | None:
        """The frame of the user's code that it stands for."""

    @property
    def scope(self) -> str:
        """The module instance, such as `blocks.3/attn`."""

    @property
    def rule(self) -> str:
        """The rule or rewrite that emitted the node."""

    @property
    def stack(self) -> list[Frame]:
        """All frames, innermost first, through every enclosing call."""

@final
class SourceMap:
    """Where the nodes of a model came from."""

    @staticmethod
    def parse(text: str) -> SourceMap:
        """Reads the text of a map."""

    @staticmethod
    def read(path: str) -> SourceMap:
        """Reads a map file, or the map inside a model file."""

    def lookup(self, name: str) -> list[Source]:
        """The sources of the node that computes the value `name`, or that is called so."""

    def lookup_between(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[Source]:
        """The sources of everything between the values `inputs` and `outputs`."""

    def has_value(self, name: str) -> bool:
        """Whether `name` is a value of the model as it was exported: a result or an input."""

    def __len__(self) -> int: ...

def convert(
    jaxpr: object,
    *,
    model_name: str,
    opset: int | None,
    input_names: Sequence[str],
    output_names: Sequence[str],
    name_of: Callable[[object], str | None],
    inputs_as_nchw: Sequence[int],
    outputs_as_nchw: Sequence[int],
    detail: str,
    source_map: bool,
    embed_sources: bool,
    absolute_paths: bool,
    entry: object | None,
    function: tuple[str, str, int] | None,
    record: str | None,
    fuel: int | None = None,
) -> Model:
    """Converts the `ClosedJaxpr` that `jax.make_jaxpr` returned.

    `fuel` is how many changes the optimiser may make, for tests: zero is none at all.
    """

def primitives() -> list[str]:
    """The primitives that have a lowering rule, in alphabetical order."""

def explain(model: str | bytes, message: str) -> str | None:
    """What an error of a runtime means for a model, a file or its bytes."""

def main(argv: Sequence[str]) -> int:
    """Runs the command line tool and returns its exit status."""
