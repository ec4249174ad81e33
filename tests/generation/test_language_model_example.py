"""The example that trains and exports a language model, in a reduced form."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def example():
    path = ROOT / "examples" / "tiny_language_model.py"
    spec = importlib.util.spec_from_file_location("tiny_language_model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_it_trains_exports_writes_and_profiles(tmp_path, capfd):
    example().main(["--steps", "2", "--letters", "6", "--folder", str(tmp_path / "harbour")])
    out = capfd.readouterr().out
    assert "These are the letters that JAX writes." in out
    assert "language_model:" in out
    assert "of the first 6 letters are the same" in out
    assert "tiny_language_model.py:" in out.partition("Errors by line")[2]
    assert {path.name for path in (tmp_path / "harbour").iterdir()} == {
        "README.md",
        "genai_config.json",
        "model.onnx",
        "weights.data",
    }


def test_letters_become_tokens_and_back():
    module = example()
    assert module.decode_text(module.encode("The keeper")) == "The keeper"
    assert 0 not in module.encode(module.TEXT)
    with pytest.raises(ValueError, match="not in list"):
        module.encode("é")
