"""Folders that onnxruntime-genai generates text with.

from jax2onnx import generation

about = generation.Description(
    layers=8, heads=8, key_value_heads=2, head_size=64, vocabulary=2000, context_length=256,
    eos=1,
)
cache = [{"k": ("batch", 2, "past", 64), "v": ("batch", 2, "past", 64)} for _ in range(8)]
generation.save("llama", decode, cache, about)
"""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import jax.numpy as jnp

from jax2onnx import _core
from jax2onnx._export import progress, to_onnx_set
from jax2onnx._generation import genai, padding, published
from jax2onnx._generation.decoder import Decoder, names_of
from jax2onnx._generation.decoder_cache import Storage, invalid
from jax2onnx._generation.description import Description
from jax2onnx._tracing.names import signature_of

__all__ = ["Description", "save", "save_checkpoint"]

_log = logging.getLogger("jax2onnx")

# Options of `to_onnx` that follow from the runtime.
_FIXED = ("input_params", "input_names", "output_names", "input_dtypes", "output_dtypes")


def save_checkpoint(
    folder: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    *,
    context_length: int | None = None,
    adapter: str | os.PathLike[str] | None = None,
    all_logits: bool = False,
    **options: Any,
) -> str:
    """Writes a folder that onnxruntime-genai generates text with, from a published checkpoint.

    The model is one of `jax2onnx.families`, in plain JAX. Its weights are read while the folder is
    written, one at a time. They are stored as float32 unless `weights=` says otherwise. With
    `target="cuda"`, `compute="float16"` or `"bfloat16"` is the type of the whole model.

        save_checkpoint("llama", "Llama-3.2-1B", weights="int4")

    Args:
        folder: The folder, which is replaced as a whole.
        checkpoint: A folder with `config.json`, safetensors files, and the files of a tokenizer.
        context_length: The largest number of tokens. Default: that of the checkpoint, at most 4096.
        adapter: The folder of a LoRA adapter in peft's layout, which is merged into the weights.
        all_logits: `True` to compute the logits of all tokens of a prompt, so that texts can be
            scored. By default the model returns those of the last one, which generation needs.
        options: Options of `save` and of `to_onnx`, such as `weights="int4"`.

    Returns:
        The folder.

    Raises:
        InvalidInputError: An argument is invalid, or the checkpoint is. Nothing is written.
        UnsupportedError: The checkpoint has a property that is not implemented. Nothing is written.
    """
    if os.path.realpath(folder) == os.path.realpath(checkpoint):
        raise invalid(
            f"the folder to write is the checkpoint, `{os.fspath(checkpoint)}`",
            "choose another folder: its README.md and other files would be overwritten",
        )
    dtype = _type_of_model(options)
    source = published.read(
        checkpoint, context_length, adapter, dtype=dtype, last_logits=not all_logits
    )
    c = source.sizes
    about = Description(
        name=os.path.basename(os.path.abspath(checkpoint)),
        layers=c.layers,
        heads=c.heads,
        key_value_heads=c.key_value_heads,
        head_size=c.head_size,
        hidden_size=c.width,
        vocabulary=c.vocabulary,
        context_length=source.context_length,
        **source.tokens,
    )
    has_tokenizer = genai.has_tokenizer(checkpoint)
    options.setdefault("tokenizer", checkpoint if has_tokenizer else None)
    # Runtimes pass tokens of the vocabulary.
    options["assume"] = [*names_of(options.get("assume")), "indices_in_range"]
    options["search"] = {**source.search, **(options.get("search") or {})}
    return save(
        folder, source.decode, source.cache(), about, checkpoint=source.checkpoint, **options
    )


def _type_of_model(options: dict[str, Any]) -> Any:
    """Returns the type of a model's parameters and cache.

    A target may have the operator for a shared buffer in half precision only. Then the model is
    written in the type of the option `compute`, instead of being converted to it.
    """
    compute, target = options.get("compute"), options.get("target")
    types = _core.contributed_types(target, padding.GROUPED) if isinstance(target, str) else []
    if types and "float32" not in types:
        name = compute.removesuffix(":all") if isinstance(compute, str) else None
        if name in types:
            del options["compute"]
            return jnp.dtype(name)
        if compute is None:
            shared = f"target={target!r} has attention over a shared buffer in half precision only"
            _log.warning('%s: pass compute="float16", or the cache is copied in each step', shared)
    return jnp.dtype("float32")


def save(
    folder: str | os.PathLike[str],
    decode: Callable[..., Any],
    cache: Any,
    about: Description,
    *,
    prefill: Callable[..., Any] | None = None,
    cache_names: Mapping[str, str] | None = None,
    cache_dtype: Any = None,
    extra_inputs: Mapping[str, Any] | None = None,
    one_token: bool = False,
    tokenizer: Any = None,
    search: Mapping[str, Any] | None = None,
    **options: Any,
) -> str:
    """Writes a folder that onnxruntime-genai generates text with.

    The function takes token ids `input_ids` [batch, sequence], the cache, and if it has arguments
    of these names, `attention_mask` [batch, past + sequence], `position_ids` [batch, sequence] and
    `last_token` [batch], the index of each row's last token without padding, all int32. It returns
    the logits, [batch, sequence, vocabulary] or those of the last token, [batch, vocabulary], and
    the new cache: `decode(input_ids, cache) -> logits, cache`. Arrays that it refers to, such as
    those of a model, become the weights.

    If prompts of a batch cannot have several lengths, the logger `jax2onnx` and the folder's README
    say why.

    Args:
        folder: The folder, which is replaced as a whole.
        decode: The function. It is called with the whole prompt first, and then with one token at
            a time.
        cache: The cache, as types or shapes of its leaves, which are the keys and values of each
            layer, with the head size as the last axis. Dimensions are numbers, "batch", and "past"
            for a cache that grows: the function returns it with the new tokens appended. In a fixed
            buffer the length is the context length, and integer leaves hold the used length.
        about: The properties that the runtime needs.
        prefill: Another function for the prompt, if `decode` is for one token at a time. It takes
            no cache, or an empty one.
        cache_names: The kinds of the cache's leaves, if their paths do not reveal them:
            `{"{i}.a": "key", "{i}.b": "value"}`, where `{i}` is the layer.
        cache_dtype: The type of the cache outside of the model, such as "float16".
        extra_inputs: Types of further arguments, by name, such as an encoder's results. Give their
            values with `generator.set_model_input`. Each leaf of a pytree is an input of its own:
            `{"cross": {"k": shape, "v": shape}}` has `cross.k` and `cross.v`.
        one_token: `True` if `decode` takes one token at a time, also those of the prompt.
        tokenizer: The folder of a tokenizer, or its files, which are copied.
        search: Defaults for the search: `{"do_sample": True, "temperature": 0.8}`.
        options: Options of `to_onnx`, except for those about inputs and outputs.

    Returns:
        The folder.

    Raises:
        InvalidInputError: An argument is invalid. Nothing is written in this case.
    """
    about.check()
    for option in _FIXED:
        if option in options:
            raise invalid(
                f"`{option}` is given",
                "onnxruntime-genai expects certain names and types; use `cache_dtype` and "
                "`extra_inputs` instead",
            )
    genai.check_search(search or {})
    files = [] if tokenizer is None else genai.tokenizer_files(tokenizer)
    name = os.fspath(folder)
    # A runtime shares the buffers of all layers or of none. If only some layers of a growing cache
    # could be shared, none is.
    for counts in (True, False) if prefill is None and _counts(decode, options) else (False,):
        decoder = Decoder(
            about,
            cache,
            cache_names,
            extra_inputs or {},
            options,
            cache_dtype,
            counts=counts,
            one_token=one_token,
        )
        if prefill is None:
            entries = {"model": decoder.entry("model", decode, one_token=one_token)}
        else:
            entries = {
                "prefill": decoder.entry("prefill", prefill, is_prompt=True),
                "decode": decoder.entry("decode", decode, one_token=True),
            }
        decoder.check_extra_inputs([decode] if prefill is None else [prefill, decode])
        decoder.layout.check_lengths(about.context_length, is_single=prefill is None)
        with ExitStack() as maps:
            models = dict(to_onnx_set.converted(entries, maps, decoder.observe))
            storage, windows = decoder.storage(models)
            if storage is None:
                continue
            decoder.check_windows(windows if storage is Storage.WINDOWED else {})
            stages = {name: decoder.names[name] for name in entries}
            text = genai.config(
                about,
                decoder.hidden_size,
                stages,
                storage=storage,
                windows=windows,
                chunk=1 if one_token and prefill is None else None,
                search=search or {},
                target=options.get("target"),
            )
            equal = decoder.needs_equal_lengths(models, storage)
            if equal is not None:
                _log.warning("all prompts of a batch must have the same length: %s", equal)
            readme = genai.readme(
                about,
                list(stages),
                storage,
                equal,
                has_windows=bool(windows),
                has_tokenizer=bool(files),
            )
            folder_name = os.path.basename(os.path.abspath(name))
            files += [
                (genai.CONFIG, text.encode()),
                (genai.README, readme.replace("{folder}", folder_name).encode()),
            ]
            progress.stage("writing")
            to_onnx_set.write(
                name, [(f"{stage}.onnx", model) for stage, model in models.items()], files
            )
            break
    return name


def _counts(decode: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    """Returns `True` if positions may be counted from the mask, as the runtime does.

    A function with a mask may expect any mask, so its positions and its mask become inputs, unless
    `GroupQueryAttention` is requested.
    """
    forms = options.get("operators")
    form = forms.get(padding.GROUPED, "auto") if isinstance(forms, Mapping) else "auto"
    signature = signature_of(decode) if callable(decode) else None
    has_mask = signature is not None and "attention_mask" in signature.parameters
    return bool(form == "native" or (form == "auto" and not has_mask))
