"""The compiled half: from a traced function to an ONNX model."""

from collections.abc import Sequence
from typing import Final, Self, final

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

    def tensors(self) -> Tensors:
        """Name and raw bytes of each tensor that `skeleton` leaves empty, one after the other."""

@final
class Tensors:
    """The large tensors of a model."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, bytes]: ...

def convert(
    jaxpr: object,
    *,
    model_name: str,
    opset: int | None,
    input_names: Sequence[str],
    output_names: Sequence[str],
    const_names: Sequence[str | None],
    inputs_as_nchw: Sequence[int],
    outputs_as_nchw: Sequence[int],
    detail: str,
    entry: object | None,
    function: tuple[str, str, int] | None,
    record: str | None,
) -> Model:
    """Converts the `ClosedJaxpr` that `jax.make_jaxpr` returned."""

def primitives() -> list[str]:
    """The primitives that have a lowering rule, in alphabetical order."""

def main(argv: Sequence[str]) -> int:
    """Runs the command line tool and returns its exit status."""
