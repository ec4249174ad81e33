"""Decoders of one or two tiny layers, which become `GroupQueryAttention`: one for each way in which
families of language models write attention.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from jax2onnx import families
from primitives.operands import Programs, spec

LENGTH, VOCABULARY, HEAD_SIZE = 32, 6, 16

SIZES = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": HEAD_SIZE,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": LENGTH,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}


def decoder(family: str, layers: int = 1, **settings: Any) -> Callable[..., Any]:
    """Returns the decoding function of a model with small weights. The caches follow the tokens."""
    config = {**SIZES, "model_type": family, "num_hidden_layers": layers, **settings}
    model = families.FAMILIES[family].read(families.Config(config), LENGTH)
    random = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: jnp.asarray(random.integers(-8, 8, leaf.shape) / 16, jnp.float32),
        model.parameters(),
    )

    def decode(tokens: Any, *caches: Any) -> Any:
        positions = caches[0].shape[2] + jnp.arange(tokens.shape[1])
        positions = jnp.broadcast_to(positions, tokens.shape)
        pairs = zip(caches[::2], caches[1::2], strict=True)
        cache = [{"key": key, "value": value} for key, value in pairs]
        return model.decode(params, tokens % VOCABULARY, positions, cache)

    return decode


NATIVE = {
    "operators": dict.fromkeys(
        ("GroupQueryAttention", "SkipSimplifiedLayerNormalization"), "native"
    ),
    "assume": ["indices_in_range"],
}


def operands(layers: int = 1) -> list[Any]:
    # onnxruntime accepts several new tokens after others for a single example only.
    sequence, past = export.symbolic_shape("sequence, past")
    cache = spec(jnp.float32, 1, 1, past, HEAD_SIZE)
    return [spec(jnp.int32, 1, sequence), *[cache] * 2 * layers]


WINDOW = {"sliding_window": 5}

DECODERS: Programs = {
    "dot_general.decoder": (decoder("llama"), NATIVE, *operands()),
    "dot_general.decoder_with_a_window": (decoder("mistral", **WINDOW), NATIVE, *operands()),
    "dot_general.decoder_with_packed_projections": (
        decoder(
            "phi3", partial_rotary_factor=0.5, original_max_position_embeddings=LENGTH, **WINDOW
        ),
        NATIVE,
        *operands(),
    ),
    "dot_general.decoder_with_capped_scores": (
        decoder(
            "gemma2",
            2,
            hidden_activation="gelu_pytorch_tanh",
            query_pre_attn_scalar=20,
            attn_logit_softcapping=2.0,
            final_logit_softcapping=3.0,
            **WINDOW,
        ),
        NATIVE,
        *operands(2),
    ),
    "dot_general.decoder_with_norms_of_heads": (
        decoder("qwen3", attention_bias=False, **WINDOW),
        NATIVE,
        *operands(),
    ),
    "dot_general.decoder_with_sinks": (
        decoder(
            "gpt_oss",
            attention_bias=True,
            rope_scaling={
                "rope_type": "yarn",
                "factor": 4.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "original_max_position_embeddings": 16,
                "truncate": False,
            },
            num_experts_per_tok=1,
            num_local_experts=2,
            swiglu_limit=1.5,
            tie_word_embeddings=False,
            **WINDOW,
        ),
        NATIVE,
        *operands(),
    ),
    "dot_general.decoder_of_operators": (
        decoder("llama"),
        {"operators": "elementary", "assume": ["indices_in_range"]},
        *operands(),
    ),
}
