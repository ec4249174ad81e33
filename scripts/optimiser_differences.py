"""Finds graphs whose results onnxruntime's optimisers change, and the optimiser responsible."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort
from random_graphs import NUMPY, draw, numbers

SILENT = 4
# In a sum, larger numbers absorb smaller ones completely.
HUGE = 1e29
TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "float64": 1e-10}
# The optimisers that a difference can be attributed to, by onnxruntime's names.
OPTIMISERS = [
    "BiasDropoutFusion",
    "BiasGeluFusion",
    "BiasSkipLayerNormFusion",
    "BiasSoftmaxFusion",
    "CastChainElimination",
    "CastElimination",
    "CommonSubexpressionElimination",
    "ConstantFolding",
    "ConstantSharing",
    "ConvActivationFusion",
    "ConvAddActivationFusion",
    "ConvAddFusion",
    "ConvBNFusion",
    "ConvMulFusion",
    "DivMulFusion",
    "EliminateDropout",
    "EliminateIdentity",
    "EliminateSlice",
    "ExpandElimination",
    "FastGeluFusion",
    "FuseReluClip",
    "GatherSliceToSplitFusion",
    "GatherToSliceFusion",
    "GatherToSplitFusion",
    "GeluFusionL1",
    "GeluFusionL2",
    "GemmActivationFusion",
    "GemmSumFusion",
    "GemmTransposeFusion",
    "LayerNormFusionL1",
    "LayerNormFusionL2",
    "MatMulActivationFusion",
    "MatMulAddFusion",
    "MatMulScaleFusion",
    "MatMul_BatchNormalization_Fusion",
    "MatmulTransposeFusion",
    "NchwcTransformer",
    "NhwcTransformer",
    "NoopElimination",
    "NotWhereFusion",
    "Pad_Fusion",
    "PreShapeNodeElimination",
    "QuickGeluFusion",
    "RemoveDuplicateCastTransformer",
    "ReshapeFusion",
    "ShapeInputMerge",
    "SimplifiedLayerNormFusion",
    "SkipLayerNormFusion",
    "SliceConcatToSpaceToDepthFusion",
    "TransposeOptimizer",
    "TransposeOptimizer_CPUExecutionProvider",
    "UnsqueezeElimination",
]


def session(
    proto: onnx.ModelProto, *, optimised: bool, without: Sequence[str] = ()
) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = SILENT
    options.intra_op_num_threads = 1
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    return ort.InferenceSession(
        proto.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=list(without),
    )


def difference(a: list[np.ndarray], b: list[np.ndarray]) -> str | None:
    """Describes the difference between two lists of results."""
    for one, other in zip(a, b, strict=True):
        if what := difference_of(one, other):
            return what
    return None


def difference_of(one: np.ndarray, other: np.ndarray) -> str | None:
    if one.dtype != other.dtype or one.shape != other.shape:
        return "shape"
    if one.dtype.kind != "f":
        return None if np.array_equal(one, other) else "integers"
    x, y = one.astype(np.float64), other.astype(np.float64)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return "NaN"
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    if not np.array_equal(np.where(np.isinf(x), x, 0), np.where(np.isinf(y), y, 0)):
        # Sums of huge numbers may overflow in another order.
        return "overflow" if np.abs(x[np.isfinite(x)]).max(initial=0) > HUGE else "infinity"
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    scale = max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))
    error = np.abs(x - y) / np.maximum(np.maximum(np.abs(x), min(scale, 1)), 1e-30)
    if scale < HUGE and np.any(error > TOLERANCE[one.dtype.name]):
        return "numbers"
    if not np.array_equal(np.signbit(x[x == 0]), np.signbit(y[x == 0])):
        return "sign of zero"
    return None


@dataclass
class Finding:
    optimiser: str
    what: str
    text: str
    size: int
    seed: int

    @property
    def key(self) -> tuple[str, str]:
        return self.optimiser, self.what


def text_of(proto: onnx.ModelProto) -> str:
    """Formats the graph as text, without the numbers of larger constants."""
    return re.sub(r"\{[^{}\n]{80,}\}", "{…}", onnx.printer.to_text(proto.graph))


def compared(
    proto: onnx.ModelProto, feeds: list[dict[str, np.ndarray]], without: Sequence[str] = ()
) -> str | None:
    """Describes what optimisation changes; `None` for no change, or a graph that does not run."""
    try:
        plain = session(proto, optimised=False)
        expected = [plain.run(None, feed) for feed in feeds]
    except Exception:
        return None
    try:
        fast = session(proto, optimised=True, without=without)
    except Exception as error:
        return f"cannot be loaded: {str(error).splitlines()[0][:120]}"
    for feed, want in zip(feeds, expected, strict=True):
        try:
            got = fast.run(None, feed)
        except Exception as error:
            return f"fails: {str(error).splitlines()[0][:120]}"
        if what := difference(want, got):
            return what
    return None


def examine(seed: int) -> Finding | None:
    drawn = draw(seed)
    if drawn is None:
        return None
    proto, g = drawn
    rng = np.random.default_rng(seed + 1)
    feeds = []
    for kind in ("plain", "negative", "hostile", "hostile", "zeros"):
        feed = {v.name: numbers(rng, v.dtype, v.shape, hostile=kind == "hostile") for v in g.inputs}
        if kind == "negative":
            feed = {n: -np.abs(x) if x.dtype.kind == "f" else x for n, x in feed.items()}
        if kind == "zeros":
            feed = {
                n: x * NUMPY[g.inputs[0].dtype](-0.0) if x.dtype.kind == "f" else x
                for n, x in feed.items()
            }
        feeds.append(feed)
    what = compared(proto, feeds)
    if what is None:
        return None
    guilty = [name for name in OPTIMISERS if compared(proto, feeds, [name]) is None]
    blame = guilty[0] if guilty else "unknown"
    return Finding(blame, what, text_of(proto), len(g.nodes), seed)
