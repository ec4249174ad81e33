"""Draws whole programs."""

from collections import Counter

import numpy as np

from fuzz.draw import SYMBOLIC_SIZE, Draw, Reject
from fuzz.operators import TABLE, nesting
from fuzz.program import Program

WEIGHTS = np.array([weight for weight, _ in TABLE], float)
WEIGHTS /= WEIGHTS.sum()
NESTED = {draw for _, draw in nesting.TABLE}


def program(seed: int, refused: Counter[str] | None = None, *, half: bool = False) -> Program:
    """Draws the program of a seed, `half` in half precision. Counts rejections by JAX."""
    from jax2onnx import _jax

    rng = np.random.default_rng(seed)
    double = not half and rng.random() < 0.35
    size = SYMBOLIC_SIZE if rng.random() < 0.2 else 0
    with _jax.precision(double=bool(double)):
        wild = bool(rng.random() < 0.35)
        draw = Draw(rng, double=bool(double), size=size, wild=wild, half=half)
        for _ in range(draw.integer(2, 3)):
            draw.start()
        extend(draw, int(rng.choice([5, 8, 12, 20, 40], p=[0.3, 0.3, 0.2, 0.15, 0.05])))
    if refused is not None:
        refused.update(draw.refused)
    return Program(draw.inputs, draw.constants, draw.body, bool(double), size)


def extend(draw: Draw, count: int) -> None:
    """Adds equations."""
    tries = 0
    while len(draw.body) < count and tries < 20 * count:
        tries += 1
        _, operator = TABLE[int(draw.rng.choice(len(TABLE), p=WEIGHTS))]
        if operator in NESTED and draw.depth + draw.smooth >= 2:
            continue
        scope, body = len(draw.scope), len(draw.body)
        arrays = [(kind, set(kind)) for kind in (draw.inputs, draw.constants)]
        try:
            operator(draw)
        except Reject:
            # Values that were drawn for the rejected equation are dropped.
            del draw.scope[scope:], draw.body[body:]
            for kind, names in arrays:
                for name in kind.keys() - names:
                    del kind[name]
