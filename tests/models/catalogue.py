"""The models by name: `nnx/gpt`, `equinox/resnet50`."""

import importlib
from typing import Any

FRAMEWORKS = {"nnx": "flax", "linen": "flax", "equinox": "equinox", "haiku": "haiku"}
"""The frameworks, and the package that each needs."""

ARCHITECTURES = (
    *("mlp", "cnn", "resnet50", "vit", "gpt", "gpt_step", "rnn", "unet", "moe", "denoiser", "flow"),
    "ode",
)

# Haiku's and Linen's modules need loops of their own framework.
_MISSING = {"linen/ode", "haiku/ode"}

NAMES = tuple(
    name
    for architecture in ARCHITECTURES
    for framework in FRAMEWORKS
    if (name := f"{framework}/{architecture}") not in _MISSING
)


def build(name: str, **sizes: int) -> tuple[Any, tuple[Any, ...]]:
    """Returns the callable and the example arguments of a model."""
    framework, architecture = name.split("/")
    module = importlib.import_module(f"models.{framework}.{architecture}")
    result: tuple[Any, tuple[Any, ...]] = getattr(module, architecture)(**sizes)
    return result
