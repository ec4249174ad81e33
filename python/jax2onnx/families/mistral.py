"""Mistral: Llama with a sliding window."""

from jax2onnx.families.config import Config, Sizes
from jax2onnx.families.layers.rotary import Rotary
from jax2onnx.families.llama import Llama


class Mistral(Llama):
    """A decoder of the Mistral family."""

    @classmethod
    def read(cls, config: Config, context_length: int) -> "Mistral":
        """Reads the description of a checkpoint."""
        sizes = Sizes.read(config)
        config.expect("hidden_act", "silu")
        rotary = Rotary.read(config, sizes.head_size, context_length)
        window = config.window(absent=4096)
        return cls(sizes, rotary, window=window)
