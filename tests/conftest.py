"""What all tests share: one device, and no switches left over from the shell."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import pytest


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("JAX2ONNX_"):
            monkeypatch.delenv(name)
