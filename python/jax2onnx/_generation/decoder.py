"""Functions in the interface that runtimes expect of a decoder."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jax2onnx import _core
from jax2onnx._export import to_onnx_set
from jax2onnx._export.to_onnx import Converted
from jax2onnx._generation import genai, observations, padding
from jax2onnx._generation.decoder_cache import (
    Layout,
    Storage,
    invalid,
    layout_of,
    leaf_paths,
    with_dimensions,
)
from jax2onnx._generation.description import Description
from jax2onnx._tracing.inputs import Specs
from jax2onnx._tracing.names import signature_of

# Arguments of a decode function that runtimes provide.
_KNOWN = ("input_ids", "attention_mask", "position_ids")

# Other operators of onnxruntime that save time in a decoder.
_FUSED = ("GatherBlockQuantized", "MatMulNBits", "SkipSimplifiedLayerNormalization")

# The assumption that layers with a window keep the tokens of that window only.
_WINDOWED = "windowed_caches"


class Decoder:
    """Wraps functions in the interface that runtimes expect."""

    def __init__(
        self,
        about: Description,
        cache: Any,
        cache_names: Mapping[str, str] | None,
        extra_inputs: Mapping[str, Any],
        options: Mapping[str, Any],
        cache_dtype: Any,
        *,
        counts: bool,
        one_token: bool,
    ) -> None:
        self._about = about
        self._counts = counts
        # Symbolic dimensions are at least 1, but the past is empty at first.
        limit = about.context_length
        if counts:
            batch, sequence, total = jax.export.symbolic_shape(
                "batch, sequence, total",
                constraints=["total >= sequence", f"total <= {limit}", f"sequence <= {limit}"],
            )
            sequence = 1 if one_token else sequence
            past = total - sequence
            forms = options.get("operators", {})
            forms = forms if isinstance(forms, Mapping) else {"*": forms}
            native = dict.fromkeys((padding.GROUPED, *_FUSED), "native")
            assumed = [*names_of(options.get("assume")), padding.ASSUMPTION]
            options = {**options, "operators": {**native, **forms}, "assume": assumed}
        else:
            batch, sequence, past_and_one = jax.export.symbolic_shape(
                "batch, sequence, past_and_one", constraints=[f"sequence <= {limit}"]
            )
            past = past_and_one - 1
        self._scope = {"batch": batch, "sequence": sequence, "past": past}
        self.layout: Layout = layout_of(
            cache,
            cache_names,
            self._scope,
            layers=about.layers,
            heads=about.key_value_heads or about.heads,
            head_size=about.head_size,
            context_length=about.context_length,
        )
        batch = self._scope["batch"] = self.layout.batch
        self._extra = Specs(double=False).keyword(
            {name: with_dimensions(v, {"batch": batch}) for name, v in extra_inputs.items()}
        )
        self._options = options
        self._cache_dtype = cache_dtype
        self.names: dict[str, tuple[list[str], list[str]]] = {}
        self._one_token = one_token
        self._returns_last = False
        self._taken: set[str] = set()
        self.hidden_size = about.hidden_size or about.heads * about.head_size

    def observe(self, name: str, converted: Converted) -> None:
        """Raises if a traced function contradicts the description."""
        order, _ = self.names[name]
        args, _ = converted.arguments
        length = args[order.index("input_ids")].shape[1]
        takes_cache = any(key.startswith("past_key_values.") for key in order)
        lengths = {spec.shape[2] for spec in self.layout.boundary().values()}
        if self.layout.grows:
            lengths = {past + length if takes_cache else length for past in lengths}
        found = observations.observe(
            converted.traced.jaxpr,
            order,
            self._about,
            batch=self._scope["batch"],
            sequence=length,
            lengths=lengths,
        )
        found.check(self._about)
        self.hidden_size = found.hidden_size(self._about)

    def entry(
        self,
        name: str,
        fn: Callable[..., Any],
        *,
        one_token: bool = False,
        is_prompt: bool = False,
    ) -> to_onnx_set.Entry:
        """Returns the wrapped function as an entry of a set."""
        arguments, cache_argument = self._arguments(name, fn)
        self._taken |= set(arguments)
        takes_cache = cache_argument is not None
        if not takes_cache and not is_prompt:
            raise invalid(
                f"`{name}` has no argument for the cache",
                f"its arguments are: {', '.join(arguments) or 'none'}",
            )
        inputs = self._inputs(arguments, takes_cache=takes_cache, one_token=one_token)
        needs_used = takes_cache and any(leaf.kind == "index" for leaf in self.layout.leaves)
        if needs_used and "position_ids" not in inputs and not self._counts:
            inputs["position_ids"] = self._tokens(one_token=one_token)
        order = list(inputs)
        about, layout = self._about, self.layout

        def run(*values: Any) -> Any:
            given = dict(zip(order, values, strict=True))
            if "attention_mask" in given:
                given = padding.counted(given["input_ids"].shape, given["attention_mask"]) | given
            used = given["position_ids"][0, 0] if needs_used else None
            past = {
                (layer, kind): given[genai.PAST.format(i=layer, kind=kind)]
                for layer, kind in layout.boundary()
                if takes_cache
            }
            if cache_argument is not None:
                given[cache_argument] = layout.inside(past, used)
            for extra in self._extra.keys() & set(arguments):
                leaves = [given[leaf] for leaf in self._extra_leaves(extra)]
                tree = jax.tree_util.tree_structure(self._extra[extra])
                given[extra] = jax.tree_util.tree_unflatten(tree, leaves)
            result = _call(fn, {key: given[key] for key in arguments})
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise invalid(
                    f"`{name}` returns {type(result).__name__}", "return the logits and the cache"
                )
            logits, cache = result
            logits = _checked_logits(logits, given["input_ids"].shape, about.vocabulary)
            length = given["input_ids"].shape[1]
            self._returns_last |= logits.shape[1] != length
            present = layout.outside(cache, length if takes_cache else length - self._scope["past"])
            return logits, *present.values()

        # The parameters and lines of code are those of the function.
        run.__wrapped__ = fn  # type: ignore[attr-defined]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(f"x{i}", inspect.Parameter.POSITIONAL_ONLY)
                for i in range(len(order))
            ]
        )
        present = [genai.PRESENT.format(i=i, kind=kind) for i, kind in layout.boundary()]
        self.names[name] = (order, ["logits", *present])
        types = {key: "int64" for key in _KNOWN if key in inputs}
        outside: dict[str, Any] = {}
        if self._cache_dtype is not None:
            outside = {"present.*": self._cache_dtype}
            if takes_cache:
                types |= {"past_key_values.*": self._cache_dtype}
        given = {
            **self._options,
            "input_names": order,
            "output_names": ["logits", *present],
            "input_dtypes": types,
            "output_dtypes": outside,
        }
        return to_onnx_set.entry(name, run, list(inputs.values()), given)

    def _arguments(self, name: str, fn: Callable[..., Any]) -> tuple[list[str], str | None]:
        """Returns the names of a function's arguments, and the name of the cache among them."""
        if not callable(fn):
            raise invalid(f"`{name}` cannot be {fn!r}", "pass a function")
        signature = signature_of(fn)
        if signature is None:
            raise invalid(f"`{name}` has no signature", "wrap it in a function")
        empty = inspect.Parameter.empty
        arguments = [
            p.name
            for p in signature.parameters.values()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
            and (p.default is empty or p.name in (*_KNOWN, padding.LAST, *self._extra))
        ]
        if "input_ids" not in arguments:
            raise invalid(
                f"`{name}` has no argument `input_ids`",
                f"its arguments are: {', '.join(arguments) or 'none'}",
            )
        others = [a for a in arguments if a not in (*_KNOWN, padding.LAST, *self._extra)]
        if len(others) > 1:
            listed = ", ".join(f"`{other}`" for other in others)
            raise invalid(
                f"`{name}` has the arguments {listed}, but only one can be the cache",
                "name others `attention_mask`, `position_ids` or `last_token`, or list them in "
                "`extra_inputs`",
            )
        return arguments, others[0] if others else None

    def _tokens(self, *, one_token: bool) -> jax.ShapeDtypeStruct:
        length = 1 if one_token else self._scope["sequence"]
        return jax.ShapeDtypeStruct((self._scope["batch"], length), jnp.int32)

    def _inputs(
        self, arguments: Sequence[str], *, takes_cache: bool, one_token: bool
    ) -> dict[str, Any]:
        """Returns the types of the model's inputs, in order."""
        tokens = self._tokens(one_token=one_token)
        found: dict[str, Any] = {"input_ids": tokens}
        if not {"attention_mask", padding.LAST}.isdisjoint(arguments) or self._counts:
            past = self._scope["past"] if takes_cache else 0
            total = past + tokens.shape[1]
            found["attention_mask"] = jax.ShapeDtypeStruct((tokens.shape[0], total), jnp.int32)
        if "position_ids" in arguments and not self._counts:
            found["position_ids"] = tokens
        if takes_cache:
            for (layer, kind), spec in self.layout.boundary().items():
                found[genai.PAST.format(i=layer, kind=kind)] = spec
        for name in arguments:
            if name in self._extra:
                found |= self._extra_leaves(name)
        return found

    def storage(self, models: Mapping[str, Any]) -> tuple[Storage | None, dict[int, int]]:
        """Returns the storage of the cache, or None if only some of its layers can be shared, and
        the windows of the layers that hold no more than that.
        """
        usual = Storage.GROWS if self.layout.grows else Storage.BUFFER
        rings = self.layout.windows(self._about.context_length) if len(models) == 1 else {}
        if not self._counts:
            return usual, rings
        graph = _core.GraphListing(models["model"].skeleton())
        producers = {result: op for op, _, results, _ in graph.nodes() for result in results}

        def is_shared(layer: int, kind: str) -> bool:
            past, present = (
                pattern.format(i=layer, kind=kind) for pattern in (genai.PAST, genai.PRESENT)
            )
            ops = (producers.get(present, ""), *(op for op, _ in graph.readers(past)))
            return len(ops) == 2 and all(op.endswith(padding.GROUPED) for op in ops)

        if all(is_shared(layer, kind) for layer, kind in self.layout.boundary()):
            windows = {}
            for layer in range(self._about.layers):
                present = genai.PRESENT.format(i=layer, kind="key")
                window = graph.integer(present, "local_window_size")
                if window is not None and graph.integer(present, "sliding_window_cache"):
                    windows[layer] = window
            return Storage.WINDOWED if windows else Storage.SHARED, windows
        is_mixed = any(op.endswith(padding.GROUPED) for op in producers.values())
        return None if is_mixed and self.layout.grows else usual, rings

    def needs_equal_lengths(self, models: Mapping[str, Any], storage: Storage) -> str | None:
        """Returns the reason why prompts of a batch must have the same length, or None."""
        if self.layout.batch == 1:
            return None
        return padding.needs_equal_lengths(
            _core.GraphListing(models[next(iter(models))].skeleton()),
            storage,
            self._taken,
            returns_last=self._returns_last,
            one_token=self._one_token,
        )

    def check_windows(self, windows: Mapping[int, int]) -> None:
        """Raises if caches of windows are requested and there are none, or of several sizes."""
        if _WINDOWED not in names_of(self._options.get("assume")):
            return
        if not windows:
            raise invalid(
                f"`assume` has {_WINDOWED!r}, but no layer has a cache of its window",
                f"a window has to be less than the context length, {self._about.context_length}, "
                f"the cache has to grow, and attention has to be `{padding.GROUPED}`: "
                "`jax2onnx show --missed` says why it is not",
            )
        if len(sizes := {*windows.values()}) > 1:
            layers = {size: min(i for i in windows if windows[i] == size) for size in sizes}
            listed = " and ".join(
                f"layer {layers[size]} has {size} tokens" for size in sorted(sizes)
            )
            raise invalid(
                f"layers have windows of different sizes: {listed}",
                f"onnxruntime-genai has one size; export without {_WINDOWED!r}",
            )

    def _extra_leaves(self, name: str) -> dict[str, jax.ShapeDtypeStruct]:
        """Returns the types of a further argument's leaves, by the names of their inputs."""
        value = self._extra[name]
        names = [f"{name}.{path}".rstrip(".") for path in leaf_paths(value)]
        return dict(zip(names, jax.tree_util.tree_leaves(value), strict=True))

    def check_extra_inputs(self, functions: Sequence[Callable[..., Any]]) -> None:
        """Raises if an extra input is not an argument of any function."""
        for name in self._extra:
            if not any(name in self._arguments("", function)[0] for function in functions):
                raise invalid(
                    f"`extra_inputs` has `{name}`, which is not an argument of the function",
                    "name the arguments as the function does",
                )


def names_of(assumed: Any) -> list[Any]:
    """Returns the elements of the option `assume`. Invalid ones are reported later."""
    if assumed is None or isinstance(assumed, str):
        return [] if assumed is None else [assumed]
    return list(assumed) if isinstance(assumed, Iterable) else [assumed]


def _call(fn: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Calls a function with named values. Positional-only arguments are passed by position."""
    signature = signature_of(fn)
    assert signature is not None
    kinds = {p.name: p.kind for p in signature.parameters.values()}
    by_position = [v for k, v in values.items() if kinds[k] is inspect.Parameter.POSITIONAL_ONLY]
    by_name = {k: v for k, v in values.items() if kinds[k] is not inspect.Parameter.POSITIONAL_ONLY}
    return fn(*by_position, **by_name)


def _checked_logits(logits: Any, tokens: Sequence[Any], vocabulary: int) -> Any:
    batch, sequence = tokens
    allowed = [(batch, sequence, vocabulary), (batch, 1, vocabulary), (batch, vocabulary)]
    shape = getattr(logits, "shape", None)
    if shape not in allowed or not jnp.issubdtype(logits.dtype, jnp.floating):
        found = f"{logits.dtype}{list(shape)}" if shape is not None else type(logits).__name__
        raise invalid(
            f"the logits are {found}",
            f"return floats [batch, sequence, {vocabulary}] or, for the last token alone, "
            f"[batch, {vocabulary}]",
        )
    return logits[:, None] if len(shape) == 2 else logits
