"""MXFP4: floats of 4 bits in blocks of 32, which have a common power of two."""

from typing import Any

import numpy as np

# The values of the 16 codes: a sign, two bits of exponent and one of mantissa.
_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_CODES = np.concatenate([_VALUES, -_VALUES])

_BIAS = 127


def experts(
    blocks: "np.ndarray[Any, Any]", scales: "np.ndarray[Any, Any]"
) -> "np.ndarray[Any, Any]":
    """Decodes the matrices of experts to [experts, inputs, outputs].

    The blocks are [experts, outputs, inputs / 32, 16] with two codes per byte, the first in the low
    bits. The scales are [experts, outputs, inputs / 32], exponents of two.
    """
    count, outputs, groups, half = blocks.shape
    found = np.empty((count, groups * half * 2, outputs), np.float32)
    for expert in range(count):
        codes = np.stack([blocks[expert] & 15, blocks[expert] >> 4], -1)
        values = _CODES[codes].reshape(outputs, groups, 2 * half)
        powers = scales[expert].astype(np.int32)[..., None] - _BIAS
        found[expert] = np.ldexp(values, powers).reshape(outputs, -1).T
    return found
