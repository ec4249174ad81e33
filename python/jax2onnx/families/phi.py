"""Phi 3 and 4-mini: Llama with fused projections, and a rotation of part of each head."""

from typing import Any

import jax
import jax.numpy as jnp

from jax2onnx.families import layers
from jax2onnx.families.config import Config, Sizes
from jax2onnx.families.layers.rotary import Angles, Rotary, rotate
from jax2onnx.families.llama import Llama


class Phi(Llama):
    """A decoder of the Phi family."""

    @classmethod
    def read(cls, config: Config, context_length: int) -> "Phi":
        """Reads the description of a checkpoint."""
        sizes = Sizes.read(config)
        config.expect("hidden_act", "silu")
        for name in ("attention_bias", "mlp_bias", "lm_head_bias"):
            config.expect(name, False)
        for name in ("full_attn_mod", "interpolate_factor"):
            config.expect(name, 1)
        rotary = Rotary.read(config, sizes.head_size, context_length)
        return cls(sizes, rotary, window=config.window())

    def parameters(self) -> dict[str, Any]:
        """Returns the types of the parameters, named as in the checkpoint."""
        c = self.sizes
        fused = (c.heads + 2 * c.key_value_heads) * c.head_size
        layer = {
            "input_layernorm": {"weight": layers.array(c.width)},
            "self_attn": {
                "qkv_proj": layers.linear_parameters(c.width, fused),
                "o_proj": layers.linear_parameters(c.heads * c.head_size, c.width),
            },
            "post_attention_layernorm": {"weight": layers.array(c.width)},
            "mlp": {
                "gate_up_proj": layers.linear_parameters(c.width, 2 * c.inner),
                "down_proj": layers.linear_parameters(c.inner, c.width),
            },
        }
        return layers.model_parameters(c, layer)

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
        queries, keys = c.heads * c.head_size, c.key_value_heads * c.head_size
        attn, mlp = p["self_attn"], p["mlp"]
        y = layers.rms_norm(p["input_layernorm"], x, c.epsilon)
        fused = layers.linear(attn["qkv_proj"], y)
        query, key, value = jnp.split(fused, [queries, queries + keys], -1)
        query = rotate(layers.split_heads(query, c.heads), angles)
        key = rotate(layers.split_heads(key, c.key_value_heads), angles)
        value = layers.split_heads(value, c.key_value_heads)
        new = layers.update(old, key, value)
        mixed = layers.attention(query, new, mask, c.head_size**-0.5)
        x = x + layers.linear(attn["o_proj"], layers.merge_heads(mixed))
        y = layers.rms_norm(p["post_attention_layernorm"], x, c.epsilon)
        gate, up = jnp.split(layers.linear(mlp["gate_up_proj"], y), 2, -1)
        x = x + layers.linear(mlp["down_proj"], jax.nn.silu(gate) * up)
        return x, new
