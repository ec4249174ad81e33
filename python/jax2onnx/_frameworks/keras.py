"""Keras, with JAX as its backend."""

import sys
from typing import Any, ClassVar

from jax2onnx._frameworks.framework import Framework
from jax2onnx._python.objects import instance_dict


class Keras(Framework):
    """Layers open scopes by themselves, and variables know the layers that they belong to."""

    module = "keras"
    base = "Layer"  # which models are, too
    inference = "call the model with `training=False`, which is the default of `model(x)`"
    unnamed = frozenset({"_value"})  # of a variable
    ignored: ClassVar[frozenset[str]] = frozenset(
        {"_inbound_nodes", "_outbound_nodes", "_nodes_by_depth", "_operations_by_depth", "_tracker"}
    )
    names_scopes = True

    def unready(self, fn: Any, /) -> tuple[str, str] | None:
        """Returns the message for a model whose layers have no weights yet, which would be drawn at
        random while the model is traced, and for methods that do not take tracers.
        """
        base = getattr(sys.modules.get(self.module), "Model", None)
        if base is not None and isinstance(model := getattr(fn, "__self__", None), base):
            if fn.__name__ not in ("predict", "predict_on_batch", "evaluate", "fit"):
                return None
            return f"`{fn.__name__}` of `{model.name}` takes arrays", "export the model itself"
        if base is None or not isinstance(fn, base) or fn.built:
            return None
        return (
            f"the Keras model `{fn.name}` has no weights yet",
            "call it once on an array, or start it with keras.Input(shape)",
        )

    def names_variables(self, kind: type, /) -> bool:
        """Returns `True` for Keras's variables."""
        base = getattr(sys.modules.get(self.module), "Variable", None)
        return base is not None and issubclass(kind, base)

    def names_arrays(self, kind: type, /) -> bool:
        """Returns `True` for layers: a `Normalization` derives arrays from its variables."""
        return self.owns(kind)

    def name_of(self, variable: Any, /) -> str | None:
        """Returns the path of layers, such as `stem/kernel`."""
        path: str | None = instance_dict(variable).get("_path")
        return path
