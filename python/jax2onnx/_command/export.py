"""`jax2onnx export FILE.py:FUNCTION --input 'f32[B,3]'` exports from the shell.

`jax2onnx export ARTIFACT` exports a function that `jax.export` serialized.
"""

import ast
import importlib
import importlib.util
import inspect
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Literal

from jax2onnx._export.option_names import IN_COMMAND, RENAMED
from jax2onnx._export.options import is_same_file
from jax2onnx._python.notebooks import without_own_frames
from jax2onnx.errors import InvalidInputError, Jax2OnnxError, MismatchError, nearest, reworded

# Exit statuses: the answer is no, and an error.
NO, FAILED = 1, 2

_PLACEMENTS: dict[str, bool | Literal["auto"]] = {"true": True, "false": False, "auto": "auto"}

_INPUT = re.compile(r"(?:(?P<name>[^\W\d]\w*)\s*=\s*)?(?P<spec>\w*\s*\[[^\[\]]*\])")


def run(
    function: str,
    inputs: Sequence[str],
    output: Path | None,
    *,
    conversion: Mapping[str, Any],
    provenance: str | None,
    outputs: Sequence[str],
    checkpoint: Path | None,
    x64: bool,
    onnx_functions: str | None,
    training: str | None,
    name: str | None,
    external_data: str | None,
    check: bool,
    missed: bool,
    record: Path | None,
    record_weights: bool,
    quiet: bool,
) -> int:
    """Exports a model and returns the exit status."""
    from jax2onnx._export import progress

    try:
        given = {
            "output_names": list(outputs) or None,
            "checkpoint": checkpoint,
            "x64": x64 or None,
            "onnx_functions": onnx_functions,
            "training": training,
            "name": name,
        }
        options = conversion_options(conversion, provenance)
        options |= {RENAMED.get(k, k): value for k, value in given.items() if value is not None}
        if record is not None:
            options |= {"record": record, "record_weights": record_weights}
        args, kwargs = read_inputs(inputs, double=bool(options.get("enable_double_precision")))
        if _is_artifact(function):
            fn, loaded, file = _artifact(function)
            args, kwargs = _inputs_of(fn.__self__, given=bool(inputs))
        else:
            fn, loaded, file = _load(function)
        path = output or Path(f"{loaded}.onnx")
        _check_source(file, path, options)
        placement = _PLACEMENTS[external_data] if external_data else None
        with progress.shown(), _shown(missed, weights=not quiet), short_warnings():
            written = _written(fn, args, kwargs, path, options, placement, check=check)
    except Exception as error:
        return reported(error)
    if not quiet:
        data = f"{written}.data"
        paths = [written, data] if os.path.exists(data) else [written]
        print(f"{written}: {size_of(paths)}")
    return 0


def _written(
    fn: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    path: Path,
    given: dict[str, Any],
    external_data: bool | Literal["auto"] | None,
    *,
    check: bool,
) -> str:
    """Exports a function with options of `to_onnx`. Returns the path of the model."""
    from jax2onnx._export import progress
    from jax2onnx._export.options import check_options, flag
    from jax2onnx._export.to_onnx import convert
    from jax2onnx._exported.exported_model import ExportedModel, Source

    chosen = given | {"return_mode": "file", "output_path": path}
    double = flag("enable_double_precision", chosen.pop("enable_double_precision", False))
    of_conversion = {
        name: chosen.pop(name) for name in inspect.signature(convert).parameters if name in chosen
    }
    options = check_options(**chosen)
    converted = convert(fn, args, kwargs or None, options, double=double, **of_conversion)
    model = ExportedModel(converted, Source(fn, None, None), fn)
    if check:
        model.check(*args, keyword_inputs=kwargs or None)
    progress.stage("writing", converted.model)
    if external_data is None:
        external_data = False if options.self_contained else "auto"
    return model.save(path, external_data=external_data)


def reported(error: Exception) -> int:
    """Prints an error, and returns the exit status."""
    if isinstance(error, Jax2OnnxError):
        error.reword(IN_COMMAND)
    if isinstance(error, InvalidInputError):
        print(f"error: {error}", file=sys.stderr)
    elif isinstance(error, Jax2OnnxError):
        print(f"{type(error).__name__}{error}", file=sys.stderr)
    else:
        _show_traceback(error)
    return NO if isinstance(error, MismatchError) else FAILED


@contextmanager
def short_warnings() -> Iterator[None]:
    """Prints warnings without a line of this package."""

    def show(message: object, *_: object, **__: object) -> None:
        print(f"warning: {reworded(str(message), IN_COMMAND)}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def _shown(missed: bool, *, weights: bool) -> Iterator[None]:
    """Prints the storage of weights, and the operators that were nearly recognised, if wanted."""
    if not missed and not weights:
        yield
        return
    log = logging.getLogger("jax2onnx" if missed else "jax2onnx.weights")
    handler, level = logging.StreamHandler(sys.stderr), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def loaded(function: str) -> Any:
    """Loads a function: `FILE.py:NAME`, `package.module:NAME` or a file of `jax.export`."""
    return (_artifact if _is_artifact(function) else _load)(function)[0]


def _load(function: str) -> tuple[Any, str, str | None]:
    """Loads `FILE.py:NAME` or `package.module:NAME`. Returns the function, the last part of its
    name, and the file.
    """
    source, colon, path = function.rpartition(":")
    if not colon or not source or not path:
        raise _wrong(f"`{function}` has no function name", "write FILE.py:FUNCTION")
    is_call, path = path.endswith("()"), path.removesuffix("()")
    value: Any = _module(source)
    file = getattr(value, "__file__", None)
    for part in path.split("."):
        if not hasattr(value, part):
            known = [n for n, v in sorted(vars(value).items()) if n[0] != "_" and callable(v)]
            has = f"{nearest(part, known)}it has {', '.join(known)}" if known else ""
            raise _wrong(f"`{source}` has no `{path}`", has)
        value = getattr(value, part)
    if is_call:
        value = value()
    elif isinstance(value, type):
        raise _wrong(
            f"`{path}` is a class",
            f"write {function}() to export an instance, if its constructor needs no arguments",
        )
    if not callable(value):
        raise _wrong(
            f"`{path}` is of type {type(value).__name__}, which is not callable",
            "choose a function, a model, or a function that returns one: FILE.py:load()",
        )
    return value, path.rpartition(".")[2], file


def _is_artifact(function: str) -> bool:
    """Returns `True` for a file that is not a Python file."""
    return os.path.isfile(function) and not function.endswith(".py")


def _artifact(path: str) -> tuple[Any, str, str | None]:
    """Loads a function that `jax.export` serialized. Returns it, its name and the file."""
    from jax import export

    try:
        exported = export.deserialize(bytearray(Path(path).read_bytes()))
    except Exception as error:  # whatever damaged bytes lead to
        raise _wrong(
            f"`{path}` is not a function that `jax.export` serialized: {error}",
            "write FILE.py:FUNCTION to export from a Python file",
        ) from error
    return exported.call, Path(path).stem, path


def _inputs_of(exported: Any, *, given: bool) -> tuple[list[Any], dict[str, Any]]:
    """Returns the types of the arguments that an artifact records."""
    import jax

    if given:
        raise _wrong("`--input` has no effect on an artifact, which records its inputs", "omit it")
    types = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in exported.in_avals]
    args, kwargs = jax.tree_util.tree_unflatten(exported.in_tree, types)
    return list(args), kwargs


def _check_source(file: str | None, output: Path, options: dict[str, Any]) -> None:
    """Raises if an output would overwrite the file that contains the function."""
    names = ("source_map", "record_primitive_calls_file", "record")
    outputs = {"--output": output} | {f"--set {name}": options.get(name) for name in names}
    for name, path in outputs.items():
        if file is not None and isinstance(path, str | Path) and is_same_file(str(path), file):
            raise _wrong(
                f"`{name}` would overwrite the source file of the function: `{path}`",
                "choose another file",
            )


def _module(source: str) -> ModuleType:
    # Let the user's file import from its own folder, as when Python runs it.
    if not source.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(source)
        except ModuleNotFoundError as error:
            if error.name and source.startswith(error.name):
                raise _wrong(
                    f"there is no module `{source}`",
                    "to export from a file, its name must end with .py",
                ) from error
            raise
    path = Path(source)
    if not path.is_file():
        beside = sorted(file.name for file in path.parent.glob("*.py"))
        raise _wrong(f"there is no file `{source}`", nearest(path.name, beside).strip())
    packages = _packages(path.absolute())
    if packages:
        # Relative imports need the module's own name: `pkg.model` for `src/pkg/model.py`.
        sys.path.insert(0, str(path.absolute().parents[len(packages)]))
        stem = [] if path.stem == "__init__" else [path.stem]
        return importlib.import_module(".".join([*packages, *stem]))
    sys.path.insert(0, str(path.parent.absolute()))
    spec = importlib.util.spec_from_file_location(path.stem, path.absolute())
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        if "relative import" in str(error):
            folder = path.absolute().parent.name
            error.add_note(
                f"  help: `{folder}` has no `__init__.py`: add one, or name the module instead of "
                f"the file, in the folder above: jax2onnx export {folder}.{path.stem}:…"
            )
        raise
    return module


def _packages(path: Path) -> list[str]:
    """Returns the names of the packages that contain a file, the outermost first."""
    found: list[str] = []
    for folder in path.parents:
        if not (folder / "__init__.py").is_file():
            break
        found.insert(0, folder.name)
    return found


def read_inputs(texts: Sequence[str], *, double: bool) -> tuple[list[Any], dict[str, Any]]:
    """Parses positional and keyword arguments such as `f32[B,3]` and `scale=f32[]`."""
    from jax2onnx._exported.boundary import input_options

    args: list[str] = []
    kwargs: dict[str, str] = {}
    for text in texts:
        match = _INPUT.fullmatch(text.strip())
        if match is None:
            raise _wrong(
                f"`{text}` is not an input", "write type and shape: f32[2,3], i32[B,16], u8[]"
            )
        name, spec = match["name"], match["spec"]
        if name is None:
            args.append(spec)
        elif name in kwargs:
            raise _wrong(f"two inputs are named `{name}`", "")
        else:
            kwargs[name] = spec
    positional, keyword, _ = input_options(args, kwargs, double=double)
    return list(positional), keyword


def conversion_options(given: Mapping[str, Any], provenance: str | None = None) -> dict[str, Any]:
    """Returns the keyword arguments of `to_onnx` that the common options of commands give."""
    options = _set_options(given["settings"])
    for name, value in given.items():
        if name != "settings" and value not in (None, []):
            by_pattern = name in ("operators", "compute_dtype", "weight_format")
            options[RENAMED.get(name, name)] = _patterns(name, value) if by_pattern else value
    if provenance is not None:
        options["stacktrace_metadata"] = False if provenance == "off" else provenance
    return options


def _set_options(settings: Sequence[str]) -> dict[str, Any]:
    """Returns the keyword arguments of `to_onnx` that `--set` gives."""
    from jax2onnx import to_onnx

    given = ("fn", "inputs", "input_params", "return_mode", "output_path", "unknown")
    known = [name for name in inspect.signature(to_onnx).parameters if name not in given]
    options: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = RENAMED.get(name, name)
        if name in known and not equals:
            raise _wrong(f"`--set {setting}` has no value", f"write --set {setting}=VALUE")
        if name not in known:
            near = nearest(name, [*known, *RENAMED])
            raise _wrong(
                f"`--set {setting}` is not an option",
                f"{near}write OPTION=VALUE with one of: {', '.join(known)}",
            )
        options[name] = _value(value)
    return options


def _patterns(option: str, texts: Sequence[str]) -> dict[str, str] | str:
    """Parses patterns with formats, such as `head.*=int8` and `int4`, or a single format."""
    formats: dict[str, str] = {}
    for text in texts:
        pattern, _, stored = text.rpartition("=")
        pattern = pattern or "*"
        if pattern in formats:
            raise _wrong(f"--{option.replace('_', '-')} is given twice for `{pattern}`", "")
        formats[pattern] = stored
    return formats["*"] if list(formats) == ["*"] else formats


def _value(text: str) -> Any:
    """Parses a Python literal, such as a number, a bool or a list. Other texts are strings."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text, text)


def _show_traceback(error: Exception) -> None:
    """Prints a traceback without the frames of this package and of imports."""
    frames = without_own_frames(error.__traceback__)
    while frames and frames.tb_next and _is_import(frames):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def _is_import(frame: TracebackType) -> bool:
    return frame.tb_frame.f_code.co_filename.startswith("<frozen importlib")


def size_of(paths: Iterable[str]) -> str:
    """Returns the size of files as a text."""
    size = sum(os.path.getsize(path) for path in paths)
    units = iter(("bytes", "kB", "MB", "GB"))
    number, unit = float(size), next(units)
    while number >= 1000 and unit != "GB":
        number, unit = number / 1000, next(units)
    return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"


def _wrong(message: str, help: str) -> InvalidInputError:
    return InvalidInputError("wrong-usage", message, help=help)
