"""Published families of language models in plain JAX, a page each.

A checkpoint's `config.json` names its family, and `FAMILIES` has the class of each. A class has
three methods: `read` takes the description of a checkpoint, `parameters` returns the types of the
parameters with the checkpoint's names, and `decode` computes logits from token ids, positions and
a cache. `jax2onnx.generation.save_checkpoint` exports them.
"""

from jax2onnx.families.config import Config, Sizes
from jax2onnx.families.gemma import Gemma
from jax2onnx.families.gpt_oss import GptOss
from jax2onnx.families.llama import Llama
from jax2onnx.families.mistral import Mistral
from jax2onnx.families.phi import Phi
from jax2onnx.families.qwen import Qwen

__all__ = ["FAMILIES", "Config", "Gemma", "GptOss", "Llama", "Mistral", "Phi", "Qwen", "Sizes"]

Family = Gemma | GptOss | Llama | Mistral | Phi | Qwen

# The classes, by the field `model_type` of `config.json`.
FAMILIES: dict[str, type[Family]] = {
    "gemma2": Gemma,
    "gemma3_text": Gemma,
    "gpt_oss": GptOss,
    "llama": Llama,
    "mistral": Mistral,
    "phi3": Phi,
    "qwen2": Qwen,
    "qwen3": Qwen,
}
