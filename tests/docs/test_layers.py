"""The layers that the documentation lists are exported and compared with JAX.

`UPDATE_SNAPSHOTS=1 pytest tests/docs/test_layers.py` writes the table in docs/frameworks.md.
"""

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jax2onnx import export
from models.layers import FRAMEWORKS, array, classes

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
BEGIN = "<!-- layers: made by tests/docs/test_layers.py -->\n"
END = "<!-- end of layers -->\n"


@cache
def layers(framework: str) -> dict[str, Any]:
    return FRAMEWORKS[framework]()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_layers(framework: str) -> None:
    for name, (layer, shape) in layers(framework).items():
        try:
            export(layer, array(shape), check=[array(shape)], training="error", provenance=False)
        except Exception as error:
            error.add_note(f"This is {framework}'s {name}.")
            raise


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_layer_is_omitted(framework: str) -> None:
    listed = {word for name in layers(framework) for word in re.findall(r"\w+", name)}
    assert not classes(framework) - listed


def test_the_table_is_up_to_date() -> None:
    rows = [f"| {name} | {', '.join(f'`{n}`' for n in layers(name))} |" for name in FRAMEWORKS]
    rows = [re.sub(r"`RNN of (\w+)`", r"`RNN` of `\1`", row) for row in rows]
    table = "\n".join(["", "| framework | layers |", "|---|---|", *rows, "", ""])
    before, rest = PAGE.read_text().split(BEGIN)
    found, after = rest.split(END)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}")
        return
    assert found == table
