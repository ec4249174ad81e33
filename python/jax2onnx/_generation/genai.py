"""The files beside the models of onnxruntime-genai: `genai_config.json` and a README."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jax2onnx import _core
from jax2onnx._generation.decoder_cache import Storage, invalid
from jax2onnx.errors import InvalidInputError

if TYPE_CHECKING:
    from jax2onnx._generation.description import Description

CONFIG = "genai_config.json"
README = "README.md"

PAST = "past_key_values.{i}.{kind}"
PRESENT = "present.{i}.{kind}"

# The files of tokenizers, as Hugging Face's and SentencePiece's tools write them.
_TOKENIZER_FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)


# The search settings of onnxruntime-genai. It rejects models with other settings or with values of
# other types.
_SETTINGS: dict[str, type] = {
    "batch_size": int,
    "chunk_size": int,
    "diversity_penalty": float,
    "do_sample": bool,
    "early_stopping": bool,
    "length_penalty": float,
    "max_length": int,
    "min_length": int,
    "no_repeat_ngram_size": int,
    "num_beams": int,
    "num_return_sequences": int,
    "past_present_share_buffer": bool,
    "random_seed": int,
    "repetition_penalty": float,
    "temperature": float,
    "top_k": int,
    "top_p": float,
}
_KINDS: dict[type, str] = {int: "an integer", float: "a number", bool: "True or False"}


def check_search(search: Mapping[str, Any]) -> None:
    """Raises for settings that onnxruntime-genai rejects."""
    for name, value in search.items():
        kind = _SETTINGS.get(name)
        if kind is None:
            raise invalid(
                f"`search` has {name!r}, which onnxruntime-genai does not know",
                f"settings are {', '.join(_SETTINGS)}",
            )
        plain = value.item() if isinstance(value, np.generic) else value
        if type(plain) not in ((int, float) if kind is float else (kind,)):
            raise invalid(f"`search` has {value!r} for `{name}`", f"it must be {_KINDS[kind]}")


def config(
    about: "Description",
    hidden_size: int,
    stages: Mapping[str, tuple[Sequence[str], Sequence[str]]],
    *,
    storage: Storage,
    windows: Mapping[int, int],
    chunk: int | None,
    search: Mapping[str, Any],
    target: str | None,
) -> str:
    """Returns the text of `genai_config.json`. `stages` maps models to their inputs and outputs:
    one model for everything, or one for the prompt and one for the tokens after it. `windows` maps
    layers whose buffers have the size of their window to that size, which is the same for all.
    """

    def template(pattern: str, kind: str) -> str:
        return pattern.format(i="%d", kind=kind)

    names = {name for inputs, _ in stages.values() for name in inputs}
    plain = ("input_ids", "attention_mask", "position_ids")
    provider = None if target is None else _core.provider(target)
    decoder: dict[str, Any] = {
        "session_options": {
            "log_id": "onnxruntime-genai",
            "provider_options": [] if provider is None else [{provider: {}}],
        },
        "hidden_size": hidden_size,
        "head_size": about.head_size,
        "num_attention_heads": about.heads,
        "num_key_value_heads": about.key_value_heads or about.heads,
        "num_hidden_layers": about.layers,
        "inputs": {
            **{name: name for name in plain if name in names},
            "past_key_names": template(PAST, "key"),
            "past_value_names": template(PAST, "value"),
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": template(PRESENT, "key"),
            "present_value_names": template(PRESENT, "value"),
        },
    }
    if windows:
        decoder["sliding_window"] = {
            "window_size": max(windows.values()),
            "slide_key_value_cache": False,
            "slide_inputs": False,
            "layers": sorted(windows),
        }
    if len(stages) == 1:
        decoder["filename"] = f"{next(iter(stages))}.onnx"
    else:
        decoder["pipeline"] = [
            {
                name: {
                    "filename": f"{name}.onnx",
                    "inputs": list(inputs),
                    "outputs": list(outputs),
                    "run_on_prompt": name == "prefill",
                    "run_on_token_gen": name != "prefill",
                }
            }
            for name, (inputs, outputs) in stages.items()
        ]
    model = {
        "type": "decoder" if len(stages) == 1 else "decoder-pipeline",
        "vocab_size": about.vocabulary,
        "context_length": about.context_length,
        "bos_token_id": about.bos if about.bos is not None else about.eos_tokens[0],
        "eos_token_id": list(about.eos_tokens),
        "pad_token_id": about.pad if about.pad is not None else about.eos_tokens[0],
        "decoder": decoder,
    }
    settings = {
        "do_sample": False,
        "max_length": about.context_length,
        "past_present_share_buffer": storage is not Storage.GROWS,
        **({} if chunk is None else {"chunk_size": chunk}),
        **search,
    }
    # Numbers may be NumPy's.
    text = json.dumps({"model": model, "search": settings}, indent=2, default=lambda n: n.item())
    return text + "\n"


def readme(
    about: "Description",
    stages: Sequence[str],
    storage: Storage,
    equal_lengths: str | None,
    *,
    has_windows: bool,
    has_tokenizer: bool,
) -> str:
    """Returns the text of the README, which describes the folder and its use. `equal_lengths` is
    the reason why prompts of a batch must have the same length, if they must. With `has_windows`,
    some layers hold the last tokens only.
    """
    cache = {
        Storage.GROWS: "grow with every token",
        Storage.BUFFER: f"are buffers for {about.context_length} tokens, updated in place",
        Storage.SHARED: "are in buffers of `max_length` tokens, which are updated in place",
        Storage.WINDOWED: "are updated in place, in buffers of\n`max_length` tokens, or of a few "
        "more than the window in layers that have one. Such buffers exclude beams",
    }[storage]
    max_length = min(about.context_length, 100)
    if has_windows and storage is Storage.BUFFER:
        cache += ".\nRings hold the last tokens only. `max_length` has to be the context length"
        max_length = about.context_length
    heads = f"{about.heads} heads"
    if about.key_value_heads not in (None, about.heads):
        heads += f" ({about.key_value_heads} for keys and values)"
    models = "\n".join(
        {
            "model": "- `model.onnx`: the decoder, for prompts and for single tokens",
            "prefill": "- `prefill.onnx`: the decoder for prompts",
            "decode": "- `decode.onnx`: the decoder for the tokens after the prompt",
        }[stage]
        for stage in stages
    )
    encode, show = (
        (
            'og.Tokenizer(model).encode("Once upon a time")',
            "print(og.Tokenizer(model).decode(tokens))",
        )
        if has_tokenizer
        else (f"[{about.eos_tokens[0]}]", "print(tokens)  # the ids of the tokens")
    )
    batch = """The prompts of a batch are an array of [batch, length]. Shorter ones are filled with
`pad_token_id` of `genai_config.json` at the end, not at the beginning."""
    if equal_lengths is not None:
        batch = f"All prompts of a batch must have the same length: {equal_lengths}."
    back, last = (2, "two tokens") if storage is Storage.GROWS else (1, "token")
    rewind, remark = "generator.rewind_to(kept)", ""
    if has_windows:
        rewind = """try:
    generator.rewind_to(kept)
except RuntimeError:
    kept, generator = 0, og.Generator(model, params)"""
        remark = """. If tokens that this
needs have left the window of a layer, a new generator takes all tokens"""
    return f"""# {about.name}

A decoder with {about.layers} layers, {heads} and a vocabulary of {about.vocabulary} tokens, for at
most {about.context_length} tokens. Keys and values {cache}.
jax2onnx wrote it for [onnxruntime-genai](https://github.com/microsoft/onnxruntime-genai).

{models}
- `weights.data`: their weights
- `genai_config.json`: the settings of onnxruntime-genai{
        chr(10) + "- the files of the tokenizer" if has_tokenizer else ""
    }

```python
import onnxruntime_genai as og

model = og.Model("{{folder}}")
params = og.GeneratorParams(model)
params.set_search_options(max_length={max_length})  # do_sample=True, temperature=0.8, …
generator = og.Generator(model, params)
generator.append_tokens({encode})
while not generator.is_done():
    generator.generate_next_token()
tokens = generator.get_sequence(0)
{show}
```

onnxruntime-genai runs the model on a generated token only when it needs the next one. To go on with
more tokens, such as the second turn of a chat, append the last {last} again{remark}:

```python
kept = len(tokens) - {back}
{rewind}
generator.append_tokens([*tokens[kept:], *new_tokens])
```

{batch}
"""


def has_tokenizer(folder: str | os.PathLike[str]) -> bool:
    """Returns `True` if a folder contains files of a tokenizer."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in _TOKENIZER_FILES)


def tokenizer_files(tokenizer: Any) -> list[tuple[str, bytes]]:
    """Reads the files of a tokenizer, from a folder or a list of paths."""
    paths = [tokenizer] if isinstance(tokenizer, str | os.PathLike) else list(tokenizer)
    found: list[str] = []
    for path in (str(os.fspath(path)) for path in paths):
        if not os.path.isdir(path):
            found.append(path)
            continue
        here = [os.path.join(path, name) for name in _TOKENIZER_FILES]
        here = [file for file in here if os.path.isfile(file)]
        if not here:
            raise _invalid(f"`{path}` contains no tokenizer files", "such as tokenizer.json")
        found += here
    files = []
    for path in found:
        try:
            with open(path, "rb") as file:
                files.append((os.path.basename(path), file.read()))
        except OSError as error:
            raise _invalid(f"`{path}` cannot be read: {error.strerror}", "") from error
    return files


def _invalid(message: str, help: str) -> InvalidInputError:
    return InvalidInputError("invalid-tokenizer", message, help=help)
