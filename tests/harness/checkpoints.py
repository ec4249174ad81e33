"""Checkpoints in the format of safetensors."""

import json

import jax
import numpy as np

NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "int32": "I32"}


def write(path, tensors):
    """Writes a safetensors file: the length of a header, the header, the elements."""
    header, elements = {"__metadata__": {"made_by": "a test"}}, b""
    for name, array in tensors.items():
        data = np.asarray(array).tobytes()
        offsets = [len(elements), len(elements) + len(data)]
        dtype, shape = NAMES[array.dtype.name], list(array.shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        elements += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + elements)
    return path


def flat(tree):
    """Returns the leaves of nested dictionaries and lists, by path."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
