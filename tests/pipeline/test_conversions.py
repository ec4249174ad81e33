"""The numbers of the programs in `tests/primitives/conversions.py`.

Weights in fewer bits are tested in `test_weights.py`, and half precision in `test_compute.py`.
Models for any runtime need not run here.
"""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from harness.checking import as_tensor, assert_close
from jax2onnx import to_onnx
from jax2onnx._checking.runtime import Runnable
from primitives.conversions import ANY, PROGRAMS
from primitives.operands import numbers, type_of

NAMES = [
    name
    for name, (_, options, *_) in PROGRAMS.items()
    if options != ANY and not options.keys() & {"compute", "weights"}
]


@pytest.mark.filterwarnings("ignore:.* runs these on the CPU")
@pytest.mark.parametrize("name", NAMES)
def test_a_conversion(name: str, request: pytest.FixtureRequest) -> None:
    fn, options, *operands = PROGRAMS[name]
    types = [type_of(operand) for operand in operands]
    wide: dict[str, Any] = {}
    if any(t.dtype == jnp.float64 for t in types):
        wide = request.getfixturevalue("double")
    model = to_onnx(fn, types, **options, **wide)
    args = numbers(name, operands)
    found = Runnable(model).run([as_tensor(arg) for arg in args])
    expected = jax.tree_util.tree_leaves(fn(*map(jnp.asarray, args)))
    assert_close(found, [as_tensor(leaf) for leaf in expected])
