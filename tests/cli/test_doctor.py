import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version

import pytest

from jax2onnx._command.doctor import _numbers, problems


def doctor(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jax2onnx", "doctor", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | variables,
        check=False,
    )


def test_the_report_lists_installed_packages_and_nothing_private():
    done = doctor("--json", JAX_PLATFORMS="cpu", JAX_COMPILATION_CACHE_DIR="/home/somebody")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["version"] == version("jax2onnx")
    python = report["python"]
    assert python["interpreter"].endswith(platform.python_version())
    assert dict(python["packages"])["jax"] == version("jax")
    assert ["JAX_PLATFORMS", "cpu"] in python["variables"]
    assert python["problems"] == []
    for private in ("/home", sys.prefix, platform.node(), os.getcwd()):
        assert private not in done.stdout


def test_packages_are_not_loaded():
    code = (
        "import sys; from jax2onnx import _core; _core.main(['doctor']); "
        "print('loaded:', *(m for m in ('jax', 'numpy', 'onnxruntime') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        ("jax>=0.7", None),
        ("jax>=9999.1", "is older than 9999.1"),
        ("surely_not_installed>=1", "surely_not_installed is not installed"),
        ("surely_not_installed>=1 ; extra == 'runtime'", None),
        ("onnx>=9999 ; extra == 'onnx'", "is older than 9999"),
    ],
)
def test_requirements_that_are_not_met_are_problems(requirement, problem):
    found = problems([requirement])
    assert [problem in one for one in found] == ([True] if problem else [])


def test_versions_are_compared_by_number():
    assert _numbers("1.9.2") < _numbers("1.22")
    assert _numbers("2.0.0rc1") == _numbers("2")
