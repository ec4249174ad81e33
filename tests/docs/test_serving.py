"""The programs of `docs/serving.md` compile, and print what JAX computes.

`make serving` downloads onnxruntime's C++ headers and its Java package. `ONNXRUNTIME_INCLUDE` and
`ONNXRUNTIME_JAR` are those of a machine that has them. The Python package has the library alone.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "serving.md").read_text()
HEADERS = os.environ.get("ONNXRUNTIME_INCLUDE", TOP / "build" / "serving" / "include")
JAR = os.environ.get("ONNXRUNTIME_JAR", TOP / "build" / "serving" / "onnxruntime.jar")
LIBRARY = next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"), None)

pytestmark = pytest.mark.slow


def block(language: str) -> str:
    (code,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(code)


def needed(program: str) -> str:
    return shutil.which(program) or pytest.skip(f"serving needs {program}")


def run(*command: Any, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Exports the model of the page. Returns the scores of JAX."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "documented"}
    file = tmp_path / "classifier.py"
    file.write_text(block("python"))
    exec(compile(block("python"), str(file), "exec"), names)
    return names["Classifier"](names["nnx"].Rngs(0))(names["image"])[0]


def test_cpp(tmp_path: Path, expected: Any) -> None:
    compiler = needed("g++")
    if LIBRARY is None:
        pytest.skip("serving needs the library of the Python package")
    if not Path(HEADERS, "onnxruntime_cxx_api.h").exists():
        pytest.skip("C++ headers are not in build/serving")
    (tmp_path / "serve.cpp").write_text(block("cpp"))
    (tmp_path / "libonnxruntime.so.1").symlink_to(LIBRARY)
    warnings = ("-Wall", "-Wextra")
    run(compiler, "-std=c++17", *warnings, "-isystem", HEADERS, "serve.cpp", "-o", "serve", LIBRARY,
        folder=tmp_path)  # fmt: skip
    printed = run("./serve", folder=tmp_path, LD_LIBRARY_PATH=str(tmp_path))
    np.testing.assert_allclose(np.array(printed.split(), float), expected, rtol=1e-4)


def test_rust(tmp_path: Path, expected: Any) -> None:
    cargo = needed("cargo")
    if LIBRARY is None:
        pytest.skip("serving needs the library of the Python package")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.rs").write_text(block("rust"))
    (tmp_path / "Cargo.toml").write_text(block("toml"))
    fetched = subprocess.run([cargo, "fetch"], cwd=tmp_path, capture_output=True, check=False)
    if fetched.returncode != 0:
        pytest.skip("serving needs the crate ort")
    printed = run(cargo, "run", "--quiet", folder=tmp_path, ORT_DYLIB_PATH=str(LIBRARY))
    np.testing.assert_allclose(np.array(printed.split(), float), expected, rtol=1e-4)


def test_java(tmp_path: Path, expected: Any) -> None:
    compiler = needed("javac")
    if not Path(JAR).exists():
        pytest.skip("the Java package is not in build/serving")
    (tmp_path / "Serve.java").write_text(block("java"))
    run(compiler, "-cp", JAR, "Serve.java", folder=tmp_path)
    printed = run("java", "-cp", f"{JAR}:.", "Serve", folder=tmp_path)
    np.testing.assert_allclose(np.array(printed.split(), float), expected, rtol=1e-4)
