"""Prints the table in `docs/source-map.md`: the nodes whose lines are still found after other tools
have run.

python scripts/measure_survival.py
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, "tests")

from harness.other_tools import TOOLS, export
from harness.provenance_of import all_nodes
from jax2onnx import SourceMap
from models import catalogue

MODELS = {
    "GPT, 12 layers": ("nnx/gpt", {"layers": 12}),
    "ViT": ("nnx/vit", {}),
    "ResNet-50": ("nnx/resnet50", {}),
    "CNN (NNX)": ("nnx/cnn", {}),
    "CNN (Linen)": ("linen/cnn", {}),
    "MLP (NNX)": ("nnx/mlp", {}),
    "MLP (Equinox)": ("equinox/mlp", {}),
}


def resolved(sources) -> bool:
    return any(s.site is not None and s.site.file.startswith("tests/models/") for s in sources)


def main() -> None:
    print("| model | nodes exported |", " | ".join(f"`{tool}`" for tool in TOOLS), "|")
    print("|---|---|" + "---|" * len(TOOLS))
    for name, (model, sizes) in MODELS.items():
        fn, args = catalogue.build(model, **sizes)
        exported = export(fn, args)
        cells = []
        for tool in TOOLS.values():
            with tempfile.TemporaryDirectory() as folder:
                left = tool(exported, Path(folder))
            found = SourceMap.load(left).lookup_model(left)
            known = sum(resolved(sources) for _, sources in found)
            cells.append(f"{known} of {sum(1 for _ in all_nodes(left))}")
        print(f"| {name} | {sum(1 for _ in all_nodes(exported))} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
