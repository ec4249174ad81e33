"""The options of `to_onnx`, checked before anything is traced."""

import difflib
import inspect
import operator
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

import numpy as np

from jax2onnx._export.calibrated_weights import CalibratedWeights
from jax2onnx._export.provenance_level import SOURCE_MAP, Level, detail
from jax2onnx._python.packages import require
from jax2onnx._tracing.names import is_text
from jax2onnx._tracing.training import TRAINING
from jax2onnx.errors import InvalidInputError, bad_option, invalid_option, nearest

RETURN_MODES = ("proto", "ir", "file")
EXPORT_MODES = ("standard", "web")
PATHS = ("relative", "absolute")
NODE_NAMES = ("modules", "functions")
FUNCTIONS = ("decorated", "modules")
NORMALIZATION_MODES = ("auto", "prefer_native", "force_decomposed")
FORMS = ("auto", "native", "elementary")

Layout = Sequence[int | str] | None


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """The inputs and outputs of a model, in the order of the pytrees' leaves.

    Attributes:
        input_names: The names of the inputs.
        output_names: The names of the outputs.
        inputs_as_nchw: The positions of inputs whose layout changes.
        outputs_as_nchw: The positions of outputs whose layout changes.
        input_types: The element types of inputs that differ from the function's, by position.
        output_types: The element types of outputs that differ from the function's, by position.
        defaults: The values of boolean inputs that may be omitted, by position.
    """

    input_names: Sequence[str]
    output_names: Sequence[str]
    inputs_as_nchw: Sequence[int] = ()
    outputs_as_nchw: Sequence[int] = ()
    input_types: dict[int, str] = field(default_factory=dict)
    output_types: dict[int, str] = field(default_factory=dict)
    defaults: dict[int, bool] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Checked options. The compiled half reads these attributes.

    `path` is set if the model is written to a file, and `reports` if the user should be warned.
    `keep_results` records the values that each equation became, `in_set` allows patterns that match
    nothing, and `report_missed` collects the operators that were nearly recognised. `fuel` limits
    the changes of the optimiser, for tests.
    """

    model_name: str
    opset: int | None = None
    return_mode: str = "proto"
    detail: str
    functions: str
    operators: dict[str, str] = field(default_factory=dict)
    path: str | None = None
    self_contained: bool = False
    source_map: str | None = None
    calls: str | None = None
    record: str | None = None
    record_weights: bool = False
    normalization_mode: str = "auto"
    assume: Sequence[str] = ()
    compute: Sequence[tuple[str, str]] = ()
    weights: Sequence[tuple[str, str]] = ()
    calibrated: Mapping[str, "np.ndarray[Any, Any]"] = field(default_factory=dict)
    target: str = "onnxruntime"
    training: str = "allow"
    reports: bool = False
    source_text: bool = False
    absolute_paths: bool = False
    user_packages: Sequence[str] = ()
    function_scopes: bool = False
    keep_results: bool = False
    in_set: bool = False
    report_missed: bool = False
    fuel: int | None = None

    def check_source(self, function: tuple[str, str, int] | None) -> None:
        """Raises if the export would overwrite the source file of a function."""
        for name, path in self._outputs():
            if function is not None and is_same_file(path, function[0]):
                raise InvalidInputError(
                    "same-file",
                    f"{name} would overwrite the source file of the function: `{path}`",
                    help="choose another file",
                )

    def check_apart(self) -> None:
        """Raises if two outputs are the same file, so that only the last would remain."""
        outputs = self._outputs()
        for index, (name, path) in enumerate(outputs):
            for other, taken in outputs[:index]:
                if is_same_file(path, taken):
                    raise InvalidInputError(
                        "same-file",
                        f"{other} and {name} are the same file: `{path}`",
                        help="choose a separate file for each",
                    )

    def _outputs(self) -> list[tuple[str, str]]:
        data = None if self.path is None or self.self_contained else f"{self.path}.data"
        outputs = {
            "`output_path`": self.path,
            "the data file of `output_path`": data,
            "`source_map`": self.source_map,
            "`record_primitive_calls_file`": self.calls,
            "`record`": self.record,
        }
        return [(name, path) for name, path in outputs.items() if path is not None]


def check_options(
    *,
    model_name: object = "jax_model",
    opset: object = None,
    return_mode: object = "proto",
    output_path: object = None,
    export_mode: object = "standard",
    target: object = None,
    normalization_mode: object = "auto",
    stacktrace_metadata: Level | None = None,
    source_map: object = None,
    source_text: object = False,
    paths: object = "relative",
    user_packages: object = (),
    node_names: object = "modules",
    record_primitive_calls_file: object = None,
    record: object = None,
    record_weights: bool = False,
    functions: object = "decorated",
    operators: object = "auto",
    assume: object = (),
    compute: object = None,
    weights: object = None,
    training: object = "warn",
) -> Options:
    """Checks the options. Raises for the first invalid one."""
    from jax2onnx import _core

    if not isinstance(model_name, str) or not is_text(model_name):
        raise _invalid("model_name", model_name, "pass a non-empty string")
    mode = _choice("return_mode", return_mode, RETURN_MODES)
    export = _choice("export_mode", export_mode, EXPORT_MODES)
    path = _path("output_path", output_path)
    if mode == "file" and path is None:
        raise InvalidInputError(
            "missing-output-path",
            '`return_mode="file"` needs an `output_path`',
            help='pass the path of the model, such as output_path="model.onnx"',
        )
    if mode != "file" and path is not None:
        warnings.warn(
            f'`output_path` has no effect with `return_mode="{mode}"`: '
            'add return_mode="file" to write the model',
            stacklevel=3,
        )
        path = None
    if mode != "file":
        require("onnx", f'`return_mode="{mode}"`')
    if mode == "ir":
        require("onnx_ir", f'`return_mode="{mode}"`')
    if mode != "file" and export == "web":
        warnings.warn(
            f'`export_mode="web"` only chooses the target with `return_mode="{mode}"`: '
            "a model that is not written to a file always holds its weights",
            stacklevel=3,
        )
    options = Options(
        model_name=model_name,
        opset=_opset(opset),
        return_mode=mode,
        path=path,
        self_contained=export == "web",
        detail=detail(stacktrace_metadata),
        source_map=_path("source_map", source_map),
        calls=_path("record_primitive_calls_file", record_primitive_calls_file),
        record=_path("record", record),
        record_weights=record_weights,
        functions=_choice("functions", functions, FUNCTIONS),
        operators=_operators(operators),
        normalization_mode=_choice("normalization_mode", normalization_mode, NORMALIZATION_MODES),
        assume=_assumptions(assume),
        compute=_patterns(
            "compute",
            compute,
            _core.is_precision,
            "types are float16, bfloat16 and float32; 'float16:all' includes every operator",
        ),
        weights=_patterns(
            "weights",
            weights,
            _core.is_weight_format,
            "formats are float16, bfloat16, int4, uint4, int8, uint8 and keep; integers may have a "
            "block size, a power of two from 16 on: 'int4:64'; of several formats, as in "
            "'int4,float16', the first suitable one applies",
        ),
        calibrated=weights.arrays if isinstance(weights, CalibratedWeights) else {},
        target=_target(target, export),
        reports=True,
        training=_choice("training", training, TRAINING),
        source_text=flag("source_text", source_text),
        absolute_paths=_choice("paths", paths, PATHS) == "absolute",
        user_packages=_packages(user_packages),
        function_scopes=_choice("node_names", node_names, NODE_NAMES) == "functions",
    )
    if options.source_text and options.source_map is None and options.detail != SOURCE_MAP:
        raise InvalidInputError(
            "unused-source-text",
            "`source_text` has no effect without a source map",
            help='add stacktrace_metadata="sourcemap", or a file: source_map="model.onnx.map"',
        )
    if record_weights and options.record is None:
        raise InvalidInputError(
            "unused-record-weights",
            "`record_weights` has no effect without `record`",
            help='add the path of the recording, such as record="model.jaxpr"',
        )
    options.check_apart()
    return options


def recorded_options(texts: Mapping[str, Any], **others: Any) -> Options:
    """Returns the options that an export wrote as texts, by their names, and `others`. Patterns and
    their formats are one per line: `blocks.*=int4:32`.
    """

    def patterns(name: str) -> list[tuple[str, str]]:
        lines = (texts.get(name) or "").splitlines()
        return [(pattern, asked) for pattern, _, asked in (line.rpartition("=") for line in lines)]

    return Options(
        assume=(texts.get("assume") or "").split(),
        target=texts.get("target") or "onnxruntime",
        compute=patterns("compute"),
        weights=patterns("weights"),
        **others,
    )


_PACKAGE = re.compile(r"-?\w+(\.\w+)*")


def _packages(given: object) -> list[str]:
    """Returns the packages whose owner the user chooses."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise _invalid("user_packages", given, "pass the name of a package, or a list of names")
    for name in names:
        if not _PACKAGE.fullmatch(name):
            raise invalid_option(
                f"`user_packages` has {name!r}, which is not the name of a package",
                "write it as in an import, 'mujoco.mjx', or '-mylib' for a package that is "
                "not yours",
            )
    return list(names)


def positions(option: str, chosen: Layout, names: Sequence[str], ranks: Sequence[int]) -> list[int]:
    """Returns the positions of the inputs or outputs whose layout changes."""
    if chosen is None:
        return []
    known = f"the names are: {', '.join(names)}"
    if isinstance(chosen, str) or not isinstance(chosen, Iterable):
        raise _invalid(option, chosen, f"pass a list of positions or names; {known}")
    found = []
    for entry in chosen:
        index = names.index(entry) if isinstance(entry, str) and entry in names else entry
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(names):
            raise _invalid(option, entry, f"pass positions below {len(names)} or names; {known}")
        if ranks[index] != 4:
            raise invalid_option(
                f"`{option}` names `{names[index]}`, which has rank {ranks[index]}",
                "only arrays with four axes have a layout",
            )
        found.append(index)
    return sorted(set(found))


def flag(name: str, value: object) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise bad_option(name, value, ("True", "False"))


def _operators(value: object) -> dict[str, str]:
    """Checks the forms of operators, by name. `*` covers all others."""
    if not isinstance(value, Mapping):
        return {"*": _choice("operators", value, FORMS)}
    from jax2onnx import _core

    known = _core.operators()
    for name, form in value.items():
        if name != "*" and name not in known:
            raise invalid_option(
                f"`operators` names {name!r}, which is not an operator or has only one form",
                f"{nearest(name, known)}the operators with several forms are: "
                f"{', '.join(known)}; `*` means all others",
            )
        _choice(f'operators["{name}"]', form, FORMS)
    return dict(value)


def unknown_option(
    function: str,
    name: str,
    known: Sequence[str],
    elsewhere: Mapping[str, str],
    signature: inspect.Signature | None = None,
    keywords: str = "",
    called: str = "fn",
) -> TypeError:
    """Returns the error for a keyword argument that a function does not have. `elsewhere` has the
    advice for those of another function. `signature` is that of the user's function, whose keyword
    arguments belong into the option `keywords`, and `called` the name of that function.
    """
    near = elsewhere.get(name) or nearest(name, known).strip()
    if not near and (there := difflib.get_close_matches(name, elsewhere, 1)):
        near = f"did you mean {there[0]!r}? {elsewhere[there[0]]}"
    if signature is not None and name in signature.parameters:
        near = (
            "it is an argument of your function: bind it with "
            f"functools.partial({called}, {name}=…), or pass {keywords}={{{name!r}: …}} to make it "
            "an input of the model"
        )
    near = near or f"the options are: {', '.join(known)}"
    error = TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    error.add_note(f"  help: {near}")
    return error


def _assumptions(value: object) -> list[str]:
    """Checks the names of assumptions, or a single name."""
    from jax2onnx import _core

    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Iterable):
        raise _invalid("assume", value, "pass names, such as assume=['indices_in_range']")
    known, found = _core.assumptions(), []
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise invalid_option(
                f"`assume` names {name!r}, which is not a known assumption",
                f"{nearest(name, known)}the assumptions are: {', '.join(known)}",
            )
        found.append(name)
    return found


def _patterns(
    option: str, value: object, is_valid: Callable[[str], bool], help: str
) -> list[tuple[str, str]]:
    """Checks a mapping from patterns to formats. A single format applies to everything."""
    if value is None:
        return []
    entries = value if isinstance(value, Mapping) else {"*": value}
    for pattern, text in entries.items():
        if not isinstance(pattern, str) or not is_text(pattern) or "\n" in pattern:
            raise _invalid(option, value, "patterns are names, such as 'blocks.*.kernel'")
        if not isinstance(text, str) or not is_valid(text):
            raise _invalid(option if value is text else f"{option}[{pattern!r}]", text, help)
    return list(entries.items())


def _target(value: object, export: str) -> str:
    if value is None:
        return "onnxruntime-web" if export == "web" else "onnxruntime"
    from jax2onnx import _core

    return _choice("target", value, tuple(_core.targets()))


def _opset(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        opset = operator.index(value)
        if abs(opset) < 2**31:
            return opset
    raise _invalid(
        "opset",
        value,
        "pass an integer, or None for the lowest opset that does not make the model slower",
    )


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in allowed:
        return value
    raise bad_option(name, value, allowed)


def _path(name: str, value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str | os.PathLike) and isinstance(path := os.fspath(value), str) and path:
        if "\0" in path:
            raise _invalid(name, value, "a path cannot contain null characters")
        if path.endswith(("/", os.sep)):
            raise _invalid(name, value, "this is a directory; add a file name")
        return path
    raise _invalid(name, value, "pass a path")


def is_same_file(a: str, b: str) -> bool:
    """Returns `True` if two paths lead to the same file, which need not exist."""
    if os.path.exists(a) and os.path.exists(b):
        return os.path.samefile(a, b)
    return os.path.normcase(os.path.realpath(a)) == os.path.normcase(os.path.realpath(b))


def _invalid(name: str, value: object, help: str) -> InvalidInputError:
    return invalid_option(f"`{name}` cannot be {value!r}", help)
