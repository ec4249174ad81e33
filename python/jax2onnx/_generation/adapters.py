"""LoRA adapters in peft's layout, which are merged into the weights of a checkpoint."""

import math
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jax2onnx._core import Safetensors
from jax2onnx._tracing.checkpoint import array_of
from jax2onnx.errors import UnsupportedError
from jax2onnx.families.config import invalid, read_json

Array = np.ndarray[Any, Any]

# Fields that do not change the merged weights: the shapes and names of the tensors tell the ranks
# and the modules.
_HARMLESS = {
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_dropout",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "target_modules",
    "task_type",
}

# Fields that are read.
_READ = {"peft_type", "lora_alpha", "use_rslora"}

# The files of adapters that onnxruntime-genai switches.
_SWITCHED = ".onnx_adapter"

_TENSOR = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])(\.default)?\.weight")


class Adapter:
    """A LoRA adapter: products of two thin matrices, which are added to weights."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        is_path = isinstance(folder, str | os.PathLike)
        if not is_path or os.fsdecode(folder).endswith(_SWITCHED):
            given = f"`{os.fsdecode(folder)}`" if is_path else f"a {type(folder).__name__}"
            raise invalid(
                f"`adapter` is {given}, which cannot be merged",
                "one adapter in peft's layout is merged into the weights: pass its folder, and "
                "export one folder for each adapter; models whose adapters onnxruntime-genai "
                "switches are not written",
            )
        self._path = os.path.join(folder, "adapter_config.json")
        fields = read_json(self._path)
        if fields is None:
            raise invalid(
                f"there is no file `{self._path}`",
                "pass the folder of an adapter that peft wrote, with adapter_config.json and "
                "adapter_model.safetensors",
            )
        self._check(fields)
        self._alpha, self._by_root = float(fields["lora_alpha"]), bool(fields.get("use_rslora"))
        self._file = Safetensors(os.path.join(folder, "adapter_model.safetensors"))
        self._sides: dict[str, dict[str, str]] = {}
        for name in self._file.names():
            match = _TENSOR.fullmatch(name)
            if match is None:
                raise UnsupportedError(
                    "unsupported-adapter",
                    f"the adapter has the tensor `{name}`",
                    help="only the pairs `lora_A.weight` and `lora_B.weight` of linear layers are "
                    "merged",
                )
            self._sides.setdefault(f"{match['module']}.weight", {})[match["side"]] = name
        for weight, sides in self._sides.items():
            if set(sides) != {"A", "B"}:
                raise invalid(f"the adapter has only one of the two matrices for `{weight}`", "")

    def _check(self, fields: dict[str, Any]) -> None:
        if fields.get("peft_type") != "LORA" or type(fields.get("lora_alpha")) not in (int, float):
            raise UnsupportedError(
                "unsupported-adapter",
                f"`{self._path}` does not describe a LoRA adapter",
                help='it has to have the fields `"peft_type": "LORA"` and `lora_alpha`',
            )
        # Other fields select variants. Without a value, they have no effect.
        other = [
            name
            for name, value in fields.items()
            if name not in _HARMLESS | _READ and value not in (None, False, "none", [], {})
        ]
        if other:
            listed = ", ".join(f"`{name}`" for name in other)
            raise UnsupportedError(
                "unsupported-adapter",
                f"`{self._path}` has fields that are not implemented: {listed}",
                help="only plain LoRA is merged; merge it with peft, and export the result",
            )

    def check(self, parameters: Iterable[str]) -> None:
        """Raises if the adapter changes a weight that is not among the parameters."""
        unknown = [name for name in self._sides if name not in set(parameters)]
        if unknown:
            raise invalid(
                f"the adapter changes `{unknown[0]}`, which the model does not have",
                "use an adapter that was made for this model",
            )

    def change(self, parameter: str) -> Callable[[Array], Array] | None:
        """Returns the function that merges the adapter into a weight, or None if it stays."""
        sides = self._sides.get(parameter)
        if sides is None:
            return None

        def merged(weight: Array) -> Array:
            down, up = (self._array(sides[side]) for side in "AB")
            rank = down.shape[0]
            scale = self._alpha / (math.sqrt(rank) if self._by_root else rank)
            return weight.astype(np.float32) + scale * (up @ down)

        return merged

    def _array(self, name: str) -> Array:
        weight = self._file.get(name)
        assert weight is not None
        return array_of(weight).astype(np.float32)
