"""Functions that `jax.export` wrote: the same numbers as without it, and the same lines."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import export

from harness.checking import as_tensor, assert_close, run
from harness.programs import PROGRAMS, assert_program_close
from jax2onnx import UnsupportedError, allclose, to_onnx
from jax2onnx._checking.runtime import Runnable
from jax2onnx.testing import expect_graph
from primitives import subject
from primitives.operands import numbers, primitives, type_of

# `jax.export` serializes no callbacks, no calls without a guarantee of compatibility, and no rarely
# used keys.
NOT_EXPORTED = {
    "debug_callback",
    "debug_print",
    "fft.symbolic",
    "layout_constraint",
    "ormqr",
    "ormqr.right",
    "philox2x32",
    "philox4x32",
    "qr.pivoting",
    "threefry4x32",
}

# Windows as long as a symbolic axis, and updates by a function that is not an operation.
UNSUPPORTED = {"cumlogsumexp.symbolic", "scatter-add.apply"}

ALL = sorted({*PROGRAMS} - NOT_EXPORTED)
SAMPLE = {*ALL[::16], "cumsum.symbolic", "mulhi", "scan", "sort", "top_k", "lu", "eig"}


@pytest.mark.parametrize(
    "name",
    [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in ALL],
)
def test_a_program_goes_both_ways(name: str, request: pytest.FixtureRequest) -> None:
    if subject(name) not in primitives():
        pytest.skip("this version of JAX does not have the primitive")
    fn, *operands = PROGRAMS[name]
    types = [type_of(operand) for operand in operands]
    wide = any(t.dtype in (jnp.float64, jnp.complex128) for t in types)
    options = request.getfixturevalue("double") if wide else {}
    written = export.export(jax.jit(lambda *values: fn(*values)), platforms=["cpu"])(*types)
    exported = export.deserialize(written.serialize())
    if name in UNSUPPORTED:
        with pytest.raises(UnsupportedError):
            to_onnx(exported.call, types, **options)
        return
    model = to_onnx(exported.call, types, **options)
    args = numbers(name, operands)
    found = Runnable(model).run([as_tensor(arg) for arg in args])
    leaves = jax.tree_util.tree_leaves(fn(*map(jnp.asarray, args)))
    assert_program_close(name, found, leaves)


SCRIPT = """
import jax, jax.numpy as jnp
from jax import export

W = jnp.arange(12.0).reshape(4, 3)


def layer(x):
    return jnp.tanh(x @ W)


def f(x):
    y = layer(x)
    with jax.named_scope("head"):
        return jax.nn.softmax(y), y.sum(0)


size = export.symbolic_shape("b")
types = jax.ShapeDtypeStruct((*size, 4), jnp.float32)
open("artifact.bin", "wb").write(export.export(jax.jit(f))(types).serialize())
"""


def test_an_artifact_knows_its_lines_without_its_source(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True)
    script.unlink()
    command = ["-m", "jax2onnx", "export", "artifact.bin", "--stacktrace", "minimal"]
    subprocess.run([sys.executable, *command, "-o", "model.onnx"], cwd=tmp_path, check=True)
    model = onnx.load(tmp_path / "model.onnx")
    sites = {
        node.op_type: (node.name, entry.value)
        for node in model.graph.node
        for entry in node.metadata_props
        if entry.key == "pkg.jax2onnx.callsite"
    }
    assert sites == {
        "MatMul": ("/MatMul", "layer:9"),
        "Tanh": ("/Tanh", "layer:9"),
        "Softmax": ("/head/Softmax", "f:15"),
        "ReduceSum": ("/head/ReduceSum", "f:15"),
    }
    names: dict[str, Any] = {}
    exec(compile(SCRIPT.partition("size =")[0], "script", "exec"), names)
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    same, message = allclose(names["f"], model, [x])
    assert same, message


def test_other_bytes_than_an_artifact_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "artifact.bin"
    file.write_bytes(b"nothing")
    command = [sys.executable, "-m", "jax2onnx", "export", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is not a function that `jax.export` serialized" in done.stderr


def test_an_operation_without_a_counterpart_is_named() -> None:
    def noisy(x: jax.Array) -> jax.Array:
        return x + jax.lax.rng_uniform(0.0, 1.0, x.shape)

    types = jax.ShapeDtypeStruct((3, 3), jnp.float32)
    written = export.export(jax.jit(noisy), platforms=["cpu"])(types)
    with pytest.raises(UnsupportedError, match=r"`stablehlo\.rng`"):
        to_onnx(written.call, [types])


def test_unused_arguments_keys_and_sizes_that_are_values() -> None:
    (size,) = export.symbolic_shape("n")

    def f(key: Any, unused: Any, x: Any) -> Any:
        return jax.random.normal(key, (3,)) + x.mean() + x.shape[0], jax.random.split(key)[0]

    key = jax.random.key(3)
    types = [
        jax.ShapeDtypeStruct((), key.dtype),
        jax.ShapeDtypeStruct((2,), jnp.float32),
        jax.ShapeDtypeStruct((size,), jnp.float32),
    ]
    exported = export.export(jax.jit(f))(*types)
    model = to_onnx(exported.call, types)
    same, message = allclose(f, model, [key, np.ones(2, np.float32), np.ones(5, np.float32)])
    assert same, message


def test_a_pallas_kernel_runs_as_a_loop(tmp_path: Path) -> None:
    from jax.experimental import pallas as pl

    def kernel(x: Any, y: Any, out: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            out[...] = jnp.zeros_like(out)

        out[...] += x[...] @ y[...]

    def product(x: Any, y: Any, *, interpret: bool = True) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 12), x.dtype),
            grid=(2, 3, 2),
            in_specs=[
                pl.BlockSpec((4, 8), lambda i, j, k: (i, k)),
                pl.BlockSpec((8, 4), lambda i, j, k: (k, j)),
            ],
            out_specs=pl.BlockSpec((4, 4), lambda i, j, k: (i, j)),
            interpret=interpret,
        )(x, y)

    random = np.random.default_rng(0)
    args = [random.normal(size=s).astype(np.float32) for s in ((8, 16), (16, 12))]
    for interpret in (True, False):
        path = tmp_path / "model.onnx"
        fn = lambda x, y, i=interpret: product(x, y, interpret=i)  # noqa: E731
        to_onnx(fn, args, return_mode="file", output_path=path, stacktrace_metadata=True)
        same, message = allclose(product, path, args)
        assert same, message
        line = kernel.__code__.co_firstlineno + 5
        site = re.compile(rf"kernel:{line}$")
        expect_graph(path, "Loop", metadata={"Gemm": {"pkg.jax2onnx.callsite": site}})


def test_known_integers_become_floats() -> None:
    (size,) = export.symbolic_shape("n")

    def f(x: Any) -> Any:
        return jnp.mean(x, -1), x / jnp.std(x, -1, keepdims=True)

    written = export.export(jax.jit(f))(jax.ShapeDtypeStruct((size, 6), jnp.float32))
    x = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    assert_close(run(to_onnx(written.call, [("n", 6)]), [x]), f(x))
