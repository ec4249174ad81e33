from typing import Any

import pytest

from jax2onnx import InvalidInputError
from jax2onnx._export.provenance_level import DETAIL, ENABLE, detail


@pytest.mark.parametrize(
    ("argument", "enable", "level", "expected"),
    [
        (None, None, None, "off"),
        (None, "1", None, "minimal"),
        (None, "True", "", "minimal"),
        (None, "yes", "FULL", "full"),
        (None, None, "full", "off"),
        (None, "1", "minimal", "minimal"),
        (True, None, None, "minimal"),
        (True, "0", "full", "full"),
        (False, "1", "full", "off"),
        ("minimal", "0", "full", "minimal"),
        ("full", None, "minimal", "full"),
        (False, "1", "nonsense", "off"),
    ],
)
def test_the_argument_beats_the_environment(
    argument: Any,
    enable: str | None,
    level: str | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ((ENABLE, enable), (DETAIL, level)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert detail(argument) == expected


@pytest.mark.parametrize("value", ["", "0", "false", "False", "OFF", "no", " No "])
def test_values_that_mean_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENABLE, value)
    assert detail(None) == "off"


def test_an_unknown_level_lists_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENABLE, "1")
    monkeypatch.setenv(DETAIL, "verbose")
    with pytest.raises(InvalidInputError) as caught:
        detail(None)
    assert str(caught.value) == (
        "[invalid-option] `JAX2ONNX_STACKTRACE_DETAIL` cannot be 'verbose'\n"
        "  help: choose one of: minimal, full, sourcemap"
    )


@pytest.mark.parametrize("argument", ["off", "verbose", 1, 0])
def test_an_unknown_argument_lists_the_known_ones(argument: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        detail(argument)
    assert str(caught.value) == (
        f"[invalid-option] `stacktrace_metadata` cannot be {argument!r}\n"
        "  help: choose one of: True, False, minimal, full, sourcemap"
    )
