"""What all tests share: one device, and no switches left over from the shell."""

import os
from collections.abc import Iterator

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("JAX2ONNX_"):
            monkeypatch.delenv(name)


@pytest.fixture
def double() -> Iterator[dict[str, bool]]:
    """Options of `to_onnx` for double precision, which JAX computes in meanwhile."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield {"enable_double_precision": True}
    jax.config.update("jax_enable_x64", before)
