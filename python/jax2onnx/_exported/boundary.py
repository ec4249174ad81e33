"""Specifications of a model's inputs and outputs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np

from jax2onnx import _core
from jax2onnx._export.option_names import with_advice
from jax2onnx._tracing.inputs import Specs
from jax2onnx.errors import InvalidInputError, invalid_option

Layout = Literal["nchw"]
LAYOUTS = ("nchw",)

_TYPED = re.compile(r"(?P<dtype>\w*)\[(?P<shape>[^\[\]]*)\]")

# An element type with its shape in parentheses, by mistake.
_CALL = re.compile(r"\s*(?!min|max|mod|floordiv)\w+\s*\(.*\)\s*")

# The axes of the function's argument, by the model's: the function takes NHWC.
_NHWC = (0, 2, 3, 1)


@with_advice
@dataclass(frozen=True)
class Input:
    """An input of a model.

    Attributes:
        shape: The shape, such as `("B", 3)` or `"B, 3"`. A text may include the element type:
            `"f32[B,3]"`. Names are dimensions that are known only when the model runs.
        dtype: The element type of the function's argument. None means float32, or float64 with
            `x64`.
        name: The name of the input. None means the name of the argument.
        layout: "nchw" if the model takes NCHW, which `shape` is then, and the function NHWC.
        model_dtype: The element type of the model's input, if it differs from the function's.
    """

    shape: Sequence[int | str] | str
    dtype: Any = None
    name: str | None = None
    layout: Layout | None = None
    model_dtype: Any = None


@with_advice
@dataclass(frozen=True)
class Output:
    """An output of a model.

    Attributes:
        name: The name of the output. None means the default.
        layout: "nchw" if the function returns NHWC and the model NCHW.
        model_dtype: The element type of the model's output, if it differs from the function's.
    """

    name: str | None = None
    layout: Layout | None = None
    model_dtype: Any = None


def parsed(text: str) -> Input:
    """Parses an input such as `f32[B,3]`, or a shape such as `B, 3`."""
    match = _TYPED.fullmatch(_without_spaces(text))
    if match is None:
        if len(_split(text)) < 2 or "[" in text or "]" in text or _CALL.fullmatch(text):
            raise InvalidInputError(
                "invalid-inputs",
                f"`{text}` is not an input",
                help="write type and shape: f32[2,3], i32[B,16], u8[]; a value that never changes "
                "is not an input: bind it with functools.partial(fn, …)",
            )
        return Input(text)
    shape = match["shape"]
    dims = tuple(int(dim) if dim.isdigit() else dim for dim in _split(shape)) if shape else ()
    return Input(dims, _dtype(match["dtype"], text) if match["dtype"] else None)


def _without_spaces(text: str) -> str:
    """Removes spaces, which must not separate two dimensions."""
    if apart := re.search(r"\w+\s+\w+", text):
        raise InvalidInputError(
            "invalid-inputs",
            f"`{text}` has a space in a dimension, or lacks a comma: `{apart[0]}`",
            help="separate dimensions by commas: f32[B,3]",
        )
    return re.sub(r"\s", "", text)


def _split(shape: str) -> list[str]:
    """Splits a shape at commas outside parentheses."""
    parts, depth = [""], 0
    for character in shape:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _dtype(name: str, text: str) -> Any:
    full = {short: long for short, long, *_ in _core.element_types()}
    known = full.get(name, name)
    if known not in full.values():  # `float` is one of 64 bits in NumPy
        raise InvalidInputError(
            "invalid-inputs",
            f"`{text}` has an unknown element type",
            help=f"the types are {', '.join(full)}, or long names such as float32",
        )
    return jax.numpy.dtype(known)


def input_options(
    inputs: Sequence[Any], keywords: Mapping[str, Any] | None, *, double: bool
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """Translates specifications of inputs to the arguments and options of the conversion."""
    if inputs and all(type(entry) is int for entry in inputs):
        raise InvalidInputError(
            "invalid-inputs",
            f"the inputs are {', '.join(map(str, inputs))}",
            help=f"for one argument of this shape, pass {inputs!r}; if the argument is a number, "
            f'pass its type, as "i32[]" or "f32[]"',
        )
    if keywords is not None and not isinstance(keywords, Mapping):
        raise InvalidInputError(
            "invalid-inputs",
            f"`keyword_inputs` cannot be of type {type(keywords).__name__}",
            help="pass a dict from argument names to inputs",
        )
    given = (tuple(map(_read, inputs)), {k: _read(v) for k, v in (keywords or {}).items()})
    default = np.float64 if double else np.float32

    def plain(spec: Any) -> Any:
        if not isinstance(spec, Input):
            return spec
        if isinstance(spec.shape, str) and "[" in spec.shape:
            inner = parsed(spec.shape)
            dtype = inner.dtype if spec.dtype is None else spec.dtype
            spec = replace(spec, shape=inner.shape, dtype=dtype)
        shape = spec.shape
        dims = tuple(_split(_without_spaces(shape))) if isinstance(shape, str) else tuple(shape)
        dims = tuple(int(d) if isinstance(d, str) and d.isdigit() else d for d in dims)
        if _layout(spec.layout):
            if len(dims) != len(_NHWC):
                raise InvalidInputError(
                    "invalid-inputs",
                    f"an input of shape {spec.shape!r} cannot have the layout {spec.layout!r}",
                    help="only inputs with four dimensions have one",
                )
            dims = tuple(dims[axis] for axis in _NHWC)
        dtype = default if spec.dtype is None else spec.dtype
        return jax.ShapeDtypeStruct(
            dims, _dtype(dtype, f"dtype={dtype!r}") if isinstance(dtype, str) else dtype
        )

    args, kwargs = jax.tree_util.tree_map(plain, given, is_leaf=_is_input)
    structure: Any = jax.tree_util.tree_structure(Specs(double=double).all(args, kwargs))
    leaves = structure.flatten_up_to(given)
    specs = [leaf if isinstance(leaf, Input) else Input(()) for leaf in leaves]
    return args, kwargs, _options("input", specs)


def _options(side: str, specs: Sequence["Input | Output"]) -> dict[str, Any]:
    """Returns names, layouts and element types by position, as the conversion takes them."""
    names = [spec.name for spec in specs]
    return {
        f"{side}_names": names if any(names) else None,
        f"{side}s_as_nchw": [i for i, spec in enumerate(specs) if _layout(spec.layout)],
        f"{side}_dtypes": {
            i: spec.model_dtype for i, spec in enumerate(specs) if spec.model_dtype is not None
        },
    }


def _read(spec: Any) -> Any:
    """Parses texts with an element type anywhere in a pytree. Other texts are dimensions."""

    def leaf(value: Any) -> Any:
        return parsed(value) if isinstance(value, str) and "[" in value else value

    if isinstance(spec, str):
        return parsed(spec)
    return jax.tree_util.tree_map(leaf, spec, is_leaf=_is_input)


def _is_input(value: Any) -> bool:
    return isinstance(value, Input)


def _layout(layout: str | None) -> bool:
    if layout is not None and layout not in LAYOUTS:
        raise invalid_option(
            f"`layout` cannot be {layout!r}",
            'pass "nchw" if the model takes or returns NCHW where the function has NHWC, or '
            "omit it if both are the same",
        )
    return layout is not None


Outputs = Sequence[str | Output | None] | Mapping[str, str]


def output_options(outputs: Outputs | None) -> dict[str, Any]:
    """Translates specifications of outputs to the options of the conversion."""
    if outputs is None or isinstance(outputs, Mapping):
        return {"output_names": outputs}
    if isinstance(outputs, str) or not isinstance(outputs, Sequence):
        raise invalid_option(
            f"`outputs` cannot be {outputs!r}",
            "pass one name or jax2onnx.Output for each output, or a mapping that renames them",
        )
    return _options("output", [e if isinstance(e, Output) else Output(e) for e in outputs])
