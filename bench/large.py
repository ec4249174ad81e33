"""Memory and time of exporting a large model from a checkpoint: `python bench/large.py`.

Writes a synthetic checkpoint of a Llama-like model in bfloat16, in shards as on Hugging Face, and
exports the model with parameters that have no values (`jax.eval_shape`). Each weight format is
measured in turn with copying the checkpoint, file by file. Before every measurement, the files are
dropped from the page cache (`--cache cold`) or read once (`--cache warm`).

    python bench/large.py --billions 8 --folder /scratch

needs twice the size of the checkpoint on the disk: 33 GB for 8 billion parameters. All output is
removed at the end. `--keep` leaves the checkpoint in the folder for the next run. `--layout torch`
stores transposed matrices in the checkpoint, as PyTorch's linear layers do.
"""

import argparse
import functools
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from peak import Peak

from jax2onnx import Checkpoint, Stored, to_onnx

# The size in bytes of one shard, of one chunk of a copy, and of the random numbers that tensors
# consist of.
SHARD, PIECE, NUMBERS = 4 << 30, 4 << 20, 64 << 20


@dataclass(frozen=True)
class Sizes:
    """The sizes of Llama 3 8B, with layers and vocabulary scaled to a number of parameters."""

    layers: int
    vocabulary: int
    width: int = 4096
    heads: int = 32
    key_value_heads: int = 8
    head: int = 128
    inner: int = 14336

    @classmethod
    def of(cls, billions):
        return cls(max(1, round(4 * billions)), 8 * max(1, round(128256 / 8 * billions / 8)))


def parameters(sizes):
    """Returns the model's parameters, as a program would initialise them."""
    kv = sizes.key_value_heads * sizes.head
    d, h = sizes.width, sizes.inner
    matrices = {
        "q": (d, d), "k": (d, kv), "v": (d, kv), "o": (d, d),
        "gate": (d, h), "up": (d, h), "down": (h, d),
    }  # fmt: skip

    def make(*shape):
        return jnp.zeros(shape, jnp.bfloat16)

    def layer():
        norms = {"norm1": make(d), "norm2": make(d)}
        return norms | {name: make(*shape) for name, shape in matrices.items()}

    return {
        "embed": make(sizes.vocabulary, d),
        "layers": [layer() for _ in range(sizes.layers)],
        "norm": make(d),
        "head": make(d, sizes.vocabulary),
    }


def llama(sizes, params, ids):
    """Returns the logits of a sequence."""

    def norm(x, scale):
        wide = x.astype(jnp.float32)
        mean = jnp.mean(wide * wide, -1, keepdims=True)
        return (wide * jax.lax.rsqrt(mean + 1e-5)).astype(x.dtype) * scale

    def rotate(x):
        half = sizes.head // 2
        angle = jnp.arange(x.shape[1])[:, None] / 500000 ** (jnp.arange(half) / half)
        cos, sin = (f(angle)[None, :, None].astype(x.dtype) for f in (jnp.cos, jnp.sin))
        one, other = jnp.split(x, 2, -1)
        return jnp.concatenate([one * cos - other * sin, other * cos + one * sin], -1)

    x = params["embed"][ids]
    for p in params["layers"]:
        y = norm(x, p["norm1"])
        q, k, v = ((y @ p[n]).reshape(*y.shape[:2], -1, sizes.head) for n in ("q", "k", "v"))
        y = jax.nn.dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + y.reshape(x.shape) @ p["o"]
        y = norm(x, p["norm2"])
        x = x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
    return norm(x, params["norm"]) @ params["head"]


# The names of the parameters in the checkpoint.
NAMES = {
    "embed": "model.embed_tokens.weight",
    "layers.{i}.norm1": "model.layers.{i}.input_layernorm.weight",
    "layers.{i}.norm2": "model.layers.{i}.post_attention_layernorm.weight",
    "norm": "model.norm.weight",
}
MATRICES = {
    "layers.{i}.q": "model.layers.{i}.self_attn.q_proj.weight",
    "layers.{i}.k": "model.layers.{i}.self_attn.k_proj.weight",
    "layers.{i}.v": "model.layers.{i}.self_attn.v_proj.weight",
    "layers.{i}.o": "model.layers.{i}.self_attn.o_proj.weight",
    "layers.{i}.gate": "model.layers.{i}.mlp.gate_proj.weight",
    "layers.{i}.up": "model.layers.{i}.mlp.up_proj.weight",
    "layers.{i}.down": "model.layers.{i}.mlp.down_proj.weight",
    "head": "lm_head.weight",
}


def tensors(params, layout):
    """Yields the names and shapes in the checkpoint."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        keys = [str(getattr(key, "key", getattr(key, "idx", ""))) for key in path]
        pattern = ".".join("{i}" if key.isdigit() else key for key in keys)
        number = next(filter(str.isdigit, keys), "")
        name = (NAMES | MATRICES)[pattern].replace("{i}", number)
        turned = layout == "torch" and pattern in MATRICES
        yield name, leaf.shape[::-1] if turned else leaf.shape


def write_checkpoint(folder, params, layout):
    """Writes the shards and their index. All tensors consist of the same finite random numbers,
    each with a different offset.
    """
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal(NUMBERS // 2, dtype=np.float32) * 0.02
    numbers = memoryview(numbers.astype(ml_dtypes.bfloat16).view(np.uint8))
    shards, size = [[]], 0
    for name, shape in tensors(params, layout):
        count = 2 * int(np.prod(shape))
        if size + count > SHARD and size:
            shards.append([])
            size = 0
        shards[-1].append((name, shape, count))
        size += count
    index = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        header, end = {}, 0
        for name, shape, count in shard:
            offsets = [end, end := end + count]
            header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": offsets}
            index[name] = file
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / file, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for _, _, count in shard:
                at, left = 2 * int(rng.integers(NUMBERS // 2)), count
                while left:
                    piece = numbers[at : at + left]
                    out.write(piece)
                    at, left = 0, left - len(piece)
            os.fsync(out.fileno())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def prepare(files, cache):
    """Drops files from the page cache, or reads them into it."""
    os.sync()
    for path in files:
        with open(path, "rb", buffering=0) as file:
            if cache == "cold":
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            else:
                piece = bytearray(PIECE)
                while file.readinto(piece):
                    pass


def copy(files, folder):
    """Copies the files through a single buffer."""
    for path in files:
        with (
            open(path, "rb", buffering=0) as one,
            open(folder / path.name, "wb", buffering=0) as other,
        ):
            shutil.copyfileobj(one, other, PIECE)
            os.fsync(other.fileno())


def check(model, checkpoint, layout):
    """Compares some weights of the model with the checkpoint, byte by byte."""
    import onnx

    loaded = onnx.load(model, load_external_data=False)
    index = json.loads((checkpoint / "model.safetensors.index.json").read_text())["weight_map"]
    names = {"embed": NAMES["embed"], "head": MATRICES["head"]}
    names |= {"layers.0.down": MATRICES["layers.{i}.down"].replace("{i}", "0")}
    for parameter, name in names.items():
        (weight,) = (w for w in loaded.graph.initializer if w.name == parameter)
        entry = {e.key: e.value for e in weight.external_data}
        with open(checkpoint / index[name], "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            start = file.tell() + header[name]["data_offsets"][0]
        shape = header[name]["shape"]
        stored = np.memmap(checkpoint / index[name], np.uint16, "r", start, tuple(shape))
        stored = stored.T if layout == "torch" and parameter != "embed" else stored
        data = model.parent / entry["location"]
        written = np.memmap(data, np.uint16, "r", int(entry["offset"]), tuple(weight.dims))
        rows = np.linspace(0, len(written) - 1, 9).astype(int)
        if written.shape != stored.shape or not np.array_equal(written[rows], stored[rows]):
            sys.exit(f"the model's `{parameter}` is not the checkpoint's `{name}`")


def export(sizes, params, checkpoint, path, layout, weights):
    """Exports the model as a user would, with unchanged weights or in another format."""
    # PyTorch's linear layers store matrices transposed.
    matrices = {k: Stored(v, transpose=layout == "torch") for k, v in MATRICES.items()}
    to_onnx(
        functools.partial(llama, sizes, params),
        [jax.ShapeDtypeStruct((1, 16), jnp.int32)],
        checkpoint=Checkpoint(checkpoint, names=NAMES | matrices),
        return_mode="file",
        output_path=path,
        **({} if weights == "keep" else {"weights": weights}),
    )


def measure(options, folder, out, layout):
    """Measures one layout of the checkpoint and prints its lines of the table."""
    sizes = Sizes.of(options.billions)
    params = jax.eval_shape(functools.partial(parameters, sizes))
    count = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))
    checkpoint = folder / f"checkpoint-{layout}-{count}"
    if not (checkpoint / "model.safetensors.index.json").exists():
        checkpoint.mkdir(parents=True, exist_ok=True)
        write_checkpoint(checkpoint, params, layout)
    files = sorted(checkpoint.glob("*.safetensors"))
    size = sum(file.stat().st_size for file in files)
    print(
        f"{count / 1e9:.2f} billion parameters, {size / 1e9:.2f} GB in {len(files)} shards, "
        f"{layout} layout, cache {options.cache}",
        flush=True,
    )

    ways = {"copy": functools.partial(copy, files, out)}
    for weights in options.weights:
        path = out / "model.onnx"
        ways[weights] = functools.partial(export, sizes, params, checkpoint, path, layout, weights)
    # One-time memory of the first export does not count towards the weights.
    tiny, spec = out / "tiny.onnx", [jax.ShapeDtypeStruct((1,), jnp.float32)]
    to_onnx(lambda x: x + 1, spec, return_mode="file", output_path=tiny)
    seconds, cpu, extra, bytes_ = ({way: [] for way in ways} for _ in range(4))
    for turn in range(options.rounds):
        for way in list(ways) if turn % 2 == 0 else reversed(ways):
            for file in out.iterdir():
                file.unlink()
            prepare(files, options.cache)
            gc.collect()
            watch = Peak()
            watch.start()
            start, busy = time.perf_counter(), time.process_time()
            ways[way]()
            cpu[way].append(time.process_time() - busy)
            seconds[way].append(time.perf_counter() - start)
            extra[way].append(watch.stop())
            bytes_[way].append(sum(file.stat().st_size for file in out.iterdir()))
            # Small models contain their own weights.
            if way == "keep" and len(list(out.iterdir())) > 1:
                check(out / "model.onnx", checkpoint, layout)
    if not options.keep:
        shutil.rmtree(checkpoint)

    print(f"{'':<24} {'file GB':>8} {'memory MB':>10} {'seconds':>8} {'÷ copy':>7} {'CPU s':>7}")
    for way in ways:
        ratio = statistics.median(a / b for a, b in zip(seconds[way], seconds["copy"], strict=True))
        name = "copying the checkpoint" if way == "copy" else f"weights {way}"
        row = f"{name:<24} {bytes_[way][0] / 1e9:>8.2f} {max(extra[way]) / 1e6:>10.0f} "
        row += f"{statistics.median(seconds[way]):>8.1f} {ratio:>7.2f} "
        print(row + f"{statistics.median(cpu[way]):>7.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--billions", type=float, default=8, help="parameters (default: 8)")
    parser.add_argument("--folder", type=Path, default=Path("build/large"))
    parser.add_argument("--layout", nargs="*", default=["jax"], choices=["jax", "torch"])
    parser.add_argument("--weights", nargs="*", default=["keep", "int4"])
    parser.add_argument("--cache", default="cold", choices=["cold", "warm"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="leave the checkpoint in the folder")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = options.folder.resolve()
    for layout in options.layout:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            measure(options, folder, Path(out), layout)


if __name__ == "__main__":
    main()
