"""Writes the inputs and outputs of a run to a file for `jax2onnx verify --dump`.

The arrays are NumPy's, by the names that they have in the model. With onnxruntime:

    outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    record("run.safetensors", "model.probe.onnx", {**feeds, **outputs}, "onnxruntime, CUDA")

With OpenVINO:

    results = compiled(feeds)
    outputs = {port.get_any_name(): results[port] for port in compiled.outputs}
    record("run.safetensors", "model.probe.onnx", {**feeds, **outputs}, "OpenVINO, CPU")
"""

import hashlib
import json

_TYPES = {
    "bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16",
    "int32": "I32", "uint32": "U32", "int64": "I64", "uint64": "U64",
    "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}  # fmt: skip


def record(path, model, arrays, runtime):
    """Writes arrays by name. `model` is the file that ran, and `runtime` says where it ran."""
    with open(model, "rb") as file:
        digest = hashlib.file_digest(file, "sha256") if hasattr(hashlib, "file_digest") else None
        digest = digest or hashlib.sha256(file.read())
    about = {"format": "jax2onnx.dump", "version": "1", "runtime": runtime}
    header = {"__metadata__": {**about, "model": f"sha256:{digest.hexdigest()}"}}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        kind, shape = _TYPES[array.dtype.name], list(array.shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.tobytes())
