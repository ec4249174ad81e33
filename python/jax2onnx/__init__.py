"""Converts JAX functions to ONNX models in which every node knows its line of Python."""

# Type checkers know this name. The module it usually comes from takes longer to load than the rest.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from jax2onnx._checking.allclose import allclose
    from jax2onnx._checking.explain_errors import explain_errors
    from jax2onnx._checking.onnxruntime_web import allclose_onnxruntime_web
    from jax2onnx._checking.readiness import Check, Readiness, readiness
    from jax2onnx._checking.verification import LineError, Verification
    from jax2onnx._checking.verify import verify
    from jax2onnx._core import LoweringContext, Value
    from jax2onnx._export.calibrated_weights import CalibratedWeights, WeightRounding
    from jax2onnx._export.lowering_rules import local_lowerings, lowering
    from jax2onnx._export.provenance_level import Provenance, stacktrace_metadata
    from jax2onnx._export.source_map import SourceMap
    from jax2onnx._export.to_onnx import to_onnx
    from jax2onnx._export.to_onnx_set import to_onnx_set
    from jax2onnx._exported.boundary import Input, Output
    from jax2onnx._exported.displays import Page, Profile
    from jax2onnx._exported.export import export
    from jax2onnx._exported.exported_model import ExportedModel
    from jax2onnx._reducing.reduce import reduce
    from jax2onnx._reducing.reduction import Reduction
    from jax2onnx._reducing.verdict import Verdict
    from jax2onnx._tracing.checkpoint import Checkpoint, Stored
    from jax2onnx._tracing.functions import onnx_function
    from jax2onnx._tuning.calibrate import calibrate
    from jax2onnx._tuning.mixed_precision import LinePrecision, MixedPrecision, mixed_precision
    from jax2onnx._tuning.quantize import Quantization, WeightError, quantize
    from jax2onnx.errors import (
        InternalError,
        InvalidInputError,
        Jax2OnnxError,
        MismatchError,
        UnsupportedError,
    )

__all__ = [
    "CalibratedWeights",
    "Check",
    "Checkpoint",
    "ExportedModel",
    "Input",
    "InternalError",
    "InvalidInputError",
    "Jax2OnnxError",
    "LineError",
    "LinePrecision",
    "LoweringContext",
    "MismatchError",
    "MixedPrecision",
    "Output",
    "Page",
    "Profile",
    "Provenance",
    "Quantization",
    "Readiness",
    "Reduction",
    "SourceMap",
    "Stored",
    "UnsupportedError",
    "Value",
    "Verdict",
    "Verification",
    "WeightError",
    "WeightRounding",
    "allclose",
    "allclose_onnxruntime_web",
    "calibrate",
    "explain_errors",
    "export",
    "local_lowerings",
    "lowering",
    "mixed_precision",
    "onnx_function",
    "quantize",
    "readiness",
    "reduce",
    "stacktrace_metadata",
    "to_onnx",
    "to_onnx_set",
    "verify",
]


# The module that defines each name. Loading JAX takes a second, and the command line rarely needs
# it.
_MODULES = {
    "_checking.allclose": ("allclose",),
    "_export.to_onnx": ("to_onnx",),
    "_tracing.checkpoint": ("Checkpoint", "Stored"),
    "_core": ("LoweringContext", "Value"),
    "_checking.explain_errors": ("explain_errors",),
    "_tracing.functions": ("onnx_function",),
    "_export.provenance_level": ("Provenance", "stacktrace_metadata"),
    "_export.calibrated_weights": ("CalibratedWeights", "WeightRounding"),
    "_tuning.calibrate": ("calibrate",),
    "_tuning.mixed_precision": ("LinePrecision", "MixedPrecision", "mixed_precision"),
    "_tuning.quantize": ("Quantization", "WeightError", "quantize"),
    "_export.lowering_rules": ("local_lowerings", "lowering"),
    "_export.to_onnx_set": ("to_onnx_set",),
    "_exported.boundary": ("Input", "Output"),
    "_exported.export": ("export",),
    "_exported.displays": ("Page", "Profile"),
    "_exported.exported_model": ("ExportedModel",),
    "_export.source_map": ("SourceMap",),
    "_checking.verification": ("LineError", "Verification"),
    "_checking.verify": ("verify",),
    "_checking.onnxruntime_web": ("allclose_onnxruntime_web",),
    "_reducing.reduce": ("reduce",),
    "_reducing.reduction": ("Reduction",),
    "_reducing.verdict": ("Verdict",),
    "_checking.readiness": ("Check", "Readiness", "readiness"),
    "errors": (
        "InternalError",
        "InvalidInputError",
        "Jax2OnnxError",
        "MismatchError",
        "UnsupportedError",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("jax2onnx")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"jax2onnx.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
