"""The names of the targets, for type checkers and editors.

`UPDATE_SNAPSHOTS=1 pytest tests/targets/test_target_names.py` writes this file.
"""

from typing import Literal

Target = Literal[
    "any",
    "cuda",
    "iree",
    "mnn",
    "onnxruntime",
    "onnxruntime-web",
    "onnxruntime>=1.17",
    "onnxruntime>=1.18",
    "onnxruntime>=1.19",
    "onnxruntime>=1.20",
    "onnxruntime>=1.21",
    "onnxruntime>=1.22",
    "onnxruntime>=1.23",
    "openvino",
    "rten",
    "tensorrt",
    "tract",
    "webgpu",
]
