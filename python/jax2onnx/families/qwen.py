"""Qwen 2 and 3: biases of queries, keys and values in the one, their norms in the other."""

from dataclasses import dataclass
from typing import Any

import jax

from jax2onnx.families import layers
from jax2onnx.families.config import Config, Sizes
from jax2onnx.families.layers.rotary import Angles, Rotary, rotate


@dataclass(frozen=True)
class Qwen:
    """A decoder of the Qwen family.

    Attributes:
        windows: The size of each layer's window, or None.
        norms: `True` if queries and keys are normalised, as in Qwen 3.
    """

    sizes: Sizes
    rotary: Rotary
    windows: tuple[int | None, ...]
    bias: bool
    last_bias: bool
    norms: bool

    @classmethod
    def read(cls, config: Config, context_length: int) -> "Qwen":
        """Reads the description of a checkpoint."""
        third = config.family == "qwen3"
        sizes = Sizes.read(config, head_size=128 if third else None)
        config.expect("hidden_act", "silu")
        config.expect("use_mrope", False)
        window = config.window(absent=4096)
        first = config.get("max_window_layers", 28)
        if type(first) is not int:
            raise config.wrong("max_window_layers", first, "it has to be an integer")
        usual = [layer >= first for layer in range(sizes.layers)]
        sliding = config.layer_types(sizes.layers, usual)
        if not config.flag("use_sliding_window", False):
            window = None
        bias = config.flag("attention_bias", False) if third else True
        return cls(
            sizes,
            Rotary.read(config, sizes.head_size, context_length),
            windows=tuple(window if slides else None for slides in sliding),
            bias=bias,
            last_bias=bias and third,
            norms=third,
        )

    def parameters(self) -> dict[str, Any]:
        """Returns the types of the parameters, named as in the checkpoint."""
        c = self.sizes
        norm = {"weight": layers.array(c.head_size)}
        layer = {
            "input_layernorm": {"weight": layers.array(c.width)},
            "self_attn": {
                **layers.attention_parameters(c, bias=self.bias, last_bias=self.last_bias),
                **({"q_norm": norm, "k_norm": norm} if self.norms else {}),
            },
            "post_attention_layernorm": {"weight": layers.array(c.width)},
            "mlp": layers.gated_parameters(c),
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
        x = model["embed_tokens"]["weight"][input_ids]
        new_cache = []
        parts = zip(model["layers"], cache, self.windows, strict=True)
        for i, (p, old, window) in enumerate(parts):
            with jax.named_scope(f"layers.{i}"):
                x, new = self.layer(p, x, position_ids, angles, window, old)
            new_cache.append(new)
        return layers.logits(params, x, c.epsilon, last=last_token), new_cache

    def layer(
        self,
        p: Any,
        x: jax.Array,
        position_ids: jax.Array,
        angles: Angles,
        window: int | None,
        old: Any,
    ) -> tuple[jax.Array, Any]:
        """Applies a layer. Returns its result and its new cache."""
        c = self.sizes
        attn, mlp = p["self_attn"], p["mlp"]
        y = layers.rms_norm(p["input_layernorm"], x, c.epsilon)
        query = layers.split_heads(layers.linear(attn["q_proj"], y), c.heads)
        key = layers.split_heads(layers.linear(attn["k_proj"], y), c.key_value_heads)
        value = layers.split_heads(layers.linear(attn["v_proj"], y), c.key_value_heads)
        if self.norms:
            query = layers.rms_norm(attn["q_norm"], query, c.epsilon)
            key = layers.rms_norm(attn["k_norm"], key, c.epsilon)
        query, key = rotate(query, angles), rotate(key, angles)
        new = layers.update(old, key, value)
        mask = layers.visible(position_ids, new["key"].shape[2], window)
        mixed = layers.attention(query, new, mask, c.head_size**-0.5)
        x = x + layers.linear(attn["o_proj"], layers.merge_heads(mixed))
        y = layers.rms_norm(p["post_attention_layernorm"], x, c.epsilon)
        gate = jax.nn.silu(layers.linear(mlp["gate_proj"], y))
        up = layers.linear(mlp["up_proj"], y)
        x = x + layers.linear(mlp["down_proj"], gate * up)
        return x, new
