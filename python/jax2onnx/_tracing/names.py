"""Names of a model's inputs and outputs."""

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jax.tree_util import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
    tree_leaves_with_path,
)

from jax2onnx import _jax
from jax2onnx._tracing.patterns import renamed
from jax2onnx._tracing.walk import join
from jax2onnx.errors import InvalidInputError

Path = Sequence[Any]

# Names by position, or a mapping from patterns to new names.
Renaming = Sequence[str] | Mapping[str, str]


class Names:
    """Hands out each name once."""

    def __init__(self, taken: Sequence[str] = ()) -> None:
        self._suffixes = dict.fromkeys(taken, 0)

    def unique(self, name: str) -> str:
        """Returns `name`, or `name_1`, `name_2`, … if it is taken."""
        found = name
        while found in self._suffixes:
            self._suffixes[name] += 1
            found = f"{name}_{self._suffixes[name]}"
        self._suffixes[found] = 0
        return found


def paths_of(tree: Any) -> list[Path]:
    """Returns the path of each leaf. A box around an array (a Flax variable) adds no component."""
    paths = [path for path, _ in tree_leaves_with_path(tree)]
    boxes = tree_leaves_with_path(tree, is_leaf=lambda x: hasattr(type(x), "__jax_array__"))
    return [path for path, _ in boxes] if len(boxes) == len(paths) else list(paths)


def boundary_names(
    signature: inspect.Signature | None,
    inputs: Sequence[Path],
    outputs: Sequence[Path],
    *,
    input_names: Renaming | None,
    output_names: Renaming | None,
) -> tuple[list[str], list[str]]:
    """Returns a name for each leaf of the positional and keyword arguments, and of the result."""
    names = Names()
    default = [names.unique(name) for name in _inputs(signature, inputs)]
    if input_names is not None:
        positional = sum(component(kind) == "0" for kind, *_ in inputs)
        if isinstance(input_names, list | tuple) and len(input_names) == positional:
            input_names = [*input_names, *default[positional:]]
        default = _given("input_names", input_names, default)
    names = Names(default)
    results = [names.unique(_output(path)) for path in outputs]
    if output_names is not None:
        results = _given("output_names", output_names, results, taken=default)
    return default, results


def _inputs(signature: inspect.Signature | None, paths: Sequence[Path]) -> Iterator[str]:
    positional = argument_names(signature)
    arguments: list[str] = []
    for kind, key, *rest in paths:
        if component(kind) == "1":
            yield _path(component(key), rest)
            continue
        while len(arguments) <= int(component(key)):
            arguments.append(next(positional))
        yield _path(arguments[int(component(key))], rest)


def _output(path: Path) -> str:
    if not path:
        return "output"
    first, *rest = path
    if isinstance(first, SequenceKey | FlattenedIndexKey):
        return _path(f"output_{component(first)}", rest)
    return _path("out", path)


def _path(name: str, keys: Path) -> str:
    for key in keys:
        name = join(name, component(key).replace("/", "."))
    return name


def _given(
    option: str, names: Renaming, default: Sequence[str], taken: Sequence[str] = ()
) -> list[str]:
    """Checks the names that the user chose instead of `default`."""
    if isinstance(names, Mapping):
        names = renamed(option, names, default)
    elif isinstance(names, list | tuple) and len(names) == len(default):
        names = [old if new is None else new for old, new in zip(default, names, strict=True)]
    if not isinstance(names, list | tuple) or not all(
        isinstance(n, str) and is_text(n) for n in names
    ):
        raise _invalid(
            f"`{option}` cannot be {names!r}", "pass a list of strings that are not empty"
        )
    if len(names) != len(default):
        values = option.removesuffix("_names") + ("" if len(default) == 1 else "s")
        given = f"{len(names)} name" + ("" if len(names) == 1 else "s")
        raise _invalid(
            f"`{option}` has {given}, but the model has {len(default)} {values}",
            f"pass one name for each of: {', '.join(default)}",
        )
    name, count = Counter([*taken, *names]).most_common(1)[0] if names else ("", 0)
    if count > 1:
        before = [old for old, new in zip(default, names, strict=True) if new == name]
        both = f", for {' and '.join(f'`{old}`' for old in before)}" if len(before) > 1 else ""
        raise _invalid(
            f"`{option}` repeats `{name}`{both}",
            "all inputs and outputs need different names",
        )
    return list(names)


def _invalid(message: str, help: str) -> InvalidInputError:
    return InvalidInputError("invalid-names", message, help=help)


def is_text(value: str) -> bool:
    """Returns `True` if a model can store a text: it is not empty and has no lone surrogates."""
    return bool(value) and value.encode(errors="replace").decode() == value


def component(key: Any) -> str:
    """Returns a key of a pytree path in the form that names have."""
    match key:
        case DictKey() | FlattenedIndexKey():
            return str(key.key)
        case SequenceKey():
            return str(key.idx)
        case GetAttrKey():
            return str(key.name)
    return str(key).strip(".[]'\"")


def signature_of(fn: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(_jax.mapped(fn))
    except (TypeError, ValueError):
        return None


def argument_names(signature: inspect.Signature | None) -> Iterator[str]:
    """Yields the names of the first positional arguments."""
    base, count = "input", 0
    for parameter in signature.parameters.values() if signature else ():
        if parameter.kind is parameter.VAR_POSITIONAL:
            base = parameter.name
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            yield parameter.name
    while True:
        yield f"{base}_{count}"
        count += 1
