import re
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


def test_importing_does_not_modify_jax() -> None:
    """Compiled functions stay compiled."""
    traced = python(
        "import jax; f = jax.jit(lambda x: (print('traced'), x)[1]); f(1.0); "
        "import jax2onnx, jax2onnx._jax; f(1.0)"
    )
    assert traced == "traced"


def test_the_version_is_that_of_the_distribution() -> None:
    import jax2onnx

    assert jax2onnx.__version__.count(".") >= 2


def test_one_file_uses_undocumented_parts_of_jax() -> None:
    package = Path(__file__).parents[2] / "python" / "jax2onnx"
    users = {
        path.name
        for path in package.rglob("*.py")
        for word in ("jax._src", "jax.extend", "jax.experimental", "source_info")
        if word in path.read_text()
    }
    assert users == {"_jax.py"}


PACKAGES = (
    "_python",
    "_frameworks",
    "_tracing",
    "_expansion",
    "_export",
    "_checking",
    "_reducing",
    "_exported",
    "_tuning",
    "_generation",
    "_command",
)


def test_packages_import_only_from_those_before_them() -> None:
    folder = Path(__file__).parents[2] / "python" / "jax2onnx"
    assert {path.parent.name for path in folder.glob("_*/__init__.py")} == set(PACKAGES)
    for number, package in enumerate(PACKAGES):
        for path in (folder / package).glob("*.py"):
            imported = set(re.findall(r"^ *from jax2onnx\.(_\w+)", path.read_text(), re.MULTILINE))
            later = imported & set(PACKAGES[number + 1 :])
            assert not later, f"{package}/{path.name} imports from {later}"


def test_the_command_line_starts_without_jax(tmp_path: Path) -> None:
    import onnx
    import onnx.parser

    path = tmp_path / "model.onnx"
    text = '<ir_version: 10, opset_import: ["": 23]> g (float[2] x) => (float[2] y) { y = Sin (x) }'
    onnx.save(onnx.parser.parse_model(text), path)
    heavy = ("jax", "numpy", "typing", *HEAVY)
    code = (
        "import sys; from jax2onnx.__main__ import main; "
        f"sys.argv = ['jax2onnx', 'show', {str(path)!r}]; main(); "
        f"print('loaded:', *(m for m in {heavy!r} if m in sys.modules))"
    )
    assert python(code).splitlines()[-1] == "loaded:"


def test_the_table_lists_every_name() -> None:
    import jax2onnx

    assert {*jax2onnx.__all__} == {*jax2onnx._MODULE_OF}
    for name in jax2onnx.__all__:
        assert getattr(jax2onnx, name).__name__ == name
    assert {*jax2onnx.__all__} < {*dir(jax2onnx)}
    assert not hasattr(jax2onnx, "something_else")


def test_other_module_names(tmp_path: Path) -> None:
    import jax2onnx
    from jax2onnx import quickstart, user_interface

    for name in user_interface.__all__:
        assert getattr(user_interface, name) is getattr(jax2onnx, name)
    path = quickstart.export_quickstart_model(tmp_path / "model.onnx")
    assert path.is_file()
