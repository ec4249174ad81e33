"""A small model: where its nodes came from, its page, and an error explained."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime

import jax2onnx

MODEL = Path("build/ranker.onnx")
PAGE = Path("build/ranker.html")


def make_weights():
    """The weights of two towers: one for queries, one for documents."""
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = [(4, 16), (16, 8), (6, 16), (16, 8)]
    return [jax.random.normal(k, s) * 0.3 for k, s in zip(keys, shapes, strict=True)]


WEIGHTS = make_weights()


def embed(x, up, down):
    """A vector of length one."""
    hidden = jax.nn.gelu(x @ up)
    vector = hidden @ down
    return vector / jnp.linalg.norm(vector, axis=-1, keepdims=True)


def rank(query, document):
    """How well each document fits its query."""
    query = embed(query, *WEIGHTS[:2])
    document = embed(document, *WEIGHTS[2:])
    return jnp.sum(query * document, axis=-1)


def command_line(*arguments):
    """Runs `jax2onnx`."""
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "jax2onnx", *map(str, arguments)], check=True)


def heading(text):
    """Prints a heading."""
    print(f"\n━━ {text} {'━' * (76 - len(text))}\n")


def main() -> None:
    """Export, compare, show, view, explain."""
    heading("A model with two inputs, whose batch size is known only at run time")
    jax2onnx.to_onnx(
        rank,
        [("B", 4), ("B", 6)],
        return_mode="file",
        output_path=MODEL,
        stacktrace_metadata="sourcemap",
    )
    numbers = np.random.default_rng(0)
    query, document = (numbers.normal(size=(3, n)).astype(np.float32) for n in (4, 6))
    same, message = jax2onnx.allclose(rank, str(MODEL), [query, document])
    print(f"onnxruntime and JAX agree: {same}")
    assert same, message
    print()
    command_line("show", MODEL, "--by", "line")

    heading("Source and graph, side by side")
    command_line("view", MODEL, "-o", PAGE)
    print(f"open {PAGE.absolute().as_uri()}")

    heading("Three queries and two documents: what onnxruntime says, and what that means")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(MODEL, options)
    try:
        with jax2onnx.explain_errors(MODEL):
            session.run(None, {"query": query, "document": document[:2]})
    except Exception as error:
        print(error)
        print(*getattr(error, "__notes__", []), sep="\n")


if __name__ == "__main__":
    main()
