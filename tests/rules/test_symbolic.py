"""Sizes that are known only at run time: one model for all of them, equal to JAX."""

from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import export, lax

from harness.checking import assert_close, check_sizes, quick, run
from jax2onnx import UnsupportedError, to_onnx
from models import catalogue
from models.nnx.gpt import gpt
from models.nnx.mlp import mlp
from models.nnx.unet import unet
from models.nnx.vit import vit
from models.random_values import integers, normal

SIZES = (1, 2, 7, 64)


def check(fn: Callable[..., Any], *specs: Any, sizes: Any = SIZES) -> onnx.ModelProto:
    """Exports `fn` once and compares it with JAX for every size of `B` and `T`."""
    model = to_onnx(fn, list(specs))
    onnx.checker.check_model(model, full_check=True)
    for size in sizes:
        args = [example(spec, {"B": size, "T": size + 2}) for spec in specs]
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(quick(fn)(*args))]
        assert_close(run(model, args), expected)
    return model


def example(spec: Any, sizes: dict[str, int]) -> jax.Array:
    """Returns an array for a spec: floats, or indices below three."""
    shape, dtype = (spec.shape, spec.dtype) if hasattr(spec, "shape") else (spec, jnp.float32)
    shape = [eval(str(dim).replace("^", "**"), {}, sizes) for dim in shape]
    return normal(*shape) if jnp.issubdtype(dtype, jnp.floating) else integers(*shape, below=3)


class Indices:
    """The spec of an integer array."""

    dtype = jnp.int32

    def __init__(self, *shape: Any) -> None:
        self.shape = shape


X, Y = ("B", 4), ("T", 4)
IMAGE = ("B", "T", 6, 3)
KERNEL = jnp.asarray(np.random.default_rng(0).standard_normal((3, 3, 3, 2)), jnp.float32)


def conv(strides: tuple[int, int], padding: Any, **options: Any) -> Callable[..., jax.Array]:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lambda x: lax.conv_general_dilated(
        x, KERNEL, strides, padding, dimension_numbers=numbers, **options
    )


def pool(start: float, op: Any, padding: str, stride: int) -> Callable[..., jax.Array]:
    return lambda x: lax.reduce_window(x, start, op, (1, 3, 2, 1), (1, stride, 2, 1), padding)


OPS: dict[str, tuple[Any, ...]] = {
    # reshape
    "flatten": (lambda x: x.reshape(-1), X),
    "reshape to 2*B": (lambda x: x.reshape(2 * x.shape[0], 2), X),
    "reshape to B, B": (lambda x: (x.T @ x, (x @ x.T).reshape(-1)), X),
    "merge axes": (lambda x: x.reshape(x.shape[0] * x.shape[1], -1), ("B", "T", 2, 2)),
    "split an axis": (lambda x: x.reshape(x.shape[0] // 4, 4), ("4*B",)),
    "an axis of 2*B + 1": (lambda x: x[: (x.shape[0] - 1) // 2] + x[-1], ("2*B + 1", 4)),
    "nothing left to reshape": (
        lambda x: x[1:].reshape(x.shape[0] - 1, 2 * x.shape[1]),
        ("B", "T", 2),
    ),
    "expand and squeeze": (lambda x: x[None, :, None].squeeze(0), X),
    # broadcast
    "outer product": (lambda x, y: x[:, None] * y[None], X, Y),
    "broadcast to B, B": (lambda x: jnp.broadcast_to(x, (x.shape[0], *x.shape)), X),
    "zeros": (lambda x: x + jnp.zeros((x.shape[0], 1)), X),
    "ones of a new shape": (lambda x: jnp.ones((x.shape[0] + 1, 3 * x.shape[0])), X),
    "tile": (lambda x: jnp.tile(x, (3, 1)), X),
    "repeat": (lambda x: jnp.repeat(x, 2, axis=0), X),
    # iota
    "arange": (lambda x: x * jnp.arange(x.shape[0])[:, None], X),
    "arange of an expression": (lambda x: jnp.arange(4 * x.shape[0] + 3), X),
    "arange by steps": (lambda x: jnp.arange(0, 3 * x.shape[0], 3), X),
    "causal mask": (lambda x: jnp.tril(jnp.ones((x.shape[0], x.shape[0]))) @ x, X),
    "eye": (lambda x: jnp.eye(x.shape[0]) @ x, X),
    "one-hot": (lambda i: jax.nn.one_hot(i, 3), Indices("B")),
    # slice
    "without the first": (lambda x: x[1:], Y),
    "without the last": (lambda x: x[:-1], Y),
    "the last": (lambda x: x[-1], X),
    "every other": (lambda x: x[::2], X),
    "reversed": (lambda x: x[::-1], X),
    "first half": (lambda x: x[: x.shape[0] // 2], X),
    "second half": (lambda x: x[x.shape[0] // 2 :], X),
    "remainder": (lambda x: x[: x.shape[0] % 3], X),
    "at most three": (lambda x: x[: jax.core.min_dim(x.shape[0], 3)], X),
    "differences": (lambda x: x[1:] - x[:-1], Y),
    "roll": (lambda x: jnp.roll(x, 1, axis=1), X),
    # pad
    "pad by B": (lambda x: jnp.pad(x, ((x.shape[0], 1), (0, 2))), X),
    "pad to a multiple": (lambda x: jnp.pad(x, ((0, -x.shape[0] % 4), (0, 0))), X),
    "pad to at least": (
        lambda x: jnp.pad(x, ((0, jax.core.max_dim(5 - x.shape[0], 0)), (0, 0))),
        X,
    ),
    "pad inside": (lambda x: lax.pad(x, 0.0, ((1, 2, 1), (0, 0, 0))), X),
    "pad inside what may be empty": (
        lambda x: lax.pad(x[: x.shape[0] % 3], 0.0, ((1, 2, 1), (0, 0, 0))),
        X,
    ),
    "cut and pad": (lambda x: lax.pad(x, 0.0, ((-1, 2, 0), (0, 0, 0))), Y),
    # concatenate
    "concatenate": (lambda x, y: jnp.concatenate([x, y, x[:1]]), X, Y),
    "concatenate with itself": (lambda x: jnp.concatenate([x] * 3, axis=1), X),
    "stack": (lambda x: jnp.stack([x, -x], axis=1), X),
    "split": (lambda x: jnp.split(x, 2, axis=1), X),
    # convolution and pooling
    "conv, same": (conv((2, 1), "SAME"), IMAGE),
    "conv, valid": (conv((1, 2), "VALID"), IMAGE),
    "conv, dilated": (conv((1, 1), "SAME", rhs_dilation=(2, 1)), IMAGE),
    "conv, transposed": (
        lambda x: lax.conv_transpose(x, KERNEL, (2, 2), "SAME"),
        IMAGE,
    ),
    "max pool, valid": (pool(-jnp.inf, lax.max, "VALID", 2), IMAGE),
    "max pool, same": (pool(-jnp.inf, lax.max, "SAME", 2), IMAGE),
    "sum pool": (pool(0.0, lax.add, "SAME", 1), IMAGE),
    "mean pool": (lambda x: x.mean(axis=(1, 2)), IMAGE),
    # gather and scatter
    "take rows": (lambda x, i: x[i], Y, Indices("B")),
    "take from a table": (lambda i: KERNEL[i], Indices("B", "T")),
    "take columns": (lambda x: x[:, jnp.asarray([2, 0])], X),
    "take along": (lambda x, i: jnp.take_along_axis(x, i, axis=1), X, Indices("B", 2)),
    "take one each": (lambda x, i: x[jnp.arange(x.shape[0]), i], X, Indices("B")),
    "clip": (lambda x, i: jnp.take(x, i * 9, axis=0, mode="clip"), X, Indices("B")),
    "set rows": (lambda x, i: x.at[i].set(2.0), Y, Indices(2)),
    "add rows": (lambda x, y, i: y.at[i].add(x), X, Y, Indices("B")),
    "set a column": (lambda x: x.at[:, 1].set(0.0), X),
    # dynamic slices
    "dynamic slice": (lambda x, i: lax.dynamic_slice_in_dim(x, i, 1), Y, Indices()),
    "dynamic slice of B": (
        lambda x, y, i: lax.dynamic_slice_in_dim(jnp.concatenate([x, y]), i, x.shape[0]),
        X,
        Y,
        Indices(),
    ),
    "dynamic index": (lambda x, i: lax.dynamic_index_in_dim(x, i, 0), X, Indices()),
    "dynamic update": (lambda x, i: lax.dynamic_update_slice(x, x[:1] * 2, (i, 0)), X, Indices()),
    # loops
    "scan over B": (lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(4), x), X),
    "scan backwards": (
        lambda x: lax.scan(lambda c, r: (c + r, c), jnp.zeros(4), x, reverse=True),
        X,
    ),
    "scan over an expression": (
        lambda x: lax.scan(lambda c, i: (c * 0.5 + i, None), 1.0, jnp.arange(x.shape[0] % 3 + 1))[
            0
        ],
        X,
    ),
    "fori_loop to B": (
        lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: 0.5 * c + x[i], jnp.zeros(4)),
        X,
    ),
    "while_loop over B": (
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 0.5), (0, x)),
        X,
    ),
    "cond over B": (lambda x: lax.cond(x[0, 0] > 0, lambda x: x * 2, lambda x: x - 1, x), X),
    "map": (lambda x: lax.map(lambda row: row / (1 + row @ row), x), X),
    "cumsum": (lambda x: jnp.cumsum(x, axis=0), X),
    # reductions, order, products
    "mean": (lambda x: x.mean(axis=0), X),
    "variance": (lambda x: x.var(axis=0), X),
    "softmax": (lambda x: jax.nn.softmax(x, axis=0), X),
    "argmax": (lambda x: jnp.argmax(x, axis=0), X),
    "sort": (lambda x: jnp.sort(x, axis=0), X),
    "top_k": (lambda x: lax.top_k(x, 2), X),
    "contract B": (lambda x: jnp.einsum("bi,bj->ij", x, x), X),
    "batched product": (lambda x, y: jnp.einsum("bi,ti->bt", x, y), X, Y),
    "vmap": (lambda x: jax.vmap(lambda row: jnp.outer(row, row))(x), X),
    "gradient": (lambda x: jax.grad(lambda x: (x**2).mean())(x), X),
    # sizes as numbers
    "size as a number": (lambda x: x / x.shape[0] ** 2, X),
    "size as an array": (lambda x: jnp.asarray([x.shape[0] // 2, x.shape[0] % 3, 7]), X),
    "size in float": (lambda x: jnp.sqrt(jnp.float32(x.shape[0])), X),
}


@pytest.mark.parametrize("name", OPS)
def test_an_operation_with_symbolic_sizes(name: str) -> None:
    check(*OPS[name])


def spec(text: str, constraints: Any = ()) -> jax.ShapeDtypeStruct:
    """Returns an input with JAX's own symbolic dimensions."""
    shape = export.symbolic_shape(text, constraints=constraints)
    return jax.ShapeDtypeStruct(shape, jnp.float32)


SLICES: dict[str, Callable[..., Any]] = {
    "[::2]": lambda x: x[::2],
    "[1::3]": lambda x: x[1::3],
    "[::-1]": lambda x: x[::-1],
    "[::-2]": lambda x: x[::-2],
    "[::-3]": lambda x: x[::-3],
    "[-3:]": lambda x: x[-3:],
    "[:-2]": lambda x: x[:-2],
    "[-1:]": lambda x: x[-1:],
    "[1:]": lambda x: x[1:],
}


@pytest.mark.parametrize("name", sorted(SLICES))
def test_parts_of_an_axis_of_any_size_are_one_node(name: str) -> None:
    model = check(SLICES[name], X, sizes=(1, 2, 3, 4, 5, 7, 64))
    assert [node.op_type for node in model.graph.node] == ["Slice"]
    (empty,) = run(model, [np.zeros((0, 4), np.float32)])
    assert empty.size == 0


@pytest.mark.parametrize("part", [slice(None, None, 2), slice(None, None, -2), slice(1, None, 3)])
def test_parts_of_two_axes_of_any_size_are_one_node(part: slice) -> None:
    model = check(lambda x: x[:, part, part], ("B", "T", "B", 2), sizes=(1, 2, 3, 4, 5))
    assert [node.op_type for node in model.graph.node] == ["Slice"]


def test_repeating_does_not_measure_other_axes() -> None:
    model = check(lambda x: jnp.repeat(x, 3, axis=0) + jnp.tile(x, (3, 1)), X, sizes=(0, 1, 2, 7))
    assert "Shape" not in [node.op_type for node in model.graph.node]


def test_a_variance_along_any_size_has_no_guard() -> None:
    model = check(lambda x: (x.var(1), x.std(0)), ("B", "T"))
    assert "Where" not in [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
@pytest.mark.parametrize("mode", [None, "clip", "fill"])
def test_tables_of_any_size_are_read_from_either_end(mode: Any, shape: Any) -> None:
    spec = jax.ShapeDtypeStruct(shape, jnp.int32)

    def fn(x: jax.Array, i: jax.Array) -> jax.Array:
        return x[i] if mode is None else jnp.take(x, i, axis=0, mode=mode)

    model = to_onnx(fn, [X, spec])
    assert len(model.graph.node) <= (11 if mode == "fill" else 8)
    rng = np.random.default_rng(0)
    for size in (1, 2, 4, 7):
        x = rng.standard_normal((size, 4)).astype(np.float32)
        x[0, 0] = np.nan
        for limit in (size, 3 * size, 2**31 - 1):
            i = np.asarray(rng.integers(-limit, limit, shape), np.int32)
            assert_close(run(model, [x, i]), [np.asarray(fn(jnp.asarray(x), jnp.asarray(i)))])


def test_constraints_decide_inconclusive_comparisons() -> None:
    """The sizes of `T` in these tests are at least three."""

    def window(x: jax.Array) -> jax.Array:
        picked = lax.dynamic_slice_in_dim(x, 1, 2) if x.shape[0] >= 2 else x
        return picked + lax.top_k(x.T, 2)[0].T

    check(window, spec("T, 4", ["T >= 3"]))
    with pytest.raises(Exception, match="inconclusive"):
        to_onnx(window, [spec("T, 4")])


def test_equalities_among_dimensions() -> None:
    scope = export.SymbolicScope(["T == B + 2"])
    x, y = export.symbolic_shape("B, 4", scope=scope), export.symbolic_shape("T, 4", scope=scope)
    specs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (x, y)]
    check(lambda x, y: x + y[2:], *specs)


def test_shapes_as_text() -> None:
    model = check_text("B, T, 3", lambda x: x.reshape(x.shape[0], -1))
    assert shape_of(model.graph.output[0]) == ["B", "3*T"]


def check_text(text: str, fn: Callable[..., Any]) -> onnx.ModelProto:
    model = to_onnx(fn, [text])
    for sizes in ((1, 2), (7, 64)):
        args = [normal(*sizes, 3)]
        assert_close(run(model, args), [fn(*args)])
    return model


def shape_of(value: onnx.ValueInfoProto) -> list[Any]:
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_param or dim.dim_value for dim in dims]


def count(model: onnx.ModelProto, *ops: str) -> int:
    return sum(node.op_type in ops for node in model.graph.node)


def test_values_carry_the_symbols() -> None:
    def fn(x: jax.Array) -> Any:
        doubled = jnp.concatenate([x, x]) * 2
        halves = jnp.sin(x[: x.shape[0] // 2])
        return jnp.cos(doubled[1:]), halves, jnp.arange(4 * x.shape[0] + 3)

    model = to_onnx(fn, [("B", 4)])
    assert [shape_of(value) for value in model.graph.output] == [
        ["2*B - 1", 4],
        ["floordiv(B, 2)", 4],
        ["4*B + 3"],
    ]
    inner = {tuple(shape_of(value)) for value in model.graph.value_info}
    assert {("2*B", 4), ("2*B - 1", 4), ("floordiv(B, 2)", 4)} <= inner


SHAPE_OPS = ("Shape", "Concat", "Mul", "Div", "Sub", "Mod")


def test_reshapes_measure_nothing_that_stays() -> None:
    model = to_onnx(lambda x: x.reshape(x.shape[0], x.shape[1], 2, 2) + 1, [("B", "T", 4)])
    assert [node.op_type for node in model.graph.node] == ["Reshape", "Add"]
    model = to_onnx(lambda x: x.reshape(-1), [("B", "T", 4)])
    assert [node.op_type for node in model.graph.node] == ["Reshape"]


def test_sizes_are_computed_once() -> None:
    def fn(x: jax.Array) -> Any:
        rows = 2 * x.shape[0] + 1
        return [jnp.full((rows, columns), 2.0) for columns in (3, 4, 3)] + [jnp.arange(rows)]

    model = to_onnx(fn, [("B", 4)])
    assert count(model, "Shape") == count(model, "Mul") == 1
    assert count(model, "Add") == 1
    assert count(model, "Concat") == 2, "one for each distinct shape"


def test_sizes_inside_loops_are_computed_outside() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 9, lambda i, c: c + jnp.ones((x.shape[0], 3)).sum() + i, x)

    model = to_onnx(fn, [("B", 4)])
    loop = next(node for node in model.graph.node if node.op_type == "Loop")
    body = {node.op_type for node in loop.attribute[0].g.node}
    assert "Shape" not in body
    assert count(model, "Shape") == 1
    check(fn, ("B", 4), sizes=(2,))


def test_known_sizes_need_no_nodes() -> None:
    def fn(x: jax.Array) -> Any:
        rows = x.shape[0] // 2
        return x.reshape(rows, -1)[:, 1:], jnp.zeros((rows, 3)) + x[0, 0]

    model = to_onnx(fn, [(6, 4)])
    assert count(model, *SHAPE_OPS) == 0


def message(fn: Callable[..., Any], *specs: Any) -> tuple[str, list[str]]:
    """Returns the first line of JAX's message, and our note."""
    with pytest.raises(Exception, match=r"\S") as caught:
        to_onnx(fn, list(specs))
    (note,) = caught.value.__notes__[-1:]
    return str(caught.value).partition("\n")[0], note.strip().splitlines()


def test_tracing_errors_name_the_dimension() -> None:
    def fn(image: jax.Array, batch: Any) -> jax.Array:
        return image + 1 if batch["mask"].shape[1] > 3 else image

    assert message(fn, (4,), {"mask": ("B", "T")}) == (
        "Symbolic dimension comparison 'T' > '3' is inconclusive.",
        [
            "`T` is axis 1 of the input `batch.mask`",
            "  help: write a number instead, or add a constraint with jax.export.symbolic_shape: "
            "`T >= 4` or `T <= 3`",
        ],
    )


def test_a_remainder_that_should_be_zero_is_a_constraint() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return x.reshape(-1, 4, 3).sum(axis=1)

    _, lines = message(fn, ("T", 3))
    constraint = "mod(3*T, - 12) == 0"
    assert lines == [
        "`T` is axis 0 of the input `x`",
        "  help: write a number instead, or add a constraint with jax.export.symbolic_shape: "
        f"`{constraint}`",
    ]
    size, _ = export.symbolic_shape("T, 3", constraints=[constraint])
    runs = [[np.arange(3 * n, dtype=np.float32).reshape(n, 3)] for n in (8, 12)]
    check_sizes(fn, [jax.ShapeDtypeStruct((size, 3), jnp.float32)], *runs)


def test_inputs_of_two_scopes_are_added() -> None:
    specs = [
        jax.ShapeDtypeStruct(export.symbolic_shape("T", constraints=[text]), jnp.float32)
        for text in ("T>=3", "T<=8")
    ]

    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.zeros(8).at[: x.shape[0]].set(x + y)[2:]

    runs = [[np.arange(n, dtype=np.float32)] * 2 for n in (3, 8)]
    check_sizes(fn, specs, *runs)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x, y: x + y, ["`B` is axis 0 of the input `x`", "`T` is axis 0 of the input `y`"]),
        (lambda x, y: lax.associative_scan(jnp.add, y), ["`T` is axis 0 of the input `y`"]),
        (
            lambda x, y: lax.scan(lambda c, _: (c, None), y, None, length=x.shape[0]),
            ["`B` is axis 0 of the input `x`"],
        ),
        (lambda x, y: [y[i] for i in range(x.shape[0])], None),
    ],
)
def test_other_errors_of_jax_name_the_dimensions(fn: Any, expected: Any) -> None:
    _, lines = message(fn, X, Y)
    both = ["`B` is axis 0 of the input `x`", "`T` is axis 0 of the input `y`"]
    named = expected or both
    one = f"write a number instead of {named[0].split()[0]}"
    same = "write the same name for sizes that are always equal, or numbers"
    assert lines[: len(named)] == named
    assert lines[len(named)].startswith(f"  help: {same if len(named) > 1 else one}")


def test_a_name_beside_a_number_of_the_model_becomes_the_number() -> None:
    _, lines = message(lambda x: x @ jnp.ones((64, 3)), ("B", "D"))
    assert lines == ["`D` is axis 1 of the input `x`", "  help: write 64 instead of `D`"]


def test_a_library_that_names_the_size_and_its_type_may_see_a_batch_of_one() -> None:
    def log_prob(x: Any) -> Any:
        # TensorFlow Probability's check of shapes.
        raise TypeError(
            "Dimension value must be integer or None or have an __index__ method, got value "
            f"'{x.shape[0]}' with type '{type(x.shape[0])!r}'"
        )

    _, lines = message(log_prob, ("B", 3))
    assert "export a map over batches of one:" in lines[1]
    assert "jax.vmap" in lines[2]


def test_code_that_needs_an_integer_may_see_a_batch_of_one() -> None:
    def fn(x: Any, w: Any) -> Any:
        size: Any = x.shape[0]
        return x * w + np.zeros((size, 3), np.float32)

    types = [jax.ShapeDtypeStruct(s, jnp.float32) for s in (export.symbolic_shape("B, 3"), (3,))]
    _, lines = message(fn, *types)
    line = "lambda x, w: jax.vmap(lambda x: jax.tree.map(lambda out: out[0], fn(x[None], w)))(x)"
    assert lines == [
        "`B` is axis 0 of the input `x`",
        "  help: write a number instead of `B` (in a loop: jax.lax.fori_loop instead of range). "
        "If rows of `B` do not depend on each other, export a map over batches of one:",
        f"    {line}",
    ]
    mapped = eval(line, {"jax": jax, "fn": fn})
    model = to_onnx(mapped, types)
    for size in (1, 4):
        x, w = np.ones((size, 3), np.float32), np.arange(3, dtype=np.float32)
        np.testing.assert_array_equal(run(model, [x, w])[0], fn(x, w))


def test_other_errors_have_no_note() -> None:
    def fn(x: jax.Array) -> jax.Array:
        raise ValueError("a B in a sentence")

    with pytest.raises(ValueError, match="sentence") as caught:
        to_onnx(fn, [X])
    assert not any("axis" in note for note in getattr(caught.value, "__notes__", ()))


def test_sizes_that_no_input_determines_are_an_error() -> None:
    scope = export.SymbolicScope()
    (rows,) = export.symbolic_shape("B*T", scope=scope)
    (batch,) = export.symbolic_shape("B", scope=scope)
    with pytest.raises(UnsupportedError, match="the size `B` cannot be computed from any single"):
        to_onnx(lambda x: jnp.ones(batch) * x[0], [jax.ShapeDtypeStruct((rows,), jnp.float32)])


def decoder() -> Any:
    return gpt(layers=2, width=16, context=64)[0], Indices("B", "T")


def perceptron() -> Any:
    return mlp()[0], ("B", "T", 8)


def convolutions() -> Any:
    model = unet()[0]
    return lambda image: model(image).mean(axis=(1, 2)), ("B", "4*T", 8, 3)


def encoder() -> Any:
    model = vit(width=16)[0]

    def encode(patches: jax.Array) -> jax.Array:
        for block in model.blocks:
            patches = block(patches)
        return model.head(model.norm(patches).mean(axis=1))

    return encode, ("B", "T", 16)


@pytest.mark.slow
@pytest.mark.parametrize("build", [perceptron, convolutions, encoder, decoder])
def test_a_model_for_any_batch_and_length(build: Callable[[], Any]) -> None:
    fn, spec = build()
    model = to_onnx(fn, [spec])
    onnx.checker.check_model(model, full_check=True)
    for batch, length in ((1, 1), (2, 7), (7, 2), (1, 64)):
        x = example(spec, {"B": batch, "T": length})
        assert_close(run(model, [x]), [quick(fn)(x)])
    assert count(model, "Shape") <= 2, "batch and length are measured once at most"


def test_a_transformer_measures_its_length_only() -> None:
    fn, spec = decoder()
    model = to_onnx(fn, [spec])
    assert count(model, "Shape") == 1
    assert (count(model, "Concat"), count(model, "Expand")) == (1, 1), "the mask, once"
    logits = shape_of(model.graph.output[0])
    assert logits == ["B", "T", 96]
    shapes = {tuple(shape_of(value)) for value in model.graph.value_info}
    assert {("B", "T", 16), ("B", 4, "T", "T"), ("B", "T", 64)} <= shapes


@pytest.mark.parametrize(
    "name", ["linen/gpt", "equinox/gpt", "haiku/gpt", "nnx/rnn", "linen/rnn", "equinox/rnn"]
)
def test_any_batch_and_length_in_other_frameworks(name: str) -> None:
    pytest.importorskip(catalogue.FRAMEWORKS[name.partition("/")[0]])
    fn, args = catalogue.build(name, batch=2, length=3)

    def spec(leaf: jax.Array) -> Any:
        symbolic = Indices(*({2: "B", 3: "T"}.get(size, size) for size in leaf.shape))
        symbolic.dtype = leaf.dtype
        return symbolic

    model = to_onnx(fn, list(jax.tree.map(spec, args)))
    for batch, length in ((1, 1), (5, 7)):
        _, args = catalogue.build(name, batch=batch, length=length)
        expected = jax.tree.leaves(quick(fn)(*args))
        assert_close(run(model, jax.tree.leaves(args)), expected)


@pytest.mark.parametrize("constraints", [[], ["T >= 6"]], ids=["any", "six"])
def test_every_kind_of_slice(constraints: list[str]) -> None:
    (size,) = export.symbolic_shape("T", constraints=constraints)
    places = (None, -5, -1, 0, 2, 4)
    slices = [slice(*ends, step) for ends in product(places, places) for step in (1, 3, -1, -2)]

    def fn(x: jax.Array) -> list[jax.Array]:
        return [x[places] for places in slices]

    model = to_onnx(fn, [jax.ShapeDtypeStruct((size,), jnp.float32)])
    for length in (6, 7, 11) if constraints else (1, 2, 5, 8):
        x = np.arange(length, dtype=np.float32)
        for places, found in zip(slices, run(model, [x]), strict=True):
            np.testing.assert_array_equal(found, x[places], err_msg=f"{places} of {length}")
