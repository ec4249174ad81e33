"""Gemma 2 and 3: four norms a layer, and layers with sliding windows between those without.

Gemma 2 limits scores and logits softly. Gemma 3 normalises queries and keys, and rotates them
faster in layers with a window.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jax2onnx.families import layers
from jax2onnx.families.config import Config, Sizes
from jax2onnx.families.layers.rotary import Rotary, rotate


def rms_norm(p: Any, x: jax.Array, epsilon: float) -> jax.Array:
    """Divides by the root mean square, and scales by one plus the weights."""
    scale: jax.Array = 1 + p["weight"].astype(jnp.float32)
    wide = x.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + epsilon) * scale
    return wide.astype(x.dtype)


@dataclass(frozen=True)
class Gemma:
    """A decoder of the Gemma family.

    Attributes:
        rotary: The rotation of layers without a window.
        local_rotary: The rotation of layers with a window.
        windows: The size of each layer's window, or None.
        scale: The factor of attention scores.
        score_cap: The soft limit of attention scores.
        logit_cap: The soft limit of logits.
        norms: `True` if queries and keys are normalised, as in Gemma 3.
    """

    sizes: Sizes
    rotary: Rotary
    local_rotary: Rotary
    windows: tuple[int | None, ...]
    scale: float
    score_cap: float | None
    logit_cap: float | None
    norms: bool
    bias: bool

    @classmethod
    def read(cls, config: Config, context_length: int) -> "Gemma":
        """Reads the description of a checkpoint."""
        third = config.family == "gemma3_text"
        sizes = Sizes.read(config, tied=True, head_size=256)
        config.expect("hidden_activation", "gelu_pytorch_tanh")
        # Superseded by the field above.
        config.expect("hidden_act", "gelu_pytorch_tanh", "gelu")
        config.expect("use_bidirectional_attention", False)
        older = config.get("_sliding_window_pattern", 6 if third else 2)
        period = config.count("sliding_window_pattern", older)
        usual = [(layer + 1) % period != 0 for layer in range(sizes.layers)]
        window = config.window(absent=4096)
        if window is None:
            raise config.wrong("sliding_window", None, "it has to be a positive integer")
        config.expect("sliding_window_size", window)
        if third:
            config.expect("attn_logit_softcapping")
            rotations = _two_rotations(config, sizes.head_size, context_length)
        else:
            rotations = (Rotary.read(config, sizes.head_size, context_length),) * 2
        sliding = config.layer_types(sizes.layers, usual)
        return cls(
            sizes,
            *rotations,
            windows=tuple(window if slides else None for slides in sliding),
            scale=config.number("query_pre_attn_scalar", 256) ** -0.5,
            score_cap=None if third else config.optional("attn_logit_softcapping", 50.0),
            logit_cap=config.optional("final_logit_softcapping", None if third else 30.0),
            norms=third,
            bias=config.flag("attention_bias", False),
        )

    def parameters(self) -> dict[str, Any]:
        """Returns the types of the parameters, named as in the checkpoint."""
        c = self.sizes
        norm, small = {"weight": layers.array(c.width)}, {"weight": layers.array(c.head_size)}
        layer = {
            "input_layernorm": norm,
            "self_attn": {
                **layers.attention_parameters(c, bias=self.bias, last_bias=self.bias),
                **({"q_norm": small, "k_norm": small} if self.norms else {}),
            },
            "post_attention_layernorm": norm,
            "pre_feedforward_layernorm": norm,
            "mlp": layers.gated_parameters(c),
            "post_feedforward_layernorm": norm,
        }
        return layers.model_parameters(c, layer)

    def decode(
        self,
        params: Any,
        input_ids: jax.Array,
        position_ids: jax.Array,
        cache: Any,
        last_token: jax.Array | None = None,
    ) -> Any:
        """Returns the logits and the new cache. The logits are those of all tokens, or of the one
        with the index `last_token` in each text.
        """
        c, model = self.sizes, params["model"]
        x = model["embed_tokens"]["weight"][input_ids] * c.width**0.5
        new_cache = []
        parts = zip(model["layers"], cache, self.windows, strict=True)
        for i, (p, old, window) in enumerate(parts):
            with jax.named_scope(f"layers.{i}"):
                x, new = self.layer(p, x, position_ids, window, old)
            new_cache.append(new)
        logits = layers.logits(params, x, c.epsilon, last=last_token, norm=rms_norm)
        if self.logit_cap is not None:
            logits = self.logit_cap * jnp.tanh(logits / self.logit_cap)
        return logits, new_cache

    def layer(
        self,
        p: Any,
        x: jax.Array,
        position_ids: jax.Array,
        window: int | None,
        old: Any,
    ) -> tuple[jax.Array, Any]:
        """Applies a layer. Returns its result and its new cache."""
        c = self.sizes
        attn, mlp = p["self_attn"], p["mlp"]
        y = rms_norm(p["input_layernorm"], x, c.epsilon)
        query = layers.split_heads(layers.linear(attn["q_proj"], y), c.heads)
        key = layers.split_heads(layers.linear(attn["k_proj"], y), c.key_value_heads)
        value = layers.split_heads(layers.linear(attn["v_proj"], y), c.key_value_heads)
        if self.norms:
            query = rms_norm(attn["q_norm"], query, c.epsilon)
            key = rms_norm(attn["k_norm"], key, c.epsilon)
        rotation = self.rotary if window is None else self.local_rotary
        angles = rotation.angles(position_ids)
        query, key = rotate(query, angles), rotate(key, angles)
        new = layers.update(old, key, value)
        mask = layers.visible(position_ids, new["key"].shape[2], window)
        mixed = layers.attention(query, new, mask, self.scale, soft_cap=self.score_cap)
        mixed = layers.linear(attn["o_proj"], layers.merge_heads(mixed))
        x = x + rms_norm(p["post_attention_layernorm"], mixed, c.epsilon)
        y = rms_norm(p["pre_feedforward_layernorm"], x, c.epsilon)
        gate = jax.nn.gelu(layers.linear(mlp["gate_proj"], y), approximate=True)
        up = layers.linear(mlp["up_proj"], y)
        y = layers.linear(mlp["down_proj"], gate * up)
        x = x + rms_norm(p["post_feedforward_layernorm"], y, c.epsilon)
        return x, new


def _two_rotations(config: Config, head_size: int, context_length: int) -> tuple[Rotary, Rotary]:
    """Reads the rotations of layers without and with a window."""
    newer = config.get("rope_parameters")
    if newer is None:
        scaling = config.get("rope_scaling") or {}
        fields = {"rope_theta": config.number("rope_theta", 1e6), **scaling}
        local = {"rope_theta": config.number("rope_local_base_freq", 1e4)}
    else:
        for name in ("rope_theta", "rope_scaling", "rope_local_base_freq"):
            config.expect(name)
        known = {"full_attention", "sliding_attention"}
        if not isinstance(newer, dict) or set(newer) != known:
            raise config.wrong("rope_parameters", newer, f"it has to describe {sorted(known)}")
        fields = {"rope_theta": 1e6, **newer["full_attention"]}
        local = {"rope_theta": 1e4, **newer["sliding_attention"]}
    whole = Rotary.stretched(config, fields, head_size, context_length)
    return whole, Rotary.stretched(config, local, head_size, context_length)
