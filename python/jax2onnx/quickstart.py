"""Exports a small network and checks it: `python -m jax2onnx.quickstart [FOLDER]`."""

import itertools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

from jax2onnx import allclose, to_onnx

_SIZES = (30, 20, 10)


class MLP:
    """A perceptron with one hidden layer, in plain JAX."""

    def __init__(self, key: jax.Array) -> None:
        self.weights = []
        for i, shape in enumerate(itertools.pairwise(_SIZES)):
            self.weights.append(jax.random.normal(jax.random.fold_in(key, i), shape))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the layers to a batch."""
        first, last = self.weights
        return jax.nn.gelu(x @ first / jnp.sqrt(_SIZES[0])) @ last


def export_quickstart_model(output_path: str | Path = "quickstart.onnx") -> Path:
    """Exports the network with a batch of any size, compares it with JAX, and returns its path."""
    model = MLP(jax.random.key(0))
    to_onnx(model, [("B", _SIZES[0])], return_mode="file", output_path=output_path)
    agrees, message = allclose(model, output_path, [(3, _SIZES[0])])
    if not agrees:
        raise AssertionError(message)
    return Path(output_path)


def main() -> None:
    """Exports the network to the folder that the command line names."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    path = export_quickstart_model(folder / "quickstart.onnx")
    print(f"{path} agrees with JAX. See where its nodes came from: jax2onnx show {path}")


if __name__ == "__main__":
    main()
