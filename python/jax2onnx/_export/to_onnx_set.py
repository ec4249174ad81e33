"""`to_onnx_set` converts several functions over one model to models that share their weights."""

import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from jax2onnx._export import progress, result
from jax2onnx._export.options import Options, check_options, flag
from jax2onnx._export.to_onnx import ALL, Converted, Path, convert, to_onnx, useless_weights
from jax2onnx._tracing.names import is_text
from jax2onnx._tracing.parameters import SharedParameters
from jax2onnx.errors import InvalidInputError, nearest

#: The file that holds the weights of a set.
DATA = "weights.data"

# Options for the file of a single model.
_ALONE = ("return_mode", "output_path", "export_mode")

# Options of `to_onnx` that name a file for each function, and their names in `Options`.
_FILES = {
    "record": "record",
    "record_primitive_calls_file": "calls",
    "source_map": "source_map",
}

# The objects that patterns of an option match, and how to list them.
_MATCHED = {
    "compute": ("module, line, function or parameter", "`jax2onnx show` lists modules and lines"),
    "weights": ("parameter", "`jax2onnx show --parameters` lists them"),
}

# Options of `to_onnx` that `convert` takes unchanged.
_CONVERTED = [
    name
    for name, parameter in inspect.signature(convert).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY and name in inspect.signature(to_onnx).parameters
]


def to_onnx_set(
    functions: Mapping[str, Sequence[Any]],
    output_dir: Path,
    /,
    **options: Any,
) -> dict[str, str]:
    """Converts functions that share parameters to models that share one data file.

    Every model is valid on its own. A parameter has the same name in all of them. Parameters of at
    least a kilobyte are stored once, in the data file, so that sessions map the same memory.
    Parameters are shared if they are the same array object.

        to_onnx_set({"prefill": (prefill, [tokens]), "decode": (decode, [token, cache])}, "llama")

    writes `llama/prefill.onnx`, `llama/decode.onnx` and `llama/weights.data`.

    Args:
        functions: For each model its name, and the function with its `inputs`, as `to_onnx` takes
            them. A third entry may hold options of `to_onnx` for this function alone:
            `(decode, inputs, {"output_names": ["logits", "cache"]})`.
        output_dir: The folder, which is replaced atomically. Files in it that have other names
            stay.
        options: Options of `to_onnx` for all functions. A model's graph is named like the model.

    Returns:
        The paths of the models, by name.
    """
    folder = _folder(output_dir)
    entries = _entries(functions, options)
    with ExitStack() as maps:
        models = [(f"{name}.onnx", model) for name, model in converted(entries, maps)]
        progress.stage("writing")
        write(folder, models, [])
    return {name: os.path.join(folder, f"{name}.onnx") for name in entries}


@dataclass(frozen=True)
class Entry:
    """A function of a set, with all its options."""

    fn: Callable[..., Any]
    inputs: Sequence[Any]
    input_params: Mapping[str, Any] | None
    options: Options
    double: bool
    boundary: dict[str, Any]


def converted(
    entries: Mapping[str, Entry],
    maps: ExitStack,
    check: Callable[[str, Converted], None] | None = None,
) -> Iterable[tuple[str, Any]]:
    """Yields the models of a set, by name. They have to be saved before `maps` is closed. `check`
    may raise for a converted function.
    """
    _check_files(entries)
    shared = SharedParameters(len(entries))
    # The number of functions with a pattern, by option, and the number in which it matches nothing.
    asked: Counter[tuple[str, str]] = Counter()
    unmatched: Counter[tuple[str, str]] = Counter()
    for name, entry in entries.items():
        try:
            made = convert(
                entry.fn,
                entry.inputs,
                entry.input_params,
                entry.options,
                double=entry.double,
                shared=shared,
                **entry.boundary,
            )
        except Exception as error:
            error.add_note(f"This error occurred in the function `{name}`.")
            raise
        if check is not None:
            check(name, made)
        asked.update(("compute", pattern) for pattern, _ in entry.options.compute)
        asked.update(("weights", pattern) for pattern, _ in entry.options.weights)
        unmatched.update(made.model.unmatched)
        yield name, made.model
        maps.enter_context(result.source_map_at(made.model, entry.options.source_map))

    for (option, pattern), count in unmatched.items():
        if count < asked[option, pattern]:
            continue
        if (option, pattern) == ("weights", ALL):
            raise useless_weights()
        kind, how = _MATCHED[option]
        raise InvalidInputError(
            f"unsuitable-{option}",
            f"`{option}` names `{pattern}`, which matches no {kind} of {_those(count)}"
            + (" that can compute in the type" if option == "compute" else ""),
            help=f"patterns match whole names; {how}",
        )


def _those(count: int) -> str:
    return "the function" if count == 1 else f"the {count} functions"


def _check_files(entries: Mapping[str, Entry]) -> None:
    """Raises if functions would write the same file."""
    writers: dict[str, str] = {}
    for name, entry in entries.items():
        for option, attribute in _FILES.items():
            path = getattr(entry.options, attribute)
            other = name if path is None else writers.setdefault(os.path.realpath(path), name)
            if other != name:
                raise _invalid(
                    f"`{other}` and `{name}` would both write `{path}`",
                    f"give each function its own `{option}`: (function, inputs, options)",
                )


def write(
    folder: str, models: Sequence[tuple[str, Any]], files: Sequence[tuple[str, bytes]]
) -> None:
    """Replaces these files of a folder atomically. Other files in it stay."""
    from jax2onnx import _core

    with result.writing(output_dir=folder):
        try:
            _core.save_set(folder, models, DATA, files)
        except OSError as error:
            if error.errno is not None:
                raise
            reason = str(error).removeprefix(f"{folder}: ")
            raise InvalidInputError(
                "unwritable-path",
                f"cannot write `{folder}`: {reason}",
                help="choose another folder, or change the contents of this one",
            ) from error


def _folder(path: object) -> str:
    if isinstance(path, str | os.PathLike):
        folder = os.fspath(path)
        if isinstance(folder, str) and folder and "\0" not in folder:
            if os.path.exists(folder) and not os.path.isdir(folder):
                raise _invalid(f"`output_dir` is {path!r}, which is a file", "pass a folder")
            return folder
    raise _invalid(f"`output_dir` cannot be {path!r}", "pass the path of a folder")


def _entries(functions: Mapping[str, Sequence[Any]], common: Mapping[str, Any]) -> dict[str, Entry]:
    if not isinstance(functions, Mapping) or not functions:
        raise _invalid(
            f"`functions` cannot be {functions!r}", "pass a dict from names to (function, inputs)"
        )
    found = {name: _entry(name, value, common) for name, value in functions.items()}
    # Some file systems ignore case.
    folded: dict[str, str] = {}
    for name in found:
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            raise _invalid(
                f"the names `{other}` and `{name}` differ only in case",
                "use names that stay different where case does not matter",
            )
    return found


def _entry(name: object, value: Any, common: Mapping[str, Any]) -> Entry:
    if not isinstance(name, str) or not is_text(name) or {*name} & {*'/\\:*?"<>|\0'}:
        raise _invalid(f"a function is named {name!r}", "use names that are valid file names")
    if not isinstance(value, tuple | list) or len(value) not in (2, 3):
        raise _invalid(
            f"`{name}` cannot be {value!r}",
            "pass (function, inputs) or (function, inputs, options)",
        )
    fn, inputs, *rest = value
    if rest and not isinstance(rest[0], Mapping):
        raise _invalid(f"the options of `{name}` are {rest[0]!r}", "pass a dict")
    return entry(name, fn, inputs, {**common, **(rest[0] if rest else {})})


def entry(
    name: str, fn: Callable[..., Any], inputs: Sequence[Any], given: Mapping[str, Any]
) -> Entry:
    """Checks the options of a function."""
    parameters = inspect.signature(to_onnx).parameters
    settings = {
        key: parameter.default
        for key, parameter in parameters.items()
        if key not in ("fn", "inputs", "unknown", *_ALONE)
    }
    for key in given:
        if key not in settings:
            what = "for the file of a single model" if key in _ALONE else "unknown"
            raise _invalid(
                f"the option `{key}` is {what}",
                f"{nearest(key, list(settings))}the options are: {', '.join(settings)}",
            )
    settings |= {"model_name": name, **given}
    boundary = {key: settings.pop(key) for key in _CONVERTED}
    double = flag("enable_double_precision", settings.pop("enable_double_precision"))
    params = settings.pop("input_params")
    checked = check_options(return_mode="file", output_path=f"{name}.onnx", **settings)
    return Entry(fn, inputs, params, checked, double, boundary)


def _invalid(message: str, help: str) -> InvalidInputError:
    return InvalidInputError("invalid-set", message, help=help)
