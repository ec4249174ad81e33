"""Operations of StableHLO: typed access to attributes, constants, and sizes that are evaluated
while the program is traced.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jax2onnx import _jax

if TYPE_CHECKING:
    from jax2onnx._expansion.stablehlo import Module

# The most elements of integers that are evaluated while the program is traced, to find sizes.
_FEW = 64


class Operation:
    """An operation with typed access to its attributes, types and regions."""

    def __init__(self, op: Any, module: "Module", values: dict[Any, Any]) -> None:
        self.op, self.module, self._values = op, module, values

    def ints(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        if name not in self.op.attributes:
            return tuple(default)
        return tuple(map(int, self.op.attributes[name]))

    def integer(self, name: str, default: int = 0) -> int:
        return int(self.op.attributes[name].value) if name in self.op.attributes else default

    def flag(self, name: str) -> bool:
        return name in self.op.attributes and bool(self.op.attributes[name].value)

    def word(self, name: str, default: str = "") -> str:
        """Returns the value of an enumeration, such as `LT` of `#stablehlo<… LT>`."""
        if name not in self.op.attributes:
            return default
        return re.split(r"[<\s]", str(self.op.attributes[name]).rstrip(">"))[-1]

    def numbers(self, name: str, kind: str) -> Any:
        """Returns an attribute that describes axes, as its class in StableHLO's dialect."""
        from jaxlib.mlir.dialects import stablehlo

        return getattr(stablehlo, kind)(self.op.attributes[name])

    def matrix(self, name: str, rows: int) -> list[tuple[int, int]]:
        """Returns pairs of integers, such as the padding of each axis."""
        if name not in self.op.attributes:
            return [(0, 0)] * rows
        return [(int(low), int(high)) for low, high in np.array(self.op.attributes[name])]

    @property
    def dtype(self) -> Any:
        return dtype_of(self.op.results[0].type)

    @property
    def shape(self) -> tuple[int, ...]:
        """The static shape of the first result."""
        kind = self.op.results[0].type
        if any(kind.is_dynamic_dim(axis) for axis in range(kind.rank)):
            raise NotImplementedError("the size of its result is unknown")
        return tuple(kind.shape)

    def value(self, operand: Any) -> Any:
        return self._values[operand]

    def region(self, number: int) -> Callable[..., list[Any]]:
        return functools.partial(self.run, self.op.regions[number].blocks[0])

    def run(self, block: Any, *operands: Any) -> list[Any]:
        return self.module.run(block, operands, self._values)

    @property
    def block(self) -> Any:
        """The only region, or the function that is called instead of one."""
        if "called_computations" in self.op.attributes:
            return self.module.functions[text_of(self.op.attributes["called_computations"][0])]
        return self.op.regions[0].blocks[0]

    def body(self) -> str | None:
        """Returns the only operation of the block, if it combines the arguments in their order."""
        block = self.block
        operations, arguments = list(block.operations), list(block.arguments)
        if len(operations) == 1:
            last = list(operations[0].operands)
            return "second" if last == arguments[1:2] and len(arguments) == 2 else None
        if len(operations) != 2 or list(operations[0].operands) != arguments:
            return None
        results = list(operations[0].results)
        matches = list(operations[1].operands) == results
        return operations[0].operation.name.partition(".")[2] if matches else None


def text_of(attribute: Any) -> str:
    return str(attribute.value)


_DTYPES = {
    "i1": "bool",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "bf16": "bfloat16",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (4, 8, 16, 32, 64)},
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}


def dtype_of(kind: Any) -> Any:
    name = str(kind.element_type)
    if name not in _DTYPES:
        raise NotImplementedError(f"the element type {name} is not supported")
    return jnp.dtype(_DTYPES[name])


# Sizes. A value that is known while the program is traced is a NumPy array; one with symbolic sizes
# is an array of objects.


def _is_known(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.size <= _FEW and value.dtype.kind in "iubO"


def is_traced(name: str, given: Sequence[Any]) -> bool:
    """Returns `True` unless an operation is evaluated before the model runs."""
    return name != "stablehlo.constant" and not (given and all(map(_is_known, given)))


def materialized(value: Any, kind: Any) -> Any:
    """Converts sizes to an array that operations can take."""
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return value
    items = [jnp.asarray(size, dtype=dtype_of(kind)) for size in value.ravel()]
    return jnp.reshape(jnp.stack(items), value.shape) if value.ndim else items[0]


def sizes_of(value: Any) -> tuple[Any, ...]:
    """Returns sizes as a shape."""
    if not isinstance(value, np.ndarray):
        raise NotImplementedError("a size depends on numbers that are computed")
    return tuple(size if _jax.is_symbolic(size) else int(size) for size in value.ravel())


_SIZE_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "negate": lambda a: -a,
    "maximum": _jax.larger_size,
    "minimum": _jax.smaller_size,
    "divide": lambda a, b: a // b if b > 0 and a >= 0 else None,
    "remainder": lambda a, b: a % b if b > 0 and a >= 0 else None,
    "sign": lambda a: 1 if a > 0 else -1 if a < 0 else 0,
    "convert": lambda a: a,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}


def evaluated(op: Operation, kind: str, given: Sequence[Any]) -> Any:
    """Evaluates an operation on sizes. Returns None if it has to be computed by the model."""
    if kind == "get_dimension_size":
        return np.array(given[0].shape[op.integer("dimension")], object)
    if not given:
        return None
    first = given[0]
    if kind == "broadcast_in_dim" and isinstance(first, np.ndarray) and first.shape == op.shape:
        return first
    if not all(map(_is_known, given)):
        return None
    match kind:
        case "reshape":
            return first.reshape(op.shape)
        case "concatenate":
            return np.concatenate(given, axis=op.integer("dimension"))
        case "broadcast_in_dim" if first.ndim == 0 and np.prod(op.shape) <= _FEW:
            return np.broadcast_to(first, op.shape)
        case "slice":
            bounds = (op.ints(name) for name in ("start_indices", "limit_indices", "strides"))
            return first[tuple(slice(*bound) for bound in zip(*bounds, strict=True))]
        case "select" if first.ndim == 0 and first.dtype == bool:
            return given[1] if first else given[2]
        case "compare":
            function = _COMPARISONS[op.word("comparison_direction")]
        case _ if kind in _SIZE_OPERATIONS:
            function = _SIZE_OPERATIONS[kind]
        case _:
            return None
    shapes = {value.shape for value in given}
    if len(shapes) != 1 or any(value.dtype.kind == "u" for value in given):
        return None
    try:
        rows = zip(*(value.ravel() for value in given), strict=True)
        found = [function(*(_plain(item) for item in row)) for row in rows]
    except (TypeError, ValueError, ArithmeticError, jax.errors.JAXTypeError):
        return None  # symbolic sizes whose order is unknown
    except Exception as error:
        if "inconclusive" not in str(error).lower():
            raise
        return None
    if any(item is None for item in found):
        return None
    dtype = op.dtype
    if dtype.kind not in "biu":
        return None  # a size that becomes a float
    if any(_jax.is_symbolic(item) for item in found):
        return _objects(found, first.shape)
    limits = np.iinfo(dtype) if dtype.kind != "b" else None
    if limits and not all(limits.min <= item <= limits.max for item in found):
        return None
    return np.array(found, dtype).reshape(first.shape)


def _objects(items: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array.reshape(shape)


def _plain(item: Any) -> Any:
    return item.item() if isinstance(item, np.generic) else item


def constant_of(op: Operation) -> np.ndarray:
    dtype = op.dtype
    if dtype.isbuiltin == 1 and dtype.kind != "c":
        return np.array(op.op.attributes["value"]).astype(dtype, copy=False).reshape(op.shape)
    # Other types have no representation in NumPy's protocol. MLIR prints either all bytes, or
    # numbers, or the bits of a number.
    found = re.search(r"dense<(.*)>\s*:\s*tensor", str(op.op.operation), re.DOTALL)
    text = found[1] if found else ""
    if text.startswith('"0x'):
        bits = np.frombuffer(bytes.fromhex(text[3 : text.index('"', 1)]), dtype)
        return np.full(op.shape, bits[0]) if bits.size == 1 else bits.reshape(op.shape)
    real = np.zeros(0, dtype).real.dtype
    numbers = re.findall(r"0x[0-9A-F]+|[-+]?\d[\d.]*(?:[eE][-+]?\d+)?", text)
    items = np.array([_number(number, real) for number in numbers], real)
    items = items.view(dtype) if dtype.kind == "c" else items
    return np.full(op.shape, items[0]) if items.size == 1 else items.reshape(op.shape)


def _number(text: str, dtype: Any) -> Any:
    if not text.startswith("0x"):
        return np.array(float(text)).astype(dtype)
    return np.frombuffer(int(text, 16).to_bytes(dtype.itemsize, "little"), dtype)[0]
