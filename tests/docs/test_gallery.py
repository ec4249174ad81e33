"""The gallery of the site exports its models and compares them with JAX."""

import re
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_published_configurations_are_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    import gallery

    gallery.write(tmp_path, whole=True, only="gpt_oss*")
    page = (tmp_path / "gallery.md").read_text()
    ((path, nodes, apart),) = re.findall(r"\((gallery/.*)\) \| (\d+) \| (\S+) \|", page)
    assert "gpt-oss-20b, reduced" in page
    assert int(nodes) < 200
    assert float(apart) < 1e-5
    assert "gallery_models.py" in (tmp_path / path).read_text()
