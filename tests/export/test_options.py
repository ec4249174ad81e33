import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest

from jax2onnx import InternalError, InvalidInputError, Jax2OnnxError, UnsupportedError, to_onnx
from jax2onnx._export.options import positions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"return_mode": "bytes"},
            "[invalid-option] `return_mode` cannot be 'bytes'\n"
            "  help: choose one of: proto, ir, file",
        ),
        (
            {"export_mode": None},
            "[invalid-option] `export_mode` cannot be None\n  help: choose one of: standard, web",
        ),
        (
            {"normalization_mode": "fast"},
            "[invalid-option] `normalization_mode` cannot be 'fast'\n"
            "  help: choose one of: auto, prefer_native, force_decomposed",
        ),
        (
            {"opset": "23"},
            "[invalid-option] `opset` cannot be '23'\n"
            "  help: pass an integer, or None for the lowest opset that does not make the model "
            "slower",
        ),
        (
            {"opset": True},
            "[invalid-option] `opset` cannot be True\n"
            "  help: pass an integer, or None for the lowest opset that does not make the model "
            "slower",
        ),
        (
            {"model_name": ""},
            "[invalid-option] `model_name` cannot be ''\n  help: pass a non-empty string",
        ),
        (
            {"model_name": "a\ud800"},
            "[invalid-option] `model_name` cannot be 'a\\ud800'\n  help: pass a non-empty string",
        ),
        (
            {"opset": 2**80},
            f"[invalid-option] `opset` cannot be {2**80}\n"
            "  help: pass an integer, or None for the lowest opset that does not make the model "
            "slower",
        ),
        (
            {"return_mode": "file", "output_path": "x\0.onnx"},
            "[invalid-option] `output_path` cannot be 'x\\x00.onnx'\n"
            "  help: a path cannot contain null characters",
        ),
        (
            {"return_mode": "file"},
            '[missing-output-path] `return_mode="file"` needs an `output_path`\n'
            '  help: pass the path of the model, such as output_path="model.onnx"',
        ),
        (
            {"enable_double_precision": "yes"},
            "[invalid-option] `enable_double_precision` cannot be 'yes'\n"
            "  help: choose one of: True, False",
        ),
        (
            {"return_mode": "file", "output_path": 3},
            "[invalid-option] `output_path` cannot be 3\n  help: pass a path",
        ),
        (
            {"source_text": True, "stacktrace_metadata": "full"},
            "[unused-source-text] `source_text` has no effect without a source map\n"
            '  help: add stacktrace_metadata="sourcemap", or a file: source_map="model.onnx.map"',
        ),
        (
            {"record_primitive_calls_file": b"calls"},
            "[invalid-option] `record_primitive_calls_file` cannot be b'calls'\n"
            "  help: pass a path",
        ),
    ],
)
def test_wrong_options_list_the_right_ones(options: Any, message: str) -> None:
    def untraced(x: Any) -> Any:
        pytest.fail("options are checked before the function is traced")

    with pytest.raises(InvalidInputError) as caught:
        to_onnx(untraced, [(2,)], **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("mode", ["proto", "ir"])
def test_a_model_that_is_returned_is_self_contained_anyway(mode: Any) -> None:
    with pytest.warns(
        UserWarning, match=f'only chooses the target with `return_mode="{mode}"`'
    ) as caught:
        to_onnx(lambda x: x + 1, [(2,)], return_mode=mode, export_mode="web")
    assert caught[0].filename == __file__


def test_texts_of_sources_may_be_asked_for_by_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAX2ONNX_ENABLE_STACKTRACE_METADATA", "1")
    monkeypatch.setenv("JAX2ONNX_STACKTRACE_DETAIL", "sourcemap")
    model = to_onnx(lambda x: x + 1, [(2,)], source_text=True)
    assert "pkg.jax2onnx.sourcemap" in {entry.key for entry in model.metadata_props}


def test_layouts_are_chosen_by_position_or_name() -> None:
    names, ranks = ["x", "image", "mask"], [2, 4, 4]
    assert positions("inputs_as_nchw", None, names, ranks) == []
    assert positions("inputs_as_nchw", [2, "image", 1], names, ranks) == [1, 2]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            True,
            "[invalid-option] `inputs_as_nchw` cannot be True\n"
            "  help: pass a list of positions or names; the names are: x, image",
        ),
        (
            "image",
            "[invalid-option] `inputs_as_nchw` cannot be 'image'\n"
            "  help: pass a list of positions or names; the names are: x, image",
        ),
        (
            [2],
            "[invalid-option] `inputs_as_nchw` cannot be 2\n"
            "  help: pass positions below 2 or names; the names are: x, image",
        ),
        (
            ["mask"],
            "[invalid-option] `inputs_as_nchw` cannot be 'mask'\n"
            "  help: pass positions below 2 or names; the names are: x, image",
        ),
        (
            ["x"],
            "[invalid-option] `inputs_as_nchw` names `x`, which has rank 2\n"
            "  help: only arrays with four axes have a layout",
        ),
    ],
)
def test_wrong_layouts_list_the_right_ones(chosen: Any, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        positions("inputs_as_nchw", chosen, ["x", "image"], [2, 4])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (UnsupportedError, NotImplementedError),
        (InvalidInputError, ValueError),
        (InternalError, RuntimeError),
    ],
)
def test_errors_are_diagnostics(error: type[Jax2OnnxError], builtin: type[Exception]) -> None:
    raised = error("some-code", "it failed", "  --> model.py:1:2 in f", "do better")
    assert isinstance(raised, builtin)
    assert raised.code == "some-code"
    assert str(raised) == "[some-code] it failed\n  --> model.py:1:2 in f\n  help: do better"
    assert str(pickle.loads(pickle.dumps(raised))) == str(raised)
    assert str(error("some-code", "it failed")) == "[some-code] it failed"


def test_errors_of_jax_are_passed_on() -> None:
    import jax

    def branches_on_a_value(x: Any) -> Any:
        return -x if x > 0 else x

    with pytest.raises(jax.errors.TracerBoolConversionError):
        to_onnx(branches_on_a_value, [()])


def test_a_path_that_is_not_used_is_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match='add return_mode="file"'):
        to_onnx(lambda x: x + 1, [(2,)], output_path=tmp_path / "m.onnx")  # type: ignore[call-overload]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("mode", "package"), [("proto", "onnx"), ("ir", "onnx"), ("ir", "onnx_ir")]
)
def test_missing_packages_say_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch, mode: Any, package: str
) -> None:
    found = importlib.util.find_spec
    hide = lambda name, *rest: None if name == package else found(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", hide)
    with pytest.raises(InvalidInputError) as caught:
        to_onnx(lambda x: x + 1, [(2,)], return_mode=mode)
    assert str(caught.value) == (
        f'[missing-package] `return_mode="{mode}"` needs the package `{package}`, '
        f"which is not installed\n  help: run `pip install {package}`"
    )
