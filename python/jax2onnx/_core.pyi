"""The compiled part: from a traced function to an ONNX model."""

import os
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, Final, NoReturn, Protocol, Self, final

import numpy as np

__all__ = [
    "Attributes",
    "Copier",
    "Copies",
    "Frame",
    "GraphListing",
    "LoweringContext",
    "Model",
    "Primitive",
    "Reader",
    "Results",
    "Safetensors",
    "Source",
    "SourceMap",
    "Tensors",
    "Value",
    "Walker",
    "Weight",
    "__version__",
    "assumptions",
    "before_inlining",
    "beyond_models",
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
    "same_values",
    "save_set",
    "targets",
]
__version__: Final[str]

@final
class Attributes:
    """The attributes that objects of a type store, in their dictionary or in slots.

    `slots` are names and what gets their values. Attributes in `unnamed` add nothing to a path, and
    those in `ignored` are not read, nor are others than the unnamed ones with `only_unnamed`.
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
    """How objects of a type are copied: `make` makes one that stores nothing yet, given the type.
    `slots` are what gets the value of each, and what sets it.
    """

    def __new__(
        cls,
        make: Callable[[type], object],
        has_dict: bool,
        slots: Sequence[tuple[Callable[[Any], Any], Callable[[Any, Any], None]]],
    ) -> Self: ...

@final
class Copies:
    """Copies of objects and of the containers in which they keep others, each made once, so that
    what is shared stays shared. `learn` says how objects of a type are copied; None is not to copy
    them. The object `one` stands for all objects of its type.
    """

    def __new__(cls, learn: Callable[[type], Copier | None], one: object = None) -> Self: ...
    def of(self, object: Any) -> Any:
        """The copy of an object; the object itself if it is not copied."""

    def has_copied(self, objects: list[Any]) -> bool:
        """Whether one of some objects was copied."""

    def others(self, objects: list[Any]) -> list[Any]:
        """Those of some objects that are not copies."""

@final
class Reader:
    """How a walk handles objects of a type that can hold others, or are arrays.

    `contents` says what they hold: None for nothing, `dict` for entries, `list` for elements,
    `Attributes`, or a function that returns pairs of a name and an object. Objects own the
    containers that they hold if `is_object`. Their name is part of the paths below them if
    `is_step`. `own_name` gives a name that they have whatever their path is, and `array_prefix` one
    that arrays among their attributes are named after.
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
    """Walks objects, each at most once. `learn` says how to read objects of a type; None is not to
    read them.
    """

    def __new__(cls, learn: Callable[[type], Reader | None]) -> Self: ...
    def walk(self, root: object) -> tuple[list[tuple[Any, str, bool]], list[tuple[Any, str, bool]]]:
        """Walks an object breadth first, so that what can be reached in several ways gets a short
        path. Returns the arrays and the modules, each with its path, and whether that is a name
        which is complete.
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
        """Types, ids of arrays and plain values in the order of the walk. It differs if anything
        differs that a traced function could depend on.
        """

    @property
    def classes(self) -> list[type]:
        """The classes that objects refer to, as the description of a model does that is merged
        with parameters later.
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

        `placement` says where the weights go: "inline" in the model's file, "external" in a data
        file beside it, "auto" by their size.
        """

    @property
    def size(self) -> int:
        """How many bytes the model takes, its weights included."""

    @property
    def written(self) -> int:
        """How many bytes `save` has written so far. Another thread may ask while it runs."""

    def to_bytes(self) -> bytes:
        """The serialised `ModelProto`, with all weights."""

    def skeleton(self) -> bytes:
        """The serialised `ModelProto` without the bytes of its large tensors."""

    def write_source_map(self, path: str) -> PendingFile:
        """Writes the text of the source map; it is at `path` when the result is finished."""

    @property
    def results(self) -> Results | None:
        """What became of the equations, if that was recorded."""

    @property
    def missed(self) -> list[str]:
        """The operators that were nearly recognised, and why not, if that was asked for."""

    @property
    def unmatched(self) -> list[tuple[str, str]]:
        """The options with patterns that match nothing, and those, for a model in a set."""

    @property
    def fallbacks(self) -> list[str]:
        """What the target does not run on its GPU, and where it came from."""

    def tensors(self) -> Tensors:
        """Name and raw bytes of each tensor that `skeleton` leaves empty, one by one."""

@final
class Results:
    """What became of the equations of a program, for comparing a model with JAX."""

    def rows(self) -> list[tuple[int | None, list[tuple[tuple[int, int] | None, list[str]]]]]:
        """For each equation of the main graph: the row of the equation that called its jaxpr, and
        for each result the number of the equation in JAX's jaxpr and of its result, and the names
        of the values it is in the model: two for a complex one, none if nothing is left of it.
        """

    def place(self, row: int) -> str:
        """Where an equation is in the program, with an excerpt."""

    def rule(self, row: int, result: int) -> str | None:
        """The rule or rewrite that emitted the node that computes a result."""

@final
class GraphListing:
    """A model's graph, the graphs inside its nodes, and its functions, for tests."""

    def __new__(cls, model: str | bytes) -> Self: ...
    def text(self, metadata: bool) -> str:
        """The model as text, one line for each thing in it."""

    def nodes(self) -> list[tuple[str, str, list[str], list[tuple[str, str]]]]:
        """All nodes: operator, name, names of results, metadata."""

    def missing(self, path: str) -> str | None:
        """What there is in place of a path through the graph; None if the graph has it."""

    def unused_inputs(self) -> list[str]:
        """The inputs of the model that nothing reads."""

    def constants(self) -> list[str]:
        """The names of all constants."""

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
        """The column after the end of the expression."""

    @property
    def function(self) -> str:
        """The function's qualified name."""

@final
class Source:
    """One source of a node."""

    @property
    def site(self) -> Frame | None:
        """The frame in the user's code."""

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
        """Stacks of other calls of the functions that contain the node, if it is not known which of
        the calls is meant.
        """

    @property
    def sites(self) -> list[Frame]:
        """All frames that `site` may be: several if it is not known which call of a function is
        meant, and the function itself has no line of the user's code.
        """

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
        """The sources of the node that computes the value `name`, or is named `name`."""

    def lookup_nodes(
        self, nodes: Sequence[tuple[str, str, int, Sequence[str], Sequence[str]]]
    ) -> list[list[Source]]:
        """The sources of the nodes of a model that a runtime may have optimised.

        Each is its name, its operator, the number of the graph or function that it stands in, and
        the names of the values that it reads and of those that it computes.
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
        """How many axes it has."""

    @property
    def is_complex(self) -> bool:
        """Whether it is complex: two values, since ONNX has no complex numbers."""

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
    """The equation that a lowering rule is called for, and what it emits nodes with."""

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
        """An array, or numbers of type `dtype`, as a value."""

    def complex(self, real: Value, imag: Value) -> Value:
        """A complex value made of two real ones."""

    def dims(self, shape: Any) -> Value:
        """Dimensions, which may be symbolic, as a vector of 64-bit integers."""

    def inline(self, jaxpr: Any, /, *inputs: Value) -> list[Value]:
        """The results of a jaxpr that is a parameter of the equation, called with `inputs`."""

    def built_in(self, *inputs: Value) -> list[Value]:
        """The results of the built-in rule of the primitive for `inputs`."""

    def unsupported(self, reason: str, help: str | None = None) -> NoReturn:
        """Raises an `UnsupportedError` at the user's line."""

def convert(
    jaxpr: object,
    *,
    model_name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    name_of: Callable[[object], str | None],
    rules: Sequence[tuple[str, Callable[..., Any], CodeType, tuple[str, str, int]]],
    detail: str,
    target: str,
    opset: int | None = None,
    inputs_as_nchw: Sequence[int] = ...,
    outputs_as_nchw: Sequence[int] = ...,
    input_types: Mapping[int, str] = ...,
    output_types: Mapping[int, str] = ...,
    defaults: dict[int, bool] = ...,
    source_map: bool = False,
    embed_sources: bool = False,
    absolute_paths: bool = False,
    entry: object | None = None,
    function: tuple[str, str, int] | None = None,
    calls: str | None = None,
    record: str | None = None,
    record_weights: bool = False,
    results: bool = False,
    operators: dict[str, str] = ...,
    normalization_mode: str = "auto",
    assume: list[str] = ...,
    compute: list[tuple[str, str]] = ...,
    weights: list[tuple[str, str]] = ...,
    in_set: bool = False,
    report_missed: bool = False,
    fuel: int | None = None,
) -> Model:
    """Converts the `ClosedJaxpr` that `jax.make_jaxpr` returned.

    Its equations are listed in the file `calls`; the program is written to the file `record`.
    `fuel` is how many changes the optimiser may make, for tests: zero is none at all.
    """

def save_set(
    folder: str,
    models: Sequence[tuple[str, Model]],
    data: str,
    files: Sequence[tuple[str, bytes]],
) -> None:
    """Writes models that share their large weights, in the file `data`, and other files. They
    replace those in `folder`, all at once.
    """

@final
class Weight:
    """A weight, known by type and shape. Its elements are read while the model is written."""

    @staticmethod
    def fetched(dtype: str, shape: Sequence[int], fetch: Callable[[], Any]) -> Weight:
        """A weight whose elements `fetch` returns, as a NumPy array of that type and shape."""
    @property
    def shape(self) -> list[int]:
        """The sizes of its axes."""
    @property
    def dtype(self) -> str:
        """NumPy's name for the type of its elements."""
    def transposed(self, axes: Sequence[int]) -> Weight:
        """The weight with its axes in another order."""
    def converted(self, dtype: str, name: str) -> Weight:
        """The weight with elements of another float type. Errors call it `name`."""

@final
class Safetensors:
    """The tensors of safetensors files."""

    def __new__(cls, path: str | os.PathLike[str]) -> Safetensors:
        """Opens a file, the index of several files, or a folder with one or the other."""
    def names(self) -> list[str]:
        """The names of all tensors, in alphabetical order."""
    def get(self, name: str) -> Weight | None:
        """The tensor of that name; None if there is none."""

def is_precision(text: str) -> bool:
    """Whether a model can compute in what a text names: `float16`, `float16:all`."""

def is_weight_format(text: str) -> bool:
    """Whether weights can be stored in the formats that a text names: `int4:64,float16`."""

def targets() -> list[str]:
    """The names of what models can be made for."""

def assumptions() -> list[str]:
    """The names of what `to_onnx` can be told to assume."""

def element_types() -> list[tuple[str, str, str, int]]:
    """The element types: their names in JAX for short, in numpy and in ONNX, and their codes in
    ONNX.
    """

def operators() -> list[str]:
    """The operators whose form can be chosen, in alphabetical order."""

@final
class Primitive:
    """A row of the table of primitives."""

    @property
    def name(self) -> str:
        """JAX's name of it."""

    @property
    def calls(self) -> list[str]:
        """The names that the parameter with the jaxpr may have, if it does nothing but call it."""

    @property
    def control(self) -> str | None:
        """How its equations run the jaxprs in their parameters, if not once each."""

    @property
    def fills(self) -> bool:
        """Whether it fills arrays with few numbers."""

    @property
    def without_complex(self) -> str | None:
        """Why its equations of complex numbers are not lowered; None if they are."""

    @property
    def without_keys(self) -> str | None:
        """Why its equations about PRNG keys are not lowered; None if they are."""

def primitives() -> list[Primitive]:
    """The primitives that have a lowering rule, in alphabetical order."""

def beyond_models() -> dict[str, str]:
    """The primitives that need more than a model has, and what is known of each."""

def controls() -> list[str]:
    """The ways in which equations run the jaxprs in their parameters."""

def expansions() -> list[str]:
    """The ways in which the table has JAX expand equations."""

def explain(model: str | bytes, message: str) -> str | None:
    """What a runtime error means for a model, given as a file or bytes."""

def damage(path: str) -> str | None:
    """Why a file cannot be read as a model; None if it can."""

def before_inlining(name: str) -> str | None:
    """The name that a node or a value of a function had in the function, if a runtime gave it
    another one when it inlined the function.
    """

def same_values(one: bytes, other: bytes) -> dict[str, str]:
    """The names in the model `other` of the values of `one` that are computed in the same way: by
    the same operators, from the same inputs by position and the same weights by name.
    """

def main(argv: Sequence[str]) -> int:
    """Runs the command line tool and returns its exit status."""
