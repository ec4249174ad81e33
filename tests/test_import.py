import subprocess
import sys
from pathlib import Path

HEAVY = ("flax", "equinox", "haiku", "onnx", "onnx_ir", "onnxruntime", "hypothesis", "pytest")


def python(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def test_importing_pulls_in_no_framework() -> None:
    loaded = python(
        f"import sys, jax, jax2onnx; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    )
    assert loaded == ""


def test_importing_leaves_jax_as_it_was() -> None:
    """Compiled functions stay compiled."""
    traced = python(
        "import jax; f = jax.jit(lambda x: (print('traced'), x)[1]); f(1.0); "
        "import jax2onnx, jax2onnx._jax; f(1.0)"
    )
    assert traced == "traced"


def test_the_version_is_that_of_the_distribution() -> None:
    import jax2onnx

    assert jax2onnx.__version__.count(".") >= 2


def test_one_file_touches_what_jax_does_not_document() -> None:
    package = Path(__file__).parents[1] / "python" / "jax2onnx"
    users = {
        path.name
        for path in package.glob("*.py")
        for word in ("jax._src", "jax.extend", "jax.experimental", "source_info")
        if word in path.read_text()
    }
    assert users == {"_jax.py"}
