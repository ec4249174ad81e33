"""The criterion for equal numbers."""

import numpy as np
import pytest

from conformance.numbers import difference
from conformance.other_answers import are_right

SAME = [
    (np.float32([1, np.nan, np.inf]), np.float32([1.00001, np.nan, np.inf])),
    (np.zeros((0, 3), np.int8), np.zeros((0, 3), np.int8)),
    (np.float32([[1e8, 0]]), np.complex64([1e8 + 1j])),
]
OTHER = [
    (np.float32([1]), np.float32([1.001])),
    (np.float32([np.nan]), np.float32([1])),
    (np.float32([np.inf]), np.float32([-np.inf])),
    (np.float64([1]), np.float32([1])),
    (np.float32([1]), np.float32(1)),
    (np.uint64([2**64 - 1]), np.uint64([2**64 - 2])),
    (np.float32([[1, 2]]), np.complex64([1 - 2j])),
]


@pytest.mark.parametrize(("found", "expected"), SAME)
def test_same(found, expected):
    assert difference([found], [expected]) == ""


@pytest.mark.parametrize(("found", "expected"), OTHER)
def test_other(found, expected):
    assert difference([found], [expected])


def test_another_answer():
    matrix = np.float32([[2, 1], [1, 3]])
    values, vectors = np.linalg.eigh(matrix)
    turned = vectors * np.float32([1, -1])
    assert are_right("eigh", {}, [matrix], [turned, values], [vectors, values])
    assert not are_right("eigh", {}, [matrix], [turned.T, values], [vectors, values])
    assert not are_right("sin", {}, [matrix], [turned, values], [vectors, values])
