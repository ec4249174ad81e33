"""Equal models in different orders and notations."""

import random
from pathlib import Path
from typing import Any

import onnx
import pytest

from jax2onnx import _core, to_onnx
from models.nnx.gpt import gpt


def shuffled(graph: Any, seed: int) -> None:
    """Reorders the nodes of a graph or function in another topological order."""
    left, known = list(graph.node), set()
    made = {name for node in left for name in node.output}
    chance = random.Random(seed)
    order: list[onnx.NodeProto] = []
    while left:
        ready = [n for n in left if all(i in known or i not in made for i in n.input)]
        node = chance.choice(ready)
        left.remove(node)
        known.update(node.output)
        order.append(node)
    del graph.node[:]
    graph.node.extend(order)


@pytest.mark.parametrize("functions", [None, "modules"])
def test_another_order_and_no_metadata_are_no_difference(
    functions: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, args = gpt(layers=2)
    path, other, bare = (tmp_path / f"{name}.onnx" for name in ("model", "other", "bare"))
    options = {} if functions is None else {"functions": functions}
    to_onnx(
        model,
        list(args),
        return_mode="file",
        output_path=path,
        stacktrace_metadata="sourcemap",
        **options,
    )
    assert _core.main(["strip", str(path), "-o", str(bare)]) == 0
    proto = onnx.load(path)
    for seed in range(3):
        for graph in (proto.graph, *proto.functions):
            shuffled(graph, seed)
        onnx.save(proto, other)
        for one in (path, bare):
            assert _core.main(["diff", str(one), str(other)]) == 0, capfd.readouterr().out
    assert _core.main(["diff", str(path), str(bare)]) == 0
    node = next(node for node in proto.graph.node if node.op_type in ("Add", "Div"))
    node.op_type = "Sub"
    onnx.save(proto, other)
    assert _core.main(["diff", str(path), str(other)]) == 1
