"""Weights from a checkpoint, which are read while the model is written."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

import jax
import ml_dtypes
import numpy as np

from jax2onnx._core import Safetensors, Weight
from jax2onnx._python.packages import require
from jax2onnx.errors import InvalidInputError, invalid_option

# The number of parameters that a message lists.
_LISTED = 5


@dataclass(frozen=True)
class Stored:
    """The tensor of a checkpoint that holds a parameter.

    Attributes:
        name: The name of the tensor.
        transpose: The axes of the tensor in the order of the parameter's; True to reverse them, as
            a PyTorch linear layer needs.
        cast: `True` if the tensor may have a different float type. Widening is exact.
    """

    name: str
    transpose: bool | Sequence[int] = False
    cast: bool = False


@dataclass(frozen=True)
class Computed:
    """A parameter that is computed from tensors of the checkpoint while the model is written.

    Attributes:
        names: The names of the tensors.
        compute: A function of the tensors, as NumPy arrays. It returns the parameter's elements.
    """

    names: tuple[str, ...]
    compute: "Callable[..., np.ndarray[Any, Any]]"


Names = Mapping[str, str | Stored] | Callable[[str], str | Stored | Computed]


@dataclass(frozen=True)
class Checkpoint:
    """Weights in safetensors files or in an Orbax checkpoint.

    Attributes:
        path: A `.safetensors` file, the index of several (`model.safetensors.index.json`), a folder
            with one or the other, or a folder that Orbax wrote.
        names: The checkpoint's names of parameters, if they differ from the parameters' paths: a
            function of the path, or a mapping. Mappings may have placeholders:
            `{"blocks.{i}.q.kernel": Stored("model.layers.{i}.q_proj.weight", transpose=True)}`.
            Parameters that a mapping does not mention keep their path.
        cast: `True` if tensors may have different float types from their parameters.
    """

    path: str | os.PathLike[str]
    names: Names | None = None
    cast: bool = False


@dataclass(frozen=True)
class Parameter:
    """A parameter without values: the path in the model, the shape and the type."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Weights:
    """Weights from checkpoints. A tensor that several parameters read alike is one weight."""

    def __init__(self) -> None:
        self._sources: dict[str, Safetensors | _Orbax] = {}
        self._known: dict[object, Weight] = {}

    def of(self, checkpoint: Any, parameters: Sequence[Parameter]) -> list[Weight]:
        """Returns the weights for parameters. Raises if one does not fit, before reading any."""
        described = _described(checkpoint)
        path = os.fspath(described.path)
        if path not in self._sources:
            self._sources[path] = _opened(path)
        found = _weights(described, self._sources[path], parameters)
        return [self._known.setdefault((path, *key), weight) for key, weight in found]


def _described(checkpoint: Any) -> Checkpoint:
    if isinstance(checkpoint, Checkpoint):
        return checkpoint
    if isinstance(checkpoint, str | os.PathLike):
        return Checkpoint(checkpoint)
    raise invalid_option(
        f"`checkpoint` cannot be {checkpoint!r}", "pass a path, or a jax2onnx.Checkpoint"
    )


def _weights(
    checkpoint: Checkpoint, source: "Safetensors | _Orbax", parameters: Sequence[Parameter]
) -> list[tuple[tuple[object, ...], Weight]]:
    """Returns the weights, each with a key that identifies its tensor and conversion."""
    random = [parameter.name for parameter in parameters if parameter.dtype.startswith("key<")]
    if random:
        raise InvalidInputError(
            "invalid-checkpoint",
            f"the function uses the random key `{random[0]}`, which has no value",
            help="checkpoints hold no keys: replace it with a real one, or disable random "
            "layers such as dropout",
        )
    entries = [_entry(checkpoint, parameter.name) for parameter in parameters]
    known = set(source.names())
    missing = [
        f"`{parameter.name}`{_expected(parameter.name, name)}{_hint(name, known)}"
        for parameter, entry in zip(parameters, entries, strict=True)
        for name in (entry.names if isinstance(entry, Computed) else (entry.name,))
        if name not in known
    ]
    if missing:
        raise _wrong(
            f"the checkpoint lacks {_count(len(missing))} of {len(parameters)} parameters",
            missing,
            help="pass `names` with the checkpoint: a function or a mapping from parameters to "
            "tensors",
        )
    fitted = [_fitted(*pair, source) for pair in zip(parameters, entries, strict=True)]
    if wrong := [found for found in fitted if isinstance(found, str)]:
        raise _wrong(
            f"the shape or type of {_count(len(wrong))} of {len(parameters)} parameters differs in "
            "the checkpoint",
            wrong,
            help="Stored(name, transpose=True) transposes a matrix, cast=True accepts another "
            "float type",
        )
    return [found for found in fitted if not isinstance(found, str)]


def array_of(weight: Weight) -> "np.ndarray[Any, Any]":
    dtype = getattr(ml_dtypes, weight.dtype, None) or np.dtype(weight.dtype)
    return np.frombuffer(weight.bytes(), dtype).reshape(weight.shape)


def _computed(parameter: Parameter, entry: Computed, source: "Safetensors | _Orbax") -> Weight:
    weights = [source.get(name) for name in entry.names]

    def fetch() -> "np.ndarray[Any, Any]":
        found = entry.compute(*(array_of(weight) for weight in weights if weight is not None))
        if found.shape != parameter.shape:
            raise ValueError(f"`{parameter.name}` is computed as {list(found.shape)}")
        return found.astype(parameter.dtype, copy=False)

    return Weight.fetched(parameter.dtype, list(parameter.shape), fetch)


def _fitted(
    parameter: Parameter, entry: Stored | Computed, source: "Safetensors | _Orbax"
) -> tuple[tuple[object, ...], Weight] | str:
    """Converts a tensor to the parameter's layout and type, and returns it with a key that
    identifies the tensor and the conversion. Returns the reason if it does not fit.
    """
    if isinstance(entry, Computed):
        return (parameter.name, "computed"), _computed(parameter, entry, source)
    weight = source.get(entry.name)
    assert weight is not None
    found = f"{weight.dtype}{weight.shape}"
    axes: Sequence[int] = range(len(weight.shape))
    if entry.transpose is not False:
        axes = axes[::-1] if entry.transpose is True else entry.transpose
        if sorted(axes) != list(range(len(weight.shape))):
            return f"`{entry.name}` is {found}, which has no axes {tuple(axes)}"
        weight = weight.transposed(list(axes))
        found += f", transposed {weight.dtype}{weight.shape}"
    both_floats = weight.dtype in _FLOATS and parameter.dtype in _FLOATS
    if entry.cast and both_floats and weight.dtype != parameter.dtype:
        weight = weight.converted(parameter.dtype, parameter.name)
    if (tuple(weight.shape), weight.dtype) != (parameter.shape, parameter.dtype):
        expected = f"{parameter.dtype}{list(parameter.shape)}"
        return (
            f"`{parameter.name}` is {expected} in the function, but `{entry.name}` is {found} in "
            "the checkpoint"
        )
    return (entry.name, tuple(axes), weight.dtype), weight


_FLOATS = ("float16", "bfloat16", "float32")


def _entry(checkpoint: Checkpoint, name: str) -> Stored | Computed:
    """Returns the checkpoint's entry for a parameter."""
    found: Any = name
    if isinstance(checkpoint.names, Mapping):
        found = _looked_up(checkpoint.names, name)
    elif checkpoint.names is not None:
        found = checkpoint.names(name)
    if isinstance(found, Computed):
        return found
    if isinstance(found, str):
        found = Stored(found)
    if not isinstance(found, Stored):
        raise invalid_option(
            f"`names` returns {found!r} for the parameter `{name}`",
            "it has to return the name of a tensor, or a jax2onnx.Stored",
        )
    return Stored(found.name, found.transpose, cast=found.cast or checkpoint.cast)


def _looked_up(names: Mapping[str, str | Stored], name: str) -> str | Stored:
    if name in names:
        return names[name]
    for pattern, target in names.items():
        if "{" not in pattern:
            continue
        parts = re.split(r"\{(\w+)\}", pattern)
        text = "".join(
            f"(?P<{part}>.+?)" if index % 2 else re.escape(part) for index, part in enumerate(parts)
        )
        match = re.fullmatch(text, name)
        if match is not None:
            stored = Stored(target) if isinstance(target, str) else target
            found = match.groupdict()
            parts = re.split(r"\{(\w+)\}", stored.name)
            filled = "".join(found.get(p, p) if i % 2 else p for i, p in enumerate(parts))
            return Stored(filled, stored.transpose, stored.cast)
    return name


def _opened(path: str) -> "Safetensors | _Orbax":
    if not os.path.exists(path):
        folder = os.path.dirname(os.path.abspath(path))
        near = os.listdir(folder) if os.path.isdir(folder) else []
        raise InvalidInputError(
            "invalid-checkpoint",
            f"there is no checkpoint `{path}`{_hint(os.path.basename(path), near)}",
            help="pass a safetensors file, a folder of them, or the folder of an Orbax checkpoint; "
            f"relative paths start at {os.getcwd()}",
        )
    is_orbax = os.path.isdir(path) and any(
        os.path.exists(os.path.join(path, name))
        for name in ("_METADATA", "_CHECKPOINT_METADATA", "manifest.ocdbt")
    )
    return _Orbax(path) if is_orbax else Safetensors(path)


class _Orbax:
    """A checkpoint of one pytree that Orbax wrote. Each array is restored alone."""

    def __init__(self, path: str) -> None:
        require("orbax", "a checkpoint of Orbax")
        import orbax.checkpoint as orbax

        self._path = os.path.abspath(path)
        self._handler: Any = orbax.PyTreeCheckpointer()
        tree = self._handler.metadata(self._path)
        tree = getattr(tree, "item_metadata", tree)
        tree = getattr(tree, "tree", tree)
        self._tree = tree
        self._leaves = {".".join(path): (path, leaf) for path, leaf in _leaves(tree, ())}

    def names(self) -> Iterable[str]:
        return self._leaves

    def get(self, name: str) -> Weight | None:
        path, leaf = self._leaves.get(name, ((), None))
        if leaf is None:
            return None
        dtype = np.dtype(leaf.dtype).name
        return Weight.fetched(dtype, list(leaf.shape), partial(self._restore, path))

    def _restore(self, path: tuple[str, ...]) -> "np.ndarray[Any, Any]":
        import orbax.checkpoint as orbax

        # A tree with only this leaf: the others are placeholders, which Orbax does not read.
        def only(tree: Any, at: tuple[str, ...]) -> Any:
            if isinstance(tree, Mapping):
                return {key: only(value, (*at, str(key))) for key, value in tree.items()}
            if isinstance(tree, list | tuple):
                return [only(value, (*at, str(i))) for i, value in enumerate(tree)]
            return 0 if at == path else orbax.PLACEHOLDER

        item = only(self._tree, ())
        args = jax.tree.map(lambda _: orbax.RestoreArgs(restore_type=np.ndarray), item)
        restored: Any = self._handler.restore(
            self._path, args=orbax.args.PyTreeRestore(item=item, restore_args=args)
        )
        for key in path:
            restored = restored[int(key) if isinstance(restored, list | tuple) else key]
        return np.asarray(restored)


def _leaves(tree: Any, path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(tree, list | tuple):
        for index, value in enumerate(tree):
            yield from _leaves(value, (*path, str(index)))
    elif getattr(tree, "shape", None) is not None:
        yield path, tree


def _expected(parameter: str, name: str) -> str:
    return "" if name == parameter else f", which should be `{name}`"


def _hint(name: str, known: Iterable[str]) -> str:
    """Returns a question about a name with a prefix, or else the most similar name."""
    near = [other for other in known if other.endswith(f".{name}")]
    near = near or get_close_matches(name, list(known)[:5000], n=1, cutoff=0.7)
    return f"; did you mean `{min(near)}`?" if near else ""


def _count(number: int) -> str:
    return "one" if number == 1 else str(number)


def _wrong(message: str, lines: Sequence[str], help: str) -> InvalidInputError:
    more = [f"… and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
    text = "\n  ".join([message + ":", *lines[:_LISTED], *more])
    return InvalidInputError("invalid-checkpoint", text, help=help)
