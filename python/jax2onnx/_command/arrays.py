"""Reads the arrays that a command is given."""

import zipfile
from pathlib import Path

import numpy as np

from jax2onnx.errors import InvalidInputError


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Reads the arrays of an `.npz` file, by name."""
    try:
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise InvalidInputError(
            "unreadable-inputs",
            f"cannot read `{path}`: {error}",
            help="write it with numpy.savez, without objects",
        ) from error
