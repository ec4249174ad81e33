"""Reads `config.json`, the description of a published checkpoint."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jax2onnx.errors import InvalidInputError, UnsupportedError

# Fields that do not change a decoder's numbers: its origin, its training, the defaults of other
# programs, and the token ids that are read from here or from `generation_config.json`.
_HARMLESS = {
    "_attn_implementation_autoset",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "initializer_range",
    "is_llama_config",
    "max_position_embeddings",
    "model_type",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "resid_pdrop",
    "router_aux_loss_coef",
    "tokenizer_class",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
}

_REQUIRED = object()


class Config:
    """The fields of a `config.json`. Every field has to be read or be known as harmless.

    Attributes:
        path: The file.
        family: The field `model_type`.
    """

    def __init__(self, fields: Mapping[str, Any], path: str = "config.json") -> None:
        self.path = path
        self._fields = fields
        self._read: set[str] = set()
        self.family = str(self.get("model_type", _REQUIRED))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Config":
        """Reads the file of a checkpoint's folder."""
        path = os.path.join(folder, "config.json")
        fields = read_json(path)
        if fields is None:
            raise invalid(
                f"there is no file `{path}`",
                "pass the folder of a published checkpoint, with config.json and *.safetensors",
            )
        return cls(fields, path)

    def part(self, name: str, defaults: Mapping[str, Any]) -> "Config":
        """Returns the description of a part of the model, with the special tokens of the whole."""
        fields = self.get(name)
        if not isinstance(fields, dict):
            raise self.wrong(name, fields, "it has to be an object")
        tokens = {
            key: value
            for key, value in self._fields.items()
            if key.endswith("_token_id") and value is not None
        }
        return Config({**defaults, **fields, **tokens}, self.path)

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a field. It counts as read."""
        self._read.add(name)
        value = self._fields.get(name)
        value = default if value is None else value
        if value is _REQUIRED:
            raise invalid(f"`{self.path}` has no field `{name}`", "")
        return value

    def count(self, name: str, default: int | None = None) -> int:
        """Returns a positive integer."""
        value = self.get(name, _REQUIRED if default is None else default)
        if type(value) is not int or value < 1:
            raise self.wrong(name, value, "it has to be a positive integer")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Returns a positive number."""
        value = self.get(name, _REQUIRED if default is None else default)
        if type(value) not in (int, float) or not value > 0:
            raise self.wrong(name, value, "it has to be a positive number")
        return float(value)

    def optional(self, name: str, absent: float | None = None) -> float | None:
        """Returns a positive number, None for `null`, or `absent` if there is no such field."""
        if name not in self._fields:
            return absent
        return None if self.get(name) is None else self.number(name)

    def window(self, absent: int | None = None) -> int | None:
        """Returns the number of tokens that layers with a sliding window see."""
        if "sliding_window" not in self._fields:
            return absent
        return None if self.get("sliding_window") is None else self.count("sliding_window")

    def flag(self, name: str, default: bool) -> bool:
        """Returns a Boolean."""
        value = self.get(name, default)
        if type(value) is not bool:
            raise self.wrong(name, value, "it has to be true or false")
        return value

    def expect(self, name: str, *known: Any) -> None:
        """Reads a field that may be absent. Raises unless it has one of the known values."""
        value = self.get(name)
        if value is not None and value not in known:
            values = " or ".join(json.dumps(value) for value in known)
            raise unsupported(
                f"`{name}` is {json.dumps(value)} in `{self.path}`",
                f"{self.family} models are implemented with {values} or without the field"
                if known
                else f"{self.family} models are implemented without it",
            )

    def layer_types(self, layers: int, default: Iterable[bool]) -> tuple[bool, ...]:
        """Returns `True` for each layer with a sliding window. `default` is used without a list."""
        names = ("full_attention", "sliding_attention")
        listed = self.get("layer_types")
        if listed is None:
            return tuple(default)
        if not isinstance(listed, list) or len(listed) != layers or set(listed) - set(names):
            raise self.wrong("layer_types", listed, f"it names one of {names} for each layer")
        return tuple(kind == "sliding_attention" for kind in listed)

    def wrong(self, name: str, value: Any, help: str) -> InvalidInputError:
        """Returns the error for a field with an invalid value."""
        return invalid(f"`{name}` is {json.dumps(value)} in `{self.path}`", help)

    def check_all_read(self) -> None:
        """Raises if there is a field that may change numbers and was not read."""
        # A field without a value has no effect.
        unknown = [
            name
            for name, value in self._fields.items()
            if name not in self._read | _HARMLESS and value is not None
        ]
        if unknown:
            listed = ", ".join(f"`{name}`" for name in unknown)
            raise unsupported(
                f"`{self.path}` has fields that are unknown for {self.family} models: {listed}",
                "they may change the model's numbers; remove a field that does not",
            )


@dataclass(frozen=True)
class Sizes:
    """The sizes that all families have.

    Attributes:
        layers: The number of layers.
        width: The number of features between the layers.
        inner: The number of features inside a feed-forward block.
        heads: The number of attention heads.
        key_value_heads: The number of key and value heads.
        head_size: The size of a head.
        vocabulary: The number of tokens.
        epsilon: The number that norms add to the mean square.
        tied: `True` if the embedding is also the matrix of the logits.
    """

    layers: int
    width: int
    inner: int
    heads: int
    key_value_heads: int
    head_size: int
    vocabulary: int
    epsilon: float
    tied: bool

    @classmethod
    def read(cls, config: Config, *, tied: bool = False, head_size: int | None = None) -> "Sizes":
        """Reads the sizes. `tied` and `head_size` are the family's defaults."""
        width, heads = config.count("hidden_size"), config.count("num_attention_heads")
        groups = config.count("num_key_value_heads", heads)
        if heads % groups:
            raise config.wrong("num_key_value_heads", groups, f"it has to divide {heads} heads")
        return cls(
            layers=config.count("num_hidden_layers"),
            width=width,
            inner=config.count("intermediate_size"),
            heads=heads,
            key_value_heads=groups,
            head_size=config.count("head_dim", head_size or width // heads),
            vocabulary=config.count("vocab_size"),
            epsilon=config.number("rms_norm_eps"),
            tied=config.flag("tie_word_embeddings", tied),
        )


def read_json(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Reads a JSON object from a file. Returns None if the file does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise invalid(f"`{os.fspath(path)}` cannot be read: {error}", "") from error
    if not isinstance(fields, dict):
        raise invalid(f"`{os.fspath(path)}` does not hold a JSON object", "")
    return fields


def unsupported(message: str, help: str = "") -> UnsupportedError:
    """Returns the error for a checkpoint with a property that is not implemented."""
    return UnsupportedError("unsupported-checkpoint", message, help=help)


def invalid(message: str, help: str) -> InvalidInputError:
    """Returns the error for an invalid checkpoint."""
    return InvalidInputError("invalid-checkpoint", message, help=help)
