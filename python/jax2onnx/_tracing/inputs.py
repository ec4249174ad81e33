"""Turns `inputs` and `input_params` into abstract values that JAX can trace."""

import dataclasses
import inspect
import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jax2onnx import _frameworks, _jax
from jax2onnx._python.notebooks import name_of_file
from jax2onnx.errors import InvalidInputError

_ACCEPTED = (
    "pass a jax.ShapeDtypeStruct, an array, anything with a shape and a dtype, a shape such as "
    '("B", 28, 28), or a dict, list, tuple or named tuple of these'
)


_WIDE = (np.dtype("int64"), np.dtype("uint64"))

# Dimensions are signed 64-bit numbers.
LARGEST = 2**63 - 1

# Python's message about an argument.
_MISSING = re.compile(r"missing a required (?:keyword-only )?argument: '(\w+)'")

_PARENTHESES = re.compile(r"\(.*\)")


class Specs:
    """Converts the users' input specifications to `jax.ShapeDtypeStruct`s.

    Symbolic dimensions with the same name are the same dimension in all arguments.
    """

    def __init__(self, *, double: bool) -> None:
        self._float = np.float64 if double else np.float32
        self._symbols: Any = None

    def all(
        self, inputs: Sequence[Any], params: Mapping[str, Any] | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns one pytree for each positional and each keyword argument."""
        self._adopt_symbols([inputs, params])
        return self.positional(inputs), self.keyword(params)

    def positional(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Returns one pytree for each positional argument."""
        if not isinstance(inputs, list | tuple) or hasattr(inputs, "_fields"):
            raise _invalid("`inputs`", inputs, "pass a list with one entry for each argument")
        # NumPy's integers are arguments here, as its floats are.
        if inputs and all(
            _is_dimension(entry) and not isinstance(entry, np.generic) for entry in inputs
        ):
            entry = inputs if isinstance(inputs, tuple) else tuple(inputs)
            self._shape("`inputs`", entry)
            raise _invalid("`inputs`", inputs, f"for one argument of this shape, pass [{entry!r}]")
        self._adopt_symbols(inputs)
        return tuple(self._tree(f"`inputs[{i}]`", entry) for i, entry in enumerate(inputs))

    def keyword(self, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Returns one pytree for each keyword argument. Numbers and booleans are scalars."""
        if params is None:
            return {}
        if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
            raise _invalid("`input_params`", params, "pass a dict from argument names to values")
        self._adopt_symbols(params)
        return {
            name: self._tree(f"`input_params[{name!r}]`", entry, scalars=True)
            for name, entry in params.items()
        }

    def _tree(self, where: str, entry: Any, *, scalars: bool = False) -> Any:
        def leaf(path: Any, value: Any) -> jax.ShapeDtypeStruct:
            inside = jax.tree_util.keystr(path)
            return self._leaf(f"{where[:-1]}{inside}`", value, scalars)

        if _is_shape_with_dtype(entry):
            shape, dtype = entry
            raise _invalid(
                where, entry, f"write jax.ShapeDtypeStruct({shape!r}, {np.dtype(dtype).name!r})"
            )
        is_shape = _is_shape if scalars else _is_meant_as_shape
        empty_is_shape = not _holds_arrays(entry)

        def is_leaf(value: Any) -> bool:
            return is_shape(value) and (empty_is_shape or value != ())

        return jax.tree_util.tree_map_with_path(leaf, entry, is_leaf=is_leaf)

    def _leaf(self, where: str, value: Any, scalars: bool) -> jax.ShapeDtypeStruct:
        # A malformed shape arrives here whole, so that it can have its own message.
        if type(value) in (list, tuple):
            return jax.ShapeDtypeStruct(self._shape(where, value), self._float)
        if _is_shape_text(value):
            return jax.ShapeDtypeStruct(self._symbolic(where, value, value), self._float)
        if isinstance(value, jax.Array | np.ndarray | np.generic) or (
            scalars and isinstance(value, bool | int | float | complex)
        ):
            try:
                aval = jax.typeof(value)
            except TypeError as error:
                raise _invalid(where, value, "JAX has no arrays with this element type") from error
            return jax.ShapeDtypeStruct(
                aval.shape,
                aval.dtype,
                weak_type=aval.weak_type,
                sharding=_jax.explicit_sharding(value),
            )
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if type(value).__module__.startswith("jax2onnx."):
            raise _invalid(where, value, f"only jax2onnx.export takes these; {_ACCEPTED}")
        if shape is None or dtype is None:
            raise _invalid(where, value, _instead_of(value))
        weak = bool(getattr(value, "weak_type", False))
        if dtype in _WIDE:
            dtype = jax.dtypes.canonicalize_dtype(dtype)
        try:
            return jax.ShapeDtypeStruct(
                self._shape(where, tuple(shape)),
                dtype,
                weak_type=weak,
                sharding=_jax.explicit_sharding(value),
            )
        except TypeError as error:
            raise _invalid(where, value, _ACCEPTED) from error

    def _shape(self, where: str, shape: Any) -> tuple[Any, ...]:
        return tuple(self._dimension(where, shape, dim) for dim in shape)

    def _dimension(self, where: str, shape: Any, dim: Any) -> Any:
        if isinstance(dim, str) and dim != "None":
            return self._symbolic(where, shape, dim)[0]
        if _jax.is_symbolic(dim):
            if self._symbols is None:
                self._symbols = _jax.symbolic_scope(dim)
            return _jax.in_scope(dim, self._symbols)
        if isinstance(dim, bool) or not isinstance(dim, numbers.Integral) or int(dim) < 0:
            right = 'a dimension must be a non-negative integer or a name such as "B"'
            raise _invalid(where, shape, f"{right}, not {dim!r}")
        if int(dim) > LARGEST:
            raise _invalid(where, shape, f"the largest dimension in ONNX is {LARGEST}")
        return int(dim)

    def _symbolic(self, where: str, shape: Any, text: str) -> tuple[Any, ...]:
        """Parses dimensions such as `B` or `B, T + 1`."""
        from jax import export

        if self._symbols is None:
            self._symbols = export.SymbolicScope()
        try:
            dims = export.symbolic_shape(text, scope=self._symbols)
        except ValueError as error:
            raise _no_dimension(where, shape, text) from error
        if not dims:
            raise _no_dimension(where, shape, text)
        return tuple(self._dimension(where, shape, dim) for dim in dims)

    def _adopt_symbols(self, entries: Any) -> None:
        """Merges the scopes of the user's symbolic dimensions."""
        scopes = {} if self._symbols is None else {self._symbols: None}
        for leaf in jax.tree_util.tree_leaves(entries):
            shape = getattr(leaf, "shape", None)
            for dim in shape if isinstance(shape, tuple) else (leaf,):
                if _jax.is_symbolic(dim):
                    scopes[_jax.symbolic_scope(dim)] = None
        if scopes:
            self._symbols = _jax.one_scope(list(scopes))


def given_leaves(
    inputs: Sequence[Any], args: Any, params: Mapping[str, Any] | None, kwargs: Any
) -> list[Any]:
    """Returns the user's specifications, one for each leaf."""
    tree: Any = jax.tree_util.tree_structure((args, kwargs))
    given: list[Any] = tree.flatten_up_to((tuple(inputs), dict(params or {})))
    return given


def given_flags(given: Sequence[Any]) -> dict[int, bool]:
    """Returns the booleans among the user's specifications, by position."""
    return {i: bool(v) for i, v in enumerate(given) if isinstance(v, bool | np.bool_)}


def wide_integers(given: Sequence[Any], traced: Sequence[Any]) -> dict[int, str]:
    """Returns the types of 64-bit integer specifications that JAX narrows to 32 bits, by position.
    Arrays are excluded, since 64 bits are NumPy's default.
    """
    return {
        i: str(value.dtype)
        for i, (value, inside) in enumerate(zip(given, traced, strict=True))
        if not isinstance(value, jax.Array | np.ndarray | np.generic)
        and getattr(value, "dtype", None) in _WIDE
        and value.dtype != inside
    }


def narrowed_inputs(given: Sequence[Any], traced: Sequence[Any]) -> list[tuple[int, str, str]]:
    """Returns the positions of inputs that JAX narrows to 32 bits, with both element types."""
    return [
        (i, str(value.dtype), str(jax.dtypes.canonicalize_dtype(inside.dtype)))
        for i, (value, inside) in enumerate(zip(given, traced, strict=True))
        if isinstance(dtype := getattr(value, "dtype", None), np.dtype)
        and dtype.kind in "iufc"
        and jax.dtypes.canonicalize_dtype(dtype) != dtype
    ]


def narrowing(inputs: Sequence[tuple[str, str, str]], taken: Sequence[str]) -> str:
    """Returns the warning for inputs that become narrower, given with both element types and the
    one that the model takes.
    """
    lines: list[str] = []
    advice: dict[bool, str] = {}
    for (name, was, now), outside in zip(inputs, taken, strict=True):
        if was == outside:
            lines.append(f"  `{name}` is {was}, and the model converts it to {now}")
            advice.setdefault(True, f"specify {now}, and {was} in `input_dtypes`")
        else:
            lines.append(f"  `{name}` is {was}, and the model takes {now}")
            advice.setdefault(False, f"pass the narrower type (an array: x.astype({now!r}))")
    return "\n".join(
        [
            "[narrowed-inputs] JAX computes with 32 bits, so inputs become narrower:",
            *lines,
            f"  help: {', '.join(advice.values())}, or enable_double_precision=True to compute "
            "with 64 bits",
        ]
    )


def check_callable(fn: Any) -> None:
    """Raises for classes, models without parameters, and objects that cannot be called."""
    if problem := _frameworks.unready(fn):
        message, advice = problem
        raise InvalidInputError("missing-parameters", message, help=advice)
    if isinstance(fn, type):
        raise InvalidInputError(
            "not-callable",
            f"`fn` is the class `{fn.__name__}`",
            help=f"pass an instance of it, such as {fn.__name__}(…)",
        )
    if not callable(fn):
        raise InvalidInputError(
            "not-callable",
            f"`fn` cannot be {_shown(fn)}",
            help="pass a function or another callable",
        )


def check_arguments(
    signature: inspect.Signature | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    function: tuple[str, str, int] | None,
) -> None:
    """Raises if a function cannot be called with these arguments."""
    if signature is None:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = _count(len(args), "positional input")
        given += f" and {_count(len(kwargs), 'keyword input')}" if kwargs else ""
        raise InvalidInputError(
            "wrong-arguments",
            f"the function cannot be called with {given}: {error}",
            place_of(function) if function else "",
            help=_advice_on(
                signature, str(error), function and function[1], any_given=bool(args or kwargs)
            ),
        ) from None


def _advice_on(
    signature: inspect.Signature, message: str, name: str | None, *, any_given: bool
) -> str:
    """Returns advice for arguments that a function with a qualified name cannot be called with."""
    if not signature.parameters:
        return "it takes no arguments; if it returns the model, call it: load()"
    if next(iter(signature.parameters)) == "self" and name and "." in name:
        return f"`{name}` belongs to a class: pass an instance, or the same method of an instance"
    advice = f"its signature is {_without_annotations(signature)}"
    if not any_given:
        return f"{advice}; pass an array or a shape for each argument"
    if missing := _MISSING.search(message):
        name = missing[1]
        advice += f"; if `{name}` never changes, bind it: functools.partial(fn, {name}=…)"
        if held := {"params", "variables", "state"} & signature.parameters.keys():
            options = " and ".join(f"{option}=" for option in sorted(held))
            advice += f", or pass {options} to jax2onnx.export"
    return advice


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def check_results(results: Sequence[Any], function: tuple[str, str, int] | None) -> None:
    """Raises if a function returns nothing: runtimes do not load a model without outputs."""
    if not results:
        raise InvalidInputError(
            "no-results",
            "the function returns no arrays",
            place_of(function) if function else "",
            help="return at least one array",
        )


def _without_annotations(signature: inspect.Signature) -> inspect.Signature:
    empty = inspect.Parameter.empty
    plain = [p.replace(annotation=empty) for p in signature.parameters.values()]
    return signature.replace(parameters=plain, return_annotation=empty)


def _is_shape(value: Any) -> bool:
    """Returns `True` for a sequence of dimensions. `()` is a scalar's shape, `[]` an empty list."""
    if type(value) is list:
        return bool(value) and all(map(_is_dimension, value))
    return type(value) is tuple and all(map(_is_dimension, value))


def _is_meant_as_shape(value: Any) -> bool:
    """Returns `True` for a shape, or a sequence that contains an invalid dimension such as None."""
    if type(value) not in (list, tuple) or not any(map(_is_dimension, value)):
        return _is_shape(value)
    return all(v is None or isinstance(v, float | bool) or _is_dimension(v) for v in value)


def _is_shape_with_dtype(value: Any) -> bool:
    """Returns `True` for a shape and an element type in a tuple, which JAX does not know."""
    if type(value) not in (list, tuple) or len(value) != 2 or not _is_shape(value[0]):
        return False
    dtype = value[1]
    is_numpys = isinstance(dtype, type) and issubclass(dtype, np.generic | bool | int | float)
    # JAX's scalar types have a `dtype` and, unlike arrays and their specifications, no shape.
    is_jaxs = hasattr(dtype, "dtype") and not hasattr(dtype, "shape")
    if not is_numpys and not is_jaxs and not isinstance(dtype, str | np.dtype):
        return False
    try:
        np.dtype(dtype)
    except TypeError:
        return False
    return True


def _holds_arrays(tree: Any) -> bool:
    """Returns `True` if a pytree has arrays or specs, so that `()` in it is an empty container."""
    leaves = jax.tree_util.tree_leaves(tree)
    return any(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves)


def _is_dimension(value: Any) -> bool:
    if isinstance(value, str):
        return not _is_shape_text(value)
    if isinstance(value, numbers.Integral):
        return not isinstance(value, bool)
    return _jax.is_symbolic(value)


def _is_shape_text(value: Any) -> bool:
    """Returns `True` for a shape in one string: `B, T, 64`. Commas in parentheses do not count."""
    return isinstance(value, str) and "," in _PARENTHESES.sub("", value)


def _instead_of(value: Any) -> str:
    """Returns advice for a value that is not a specification."""
    if isinstance(value, str | bool | int | float | complex):
        spec = f"an array of this size, pass ({value!r},)"
        if not isinstance(value, str):
            spec = "an input, pass an array (np.asarray) or jax.ShapeDtypeStruct((), dtype)"
        return (
            "a value that never changes is not an input: bind it with functools.partial(fn, …); "
            f"for {spec}"
        )
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (
            "register the class, so that JAX sees its fields: write "
            f"@jax.tree_util.register_dataclass above `class {type(value).__name__}`"
        )
    return _ACCEPTED


def _invalid(where: str, value: Any, help: str) -> InvalidInputError:
    return InvalidInputError("invalid-inputs", f"{where} cannot be {_shown(value)}", help=help)


def _shown(value: Any) -> str:
    """Returns the text of a value, shortened to one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _no_dimension(where: str, shape: Any, text: str) -> InvalidInputError:
    kind = "shape" if _is_shape_text(text) else "dimension"
    right = "write a name or an expression such as 2*T + 1"
    if "[" in text:
        right = "only jax2onnx.export takes types in texts: pass a jax.ShapeDtypeStruct, or a shape"
    return _invalid(where, shape, f"{text!r} is not a {kind}; {right}")


def place_of(function: tuple[str, str, int]) -> str:
    """Returns the location of a function for errors."""
    path, name, line = function
    return f"  --> {name_of_file(path)}:{line} in {name}"
