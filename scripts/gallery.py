"""The gallery of the site: models of the tests, exported, compared with JAX, timed and shown.

    python scripts/gallery.py FOLDER

writes `gallery.md` and one page for each model. `make docs` does this for the site.
"""

import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnxruntime

import jax2onnx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

MODELS = {
    "mlp": "A perceptron",
    "cnn": "A small convolutional network",
    "vit": "A vision transformer",
    "gpt": "A decoder of text",
    "gpt_step": "Its step with a cache",
    "rnn": "A recurrent network",
    "unet": "A U-Net",
    "moe": "A mixture of experts",
    "denoiser": "Denoising by diffusion",
    "flow": "A normalising flow",
    "ode": "A differential equation",
}

HEAD = """\
# Gallery

Models of the tests, written in Flax NNX. Each links to the page that `jax2onnx view` writes for it.
`make docs` makes this page.

| model | nodes | largest difference to JAX | time of a call |
|---|---|---|---|
"""


def write(folder: Path) -> None:
    """Writes the page with the table, and the page of each model."""
    from models import catalogue

    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    rows = []
    for name, title in MODELS.items():
        fn, args = catalogue.build(f"nnx/{name}")
        model = jax2onnx.export(fn, *args, name=name)
        model.view(folder / "gallery" / f"{name}.html")
        nodes = len(model.proto.graph.node)
        apart = _difference(model(*args), fn(*args))
        took = f"{1e3 * _seconds(model, args):.2f} ms"
        rows.append(f"| [{title}](gallery/{name}.html) | {nodes} | {apart:.1e} | {took} |")
    versions = f"onnxruntime {onnxruntime.__version__}, JAX {jax.__version__}"
    note = (
        f"The shortest of 20 calls with {versions}, on {platform.machine()} with "
        f"{os.cpu_count()} CPU cores. The models are small, so much of the time is the call itself."
    )
    (folder / "gallery.md").write_text(HEAD + "\n".join(rows) + f"\n\n{note}\n")


def _difference(found: Any, expected: Any) -> float:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return max(
        float(np.max(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)), initial=0))
        for a, b in pairs
    )


def _seconds(model: jax2onnx.ExportedModel, args: tuple[Any, ...]) -> float:
    found = []
    for _ in range(20):
        start = time.perf_counter()
        model(*args)
        found.append(time.perf_counter() - start)
    return min(found)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
