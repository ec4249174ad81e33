"""The gallery of the site: models of the tests, exported, compared with JAX, timed and shown.

    python scripts/gallery.py FOLDER [--all]

writes `gallery.md` and one page for each model. `make docs` does this for the site. `--all` adds
typical architectures and models of Keras, which takes minutes.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jax2onnx

TOP = Path(__file__).parent.parent
sys.path[:0] = [str(TOP / "tests"), str(TOP / "bench")]

from run import machine  # noqa: E402

MODELS = {
    "mlp": "A perceptron",
    "cnn": "A small convolutional network",
    "vit": "A vision transformer",
    "gpt": "A text decoder",
    "gpt_step": "Its decoding step, with a cache",
    "rnn": "A recurrent network",
    "unet": "A U-Net",
    "moe": "A mixture of experts",
    "denoiser": "A diffusion denoiser",
    "flow": "A normalising flow",
    "ode": "A solver of a differential equation",
}

# Applications of Keras, with their options.
KERAS: dict[str, dict[str, Any]] = {
    "MobileNetV2": {"alpha": 0.35, "input_shape": (96, 96, 3)},
    "MobileNetV3Small": {"alpha": 0.75, "minimalistic": True, "input_shape": (96, 96, 3)},
    "EfficientNetV2B0": {"input_shape": (64, 64, 3)},
    "DenseNet121": {"input_shape": (64, 64, 3)},
}

HEAD = """\
# Gallery

These models are part of the tests. Each links to the page that `jax2onnx view` writes for it.
`make docs` creates this page.

| model | nodes | largest difference from JAX | time of a call |
|---|---|---|---|
"""


Model = tuple[Callable[..., Any], tuple[Any, ...]]


def of_tests() -> Iterator[tuple[str, str, Callable[[], Model]]]:
    """Yields the file name, the title and the builder of each model of the tests."""
    from models import catalogue

    for name, title in MODELS.items():
        yield name, title, lambda name=name: catalogue.build(f"nnx/{name}")


def others() -> Iterator[tuple[str, str, Callable[[], Model]]]:
    """Yields typical architectures, and applications of Keras."""
    from models import typical

    for title, build in typical.MODELS.items():
        model = build()
        name = "".join(c if c.isalnum() else "_" for c in f"typical {title}")
        yield name, title, lambda model=model: (model.fn, model.args)
    for name, options in KERAS.items():
        yield name.lower(), f"{name} of Keras", lambda name=name, o=options: _of_keras(name, o)


def _of_keras(name: str, options: dict[str, Any]) -> Model:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import keras

    model = getattr(keras.applications, name)(
        weights=None, classes=10, classifier_activation=None, **options
    )
    image = np.random.default_rng(0).normal(size=(1, *options["input_shape"]))
    return model, (image.astype(np.float32),)


def write(folder: Path, *, whole: bool = False) -> None:
    """Writes the page with the table, and the page of each model."""
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    rows = []
    for name, title, build in [*of_tests(), *(others() if whole else ())]:
        fn, args = build()
        model = jax2onnx.export(fn, *args, name=name)
        model.view(folder / "gallery" / f"{name}.html")
        nodes = len(model.proto.graph.node)
        apart = _difference(model(*args), fn(*args))
        took = f"{1e3 * _seconds(model, args):.2f} ms"
        rows.append(f"| [{title}](gallery/{name}.html) | {nodes} | {apart:.1e} | {took} |")
    note = (
        f"The shortest of 20 calls, on {machine()}. The models are small, so much of the time is "
        "the call itself."
    )
    (folder / "gallery.md").write_text(HEAD + "\n".join(rows) + f"\n\n{note}\n")


def _difference(found: Any, expected: Any) -> float:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    arrays = ((np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs)
    distances = (np.where(np.isnan(a) & np.isnan(b), 0, np.abs(a - b)) for a, b in arrays)
    return max(float(np.max(apart, initial=0)) for apart in distances)


def _seconds(model: jax2onnx.ExportedModel, args: tuple[Any, ...]) -> float:
    found = []
    for _ in range(20):
        start = time.perf_counter()
        model(*args)
        found.append(time.perf_counter() - start)
    return min(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    write(given.folder, whole=given.all)
