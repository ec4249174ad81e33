"""Reads a program that `record` wrote, as a function of JAX."""

import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from jax2onnx import _core, _jax
from jax2onnx._export.options import Options, recorded_options
from jax2onnx._reducing.case import Case, traced_case
from jax2onnx._reducing.program_text import COMMENT, ProgramText
from jax2onnx.errors import InvalidInputError, wrong_arguments

# The file of the text that a recording is read as.
FILE = "<recording>"
WIDE = ("float64", "int64", "uint64", "complex128")

# The enums of parameters, by the parameter's name.
ENUMS = {
    "mode": "GatherScatterMode",
    "precision": "Precision",
    "rounding_method": "RoundingMethod",
    "fft_type": "FftType",
}
# The types of parameters with fields, by the start of the primitive's name.
FIELDS = {
    "gather": "GatherDimensionNumbers",
    "scatter": "ScatterDimensionNumbers",
    "conv_general": "ConvDimensionNumbers",
}


@dataclass(eq=False)
class _Var:
    aval: Any


@dataclass(eq=False)
class _Jaxpr:
    constvars: list[Any]
    invars: list[Any]
    eqns: list[Any]
    outvars: list[Any]
    consts: list[Any] = field(default_factory=list)

    @property
    def jaxpr(self) -> "_Jaxpr":
        return self


@dataclass(frozen=True)
class Recorded:
    """A recorded program.

    Attributes:
        cases: Its forms: with fixed sizes, and with symbolic dimensions if it has some.
        options: The options of its conversion.
        double: `True` if it contains 64-bit types.
        line_of: Returns the user's line of an equation.
    """

    cases: list[Case]
    options: Options
    double: bool
    line_of: Callable[[Any], str]


def read(text: str, values: Mapping[str, np.ndarray] | None = None) -> Recorded:
    """Reads a recording. Inputs without values and arrays that were not recorded are random;
    symbolic dimensions are then 2.
    """
    data = _core.read_recording(text)
    if data["external"]:
        raise InvalidInputError(
            "invalid-recording",
            f"the recording does not contain the rules of `{'`, `'.join(data['external'])}`, which "
            "are written in Python",
            help="reduce the function itself: jax2onnx.reduce(fn, inputs)",
        )
    try:
        return _Reader(data).read(values or {})
    except InvalidInputError:
        raise
    except Exception as error:  # whatever JAX says about a program of another version
        raise InvalidInputError(
            "invalid-recording",
            f"this version of JAX ({jax.__version__}) cannot run the recording: {error}",
            help="reduce the function itself: jax2onnx.reduce(fn, inputs)",
        ) from error


class _Reader:
    """The jaxprs of a recording, built when they are needed."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._jaxprs: dict[int, _Jaxpr] = {}
        self._scope = jax.export.SymbolicScope(data["constraints"])
        self._elided = {(name, _key(kind)) for name, kind in data["elided"]}
        self._random = np.random.default_rng(0)
        types = [kind for jaxpr in data["jaxprs"] for kind, _ in jaxpr["types"]]
        self._double = any(kind in WIDE for kind in types)

    def read(self, values: Mapping[str, np.ndarray]) -> Recorded:
        header, number = self._data["header"], self._data["main"]
        with _jax.precision(double=self._double):
            main = self._jaxpr(number)
            names = [_identifier(name, i) for i, name in enumerate(_names(header, main))]
            parameters = tuple(n for _, _, n in self._data["jaxprs"][number]["consts"])
            count = len(main.constvars)
            whole = _Jaxpr([], [*main.constvars, *main.invars], main.eqns, main.outvars)
            labels = [f"w{i}" for i in range(count)] + names
            text = ProgramText(
                whole,
                labels,
                double=self._double,
                line_of=lambda eqn: source_line(eqn.line),
                every=True,
            )
            function, lines = self._function(text)
            args = _arguments(main.invars, names, values, self._random)
            consts = [jax.numpy.asarray(array) for array in main.consts]
            cases = [traced_case(function, consts, args, args, names, parameters)]
            if any(_jax.is_symbolic(d) for var in main.invars for d in var.aval.shape):
                specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in main.invars]
                cases.append(traced_case(function, consts, specs, args, names, parameters))
        return Recorded(cases, _options(header), self._double, lambda eqn: _line(eqn, lines))

    def _function(self, text: ProgramText) -> tuple[Callable[..., Any], list[str]]:
        """Returns the program as a function, and the user's line of each of its lines."""
        imports = [
            "import jax",
            "import jax.numpy as jnp",
            "import numpy as np",
            "from jax import lax",
            *text.imports,
        ]
        source = "\n".join([*imports, *text.constants, *text.lines])
        space: dict[str, Any] = {}
        exec(compile(source, FILE, "exec"), space)
        return space["program"], source.splitlines()

    def _jaxpr(self, number: int) -> _Jaxpr:
        if number in self._jaxprs:
            return self._jaxprs[number]
        data = self._data["jaxprs"][number]
        variables = [_Var(self._aval(kind)) for kind in data["types"]]
        constvars = [variables[var] for var, _, _ in data["consts"]]
        found = _Jaxpr(
            constvars,
            [variables[var] for var in data["inputs"]],
            [self._equation(eqn, variables) for eqn in data["eqns"]],
            [_atom(atom, variables) for atom in data["outputs"]],
            [self._constant(*entry[1:]) for entry in data["consts"]],
        )
        self._jaxprs[number] = found
        return found

    def _aval(self, kind: Any) -> Any:
        dtype, shape = kind
        return jax.ShapeDtypeStruct(tuple(map(self._dim, shape)), _dtype(dtype))

    def _dim(self, dim: Any) -> Any:
        if isinstance(dim, int):
            return dim
        return jax.export.symbolic_shape(dim[1], scope=self._scope)[0]

    def _constant(self, tagged: Any, name: str | None) -> np.ndarray:
        array = _array(tagged)
        kind = (array.dtype.name, array.shape)
        if (name, kind) in self._elided and jax.numpy.issubdtype(array.dtype, np.floating):
            return self._random.standard_normal(array.shape).astype(array.dtype)
        return array

    def _equation(self, data: Mapping[str, Any], variables: Sequence[_Var]) -> Any:
        name = data["primitive"]
        # A call of an ONNX function is a plain call.
        name = "jit" if name == "onnx_function" else name
        primitive = _jax.primitive(name)
        several = len(data["outputs"]) != 1 or getattr(primitive, "multiple_results", False)
        params = {key: self._param(value, key, name) for key, value in data["params"].items()}
        return SimpleNamespace(
            primitive=SimpleNamespace(name=name, multiple_results=several),
            params=params,
            invars=[_atom(atom, variables) for atom in data["inputs"]],
            outvars=[variables[var] for var in data["outputs"]],
            line=data["line"],
        )

    def _param(self, value: Any, key: str, primitive: str) -> Any:
        if isinstance(value, list):
            return tuple(self._param(item, key, primitive) for item in value)
        if isinstance(value, dict):
            kind = next((FIELDS[p] for p in FIELDS if primitive.startswith(p)), None)
            fields = {k: self._param(v, k, primitive) for k, v in value.items()}
            return fields if kind is None else getattr(jax.lax, kind)(**fields)
        if not isinstance(value, tuple):
            return value
        kind, contents = value
        if kind == "jaxpr":
            return self._jaxpr(contents)
        if kind == "enum" and key in ENUMS:
            return getattr(jax.lax, ENUMS[key])[contents]
        if kind == "dtype":
            return _dtype(contents)
        if kind == "dim":
            return self._dim(value)
        if kind == "array":
            return _array(value)
        return None


def _arguments(
    invars: Sequence[Any],
    names: Sequence[str],
    values: Mapping[str, np.ndarray],
    random: np.random.Generator,
) -> list[Any]:
    given = {_identifier(name, i): array for i, (name, array) in enumerate(values.items())}
    pairs = [
        (dim, size)
        for var, name in zip(invars, names, strict=True)
        if name in given
        for dim, size in zip(var.aval.shape, given[name].shape, strict=False)
    ]
    sizes = _jax.variables(pairs)
    found = []
    for var, name in zip(invars, names, strict=True):
        shape, dtype = _jax.sizes(var.aval.shape, lambda n: sizes.get(n, 2)), var.aval.dtype
        if name in given:
            array = given[name]
            if array.shape != shape:
                raise wrong_arguments(
                    f"the input `{name}` is {dtype}{list(shape)}, not {list(array.shape)}"
                )
        elif jax.numpy.issubdtype(dtype, np.inexact):
            array = random.standard_normal(shape)
        else:
            array = random.integers(0, 2, shape)
        found.append(jax.numpy.asarray(array, dtype))
    return found


def _line(eqn: Any, lines: Sequence[str]) -> str:
    """Returns the comment of the line of the text that an equation comes from."""
    for frame in _jax.frames_of(eqn):
        if frame.file_name == FILE:
            line: str = lines[frame.line_num - 1]
            return line.partition(COMMENT)[2]
    return ""


def source_line(line: tuple[str, int, str] | None) -> str:
    """Formats a recorded line, with its text if the file is still there."""
    if line is None:
        return ""
    file, number, function = line
    text = linecache.getline(file, number).strip()
    return f"{file}:{number}  {text or f'in {function}'}"


def _names(header: Mapping[str, Any], main: _Jaxpr) -> list[str]:
    given = header.get("inputs")
    return list(given) if given else [f"x{i}" for i in range(len(main.invars))]


def _identifier(name: str, number: int) -> str:
    return name or f"x{number}"


def _atom(atom: Any, variables: Sequence[_Var]) -> Any:
    return variables[atom] if isinstance(atom, int) else _jax.literal(_array(atom))


def _array(tagged: Any) -> np.ndarray:
    dtype, shape, data = tagged[1]
    return np.frombuffer(data, _dtype(dtype)).reshape(shape)


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(jax.numpy, name, None) or name)


def _key(kind: Any) -> tuple[str, tuple[Any, ...]]:
    return kind[0], tuple(kind[1])


def _options(header: Mapping[str, Any]) -> Options:
    operators = (header.get("operators") or "").split()
    return recorded_options(
        header,
        model_name="reduced",
        opset=header.get("opset"),
        detail="off",
        functions="decorated",
        operators=dict(entry.split("=", 1) for entry in operators),
    )
