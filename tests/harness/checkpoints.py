"""Checkpoints in the format of safetensors, and with the layout of published models."""

import json
import zlib

import numpy as np

NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "int32": "I32", "uint8": "U8"}


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
    import jax  # scripts that only draw weights run without it

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def random_tensor(name, shape):
    """Returns the same random weights for the same name, on every machine."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    if len(shape) == 1:
        return random.uniform(0.2, 1.2, shape).astype(np.float32)
    scale = 0.15 if "embed" in name else 2 * shape[-1] ** -0.5
    return (random.standard_normal(shape) * scale).astype(np.float32)


def publish(folder, config, shapes, **tensors):
    """Writes a checkpoint with random weights in the layout of published models."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    made = {name: random_tensor(name, shape) for name, shape in shapes.items()}
    write(folder / "model.safetensors", {**made, **tensors})
    return folder
