"""Optional packages."""

import importlib.util

from jax2onnx.errors import InvalidInputError

# Packages whose name in the registry differs from their module.
_DISTRIBUTIONS = {"orbax": "orbax-checkpoint"}


def require(package: str, purpose: str) -> None:
    """Raises an error with installation instructions if a package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise InvalidInputError(
            "missing-package",
            f"{purpose} needs the package `{package}`, which is not installed",
            help=f"run `pip install {_DISTRIBUTIONS.get(package, package)}`",
        )
