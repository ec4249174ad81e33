"""Published checkpoints: from `config.json` to a decoder with parameters of the right names."""

import functools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jax2onnx._core import Safetensors
from jax2onnx._generation import mxfp4
from jax2onnx._generation.adapters import Adapter
from jax2onnx._generation.decoder_cache import leaf_paths
from jax2onnx._tracing.checkpoint import Checkpoint, Computed, Stored
from jax2onnx.families import FAMILIES, Config, Sizes
from jax2onnx.families.config import invalid, read_json, unsupported

# The context length if the checkpoint allows for more. Runtimes allocate buffers for it by default.
USUAL_LENGTH = 4096

# Settings of `generation_config.json` that onnxruntime-genai has, too.
_SEARCH = ("do_sample", "temperature", "top_k", "top_p", "repetition_penalty")

# The ends of tensors' names that a model does not read: they repeat what `config.json` says.
_UNUSED = (".rotary_emb.inv_freq",)


# Models of images and texts whose texts are decoded by a family, and the fields that publishers
# omit from the description of that part.
_TEXT_DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma3": {
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-6,
        "vocab_size": 262208,
    }
}

# The names of tensors in the other parts.
_OF_IMAGES = re.compile(r"(model\.)?(vision_tower|multi_modal_projector)\.")


@dataclass(frozen=True)
class Published:
    """A published checkpoint.

    Attributes:
        sizes: The sizes of the model.
        dtype: The type of the parameters, in which the model computes.
        context_length: The largest number of tokens.
        parameters: The types of the parameters, in a pytree with the names of the checkpoint.
        decode: The function that `generation.save` exports.
        checkpoint: The source of the weights.
        tokens: The special tokens: `eos`, and possibly `bos` and `pad`.
        search: The settings of the search that the checkpoint recommends.
    """

    sizes: Sizes
    dtype: Any
    context_length: int
    parameters: Any
    decode: Callable[..., Any]
    checkpoint: Checkpoint
    tokens: dict[str, Any]
    search: dict[str, Any]

    def cache(self) -> list[dict[str, Any]]:
        """Returns the types of the cache: the keys and the values of each layer."""
        c = self.sizes
        shape = ("batch", c.key_value_heads, "past", c.head_size)
        kind = jax.ShapeDtypeStruct(shape, self.dtype)
        return [{"key": kind, "value": kind}] * c.layers


def read(
    folder: str | os.PathLike[str],
    context_length: int | None = None,
    adapter: str | os.PathLike[str] | None = None,
    *,
    dtype: Any = jnp.float32,
    last_logits: bool = False,
) -> Published:
    """Reads the description of a checkpoint. Raises if anything in it is not implemented."""
    config, source = Config.load(folder), Safetensors(folder)
    sees = config.family in _TEXT_DEFAULTS
    if sees:
        config = config.part("text_config", _TEXT_DEFAULTS[config.family])
    family = FAMILIES.get(config.family)
    if family is None:
        raise unsupported(
            f"`{config.path}` describes a model of the type `{config.family}`",
            f"the supported families are: {', '.join(FAMILIES)}; write other models in JAX, "
            "and export them with `generation.save`",
        )
    length = _context_length(config, context_length)
    model = family.read(config, length)
    decoded = _decoded(config, source)
    config.check_all_read()
    params = jax.tree.map(
        lambda parameter: jax.ShapeDtypeStruct(parameter.shape, dtype), model.parameters()
    )
    stored = _stored_names(source)
    tensors = [stored(path) for path in leaf_paths(params)]
    _check_tensors(source, tensors, decoded, tied=model.sizes.tied, sees=sees)
    changes = None if adapter is None else Adapter(adapter)
    if changes is not None:
        changes.check(tensors)

    def all_logits(params: Any, input_ids: Any, position_ids: Any, cache: Any) -> Any:
        return model.decode(params, input_ids, position_ids, cache)

    def names(parameter: str) -> str | Stored | Computed:
        tensor = stored(parameter)
        change = None if changes is None else changes.change(tensor)
        if change is not None:
            return Computed((tensor,), change)
        if tensor in decoded:
            return Computed(decoded[tensor], mxfp4.experts)
        return tensor

    tokens, search = _defaults(folder, config)
    return Published(
        model.sizes,
        dtype,
        length,
        params,
        functools.partial(model.decode if last_logits else all_logits, params),
        Checkpoint(folder, names, cast=True),
        tokens,
        search,
    )


def _context_length(config: Config, given: int | None) -> int:
    longest = config.count("max_position_embeddings")
    if given is None:
        return min(longest, USUAL_LENGTH)
    if type(given) is not int or not 1 <= given <= longest:
        raise invalid(
            f"`context_length` cannot be {given!r}", f"the model is for 1 to {longest} tokens"
        )
    return given


def _decoded(config: Config, source: Safetensors) -> dict[str, tuple[str, str]]:
    """Returns the tensors from which parameters in MXFP4 are decoded, by parameter."""
    quantization = config.get("quantization_config")
    if quantization is None:
        return {}
    method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
    if config.family != "gpt_oss" or method != "mxfp4":
        raise unsupported(
            f"the weights are quantised by `{method}`, says `{config.path}`",
            "export a checkpoint of floats, with `weights=` for fewer bits",
        )
    ends = ("_blocks", "_scales")
    named = [n.removesuffix(ends[0]) for n in source.names() if n.endswith(ends[0])]
    return {name: (name + ends[0], name + ends[1]) for name in named}


def _stored_names(source: Safetensors) -> Callable[[str], str]:
    """Returns the function from a parameter's path to its name in the checkpoint. The text part of
    a larger model has a prefix.
    """
    names = set(source.names())
    for prefix in ("language_model.model.", "model.language_model."):
        if f"{prefix}embed_tokens.weight" in names:
            return lambda path: prefix + path[6:] if path.startswith("model.") else path
    return lambda path: path


def _check_tensors(
    source: Safetensors,
    tensors: list[str],
    decoded: dict[str, tuple[str, str]],
    *,
    tied: bool,
    sees: bool,
) -> None:
    """Raises if the checkpoint has a tensor that the model would not read."""
    known = {*tensors, *(name for pair in decoded.values() for name in pair)}
    if tied:
        known |= {"lm_head.weight", "language_model.lm_head.weight"}
    unknown = [
        name
        for name in source.names()
        if name not in known
        and not name.endswith(_UNUSED)
        and not (sees and _OF_IMAGES.match(name))
    ]
    if unknown and not known.isdisjoint(source.names()):
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise unsupported(
            f"the checkpoint has the tensor `{unknown[0]}`{more}, which the model does not read",
            "the model may differ from others of its family",
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
