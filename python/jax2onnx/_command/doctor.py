"""`jax2onnx doctor` reports on the Python installation without loading the packages."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

PACKAGES = (
    "jax",
    "jaxlib",
    "numpy",
    "ml_dtypes",
    "flax",
    "equinox",
    "dm-haiku",
    "keras",
    "orbax-checkpoint",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-genai",
)

# Variables whose values are switches. Others may hold paths.
VARIABLES = (
    "JAX2ONNX_ENABLE_STACKTRACE_METADATA",
    "JAX2ONNX_STACKTRACE_DETAIL",
    "JAX_ENABLE_X64",
    "JAX_PLATFORMS",
    "KERAS_BACKEND",
)

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)>=(?P<oldest>[\d.]+)(?P<optional>.*extra.*)?")

Report = tuple[
    str, str, list[tuple[str, str | None]], list[tuple[str, str]], list[str]
]  # as the command line's `PythonReport`


def report() -> Report:
    """Returns the interpreter, the system, packages, environment variables and problems."""
    interpreter = f"{platform.python_implementation()} {platform.python_version()}"
    system = " ".join(filter(None, (platform.release(), *platform.libc_ver())))
    packages = [(name, _version(name)) for name in PACKAGES]
    variables = [(name, os.environ[name]) for name in VARIABLES if name in os.environ]
    return interpreter, system, packages, variables, problems(requires("jax2onnx") or [])


def problems(requirements: list[str]) -> list[str]:
    """Returns the unmet requirements of this package, including those of extras."""
    found: list[str] = []
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is None:
            continue
        name, oldest = match["name"], match["oldest"]
        installed = _version(name)
        if installed is None and match["optional"] is None:
            found.append(f"{name} is not installed; run `pip install '{name}>={oldest}'`")
        elif installed is not None and _numbers(installed) < _numbers(oldest):
            found.append(
                f"{name} {installed} is older than {oldest}, the oldest supported version; "
                f"run `pip install '{name}>={oldest}'`"
            )
    return list(dict.fromkeys(found))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(version: str) -> list[int]:
    """Parses a release without trailing zeros: `1.20.0rc1` is `[1, 20]`."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in release[0].split(".")] if release else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers
