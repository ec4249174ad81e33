"""Writes tests/generation/families/*.json: small random models, and the numbers of transformers.

    pip install torch transformers peft
    PYTHONPATH=tests python scripts/gen_family_fixtures.py

A fixture has a published `config.json`, the same as this version of transformers saves it, the
names and shapes of the tensors, logits for a prompt, and the most likely tokens after it. Weights
are drawn from their names, so they are not stored. `adapter` is a LoRA adapter of peft, with which
the numbers were computed.
"""

import json
import tempfile
from pathlib import Path

import peft
import torch
import transformers

from harness.checkpoints import random_tensor

FOLDER = Path(__file__).parents[1] / "tests" / "generation" / "families"
PROMPT = [3, 17, 5, 30, 22, 9, 31, 8, 33, 12]
COUNT = 12

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.46.0",
    "use_cache": True,
    "initializer_range": 0.02,
    "attention_dropout": 0.0,
}
SILU = {"hidden_act": "silu"}
LLAMA3 = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 32,
    "rope_type": "llama3",
}
YARN = {
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_type": "yarn",
    "truncate": False,
}
GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "head_dim": 16, "query_pre_attn_scalar": 20}

# The fields that differ between models, as published checkpoints have them.
MODELS = {
    "llama": {"model_type": "llama", **SILU, "rope_theta": 500000.0, "rope_scaling": LLAMA3},
    "llama_biases": {
        "model_type": "llama",
        **SILU,
        "attention_bias": True,
        "mlp_bias": True,
        "rope_theta": 10000.0,
        "rope_scaling": {"type": "linear", "factor": 2.0},
        "tie_word_embeddings": True,
    },
    "mistral": {
        "model_type": "mistral",
        **SILU,
        "head_dim": 16,
        "rope_theta": 10000.0,
        "sliding_window": 6,
        "tie_word_embeddings": False,
    },
    "mistral_without_window": {
        "model_type": "mistral",
        **SILU,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "tie_word_embeddings": False,
    },
    "qwen2": {
        "model_type": "qwen2",
        **SILU,
        "max_window_layers": 1,
        "rope_theta": 1000000.0,
        "sliding_window": 5,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
    },
    "qwen3": {
        "model_type": "qwen3",
        **SILU,
        "attention_bias": False,
        "head_dim": 16,
        "max_window_layers": 1,
        "rope_theta": 1000000.0,
        "rope_scaling": YARN,
        "sliding_window": 5,
        "tie_word_embeddings": False,
        "use_sliding_window": True,
    },
    "gemma2": {
        "model_type": "gemma2",
        **GEMMA,
        "attn_logit_softcapping": 2.0,
        "cache_implementation": "hybrid",
        "final_logit_softcapping": 3.0,
        "hidden_act": "gelu_pytorch_tanh",
        "rope_theta": 10000.0,
        "sliding_window": 5,
    },
    "gemma3": {
        "model_type": "gemma3_text",
        **GEMMA,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "rope_local_base_freq": 10000,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "rope_theta": 1000000,
        "sliding_window": 5,
        "sliding_window_pattern": 2,
    },
    "phi3": {
        "model_type": "phi3",
        **SILU,
        "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
        "original_max_position_embeddings": 128,
        "partial_rotary_factor": 0.5,
        "pad_token_id": 0,
        "rope_theta": 10000.0,
        "sliding_window": 7,
        "tie_word_embeddings": False,
    },
    "phi3_long": {
        "model_type": "phi3",
        **SILU,
        "original_max_position_embeddings": 64,
        "pad_token_id": 0,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "long_factor": [1.5, 2.5, 4.0, 8.0],
            "short_factor": [1.0, 1.1, 1.3, 1.6],
            "type": "longrope",
        },
        "sliding_window": None,
        "tie_word_embeddings": True,
    },
    "gpt_oss": {
        "model_type": "gpt_oss",
        **SILU,
        "attention_bias": True,
        "experts_per_token": 2,
        "head_dim": 16,
        "initial_context_length": 32,
        "num_experts_per_tok": 2,
        "num_local_experts": 6,
        "rope_theta": 150000,
        "rope_scaling": YARN,
        "router_aux_loss_coef": 0.9,
        "sliding_window": 5,
        "swiglu_limit": 1.5,
        "tie_word_embeddings": False,
    },
}

VISION = {
    "hidden_size": 8,
    "image_size": 28,
    "intermediate_size": 8,
    "model_type": "siglip_vision_model",
    "num_attention_heads": 1,
    "num_hidden_layers": 1,
    "patch_size": 14,
    "vision_use_head": False,
}

# A model of images and texts, of which the part for texts is exported.
SEEING = {
    "model_type": "gemma3",
    "eos_token_id": [1, 2],
    "image_token_index": 39,
    "boi_token_index": 38,
    "eoi_token_index": 37,
    "mm_tokens_per_image": 4,
    "text_config": {**SIZES, **MODELS["gemma3"], "eos_token_id": None},
    "torch_dtype": "bfloat16",
    "vision_config": VISION,
}

ADAPTER = {
    "r": 4,
    "lora_alpha": 10,
    "target_modules": ["q_proj", "down_proj"],
    "task_type": "CAUSAL_LM",
}


def model_of(fields):
    config = transformers.AutoConfig.for_model(**fields)
    options = {"attn_implementation": "eager", "dtype": torch.float32}
    sees = "vision_config" in fields
    kind = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    return kind.from_config(config, **options).eval()


def fill(tensors, prefix=""):
    with torch.no_grad():
        for name, tensor in tensors:
            tensor.copy_(torch.from_numpy(random_tensor(prefix + name, tuple(tensor.shape))))


def saved_config(model):
    with tempfile.TemporaryDirectory() as folder:
        model.config.save_pretrained(folder)
        return json.loads((Path(folder) / "config.json").read_text())


def numbers(model):
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0]
        tokens = model.generate(
            input_ids=ids, max_new_tokens=COUNT, do_sample=False, eos_token_id=None
        )
    rounded = [[float(f"{x:.8g}") for x in row] for row in logits.tolist()]
    return {"prompt": PROMPT, "logits": rounded, "greedy": tokens[0].tolist()[len(PROMPT) :]}


def write(name, fixture):
    fixture["transformers"] = transformers.__version__
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in fixture.items()]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(name, fixture["greedy"])


def main():
    models = {name: {**SIZES, **fields} for name, fields in MODELS.items()}
    for name, fields in {**models, "gemma3_with_images": SEEING}.items():
        model = model_of(fields)
        fill(model.named_parameters())
        tensors = {n: list(p.shape) for n, p in model.named_parameters()}
        config = {"saved": saved_config(model), "tensors": tensors}
        write(name, {"config": fields, **config, **numbers(model)})
    fields = {**SIZES, **MODELS["llama"]}
    model = model_of(fields)
    fill(model.named_parameters())
    tensors = {n: list(p.shape) for n, p in model.named_parameters()}
    adapted = peft.get_peft_model(model, peft.LoraConfig(**ADAPTER)).eval()
    thin = [(n, p) for n, p in adapted.named_parameters() if "lora_" in n]
    names = {n: n.replace(".default", "") for n, _ in thin}
    fill([(names[n], p) for n, p in thin])
    with tempfile.TemporaryDirectory() as folder:
        adapted.save_pretrained(folder)
        adapter = json.loads((Path(folder) / "adapter_config.json").read_text())
    shapes = {names[n]: list(p.shape) for n, p in thin}
    adapter = {"adapter": adapter, "adapter_tensors": shapes}
    write("lora", {"config": fields, "tensors": tensors, **adapter, **numbers(adapted)})


if __name__ == "__main__":
    main()
