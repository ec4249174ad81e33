"""Runs the models of a folder in the onnxruntime that Python finds, for `test_runtimes.py`.

    PYTHONPATH=build/runtimes/1.17 python tests/in_runtime.py FOLDER

Operands are in `NAME.in.npz` beside `NAME.onnx`; results go to `NAME.out.npz`.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort


def main(folder: Path) -> None:
    ort.set_default_logger_severity(3)
    for path in sorted(folder.glob("*.onnx")):
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        operands = np.load(path.with_suffix(".in.npz"))
        names = [operand.name for operand in session.get_inputs()]
        results = session.run(None, {name: operands[name] for name in names})
        np.savez(path.with_suffix(".out.npz"), *results)
    print(ort.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
