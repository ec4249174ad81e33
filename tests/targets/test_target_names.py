"""The type `Target` and the table of the documentation list the targets of the core.

`UPDATE_SNAPSHOTS=1 pytest tests/targets/test_target_names.py` writes both.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jax2onnx import _core

TOP = Path(__file__).parents[2]
TYPE = TOP / "python" / "jax2onnx" / "_export" / "target_names.py"
PAGE = TOP / "docs" / "targets.md"
BEGIN = "<!-- targets: made by tests/targets/test_target_names.py -->\n"
END = "<!-- end of targets -->\n"


def type_of_names() -> Iterator[str]:
    yield "Target = Literal["
    yield from (f'    "{name}",' for name in _core.targets())
    yield "]"


def table() -> Iterator[str]:
    newest = max(target.newest_opset for target in _core.targets().values())
    yield from ("", "| target | runs | default opset |", "|---|---|---|")
    for name, target in _core.targets().items():
        last = f"to {target.newest_opset}" if target.newest_opset < newest else "on"
        opsets = f"the lowest from {target.lowest_opset} {last}"
        yield f"| `{name}` | {target.runtime} | {opsets} |"
    yield ""


@pytest.mark.parametrize(
    ("path", "begin", "lines", "end"),
    [(TYPE, "\n\n", type_of_names, ""), (PAGE, BEGIN, table, END)],
    ids=["type", "page"],
)
def test_targets_are_listed(path, begin, lines, end):
    text = path.read_text()
    start = text.rindex(begin) + len(begin)
    stop = text.index(end, start) if end else len(text)
    expected = "".join(f"{line}\n" for line in lines())
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text[:start] + expected + text[stop:])
        return
    assert text[start:stop] == expected
