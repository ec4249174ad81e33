"""Published checkpoints: from `config.json` to a decoder with parameters of the right names."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jax2onnx._core import Safetensors
from jax2onnx._generation import mxfp4
from jax2onnx._generation.adapters import Adapter
from jax2onnx._generation.decoder_cache import leaf_paths
from jax2onnx._tracing.checkpoint import Checkpoint, Computed, Stored
from jax2onnx.errors import UnsupportedError
from jax2onnx.families import FAMILIES, Config, Sizes
from jax2onnx.families.config import invalid, read_json

# The context length if the checkpoint allows for more. Buffers for it are allocated from the start.
USUAL_LENGTH = 4096

# Settings of `generation_config.json` that onnxruntime-genai has, too.
_SEARCH = ("do_sample", "temperature", "top_k", "top_p", "repetition_penalty")

# The ends of tensors' names that a model does not read: they repeat what `config.json` says.
_UNUSED = (".rotary_emb.inv_freq",)


@dataclass(frozen=True)
class Published:
    """A published checkpoint.

    Attributes:
        sizes: The sizes of the model.
        context_length: The largest number of tokens.
        parameters: The types of the parameters, in a pytree with the names of the checkpoint.
        decode: The function that `generation.save` exports.
        checkpoint: The source of the weights.
        tokens: The special tokens: `eos`, and possibly `bos` and `pad`.
        search: The settings of the search that the checkpoint recommends.
    """

    sizes: Sizes
    context_length: int
    parameters: Any
    decode: Callable[..., Any]
    checkpoint: Checkpoint
    tokens: dict[str, Any]
    search: dict[str, Any]

    def cache(self) -> list[dict[str, tuple[Any, ...]]]:
        """Returns the shapes of the cache: a buffer of keys and one of values for each layer."""
        c = self.sizes
        shape = ("batch", c.key_value_heads, self.context_length, c.head_size)
        return [{"key": shape, "value": shape}] * c.layers


def read(
    folder: str | os.PathLike[str],
    context_length: int | None = None,
    adapter: str | os.PathLike[str] | None = None,
) -> Published:
    """Reads the description of a checkpoint. Raises if anything in it is not implemented."""
    config = Config.load(folder)
    family = FAMILIES.get(config.family)
    if family is None:
        raise UnsupportedError(
            "unsupported-checkpoint",
            f"`{config.path}` describes a model of the type `{config.family}`",
            help=f"implemented are: {', '.join(FAMILIES)}; write other models in JAX, and export "
            "them with `generation.save`",
        )
    length = _context_length(config, context_length)
    model = family.read(config, length)
    source = Safetensors(folder)
    decoded = _decoded(config, source)
    config.check_all_read()
    params = model.parameters()
    paths = leaf_paths(params)
    _check_tensors(source, paths, decoded, tied=model.sizes.tied)
    changes = None if adapter is None else Adapter(adapter)
    if changes is not None:
        changes.check(paths)

    def names(parameter: str) -> str | Stored | Computed:
        change = None if changes is None else changes.change(parameter)
        if change is not None:
            return Computed((parameter,), change)
        if parameter in decoded:
            return Computed(decoded[parameter], mxfp4.experts)
        return parameter

    tokens, search = _defaults(folder, config)
    return Published(
        model.sizes,
        length,
        params,
        functools.partial(model.decode, params),
        Checkpoint(folder, names, cast=True),
        tokens,
        search,
    )


def _context_length(config: Config, given: int | None) -> int:
    longest = config.count("max_position_embeddings")
    if given is None:
        return min(longest, USUAL_LENGTH)
    if type(given) is not int or not 1 <= given <= longest:
        raise invalid(f"`context_length` is {given!r}", f"the model is for 1 to {longest} tokens")
    return given


def _decoded(config: Config, source: Safetensors) -> dict[str, tuple[str, str]]:
    """Returns the tensors from which parameters in MXFP4 are decoded, by parameter."""
    method = (config.get("quantization_config") or {}).get("quant_method")
    if method is None:
        return {}
    if config.family != "gpt_oss" or method != "mxfp4":
        raise UnsupportedError(
            "unsupported-checkpoint",
            f"the weights are quantised by `{method}`, says `{config.path}`",
            help="export a checkpoint of floats, with `weights=` for fewer bits",
        )
    ends = ("_blocks", "_scales")
    named = [n.removesuffix(ends[0]) for n in source.names() if n.endswith(ends[0])]
    return {name: (name + ends[0], name + ends[1]) for name in named}


def _check_tensors(
    source: Safetensors, paths: list[str], decoded: dict[str, tuple[str, str]], *, tied: bool
) -> None:
    """Raises if the checkpoint has a tensor that the model would not read."""
    known = {*paths, *(name for pair in decoded.values() for name in pair)}
    if tied:
        known.add("lm_head.weight")
    unknown = [n for n in source.names() if n not in known and not n.endswith(_UNUSED)]
    if unknown and not known.isdisjoint(source.names()):
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise UnsupportedError(
            "unsupported-checkpoint",
            f"the checkpoint has the tensor `{unknown[0]}`{more}, which the model does not read",
            help="the model may differ from others of its family",
        )


def _defaults(
    folder: str | os.PathLike[str], config: Config
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the special tokens, and the settings of the search."""
    path = os.path.join(folder, "generation_config.json")
    settings = read_json(path) or {}
    tokens = {}
    for name in ("eos", "bos", "pad"):
        token = settings.get(f"{name}_token_id")
        tokens[name] = config.get(f"{name}_token_id") if token is None else token
    if tokens["eos"] is None:
        raise invalid(
            f"neither `{path}` nor `{config.path}` has the field `eos_token_id`",
            "add the token that ends a text",
        )
    # A single start is all that a runtime has.
    if isinstance(tokens["bos"], list):
        tokens["bos"] = tokens["bos"][0]
    search = {name: settings[name] for name in _SEARCH if settings.get(name) is not None}
    return tokens, search
