"""The final part of `make demo`."""

import runpy
import shutil
from pathlib import Path

import pytest

TOUR = Path(__file__).parents[2] / "examples" / "tour.py"


def test_the_tour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # Excerpts are read from the exported file, relative to this folder.
    shutil.copy(TOUR, tmp_path)
    runpy.run_path("tour.py", run_name="__main__")
    shown = capfd.readouterr().out
    assert "onnxruntime and JAX agree: True" in shown
    assert "hidden = jax.nn.gelu(x @ up) · 4" in shown
    assert f"open {(tmp_path / 'build' / 'ranker.html').as_uri()}" in shown
    assert "error[dimension-conflict]" in shown
    assert "help: pass the same size" in shown
