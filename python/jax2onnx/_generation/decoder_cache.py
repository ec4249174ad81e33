"""The layout of a decoder's cache: the layer and kind of each leaf, and the order of its axes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax2onnx import _jax
from jax2onnx._tracing.inputs import Specs
from jax2onnx._tracing.names import component, paths_of
from jax2onnx._tracing.patterns import Pattern
from jax2onnx.errors import InvalidInputError

KINDS = ("key", "value")

# The axes of a layer's keys or values in runtimes, in order.
AXES = ("batch", "heads", "length", "head_size")

_WORDS = {
    "key": re.compile(r"(.*_)?(k|key|keys)"),
    "value": re.compile(r"(.*_)?(v|val|vals|value|values)"),
}


# The tokens that the runtime adds to a window when it allocates buffers, and the least window.
_SLACK, _LEAST_WINDOW = 16, 2


class Storage(Enum):
    """The storage of keys and values between two steps.

    Attributes:
        GROWS: Arrays of the used length, which every step copies.
        BUFFER: Buffers of a fixed length.
        SHARED: Buffers of any length, of which a step reads the used part.
        WINDOWED: Like `SHARED`, but some layers hold only the tokens of their window.
    """

    GROWS = auto()
    BUFFER = auto()
    SHARED = auto()
    WINDOWED = auto()


@dataclass(frozen=True)
class Leaf:
    """A leaf of the cache.

    Attributes:
        path: Its path, as in names.
        spec: Its type.
        kind: "key" or "value", or "index" for the used length of the buffer.
        layer: Its layer; None if it holds all layers, along its first axis.
        order: The leaf's axis for each of `AXES`.
    """

    path: str
    spec: jax.ShapeDtypeStruct
    kind: str
    layer: int | None
    order: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A cache.

    Attributes:
        leaves: Its leaves, in the order of the pytree.
        tree: The pytree.
        grows: `True` if keys and values are appended rather than written into a buffer.
        layers: The number of layers.
    """

    leaves: tuple[Leaf, ...]
    tree: Any
    grows: bool
    layers: int

    @property
    def held(self) -> list[Leaf]:
        """The leaves with keys or values."""
        return [leaf for leaf in self.leaves if leaf.kind != "index"]

    def layers_of(self, leaf: Leaf) -> Sequence[int]:
        """Returns the layers that a leaf holds."""
        return range(self.layers) if leaf.layer is None else (leaf.layer,)

    @property
    def batch(self) -> Any:
        """The batch size, a number or a symbol."""
        first = self.held[0]
        return first.spec.shape[first.order[0] + (first.layer is None)]

    def windows(self, context_length: int) -> dict[int, int]:
        """Returns the windows that make the runtime allocate shorter buffers, by layer."""
        if self.grows:
            return {}
        lengths = {layer: spec.shape[2] for (layer, _), spec in self.boundary().items()}
        least = _SLACK + _LEAST_WINDOW
        return {i: n - _SLACK for i, n in lengths.items() if least <= n < context_length}

    def boundary(self) -> dict[tuple[int, str], jax.ShapeDtypeStruct]:
        """Returns the types of each layer's keys and values in the layout of runtimes."""
        found = {}
        for leaf in self.held:
            whole = leaf.spec.shape if leaf.layer is not None else leaf.spec.shape[1:]
            shape = tuple(whole[axis] for axis in leaf.order)
            for layer in self.layers_of(leaf):
                found[layer, leaf.kind] = jax.ShapeDtypeStruct(shape, leaf.spec.dtype)
        return dict(sorted(found.items()))

    def inside(self, given: Mapping[tuple[int, str], Any], used: Any) -> Any:
        """Returns the cache in the function's layout. `used` is the used length of the buffer."""
        leaves = []
        for leaf in self.leaves:
            if leaf.kind == "index":
                leaves.append(jnp.broadcast_to(used, leaf.spec.shape).astype(leaf.spec.dtype))
                continue
            back = tuple(map(int, np.argsort(leaf.order)))
            layers = [given[i, leaf.kind].transpose(back) for i in self.layers_of(leaf)]
            leaves.append(jnp.stack(layers) if leaf.layer is None else layers[0])
        return jax.tree_util.tree_unflatten(self.tree, leaves)

    def outside(self, cache: Any, sequence: Any) -> dict[tuple[int, str], Any]:
        """Returns the keys and values of the function's cache in the layout of runtimes."""
        self._check_structure(cache)
        found = {}
        for leaf, value in zip(self.leaves, jax.tree_util.tree_leaves(cache), strict=True):
            if leaf.kind == "index":
                continue
            if not hasattr(value, "shape") or not hasattr(value, "dtype"):
                raise invalid(
                    f"the leaf `{leaf.path}` of the cache is returned as {value!r}",
                    f"it is passed as {_text(leaf.spec)}, so return an array",
                )
            shape = list(leaf.spec.shape)
            if self.grows:
                shape[self._length_axis(leaf)] += sequence
            if tuple(value.shape) != tuple(shape) or value.dtype != leaf.spec.dtype:
                wanted = jax.ShapeDtypeStruct(tuple(shape), leaf.spec.dtype)
                appended = " and has the new keys or values appended" if self.grows else ""
                raise invalid(
                    f"the leaf `{leaf.path}` of the cache is returned as {_text(value)}",
                    f"it is passed as {_text(leaf.spec)}{appended}, so this should be "
                    f"{_text(wanted)}",
                )
            for layer in self.layers_of(leaf):
                part = value[layer] if leaf.layer is None else value
                found[layer, leaf.kind] = part.transpose(leaf.order)
        return dict(sorted(found.items()))

    def _check_structure(self, cache: Any) -> None:
        tree = jax.tree_util.tree_structure(cache)
        if tree == self.tree:
            return
        taken, returned = [leaf.path for leaf in self.leaves], leaf_paths(cache)
        missing = [path for path in taken if path not in returned]
        added = [path for path in returned if path not in taken]
        if missing:
            message = f"the leaf `{missing[0]}` of the cache is not returned"
        elif added:
            message = f"the leaf `{added[0]}` of the returned cache is not in the cache as passed"
        else:
            message = "the function takes and returns caches of different structures"
        raise invalid(message, f"it takes {self.tree} and returns {tree}")

    def check_lengths(self, context_length: int, *, is_single: bool) -> None:
        """Raises if a runtime cannot give buffers their lengths: all the same, or the context
        length and another one for rings, if a single model takes prompts and tokens.
        """
        lengths = [(leaf.spec.shape[self._length_axis(leaf)], leaf.path) for leaf in self.held]
        different = dict(reversed(lengths))
        if self.grows or len(different) == 1:
            return
        (length, path), (other, second) = sorted(different.items())[:2]
        least = _SLACK + _LEAST_WINDOW
        sizes = self.boundary()
        is_even = all(sizes[i, "key"].shape == sizes[i, "value"].shape for i, _ in sizes)
        if is_single and is_even and other == context_length and length >= least:
            return
        raise invalid(
            f"the leaf `{path}` of the cache holds {length} tokens, but `{second}` holds {other}",
            "onnxruntime-genai has buffers of one length, or in a single model of the context "
            f"length and of another one from {least} on, for both keys and values: use such a "
            "length, and mask what is outside of the window",
        )

    @staticmethod
    def _length_axis(leaf: Leaf) -> int:
        return leaf.order[AXES.index("length")] + (leaf.layer is None)


def layout_of(
    cache: Any,
    names: Mapping[str, str] | None,
    scope: Mapping[str, Any],
    *,
    layers: int,
    heads: int,
    head_size: int,
    context_length: int,
) -> Layout:
    """Infers the layout of a cache. `scope` maps names to symbolic dimensions."""
    specs = _specs(cache, scope)
    paths = leaf_paths(specs)
    _check_names(names, paths)
    flat, tree = jax.tree_util.tree_flatten(specs)
    pairs = len({path.rpartition(".")[0] for path in paths}) * 2 == len(paths)
    leaves = []
    for path, spec in zip(paths, flat, strict=True):
        if np.issubdtype(spec.dtype, np.integer) and len(spec.shape) <= 1:
            leaves.append(Leaf(path, spec, "index", None, ()))
            continue
        kind, layer = _role(path, names, pairs)
        rank = len(spec.shape)
        stacked = rank == len(AXES) + 1
        if rank != len(AXES) and not stacked:
            raise invalid(
                f"the leaf `{path}` of the cache has rank {rank}",
                "keys and values have the axes batch, heads, length and head size, and possibly "
                "the layers in front",
            )
        if stacked and spec.shape[0] != layers:
            raise invalid(
                f"the leaf `{path}` of the cache holds {spec.shape[0]} layers, but `layers` is "
                f"{layers}",
                "its first axis counts the layers: change the shape, or `layers`",
            )
        shape = spec.shape[1:] if stacked else spec.shape
        order = _order(path, shape, scope["past"], heads, head_size, context_length)
        leaves.append(Leaf(path, spec, kind, None if stacked else layer, order))
    layout = Layout(tuple(leaves), tree, _grows(leaves, scope["past"]), layers)
    _check_complete(layout)
    return layout


def leaf_paths(tree: Any) -> list[str]:
    """Returns the paths of the leaves in the form that names have."""
    return [".".join(component(key) for key in path) for path in paths_of(tree)]


def _specs(cache: Any, scope: Mapping[str, Any]) -> Any:
    """Returns the types of the cache's leaves. Shapes may contain the names `batch` and `past`."""
    dims = {name: dim for name, dim in scope.items() if name in ("batch", "past")}
    return Specs(double=False).positional([with_dimensions(cache, dims)])[0]


def with_dimensions(tree: Any, dims: Mapping[str, Any]) -> Any:
    """Replaces the names of dimensions in shapes and types."""

    def shape_of(dimensions: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(dims.get(dim, dim) if isinstance(dim, str) else dim for dim in dimensions)

    def is_shape(value: Any) -> bool:
        return (
            type(value) is tuple
            and bool(value)
            and all(isinstance(v, int | str) or _jax.is_symbolic(v) for v in value)
        )

    def leaf(value: Any) -> Any:
        if is_shape(value):
            return jax.ShapeDtypeStruct(shape_of(value), np.float32)
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if shape is not None and dtype is not None:
            return jax.ShapeDtypeStruct(shape_of(shape), dtype)
        return value

    return jax.tree_util.tree_map(leaf, tree, is_leaf=is_shape)


def _check_names(names: Mapping[str, str] | None, paths: Sequence[str]) -> None:
    for pattern, kind in (names or {}).items():
        if kind not in KINDS:
            raise invalid(
                f"`cache_names` maps `{pattern}` to {kind!r}", 'map patterns to "key" or "value"'
            )
        found = [match for path in paths if (match := Pattern.of(pattern).match(path)) is not None]
        if not found:
            raise invalid(
                f"`cache_names` has `{pattern}`, which matches no leaf of the cache",
                f"the leaves are: {', '.join(paths)}",
            )
        layers = [match["i"] for match in found if "i" in match]
        no_number = [layer for layer in layers if not layer.isdecimal()]
        if no_number:
            raise invalid(
                f"in `cache_names`, the layer `{{i}}` of `{pattern}` is `{no_number[0]}`",
                "`{i}` matches the number of a layer, so put the layers into a list",
            )


def _role(path: str, names: Mapping[str, str] | None, pairs: bool) -> tuple[str, int]:
    """Returns the kind of a leaf, key or value, and its layer."""
    parts = path.split(".")
    if names is not None:
        for pattern, kind in names.items():
            found = Pattern.of(pattern).match(path)
            if found is not None:
                return kind, int(found.get("i", "0"))
        raise invalid(
            f"no pattern matches the leaf `{path}` of the cache",
            'map patterns to "key" or "value", such as {"{i}.k": "key", "{i}.v": "value"}',
        )
    found_kind = None
    for at in reversed(range(len(parts))):
        kinds = [kind for kind, word in _WORDS.items() if word.fullmatch(parts[at].lower())]
        if kinds:
            found_kind = kinds[0]
            del parts[at]
            break
    if found_kind is None and pairs and parts[-1] in ("0", "1"):
        found_kind = KINDS[int(parts.pop())]
    if found_kind is None:
        raise invalid(
            f"it is unclear whether the leaf `{path}` of the cache holds keys or values",
            'name the kind of each leaf: cache_names={"{i}.a": "key", "{i}.b": "value"}',
        )
    numbers = [re.search(r"\d+$", part) for part in parts]
    layer = next((int(number[0]) for number in numbers if number), 0)
    return found_kind, layer


def _order(
    path: str, shape: Sequence[Any], past: Any, heads: int, head_size: int, context_length: int
) -> tuple[int, ...]:
    """Returns the axis for each of `AXES`."""

    def wrong(reason: str) -> InvalidInputError:
        return invalid(
            f"the leaf `{path}` of the cache has the shape {_shape_text(shape)}: {reason}",
            f"its axes are the batch, {heads} heads of size {head_size}, and the length: `past` if "
            f"it grows, the context length of {context_length}, or that of a shorter ring",
        )

    if shape[-1] != head_size:
        raise wrong(f"the last axis is not the head size of {head_size}")
    rest = [0, 1, 2]
    lengths = [axis for axis in rest if _same(shape[axis], past)]
    lengths = lengths or [axis for axis in (1, 2) if shape[axis] == context_length]
    # A ring holds the last tokens. Its other axis is that of the heads.
    lengths = lengths or [
        axis
        for axis in (1, 2)
        if isinstance(shape[axis], int) and 1 <= shape[axis] <= context_length
        if shape[3 - axis] == heads
    ]
    if not lengths:
        raise wrong("no axis is the length")
    length = lengths[0]
    if len(lengths) > 1 and heads != context_length:
        raise wrong("more than one axis could be the length")
    rest.remove(length)
    by_heads = [axis for axis in reversed(rest) if shape[axis] == heads]
    if not by_heads:
        raise wrong(f"no axis has the size of {heads} heads")
    rest.remove(by_heads[0])
    return rest[0], by_heads[0], length, 3


def _grows(leaves: Sequence[Leaf], past: Any) -> bool:
    held = [leaf for leaf in leaves if leaf.kind != "index"]
    growing = [leaf for leaf in held if any(_same(dim, past) for dim in leaf.spec.shape)]
    if growing and len(growing) < len(held):
        fixed = next(leaf for leaf in held if leaf not in growing)
        raise invalid(
            f"the leaf `{growing[0].path}` of the cache grows, but `{fixed.path}` does not",
            "runtimes append to the whole cache or to none of it",
        )
    indices = [leaf for leaf in leaves if leaf.kind == "index"]
    if growing and indices:
        raise invalid(
            f"the leaf `{indices[0].path}` is the used length of a buffer, but the cache grows",
            "a cache that grows needs no such leaf: remove it",
        )
    return bool(growing)


def _check_complete(layout: Layout) -> None:
    found: dict[tuple[int, str], str] = {}
    layers = layout.layers
    for leaf in layout.held:
        for layer in layout.layers_of(leaf):
            if (layer, leaf.kind) in found:
                raise invalid(
                    f"both `{found[layer, leaf.kind]}` and `{leaf.path}` are the {leaf.kind} of "
                    f"layer {layer}",
                    'name the kind of each leaf: cache_names={"{i}.a": "key", "{i}.b": "value"}',
                )
            found[layer, leaf.kind] = leaf.path
    for layer in range(layers):
        for kind in KINDS:
            if (layer, kind) not in found:
                held = {found_layer for found_layer, _ in found}
                raise invalid(
                    f"the cache has no {kind} for layer {layer} of {layers}",
                    f"its leaves are {', '.join(found.values())}: set `layers` to {len(held)} if "
                    "these are all, or tell the keys and values of each layer by `cache_names`",
                )
    extra = [path for (layer, _), path in found.items() if layer >= layers]
    if extra:
        raise invalid(
            f"the leaf `{extra[0]}` does not belong to any of the {layers} layers",
            "`layers` counts the layers, and `cache_names` tells the keys and values of each",
        )


def _same(dim: Any, symbol: Any) -> bool:
    return _jax.is_symbolic(dim) and bool(dim == symbol)


def _text(value: Any) -> str:
    return f"{value.dtype}{_shape_text(value.shape)}"


def _shape_text(shape: Sequence[Any]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def invalid(message: str, help: str) -> InvalidInputError:
    """Returns the error for an invalid decoder."""
    return InvalidInputError("invalid-decoder", message, help=help)
