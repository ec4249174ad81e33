"""The compiled half: from a traced function to an ONNX model."""

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Final, NoReturn, Protocol, Self, final

import numpy as np

__all__ = [
    "Frame",
    "LoweringContext",
    "Model",
    "Results",
    "Source",
    "SourceMap",
    "Tensors",
    "Value",
    "__version__",
    "convert",
    "explain",
    "main",
    "operators",
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

    def save_source_map(self, path: str) -> None:
        """Writes the text of the source map atomically."""

    @property
    def results(self) -> Results | None:
        """What became of the equations, if that was asked for."""

    @property
    def missed(self) -> list[str]:
        """The operators that were nearly recognised, and why not, if that was asked for."""

    def tensors(self) -> Tensors:
        """Name and raw bytes of each tensor that `skeleton` leaves empty, one after the other."""

@final
class Results:
    """What became of the equations of a program, for comparing a model with JAX."""

    def rows(self) -> list[tuple[int | None, list[tuple[tuple[int, int] | None, list[str]]]]]:
        """For each equation of the main graph: the row of the equation that called its jaxpr, and
        for each result the number of the equation in JAX's jaxpr and of its result, and the names
        of the values it is in the model: two for a complex one, none if nothing is left of it.
        """

    def place(self, row: int) -> str:
        """Where an equation stands in the program, with an excerpt."""

    def rule(self, row: int, result: int) -> str | None:
        """The rule or rewrite that emitted what computes a result."""

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

    @property
    def callers(self) -> list[list[Frame]]:
        """The stacks of the other calls of the functions that the node is inside of."""

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

@final
class Value:
    """A value of the model under construction, in a lowering rule."""

    @property
    def shape(self) -> tuple[int | str, ...]:
        """An integer for each axis, or an expression such as `"2*B"` if it is symbolic."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""

    @property
    def ndim(self) -> int:
        """How many axes it has."""

    @property
    def is_complex(self) -> bool:
        """Whether it is complex: two values, since ONNX has no complex numbers."""

    @property
    def real(self) -> Value:
        """The real part; a real value's is itself."""

    @property
    def imag(self) -> Value | None:
        """The imaginary part; None of a real value."""

class _Typed(Protocol):
    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...

@final
class LoweringContext:
    """The equation that a lowering rule is called for, and what it emits nodes with."""

    @property
    def primitive(self) -> str:
        """The name of the primitive."""

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the equation, as JAX has them."""

    @property
    def in_avals(self) -> tuple[Any, ...]:
        """JAX's types of the operands."""

    @property
    def out_avals(self) -> tuple[Any, ...]:
        """JAX's types of the results."""

    @property
    def scope(self) -> str:
        """The module that the equation belongs to, such as `blocks.3/attn`."""

    def op(
        self,
        name: str,
        /,
        *inputs: Any,
        domain: str = "",
        outputs: int | None = None,
        out_types: Sequence[_Typed] | None = None,
        **attrs: Any,
    ) -> Any:
        """Emits a node. Returns its result, or a tuple if the number of `outputs` is given.

        Operands are values, arrays, Python's numbers (whose type follows from the operator) or None
        for an optional operand. Types are inferred; those of operators that this project does not
        know are `out_types`, or else the types of the equation's results.
        """

    def constant(self, value: Any, dtype: Any = None) -> Value:
        """An array, or numbers of type `dtype`, as a value."""

    def complex(self, real: Value, imag: Value) -> Value:
        """The complex value of two real ones."""

    def dims(self, shape: Any) -> Value:
        """Dimensions, which may be symbolic, as a vector of 64-bit integers."""

    def inline(self, jaxpr: Any, /, *inputs: Value) -> list[Value]:
        """The results of a jaxpr that is a parameter of the equation, called with `inputs`."""

    def built_in(self, *inputs: Value) -> list[Value]:
        """What the built-in rule of the primitive makes of `inputs`."""

    def unsupported(self, reason: str, help: str | None = None) -> NoReturn:
        """Raises an `UnsupportedError` at the user's line."""

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
    rules: Sequence[tuple[str, Callable[..., Any], CodeType, tuple[str, str, int]]],
    results: bool,
    operators: dict[str, str],
    normalization_mode: str,
    report_missed: bool,
    fuel: int | None = None,
) -> Model:
    """Converts the `ClosedJaxpr` that `jax.make_jaxpr` returned.

    `fuel` is how many changes the optimiser may make, for tests: zero is none at all.
    """

def operators() -> list[str]:
    """The operators whose form can be chosen, in alphabetical order."""

def primitives() -> list[str]:
    """The primitives that have a lowering rule, in alphabetical order."""

def explain(model: str | bytes, message: str) -> str | None:
    """What an error of a runtime means for a model, a file or its bytes."""

def main(argv: Sequence[str]) -> int:
    """Runs the command line tool and returns its exit status."""
