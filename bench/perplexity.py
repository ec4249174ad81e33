"""The perplexity of weights in few bits: `python bench/perplexity.py`.

Trains the language model of `examples/tiny_language_model.py` on the first part of its text, and
measures the perplexity per letter on the rest, which it has not seen: in onnxruntime, with weights
as they are, as `int8`, `int4` and `uint4`, and calibrated on the text that it was trained on.

    python bench/perplexity.py --steps 700 --text docs/*.md    # a longer text, a few minutes
"""

import argparse
import logging
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import jax
import numpy as np
import onnxruntime
import tiny_language_model as example

import jax2onnx

LENGTH = 160


def pieces(tokens, count=None):
    """Returns overlapping pieces of a text, or some of them, and the letter after each letter."""
    starts = range(0, len(tokens) - LENGTH - 1, LENGTH // 2)
    chosen = [tokens[start : start + LENGTH + 1] for start in starts]
    step = 1 if count is None else max(1, len(chosen) // count)
    chosen = np.asarray(chosen[::step][:count], np.int32)
    return chosen[:, :-1], chosen[:, 1:]


def perplexity(folder, tokens, level):
    """Returns the perplexity of a folder's model on the second half of each piece."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", level)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
    inputs, targets = pieces(tokens)
    batch = len(inputs)
    cache = [np.asarray(x) for one in example.empty_cache(batch) for x in one.values()]
    ids, mask = inputs.astype(np.int64), np.ones(inputs.shape, np.int64)
    given = {"input_ids": ids, "attention_mask": mask}
    names = [value.name for value in session.get_inputs() if value.name not in given]
    given |= dict(zip(names, cache, strict=True))
    logits = session.run(["logits"], given)[0].astype(np.float64)
    likely = logits - np.log(np.sum(np.exp(logits), -1, keepdims=True))
    picked = np.take_along_axis(likely, targets[..., None], -1)[:, LENGTH // 2 :]
    return float(np.exp(-picked.mean()))


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150, help="how long to train")
    parser.add_argument("--seen", type=float, default=0.85, help="the part of the text to train on")
    parser.add_argument("--samples", type=int, default=128, help="pieces to calibrate with")
    parser.add_argument("--text", type=Path, nargs="*", help="files, instead of the example's")
    given = parser.parse_args()
    if given.text:
        text = "\n".join(path.read_text(encoding="utf-8") for path in given.text)
        example.TEXT = text.encode("ascii", "ignore").decode()
        example.LETTERS = sorted(set(example.TEXT))
        example.VOCABULARY = len(example.LETTERS) + 1
    logging.getLogger("jax2onnx.weights").setLevel(logging.ERROR)
    numbers = {letter: number + 1 for number, letter in enumerate(example.LETTERS)}
    tokens = [numbers[letter] for letter in example.TEXT]
    seen, unseen = np.split(np.asarray(tokens), [int(given.seen * len(tokens))])
    example.TEXT = example.decode_text(seen)
    parameters = example.train(example.initial_parameters(jax.random.key(0)), given.steps)
    inputs, _ = pieces(seen, given.samples)
    places = np.broadcast_to(np.arange(LENGTH, dtype=np.int32), inputs.shape)
    decode = example.decoder(parameters)
    arguments = [inputs, places, example.empty_cache(len(inputs))]
    names = ("int4:32", "int4:64")
    calibrated = {n: jax2onnx.calibrate(decode, arguments, weights=n) for n in names}
    print(calibrated["int4:64"])
    formats = {"as they are": None}
    formats |= {f"`{n}`": n for n in ("int8", "int4:32", "int4:64", "uint4:32", "uint4:64")}
    formats |= {f"`{n}`, calibrated": found for n, found in calibrated.items()}
    first = None
    for level, how in (("1", "floats"), ("4", "8 bits")):
        print(f"\nperplexity, with the other operand of products in {how}:")
        for name, weights in formats.items():
            with tempfile.TemporaryDirectory() as folder:
                # The session chooses the precision of standard operators.
                options = {"weights": weights, "operators": {"MatMulNBits": "elementary"}}
                example.export(parameters, Path(folder) / "model", **options)
                found = perplexity(Path(folder) / "model", unseen, level)
                size = (Path(folder) / "model" / "weights.data").stat().st_size
            first = first or found
            print(f"| {name} | {size:,} | {found:.4f} | {100 * (found / first - 1):+.2f} % |")


if __name__ == "__main__":
    main()
