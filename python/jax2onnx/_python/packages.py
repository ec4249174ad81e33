"""Packages that only a part of the project needs."""

import importlib.util

from jax2onnx.errors import InvalidInputError


def require(package: str, purpose: str, extra: str) -> None:
    """Raises if a package is not installed, and says how to install it."""
    if importlib.util.find_spec(package) is None:
        raise InvalidInputError(
            "missing-package",
            f"{purpose} needs the package `{package}`, which is not installed",
            help=f'run `pip install "jax2onnx[{extra}]"`',
        )
