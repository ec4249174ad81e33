"""The properties of a decoder that a runtime needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from jax2onnx._generation.decoder_cache import invalid


@dataclass(frozen=True, kw_only=True)
class Description:
    """The properties of a decoder that a runtime needs.

    Attributes:
        layers: The number of layers.
        heads: The number of attention heads.
        head_size: The size of a head.
        vocabulary: The number of tokens in the vocabulary.
        context_length: The largest number of tokens.
        eos: The token that ends a text, or several.
        bos: The token that a text begins with.
        pad: The token that pads shorter texts of a batch.
        key_value_heads: The number of key and value heads, if it is smaller.
        hidden_size: The width of the model, if it is not `heads * head_size`.
        name: Its name in the README.
    """

    layers: int
    heads: int
    head_size: int
    vocabulary: int
    context_length: int
    eos: int | Sequence[int]
    bos: int | None = None
    pad: int | None = None
    key_value_heads: int | None = None
    hidden_size: int | None = None
    name: str = "Decoder"

    @property
    def eos_tokens(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        several = isinstance(self.eos, Sequence) and not isinstance(self.eos, str)
        return tuple(self.eos) if several else (self.eos,)  # type: ignore[arg-type, return-value]

    def check(self) -> None:
        counts = ("layers", "heads", "head_size", "vocabulary", "context_length")
        optional = ("key_value_heads", "hidden_size")
        for name in (*counts, *optional):
            value = getattr(self, name)
            if not (_is_whole(value) and value >= 1) and not (value is None and name in optional):
                raise invalid(f"`{name}` cannot be {value!r}", "pass a positive integer")
        if self.heads % (self.key_value_heads or self.heads):
            raise invalid(
                f"`heads` is {self.heads}, which is not a multiple of {self.key_value_heads}",
                "each of the `key_value_heads` serves the same number of heads",
            )
        if not self.eos_tokens:
            raise invalid("`eos` is empty", "pass the token that ends a text")
        tokens = {"eos": self.eos_tokens, "bos": (self.bos,), "pad": (self.pad,)}
        for name, values in tokens.items():
            for value in values:
                if value is None and name != "eos":
                    continue
                if not _is_whole(value) or not 0 <= value < self.vocabulary:
                    raise invalid(
                        f"the special token `{name}` cannot be {value!r}",
                        f"tokens are numbers from 0 to {self.vocabulary - 1}",
                    )


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
