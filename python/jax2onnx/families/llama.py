"""Llama 2 and 3."""

from dataclasses import dataclass
from typing import Any

import jax

from jax2onnx.families import layers
from jax2onnx.families.config import Config, Sizes
from jax2onnx.families.layers.rotary import Angles, Rotary, rotate


@dataclass(frozen=True)
class Llama:
    """A decoder of the Llama family."""

    sizes: Sizes
    rotary: Rotary
    attention_bias: bool = False
    mlp_bias: bool = False
    window: int | None = None

    @classmethod
    def read(cls, config: Config, context_length: int) -> "Llama":
        """Reads the description of a checkpoint."""
        sizes = Sizes.read(config)
        config.expect("hidden_act", "silu")
        config.expect("rope_interleaved", False)
        return cls(
            sizes,
            Rotary.read(config, sizes.head_size, context_length),
            attention_bias=config.flag("attention_bias", False),
            mlp_bias=config.flag("mlp_bias", False),
        )

    def parameters(self) -> dict[str, Any]:
        """Returns the types of the parameters, named as in the checkpoint."""
        c = self.sizes
        layer = {
            "input_layernorm": {"weight": layers.array(c.width)},
            "self_attn": layers.attention_parameters(
                c, bias=self.attention_bias, last_bias=self.attention_bias
            ),
            "post_attention_layernorm": {"weight": layers.array(c.width)},
            "mlp": layers.gated_parameters(c, bias=self.mlp_bias),
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
        angles = self.rotary.angles(position_ids)
        length = cache[0]["key"].shape[2] + input_ids.shape[1]
        mask = layers.visible(position_ids, length, self.window)
        x = model["embed_tokens"]["weight"][input_ids]
        new_cache = []
        for i, (p, old) in enumerate(zip(model["layers"], cache, strict=True)):
            with jax.named_scope(f"layers.{i}"):
                x, new = self.layer(p, x, angles, mask, old)
            new_cache.append(new)
        return layers.logits(params, x, c.epsilon, last=last_token), new_cache

    def layer(
        self,
        p: Any,
        x: jax.Array,
        angles: Angles,
        mask: jax.Array,
        old: Any,
    ) -> tuple[jax.Array, Any]:
        """Applies a layer. Returns its result and its new cache."""
        c = self.sizes
        attn, mlp = p["self_attn"], p["mlp"]
        y = layers.rms_norm(p["input_layernorm"], x, c.epsilon)
        query = layers.split_heads(layers.linear(attn["q_proj"], y), c.heads)
        key = layers.split_heads(layers.linear(attn["k_proj"], y), c.key_value_heads)
        value = layers.split_heads(layers.linear(attn["v_proj"], y), c.key_value_heads)
        query, key = rotate(query, angles), rotate(key, angles)
        new = layers.update(old, key, value)
        mixed = layers.attention(query, new, mask, c.head_size**-0.5)
        x = x + layers.linear(attn["o_proj"], layers.merge_heads(mixed))
        y = layers.rms_norm(p["post_attention_layernorm"], x, c.epsilon)
        gate = jax.nn.silu(layers.linear(mlp["gate_proj"], y))
        up = layers.linear(mlp["up_proj"], y)
        x = x + layers.linear(mlp["down_proj"], gate * up)
        return x, new
