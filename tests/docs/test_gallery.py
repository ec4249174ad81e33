"""The gallery of the site exports its models and compares them with JAX."""

import re
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.mark.parametrize(
    ("name", "title", "most"),
    [
        ("gpt_oss*", "gpt-oss-20b, reduced", 200),
        ("maxtext_deepseek*", "deepseek2-16b of MaxText, reduced", 250),
    ],
)
def test_published_configurations_are_exported(
    name: str, title: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    import gallery

    gallery.write(tmp_path, whole=True, only=name)
    page = (tmp_path / "gallery.md").read_text()
    ((path, nodes, apart),) = re.findall(r"\((gallery/.*)\) \| (\d+) \| (\S+) \|", page)
    assert title in page
    assert int(nodes) < most
    assert float(apart) < 1e-5
    assert "gallery_models.py" in (tmp_path / path).read_text()
