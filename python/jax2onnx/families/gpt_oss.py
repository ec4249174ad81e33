"""GPT-OSS: a mixture of experts, and attention with sinks."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jax2onnx.families import layers
from jax2onnx.families.config import Config, Sizes, invalid
from jax2onnx.families.layers.rotary import Angles, Rotary, rotate


@dataclass(frozen=True)
class GptOss:
    """A decoder of the GPT-OSS family.

    Attributes:
        windows: The size of each layer's window, or None.
        experts: The number of experts.
        chosen: The number of experts that each token uses.
        alpha: The steepness of the experts' gates.
        limit: The largest value of the experts' features.
        bias: `True` if the projections of attention have biases.
    """

    sizes: Sizes
    rotary: Rotary
    windows: tuple[int | None, ...]
    experts: int
    chosen: int
    alpha: float
    limit: float
    bias: bool

    @classmethod
    def read(cls, config: Config, context_length: int) -> "GptOss":
        """Reads the description of a checkpoint."""
        sizes = Sizes.read(config, head_size=64)
        config.expect("hidden_act", "silu")
        # The number of tokens of a text in training, which the rotation repeats.
        config.get("initial_context_length")
        window = config.window(absent=128)
        usual = [layer % 2 == 0 for layer in range(sizes.layers)]
        sliding = config.layer_types(sizes.layers, usual)
        chosen = config.count("num_experts_per_tok")
        config.expect("experts_per_token", chosen)
        if not config.get("rope_scaling") and not config.get("rope_parameters"):
            raise invalid(
                f"`{config.path}` has no field `rope_scaling`",
                "the rotation of GPT-OSS is stretched: add the factors that it was trained with",
            )
        experts = config.count("num_local_experts")
        config.expect("num_experts", experts)
        return cls(
            sizes,
            Rotary.read(config, sizes.head_size, context_length, default_base=150000.0),
            windows=tuple(window if slides else None for slides in sliding),
            experts=experts,
            chosen=chosen,
            alpha=config.number("swiglu_alpha", 1.702),
            limit=config.number("swiglu_limit", 7.0),
            bias=config.flag("attention_bias", True),
        )

    def parameters(self) -> dict[str, Any]:
        """Returns the types of the parameters, named as in the checkpoint."""
        c = self.sizes
        layer = {
            "input_layernorm": {"weight": layers.array(c.width)},
            "self_attn": {
                **layers.attention_parameters(c, bias=self.bias, last_bias=self.bias),
                "sinks": layers.array(c.heads),
            },
            "post_attention_layernorm": {"weight": layers.array(c.width)},
            "mlp": {
                "router": layers.linear_parameters(c.width, self.experts, bias=True),
                "experts": {
                    "gate_up_proj": layers.array(self.experts, c.width, 2 * c.inner),
                    "gate_up_proj_bias": layers.array(self.experts, 2 * c.inner),
                    "down_proj": layers.array(self.experts, c.inner, c.width),
                    "down_proj_bias": layers.array(self.experts, c.width),
                },
            },
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
        attn = p["self_attn"]
        y = layers.rms_norm(p["input_layernorm"], x, c.epsilon)
        query = layers.split_heads(layers.linear(attn["q_proj"], y), c.heads)
        key = layers.split_heads(layers.linear(attn["k_proj"], y), c.key_value_heads)
        value = layers.split_heads(layers.linear(attn["v_proj"], y), c.key_value_heads)
        query, key = rotate(query, angles), rotate(key, angles)
        new = layers.update(old, key, value)
        mask = layers.visible(position_ids, new["key"].shape[2], window)
        sinks = attn["sinks"]
        mixed = layers.attention(query, new, mask, c.head_size**-0.5, sinks=sinks)
        x = x + layers.linear(attn["o_proj"], layers.merge_heads(mixed))
        y = layers.rms_norm(p["post_attention_layernorm"], x, c.epsilon)
        x = x + self.mixture(p["mlp"], y)
        return x, new

    def mixture(self, p: Any, x: jax.Array) -> jax.Array:
        """Applies to each token the experts with the highest scores, weighted by their scores."""
        tokens = x.reshape(-1, self.sizes.width)
        scores, chosen = jax.lax.top_k(layers.linear(p["router"], tokens), self.chosen)
        shares = jax.nn.softmax(scores, -1)
        is_short = jnp.asarray(tokens.shape[0] * self.chosen) <= self.experts
        arguments = (p["experts"], tokens, shares, chosen)
        mixed: jax.Array = jax.lax.cond(is_short, self.few, self.all, *arguments)
        return mixed.reshape(x.shape)

    def few(self, p: Any, x: jax.Array, shares: jax.Array, chosen: jax.Array) -> jax.Array:
        """Reads the chosen experts of each token, which suits single tokens."""
        copies = jnp.broadcast_to(x[:, None, None], (x.shape[0], self.chosen, 1, x.shape[1]))
        inner = copies @ p["gate_up_proj"][chosen]
        inner = self.gate(inner + p["gate_up_proj_bias"][chosen][:, :, None])
        outer = inner @ p["down_proj"][chosen]
        outer = outer + p["down_proj_bias"][chosen][:, :, None]
        return jnp.einsum("tkod,tk->td", outer, shares)

    def all(self, p: Any, x: jax.Array, shares: jax.Array, chosen: jax.Array) -> jax.Array:
        """Applies all experts to all tokens, which suits prompts: each expert is read once."""
        spread = jax.nn.one_hot(chosen, self.experts, dtype=x.dtype)
        share_of = jnp.einsum("tke,tk->et", spread, shares)

        def add(total: jax.Array, expert: jax.Array) -> tuple[jax.Array, None]:
            w = jax.tree.map(lambda stack: stack[expert], p)
            inner = self.gate(x @ w["gate_up_proj"] + w["gate_up_proj_bias"])
            outer = inner @ w["down_proj"] + w["down_proj_bias"]
            return total + outer * share_of[expert][:, None], None

        return jax.lax.scan(add, jnp.zeros_like(x), jnp.arange(self.experts))[0]

    def gate(self, x: jax.Array) -> jax.Array:
        """Multiplies features, clamped, by gates. Those with even indices are the gates."""
        gate, up = x[..., ::2], x[..., 1::2]
        gate, up = jnp.minimum(gate, self.limit), jnp.clip(up, -self.limit, self.limit)
        return (up + 1) * gate * jax.nn.sigmoid(gate * self.alpha)
