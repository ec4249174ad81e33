"""Rotary position embedding, and the ways of stretching it to longer texts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax2onnx.families.config import Config, invalid, unsupported

# Cosines and sines, [batch, 1, sequence, pairs].
Angles = tuple[jax.Array, jax.Array]


@dataclass(frozen=True)
class Rotary:
    """A rotation of pairs of features, by angles that grow with the position.

    Attributes:
        rates: The angle per position, for each pair.
        factor: The factor of all cosines and sines.
    """

    rates: tuple[float, ...]
    factor: float = 1.0

    def angles(self, position_ids: jax.Array) -> Angles:
        """Returns the angles at the positions."""
        angles = position_ids[:, None, :, None] * np.asarray(self.rates, np.float32)
        cosines, sines = jnp.cos(angles), jnp.sin(angles)
        if self.factor != 1:
            return cosines * self.factor, sines * self.factor
        return cosines, sines

    @classmethod
    def read(
        cls, config: Config, head_size: int, context_length: int, default_base: float = 10000.0
    ) -> "Rotary":
        """Reads the fields `rope_theta`, `rope_scaling` and `partial_rotary_factor`, or the newer
        `rope_parameters` that has all of them.
        """
        scaling = config.get("rope_scaling") or {}
        newer = config.get("rope_parameters") or {}
        for name, value in (("rope_scaling", scaling), ("rope_parameters", newer)):
            if not isinstance(value, dict):
                raise config.wrong(name, value, "it has to be an object")
        fields = {
            "rope_theta": config.number("rope_theta", default_base),
            "partial_rotary_factor": config.number("partial_rotary_factor", 1.0),
            **scaling,
            **newer,
        }
        trained = config.get("original_max_position_embeddings")
        if trained is not None:
            fields["original_max_position_embeddings"] = trained
        return cls.stretched(config, fields, head_size, context_length)

    @classmethod
    def stretched(
        cls, config: Config, fields: Mapping[str, Any], head_size: int, context_length: int
    ) -> "Rotary":
        """Returns the rotation that the fields describe."""
        given = {name: value for name, value in fields.items() if value is not None}
        longest = config.count("max_position_embeddings")
        trained = given.pop("original_max_position_embeddings", longest)
        kind, older = given.pop("rope_type", None), given.pop("type", None)
        kind = kind or older or "default"

        def take(name: str) -> Any:
            if name not in given:
                raise invalid(
                    f"the rotary embedding of kind `{kind}` has no `{name}` in `{config.path}`", ""
                )
            value = given.pop(name)
            numbers = value if isinstance(value, list) else [value]
            if not all(type(number) in (int, float) for number in numbers):
                raise config.wrong(name, value, "it has to be a number, or a list of numbers")
            return value

        base = float(take("rope_theta"))
        size = int(head_size * float(given.pop("partial_rotary_factor", 1.0)))
        rates = base ** -(np.arange(0, size, 2) / size)
        factor = 1.0
        if kind == "linear":
            rates = rates / take("factor")
        elif kind == "llama3":
            low, high = take("low_freq_factor"), take("high_freq_factor")
            turns = trained * rates / (2 * np.pi)
            kept = np.clip((turns - low) / (high - low), 0, 1)
            rates = rates * (kept + (1 - kept) / take("factor"))
        elif kind == "yarn":
            slowdown = float(take("factor"))
            rates, factor = _yarn(given, slowdown, rates, base, size, trained)
        elif kind in ("longrope", "su"):
            if context_length > trained:
                raise unsupported(
                    f"texts of {context_length} tokens need other rotary factors than short texts",
                    f"choose a context length of at most {trained}, for which `short_factor` "
                    f"holds in `{config.path}`",
                )
            given.pop("long_factor", None)
            ratio = given.pop("factor", longest / trained)
            usual = math.sqrt(1 + math.log(ratio) / math.log(trained)) if ratio > 1 else 1.0
            factor = float(given.pop("attention_factor", usual))
            rates = rates / np.asarray(take("short_factor"))
        elif kind != "default":
            raise unsupported(
                f"rotary embedding is scaled by `{kind}` in `{config.path}`",
                "the supported kinds are: default, linear, llama3, yarn, longrope",
            )
        if given:
            listed = ", ".join(f"`{name}`" for name in given)
            raise unsupported(
                f"the rotary embedding of kind `{kind}` has unknown fields in `{config.path}`: "
                f"{listed}"
            )
        return cls(tuple(map(float, rates)), factor)


def rotate(x: jax.Array, angles: Angles) -> jax.Array:
    """Rotates the first features of heads, [batch, heads, sequence, size]. The others stay."""
    cosines, sines = (part.astype(x.dtype) for part in angles)
    pairs = cosines.shape[-1]
    one, two, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
    rotated = [one * cosines - two * sines, two * cosines + one * sines]
    return jnp.concatenate(rotated if rest.shape[-1] == 0 else [*rotated, rest], -1)


def _yarn(
    given: dict[str, Any],
    scale: float,
    rates: "np.ndarray[Any, Any]",
    base: float,
    size: int,
    trained: int,
) -> tuple["np.ndarray[Any, Any]", float]:
    """Returns rates and the factor of YaRN: pairs that turn often keep their rate, pairs that turn
    seldom are slowed down by the factor, and those in between are interpolated.
    """
    fast, slow = given.pop("beta_fast", 32), given.pop("beta_slow", 1)
    # The pair that makes a given number of turns in a text of the trained length.
    low, high = (
        size * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))
        for turns in (fast, slow)
    )
    if given.pop("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    slowed = np.clip((np.arange(size // 2) - low) / max(high - low, 0.001), 0, 1)
    one, all_ = given.pop("mscale", None), given.pop("mscale_all_dim", None)

    def growth(weight: float) -> float:
        return 0.1 * weight * math.log(scale) + 1 if scale > 1 else 1.0

    usual = growth(one) / growth(all_) if one and all_ else growth(1)
    factor = float(given.pop("attention_factor", usual))
    return rates * (1 - slowed) + rates / scale * slowed, factor
