"""The gallery of the site: models of the tests, exported, compared with JAX, timed and shown.

    python scripts/gallery.py FOLDER [--all] [--libraries] [--only PATTERN]

writes `gallery.md` and one page for each model. `make docs` does this for the site. `--all` adds
typical architectures, published configurations of language models and models of Keras, which takes
minutes. `--libraries` adds models of packages that the tests do not need.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jax2onnx

TOP = Path(__file__).parent.parent
sys.path[:0] = [str(TOP / "tests"), str(TOP / "bench")]

import gallery_models  # noqa: E402
from gallery_models import Entry, Model  # noqa: E402
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

HEAD = """\
# Gallery

Each model links to the page that `jax2onnx view` writes for it. `make docs` creates this page
with models of the tests. `python scripts/gallery.py FOLDER --all` adds configurations of published
checkpoints and of MaxText at reduced width and applications of Keras, and `--libraries` models of
transformers, Diffusers (those of MaxDiffusion), Keras Hub and Brax, and policies for MJX.

| model | nodes | largest difference from JAX | time of a call |
|---|---|---|---|
"""


def of_tests() -> Iterator[Entry]:
    """Yields the file name, the title and the builder of each model of the tests."""
    from models import catalogue

    for name, title in MODELS.items():
        yield name, title, lambda name=name: catalogue.build(f"nnx/{name}")


def others() -> Iterator[Entry]:
    """Yields typical architectures, configurations of decoders and applications of Keras."""
    from models import typical

    def built(build: Callable[[], Any]) -> Model:
        model = build()
        return model.fn, model.args

    for title, build in typical.MODELS.items():
        name = "".join(c if c.isalnum() else "_" for c in f"typical {title}")
        yield name, title, partial(built, build)
    yield from gallery_models.published()
    yield from gallery_models.of_maxtext()
    yield from gallery_models.of_keras()


def write(folder: Path, *, whole: bool = False, libraries: bool = False, only: str = "*") -> None:
    """Writes the page with the table, and the page of each model whose name matches `only`."""
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    rows = []
    entries = [*of_tests(), *(others() if whole else ())]
    entries += gallery_models.of_libraries() if libraries else ()
    for name, title, build in entries:
        if not fnmatch(name, only):
            continue
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
    parser.add_argument("--all", action="store_true", help="all models without other packages")
    parser.add_argument("--libraries", action="store_true", help="models of other packages")
    parser.add_argument("--only", default="*", help="a pattern of the models' names")
    given = parser.parse_args()
    write(given.folder, whole=given.all, libraries=given.libraries, only=given.only)
