"""The options of `to_onnx`, checked before anything is traced."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from jax2onnx._metadata import Level, detail
from jax2onnx.errors import InvalidInputError, bad_option

RETURN_MODES = ("proto", "ir", "file")
EXPORT_MODES = ("standard", "web")
PATHS = ("relative", "absolute")
FUNCTIONS = ("decorated", "modules")
NORMALIZATION_MODES = ("auto", "prefer_native", "force_decomposed")

Layout = Sequence[int | str] | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """Checked options; `path` is set when the model goes to a file."""

    model_name: str
    opset: int | None
    return_mode: str
    path: str | None
    self_contained: bool
    detail: str
    source_map: str | None
    record: str | None
    functions: str


def check_options(
    *,
    model_name: object,
    opset: object,
    return_mode: object,
    output_path: object,
    export_mode: object,
    normalization_mode: object,
    stacktrace_metadata: Level | None,
    source_map: object,
    paths: object,
    record_primitive_calls_file: object,
    functions: object,
) -> Options:
    """Raises on the first option that is wrong."""
    if not isinstance(model_name, str) or not model_name:
        raise _invalid("model_name", model_name, "give a non-empty string")
    if opset is not None and (not isinstance(opset, int) or isinstance(opset, bool)):
        raise _invalid("opset", opset, "give an integer, or None for the lowest that is needed")
    mode = _choice("return_mode", return_mode, RETURN_MODES)
    export = _choice("export_mode", export_mode, EXPORT_MODES)
    _choice("normalization_mode", normalization_mode, NORMALIZATION_MODES)
    _choice("paths", paths, PATHS)
    path = _path("output_path", output_path)
    if mode == "file" and path is None:
        raise InvalidInputError(
            "missing-output-path",
            '`return_mode="file"` needs an `output_path`',
            help='give the path of the model, such as output_path="model.onnx"',
        )
    if mode != "file" and path is not None:
        raise InvalidInputError(
            "unused-output-path",
            f'`output_path` has no effect with `return_mode="{mode}"`',
            help='add return_mode="file" to write the model',
        )
    return Options(
        model_name=model_name,
        opset=opset,
        return_mode=mode,
        path=path,
        self_contained=export == "web",
        detail=detail(stacktrace_metadata),
        source_map=_path("source_map", source_map),
        record=_path("record_primitive_calls_file", record_primitive_calls_file),
        functions=_choice("functions", functions, FUNCTIONS),
    )


def positions(option: str, chosen: Layout, names: Sequence[str], ranks: Sequence[int]) -> list[int]:
    """The flat positions of the inputs or outputs that change their layout."""
    if chosen is None:
        return []
    known = f"the names are: {', '.join(names)}"
    if isinstance(chosen, str):
        raise _invalid(option, chosen, f"give a list of positions or names; {known}")
    found = []
    for entry in chosen:
        index = names.index(entry) if isinstance(entry, str) and entry in names else entry
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(names):
            raise _invalid(option, entry, f"give positions below {len(names)} or names; {known}")
        if ranks[index] != 4:
            raise _invalid(
                option, entry, f"only rank 4 has a layout, `{names[index]}` has rank {ranks[index]}"
            )
        found.append(index)
    return sorted(set(found))


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in allowed:
        return value
    raise bad_option(name, value, allowed)


def _path(name: str, value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str | os.PathLike) and isinstance(path := os.fspath(value), str) and path:
        if path.endswith(("/", os.sep)):
            raise _invalid(name, value, "that is a folder: put the name of a file behind it")
        return path
    raise _invalid(name, value, "give a path")


def _invalid(name: str, value: object, help: str) -> InvalidInputError:
    return InvalidInputError("invalid-option", f"`{name}` is {value!r}", help=help)
