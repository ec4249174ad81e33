"""Measures the savings and costs of smaller weights: `python bench/weights.py`.

Exports a Llama-like decoder with 8 layers of width 512 and random weights, stored in the formats
that docs/weights.md lists, and prints that table: the size of the files in bytes, its ratio to
float16's, and the CPU time of one decoding step on one thread, divided by that of unchanged
weights. All models run in turn, and the fastest of many steps counts.
"""

import os
import tempfile
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime

from jax2onnx import to_onnx

LAYERS, WIDTH, HEADS, GROUPS, INNER, VOCABULARY, LENGTH = 8, 512, 8, 2, 2048, 2000, 256
SIZE = WIDTH // HEADS
FORMATS = {
    "as they are": None,
    "`float16`": "float16",
    "`int8`": "int8",
    "`int4`": "int4",
    '`{"emb": "float16", "*": "int4"}`': {"emb": "float16", "*": "int4"},
    "`int4:64,float16`": "int4:64,float16",
}
ROUNDS = 60


def parameters():
    """Returns random weights of the usual magnitude."""
    rng = np.random.default_rng(0)

    def weight(rows, columns):
        return jnp.asarray(rng.standard_normal((rows, columns), np.float32) / np.sqrt(rows))

    sizes = {
        "q": (WIDTH, WIDTH),
        "k": (WIDTH, GROUPS * SIZE),
        "v": (WIDTH, GROUPS * SIZE),
        "o": (WIDTH, WIDTH),
        "gate": (WIDTH, INNER),
        "up": (WIDTH, INNER),
        "down": (INNER, WIDTH),
    }
    layers = [
        {name: weight(*size) for name, size in sizes.items()}
        | {"norm1": jnp.ones(WIDTH), "norm2": jnp.ones(WIDTH)}
        for _ in range(LAYERS)
    ]
    head = weight(WIDTH, VOCABULARY)
    return {"emb": weight(VOCABULARY, WIDTH), "layers": layers, "norm": jnp.ones(WIDTH)} | {
        "head": head
    }


def step(params, token, position, keys, values):
    """Returns the logits after one token, and the buffers with its keys and values."""

    def norm(x, scale):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    def written(buffer, new):
        new = new.reshape(1, 1, GROUPS, SIZE).transpose(0, 2, 1, 3)
        return jax.lax.dynamic_update_slice_in_dim(buffer, new, position, 2)

    x = params["emb"][token][None]
    seen = jnp.arange(LENGTH) <= position
    new = []
    for layer, old_k, old_v in zip(params["layers"], keys, values, strict=True):
        y = norm(x, layer["norm1"])
        k, v = written(old_k, y @ layer["k"]), written(old_v, y @ layer["v"])
        new.append((k, v))
        q = (y @ layer["q"]).reshape(1, GROUPS, HEADS // GROUPS, SIZE)
        scores = jnp.where(seen, q @ k.transpose(0, 1, 3, 2) / np.sqrt(SIZE), -1e9)
        x = x + (jax.nn.softmax(scores) @ v).reshape(1, 1, WIDTH) @ layer["o"]
        y = norm(x, layer["norm2"])
        x = x + (jax.nn.silu(y @ layer["gate"]) * (y @ layer["up"])) @ layer["down"]
    return norm(x, params["norm"]) @ params["head"], new


def main():
    """Prints the table."""
    params = parameters()
    buffer = jax.ShapeDtypeStruct((1, GROUPS, LENGTH, SIZE), jnp.float32)
    spec = [jax.ShapeDtypeStruct((1,), jnp.int32), jax.ShapeDtypeStruct((), jnp.int32)]
    spec += [[buffer] * LAYERS] * 2
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    sizes, runs = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for index, (title, weights) in enumerate(FORMATS.items()):
            path = os.path.join(folder, f"{index}.onnx")

            def decode(token, position, keys, values):
                return step(params, token, position, keys, values)

            to_onnx(decode, spec, weights=weights, return_mode="file", output_path=path)
            files = [path, f"{path}.data"]
            sizes[title] = sum(os.path.getsize(file) for file in files if os.path.exists(file))
            session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
            shape = (1, GROUPS, LENGTH, SIZE)
            zeros = {v.name: np.zeros(shape, np.float32) for v in session.get_inputs()[2:]}
            first, second = (value.name for value in session.get_inputs()[:2])
            feeds = {first: np.asarray([5], np.int32), second: np.asarray(9, np.int32), **zeros}
            runs[title] = lambda session=session, feeds=feeds: session.run(None, feeds)
        best = dict.fromkeys(FORMATS, np.inf)
        for _ in range(ROUNDS):
            for title, run in runs.items():
                start = time.process_time()
                run()
                best[title] = min(best[title], time.process_time() - start)
    half, whole = sizes["`float16`"], best["as they are"]
    print("| weights | file | ÷ float16 | CPU time of a step ÷ that of the weights as they are |")
    print("|---|---|---|---|")
    for title, size in sizes.items():
        ratios = f"{size / half:.2f} | {best[title] / whole:.2f}"
        print(f"| {title} | {size / 1e6:.1f} MB | {ratios} |")
    table = params["emb"].size / sum(leaf.size for leaf in jax.tree.leaves(params))
    print(f"\nThe embedding is {table:.0%} of the weights.")


if __name__ == "__main__":
    main()
