"""The compiled part: from a traced function to an ONNX model."""

import os
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Final, NoReturn, Protocol, Self, final

import numpy as np

from jax2onnx._export.options import Boundary, Options

__all__ = [
    "Attributes",
    "Copier",
    "Copies",
    "Frame",
    "GraphListing",
    "LoweringContext",
    "Model",
    "PendingFile",
    "Primitive",
    "Reader",
    "Results",
    "Safetensors",
    "Source",
    "SourceMap",
    "Target",
    "Tensors",
    "Value",
    "Walker",
    "Weight",
    "__version__",
    "assumptions",
    "before_inlining",
    "beyond_models",
    "command",
    "common_subsequence",
    "contributed_types",
    "controls",
    "convert",
    "damage",
    "element_types",
    "expansions",
    "explain",
    "is_precision",
    "is_weight_format",
    "main",
    "operators",
    "primitives",
    "provider",
    "read_recording",
    "same_values",
    "save_set",
    "targets",
]
__version__: Final[str]

@final
class Attributes:
    """The attributes that objects of a type store, in their dictionary or in slots.

    `slots` are names with functions that read their values. Attributes in `unnamed` add nothing to
    a path, and attributes in `ignored` are not read. With `only_unnamed`, only the unnamed ones are
    read.
    """

    def __new__(
        cls,
        has_dict: bool,
        slots: Sequence[tuple[str, Callable[[Any], Any]]],
        *,
        unnamed: frozenset[str],
        ignored: frozenset[str],
        only_unnamed: bool = False,
    ) -> Self: ...

@final
class Copier:
    """A recipe for copying objects of a type. `make` creates an empty one, given the type. `slots`
    are pairs of functions that read and set the value of each slot.
    """

    def __new__(
        cls,
        make: Callable[[type], object],
        has_dict: bool,
        slots: Sequence[tuple[Callable[[Any], Any], Callable[[Any, Any], None]]],
    ) -> Self: ...

@final
class Copies:
    """Copies of objects and of the containers that they own. Each object is copied once, so shared
    objects stay shared. `learn` returns the copier of a type, or None. The object `one` replaces
    all objects of its type.
    """

    def __new__(cls, learn: Callable[[type], Copier | None], one: object = None) -> Self: ...
    def of(self, object: Any) -> Any:
        """Returns the copy of an object, or the object itself if it is not copied."""

    def has_copied(self, objects: list[Any]) -> bool:
        """Returns `True` if any of the objects was copied."""

    def others(self, objects: list[Any]) -> list[Any]:
        """Returns the objects that are not copies."""

@final
class Reader:
    """A reader of objects of a type, which can hold others or are arrays.

    `contents` may be None for nothing, `dict` for entries, `list` for elements, `Attributes`, or a
    function that returns pairs of a name and an object. With `is_object`, objects own the
    containers that they hold. With `is_step`, their name is part of the paths below them.
    `own_name` returns a name that does not depend on their path, and `array_prefix` a prefix for
    the names of arrays among their attributes.
    """

    def __new__(
        cls,
        contents: object,
        *,
        is_array: bool = False,
        is_module: bool = False,
        is_object: bool = False,
        is_step: bool = True,
        own_name: Callable[[Any], str | None] | None = None,
        array_prefix: Callable[[Any], str | None] | None = None,
    ) -> Self: ...

@final
class Walker:
    """A walk over objects, each at most once. `learn` returns the reader of a type, or None."""

    def __new__(cls, learn: Callable[[type], Reader | None]) -> Self: ...
    def walk(self, root: object) -> tuple[list[tuple[Any, str, bool]], list[tuple[Any, str, bool]]]:
        """Walks an object breadth first, so that objects with several paths get a short one.
        Returns the arrays and the modules, each with its path, and `True` if the path is a complete
        name.
        """

    @property
    def objects(self) -> list[Any]:
        """Every array and every object that can hold others, in the order of the walk."""

    @property
    def loose(self) -> set[int]:
        """The ids of the containers that belong to no object but are variables of functions, or
        parts of such variables.
        """

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Types, ids of arrays and plain values in the order of the walk. It changes with anything
        that a traced function could depend on.
        """

    @property
    def classes(self) -> list[type]:
        """The classes that objects refer to, such as those in the definition of a model that is
        merged with parameters later.
        """

@final
class PendingFile:
    """A complete file that waits for its name."""

    def finish(self) -> None:
        """Gives the file its name."""

    def discard(self) -> None:
        """Removes the file."""

@final
class Model:
    """A converted model. Its large tensors are views of the arrays that JAX holds."""

    def save(self, path: str, placement: str) -> None:
        """Writes the model atomically.

        `placement` of the weights is "inline" in the model's file, "external" in a data file beside
        it, or "auto" by their size.
        """

    @property
    def size(self) -> int:
        """The size of the model in bytes, including its weights."""

    @property
    def written(self) -> int:
        """The number of bytes that `save` has written so far. Other threads may read it."""

    def to_bytes(self) -> bytes:
        """Returns the serialised `ModelProto`, with all weights."""

    def skeleton(self) -> bytes:
        """Returns the serialised `ModelProto` without the bytes of its large tensors."""

    def write_source_map(self, path: str) -> PendingFile:
        """Writes the text of the source map; it is at `path` when the result is finished."""

    @property
    def results(self) -> Results | None:
        """The values that equations became, if they were recorded."""

    @property
    def missed(self) -> list[str]:
        """The operators that were nearly recognised, with reasons, if requested."""

    @property
    def unmatched(self) -> list[tuple[str, str]]:
        """Pairs of an option and a pattern that matches nothing, for a model in a set."""

    @property
    def weights(self) -> list[tuple[str, str, int, str | None, int, str]]:
        """The storage of each parameter, if formats were requested: its name, its type, its bytes,
        the format if it has one, the stored bytes, and the reason.
        """

    @property
    def fallbacks(self) -> list[str]:
        """The nodes that the target does not run on its GPU, with their lines."""

    @property
    def applied(self) -> dict[str, int]:
        """The number of changes by each rewrite and pass of the optimiser."""

    def tensors(self) -> Tensors:
        """Iterates over the names and raw bytes of the tensors that `skeleton` leaves empty."""

@final
class Results:
    """The values that the equations of a program became, for comparing a model with JAX."""

    def rows(self) -> list[tuple[int | None, list[tuple[tuple[int, int] | None, list[str]]]]]:
        """Returns for each equation of the main graph the row of the equation that called its
        jaxpr, and for each result the number of the equation in JAX's jaxpr and of its result, with
        the names of its values in the model: two for a complex result, none if it was removed.
        """

    def place(self, row: int) -> str:
        """Returns the location of an equation in the program, with an excerpt."""

    def rule(self, row: int, result: int) -> str | None:
        """Returns the rule or rewrite that emitted the node that computes a result."""

@final
class GraphListing:
    """A model's graph with the graphs inside its nodes and its functions, or one function."""

    def __new__(cls, model: str | bytes, function: str | None = None) -> Self: ...
    def text(self, metadata: bool) -> str:
        """Formats the model as text, one line for each input, constant, node and output."""

    def nodes(self) -> list[tuple[str, str, list[str], list[tuple[str, str]]]]:
        """Returns all nodes: operator, name, names of results, metadata."""

    def missing(self, path: str) -> str | None:
        """Returns the closest path in the graph, or None if the graph has the given one."""

    def unused_inputs(self) -> list[str]:
        """Returns the inputs of the model that nothing reads."""

    def readers(self, name: str) -> list[tuple[str, list[str]]]:
        """Returns the operators of the nodes that read a value, and the names of their results."""

    def integer(self, value: str, attribute: str) -> int | None:
        """Returns an integer attribute of the node that computes a value."""

    def constants(self) -> list[str]:
        """Returns the names of all constants."""

@final
class Tensors:
    """The large tensors of a model."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[str, bytes]: ...

@final
class Frame:
    """A frame of a call stack."""

    @property
    def kind(self) -> str:
        """The owner of the code: "user", "library" or "jax"."""

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
        """The last line of the expression."""

    @property
    def end_column(self) -> int:
        """The column after the end of the expression."""

    @property
    def function(self) -> str:
        """The function's qualified name."""

@final
class Source:
    """One source of a node."""

    @property
    def site(self) -> Frame | None:
        """The frame in the user's code. `None` if the node is one of several in an optimised model
        that nothing tells apart.
        """

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
        """Stacks of other calls of the enclosing functions, if the call is ambiguous."""

    @property
    def sites(self) -> list[Frame]:
        """All candidates for `site`: several if the node is ambiguous, or if the call is ambiguous
        and the function itself has no line of the user's code.
        """

    @property
    def idle(self) -> bool:
        """`True` if the node does not compute this operation, which had no effect or became a part
        of the node's layout.
        """

@final
class SourceMap:
    """The sources of a model's nodes."""

    @property
    def digest(self) -> str | None:
        """The digest of its text, unless it was found by means of its model."""

    @staticmethod
    def parse(text: str) -> SourceMap:
        """Reads the text of a map."""

    @staticmethod
    def read(path: str) -> SourceMap:
        """Reads a map file, or the map inside a model file or beside it."""

    def names(self) -> list[str]:
        """Returns the names of the nodes, in the order of the map."""

    def lookup(self, name: str) -> list[Source]:
        """Returns the sources of the node that computes the value `name`, or is named `name`."""

    def lookup_nodes(
        self, nodes: Sequence[tuple[str, str, int, Sequence[str], Sequence[str]]]
    ) -> list[list[Source]]:
        """Returns the sources of the nodes of a model that a runtime may have optimised.

        Each node is given as its name, its operator, the number of its graph or function, and the
        names of its operands and of its results.
        """

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
        """The number of axes."""

    @property
    def is_complex(self) -> bool:
        """`True` if it is complex. A complex value is two values, since ONNX has no complex
        numbers.
        """

    @property
    def real(self) -> Value:
        """The real part; the value itself if it is real."""

    @property
    def imag(self) -> Value | None:
        """The imaginary part; None for a real value."""

class _Typed(Protocol):
    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...

@final
class LoweringContext:
    """The equation that a lowering rule is called for, and the methods that emit nodes."""

    @property
    def primitive(self) -> str:
        """The name of the primitive."""

    @property
    def params(self) -> dict[str, Any]:
        """The JAX parameters of the equation."""

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

        Operands are values, arrays, Python numbers (whose type follows from the operator) or None
        for an optional operand. Types are inferred. For unknown operators, they are `out_types`, or
        else the types of the equation's results.
        """

    def constant(self, value: Any, dtype: Any = None) -> Value:
        """Emits an array, or numbers of type `dtype`, as a constant."""

    def complex(self, real: Value, imag: Value) -> Value:
        """Combines two real values into a complex one."""

    def dims(self, shape: Any) -> Value:
        """Returns dimensions, which may be symbolic, as a vector of 64-bit integers."""

    def inline(self, jaxpr: Any, /, *inputs: Value) -> list[Value]:
        """Calls a jaxpr, which is a parameter of the equation, with `inputs`."""

    def built_in(self, *inputs: Value) -> list[Value]:
        """Returns the results of the built-in rule of the primitive for `inputs`."""

    def unsupported(self, reason: str, help: str | None = None) -> NoReturn:
        """Raises an `UnsupportedError` at the user's line."""

def convert(
    jaxpr: object,
    options: Options,
    boundary: Boundary,
    *,
    name_of: Callable[[object], str | None],
    rules: Sequence[tuple[str, Callable[..., Any], CodeType, tuple[str, str, int]]],
    entry: object | None = None,
    function: tuple[str, str, int] | None = None,
) -> Model:
    """Converts the `ClosedJaxpr` that `jax.make_jaxpr` returned.

    `name_of` returns the path of a parameter, or None. `rules` are those that users registered.
    `entry` is the traceback of the call to `to_onnx`, `function` the file, name and first line of
    the converted function.
    """

def save_set(
    folder: str,
    models: Sequence[tuple[str, Model]],
    data: str,
    files: Sequence[tuple[str, bytes]],
) -> None:
    """Writes models that share their large weights in the file `data`, and other files. They
    replace the files in `folder` atomically.
    """

@final
class Weight:
    """A weight with a type and a shape. Its elements are read while the model is written."""

    @staticmethod
    def fetched(dtype: str, shape: Sequence[int], fetch: Callable[[], Any]) -> Weight:
        """Creates a weight whose elements `fetch` returns as a NumPy array."""
    @property
    def shape(self) -> list[int]:
        """The sizes of its axes."""
    @property
    def dtype(self) -> str:
        """NumPy's name for the type of its elements."""
    def transposed(self, axes: Sequence[int]) -> Weight:
        """Permutes the axes of the weight."""
    def converted(self, dtype: str, name: str) -> Weight:
        """Converts the weight to another float type. Errors call it `name`."""
    def bytes(self) -> bytes:
        """Returns a copy of its elements, in order."""

@final
class Safetensors:
    """The tensors of safetensors files."""

    def __new__(cls, path: str | os.PathLike[str]) -> Safetensors:
        """Opens a file, the index of several files, or a folder with one or the other."""
    def names(self) -> list[str]:
        """Returns the names of all tensors, in alphabetical order."""
    def get(self, name: str) -> Weight | None:
        """Returns the tensor called `name`, or None."""

def is_precision(text: str) -> bool:
    """Returns `True` if a text is a precision, such as `float16` or `float16:all`."""

def is_weight_format(text: str) -> bool:
    """Returns `True` if a text lists formats of weights, such as `int4:64,float16`."""

@final
class Target:
    """A target: its runtime and the versions that it loads."""

    @property
    def runtime(self) -> str:
        """The description of the runtime in the documentation."""
    @property
    def lowest_opset(self) -> int:
        """The opset below which models are written only on request."""
    @property
    def newest_opset(self) -> int:
        """The newest opset that the target loads."""
    @property
    def newest_ir_version(self) -> int:
        """The newest version of the file format that the target loads."""

def targets() -> dict[str, Target]:
    """Returns all targets by their names, in alphabetical order."""

def provider(target: str) -> str | None:
    """Returns the name of a target's provider in onnxruntime-genai, or None for the CPU."""

def contributed_types(target: str, op: str) -> list[str]:
    """Returns the types in which a target has an operator of onnxruntime's own domain."""

def assumptions() -> list[str]:
    """Returns the names of the assumptions of `to_onnx`."""

def element_types() -> list[tuple[str, str, str, int]]:
    """Returns the element types: JAX's short name, NumPy's name, ONNX's name and ONNX's code."""

def read_recording(text: str) -> dict[str, Any]:
    """Parses the text that `record` writes.

    The result has the keys `header`, `main` (the number of the outermost jaxpr), `jaxprs`,
    `constraints`, `elided` (name, element type and shape of the arrays without values) and
    `external` (the primitives that rules written in Python lower). Values that have no type in
    Python are pairs of their kind and their contents, such as `("enum", "CLIP")`.
    """

def operators() -> list[str]:
    """Returns the operators whose form can be chosen, in alphabetical order."""

@final
class Primitive:
    """A row of the table of primitives."""

    @property
    def name(self) -> str:
        """Its name in JAX."""

    @property
    def calls(self) -> list[str]:
        """The possible names of the parameter with the jaxpr, if the primitive is a plain call."""

    @property
    def control(self) -> str | None:
        """The kind of control flow of its equations, or None."""

    @property
    def fills(self) -> bool:
        """`True` if it only fills its results."""

    @property
    def without_complex(self) -> str | None:
        """The reason that equations of complex numbers are not lowered, or None."""

    @property
    def without_keys(self) -> str | None:
        """The reason that equations of PRNG keys are not lowered, or None."""

def primitives() -> list[Primitive]:
    """Returns the primitives that have a lowering rule, in alphabetical order."""

def beyond_models() -> dict[str, str]:
    """Returns the primitives that need more than a model has, with their requirements."""

def controls() -> list[str]:
    """Returns the kinds of control flow of equations."""

def expansions() -> list[str]:
    """Returns the names of the expansions in the table of primitives."""

def explain(model: str | bytes, message: str) -> str | None:
    """Explains a runtime error with the lines of a model, given as a file or bytes. Returns None if
    the message does not mention the model.
    """

def damage(path: str) -> str | None:
    """Returns the reason that a file cannot be read as a model, or None."""

def before_inlining(name: str) -> str | None:
    """Returns the original name of a function's node or value, if a runtime renamed it when it
    inlined the function.
    """

def common_subsequence(
    one: Sequence[int], other: Sequence[int], most: int
) -> list[tuple[int, int]]:
    """Pairs the positions of equal numbers in two sequences, ascending in both.

    Sequences with more than `most` differences are aligned only in part.
    """

def same_values(one: bytes, other: bytes) -> dict[str, str]:
    """Returns the names in the model `other` of the values of `one` that are computed in the same
    way: by the same operators, from the same inputs by position and the same weights by name.
    """

def command(argv: Sequence[str]) -> tuple[int, str, str]:
    """Runs a command that needs no Python. Returns the exit status, the output and the errors."""

def main(argv: Sequence[str]) -> int:
    """Runs the command line tool and returns its exit status."""
