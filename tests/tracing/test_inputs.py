import dataclasses
import os
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import export

from jax2onnx import InvalidInputError, allclose, to_onnx, verify
from jax2onnx._tracing.inputs import Specs


class Pair(NamedTuple):
    left: Any
    right: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Batch:
    image: Any
    label: Any


class Described:
    """Has a shape and a dtype, and nothing else."""

    shape = [2, "B"]  # noqa: RUF012
    dtype = "int32"


def spec(entry: Any, *, double: bool = False) -> Any:
    (result,) = Specs(double=double).positional([entry])
    return result


def described(entry: Any) -> Any:
    return jax.tree.map(lambda s: (str(s.dtype), tuple(map(str, s.shape))), entry)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (jax.ShapeDtypeStruct((2, 3), jnp.int32), ("int32", ("2", "3"))),
        (np.zeros((2, 3), np.float16), ("float16", ("2", "3"))),
        (np.zeros((2, 3)), ("float32", ("2", "3"))),
        (np.float32(1), ("float32", ())),
        (jnp.zeros((4,), jnp.bfloat16), ("bfloat16", ("4",))),
        (Described(), ("int32", ("2", "B"))),
        (("B", 28, 28), ("float32", ("B", "28", "28"))),
        ([28, np.int64(28)], ("float32", ("28", "28"))),
        ((), ("float32", ())),
        (("B", "T + 1"), ("float32", ("B", "T + 1"))),
        ("B, T", ("float32", ("B", "T"))),
        ("B, 2*T + 1, 64", ("float32", ("B", "2*T + 1", "64"))),
        ("B,", ("float32", ("B",))),
        (("max(B, 2)", 3), ("float32", ("max(B, 2)", "3"))),
    ],
)
def test_a_leaf_becomes_a_spec(entry: Any, expected: Any) -> None:
    assert described(spec(entry)) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"b": (2,), "a": ("B",)}, {"a": ("float32", ("B",)), "b": ("float32", ("2",))}),
        (((2,), (3, 4)), (("float32", ("2",)), ("float32", ("3", "4")))),
        (["B, 2", "B,"], [("float32", ("B", "2")), ("float32", ("B",))]),
        ([(2,), [3]], [("float32", ("2",)), ("float32", ("3",))]),
        (Pair((1,), ()), Pair(("float32", ("1",)), ("float32", ()))),
        (Pair(np.ones(1, np.int8), ()), Pair(("int8", ("1",)), ())),
        ({"a": jnp.ones(2), "b": [(), ()]}, {"a": ("float32", ("2",)), "b": [(), ()]}),
        ([], []),
        (None, None),
    ],
)
def test_containers_are_pytrees_of_specs(entry: Any, expected: Any) -> None:
    result = jax.tree.map(
        lambda s: (str(s.dtype), tuple(map(str, s.shape))),
        spec(entry),
        is_leaf=lambda x: isinstance(x, jax.ShapeDtypeStruct),
    )
    assert result == expected


def test_registered_dataclasses_are_pytrees() -> None:
    result = spec(Batch(image=("B", 4), label=np.zeros(3, np.int32)))
    assert isinstance(result, Batch)
    assert described(result.image) == ("float32", ("B", "4"))
    assert described(result.label) == ("int32", ("3",))


def test_bare_shapes_are_double_on_request() -> None:
    assert spec((2,), double=True).dtype == np.float64
    assert spec(jax.ShapeDtypeStruct((2,), np.float32), double=True).dtype == np.float32


def test_equal_names_are_the_same_dimension() -> None:
    first, second = Specs(double=False).positional([("B", 2), {"x": ("B",)}])
    assert first.shape[0] == second["x"].shape[0]


def test_the_scope_of_given_dimensions_is_used() -> None:
    batch = export.symbolic_shape("B")
    first, second = Specs(double=False).positional([("B",), jax.ShapeDtypeStruct(batch, "float32")])
    assert first.shape == second.shape == batch


def test_equal_names_of_two_scopes_are_the_same_dimension() -> None:
    long, even = (export.symbolic_shape("T", constraints=[c]) for c in ("T>=4", "mod(T,2)==0"))
    first, last = (jax.ShapeDtypeStruct(shape, "float32") for shape in (long, even))
    (x, z), params = Specs(double=False).all([first, ("T + 1",)], {"y": last})
    assert x.shape == params["y"].shape
    (size,) = x.shape
    assert z.shape == (size + 1,)
    assert size >= 4
    assert size % 2 == 0


def test_dimensions_stay_in_a_scope_that_has_all_constraints() -> None:
    first = export.symbolic_shape("T", constraints=["T>=4"])
    second = export.symbolic_shape("T, B")
    specs = [jax.ShapeDtypeStruct(shape, "float32") for shape in (first, second)]
    x, y = Specs(double=False).positional(specs)
    assert x.shape == first
    assert y.shape[0] == first[0]


def test_weak_types_are_kept() -> None:
    assert spec(jnp.asarray(1.0)).weak_type
    assert not spec(jnp.ones(2)).weak_type


def test_parameters_may_be_plain_scalars() -> None:
    result = Specs(double=False).keyword({"flag": True, "scale": 0.5, "mask": ("B",)})
    assert described(result) == {
        "flag": ("bool", ()),
        "scale": ("float32", ()),
        "mask": ("float32", ("B",)),
    }


@pytest.mark.parametrize("value", [np.int32(3), np.uint8(7), np.int16(-9), np.float32(0.5)])
def test_numpy_scalars(value):
    result = Specs(double=False).positional([value])
    assert described(result) == ((value.dtype.name, ()),)


ACCEPTED = (
    "  help: pass a jax.ShapeDtypeStruct, an array, anything with a shape and a dtype, "
    'a shape such as ("B", 28, 28), or a dict, list, tuple or named tuple of these'
)


BOUND = (
    "  help: a value that never changes is not an input: bind it with functools.partial(fn, …); for"
)
NUMBER = f"{BOUND} an input, pass an array (np.asarray) or jax.ShapeDtypeStruct((), dtype)"
DIMENSION = '  help: a dimension must be a non-negative integer or a name such as "B", not'


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            (2, 3),
            "[invalid-inputs] `inputs` cannot be (2, 3)\n"
            "  help: for one argument of this shape, pass [(2, 3)]",
        ),
        (
            ["B", 3],
            "[invalid-inputs] `inputs` cannot be ['B', 3]\n"
            "  help: for one argument of this shape, pass [('B', 3)]",
        ),
        (
            {"x": (2,)},
            "[invalid-inputs] `inputs` cannot be {'x': (2,)}\n"
            "  help: pass a list with one entry for each argument",
        ),
        (
            [{"x": "B"}],
            f"[invalid-inputs] `inputs[0]['x']` cannot be 'B'\n"
            f"{BOUND} an array of this size, pass ('B',)",
        ),
        ([0.5], f"[invalid-inputs] `inputs[0]` cannot be 0.5\n{NUMBER}"),
        ([(2,), {"n": 3}], f"[invalid-inputs] `inputs[1]['n']` cannot be 3\n{NUMBER}"),
        ([print], f"[invalid-inputs] `inputs[0]` cannot be {print}\n{ACCEPTED}"),
        (
            [(2, -1)],
            f"[invalid-inputs] `inputs[0]` cannot be (2, -1)\n{DIMENSION} -1",
        ),
        ([("None", 3)], f"[invalid-inputs] `inputs[0]` cannot be ('None', 3)\n{DIMENSION} 'None'"),
        ([(None, 3)], f"[invalid-inputs] `inputs[0]` cannot be (None, 3)\n{DIMENSION} None"),
        (
            [{"x": (2.0, 3)}],
            f"[invalid-inputs] `inputs[0]['x']` cannot be (2.0, 3)\n{DIMENSION} 2.0",
        ),
        ([(3, True)], f"[invalid-inputs] `inputs[0]` cannot be (3, True)\n{DIMENSION} True"),
        (
            [("", 3)],
            "[invalid-inputs] `inputs[0]` cannot be ('', 3)\n"
            "  help: '' is not a dimension; write a name or an expression such as 2*T + 1",
        ),
        (
            ["B 3"],
            "[invalid-inputs] `inputs` cannot be ('B 3',)\n"
            "  help: 'B 3' is not a dimension; write a name or an expression such as 2*T + 1",
        ),
        (
            [np.array(["a"])],
            "[invalid-inputs] `inputs[0]` cannot be array(['a'], dtype='<U1')\n"
            "  help: JAX has no arrays with this element type",
        ),
        (
            [("B+", 2)],
            "[invalid-inputs] `inputs[0]` cannot be ('B+', 2)\n"
            "  help: 'B+' is not a dimension; write a name or an expression such as 2*T + 1",
        ),
        (
            ["B, T+"],
            "[invalid-inputs] `inputs[0]` cannot be 'B, T+'\n"
            "  help: 'B, T+' is not a shape; write a name or an expression such as 2*T + 1",
        ),
    ],
)
def test_wrong_inputs_are_errors_with_advice(inputs: Any, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        to_onnx(lambda x: x, inputs)
    assert str(caught.value) == message


def add(x: jax.Array, y: jax.Array, *, scale: float = 1.0) -> jax.Array:
    return x + scale * y


@pytest.mark.parametrize(
    ("inputs", "params", "reason"),
    [
        ([(2,)], None, "1 positional input: missing a required argument: 'y'"),
        ([(2,), (2,), (2,)], None, "3 positional inputs: too many positional arguments"),
        (
            [(2,), (2,)],
            {"size": 1.0},
            "2 positional inputs and 1 keyword input: got an unexpected keyword argument 'size'",
        ),
    ],
)
def test_wrong_arguments_show_the_signature(inputs: Any, params: Any, reason: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        to_onnx(add, inputs, params)
    line = add.__code__.co_firstlineno
    binding = "; if `y` never changes, bind it: functools.partial(fn, y=…)"
    assert str(caught.value) == (
        f"[wrong-arguments] the function cannot be called with {reason}\n"
        f"  --> {os.path.relpath(__file__)}:{line} in add\n"
        f"  help: its signature is (x, y, *, scale=1.0){binding if 'missing' in reason else ''}"
    )


def test_a_value_that_is_not_callable_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match=r"^\[not-callable\] `fn` cannot be 3\n"):
        to_onnx(3, [(2,)])  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_integers_may_have_64_bits_at_the_boundary(kind):
    def fn(ids, table):
        return table[ids] * 2

    inputs = [jax.ShapeDtypeStruct(("B",), np.dtype(kind)), ("N", 3)]
    with pytest.warns(UserWarning, match="narrowed-inputs"):
        model = to_onnx(fn, inputs)
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    assert model.graph.input[0].type.tensor_type.elem_type == code
    ids, table = np.array([0, 3, 1], kind), np.ones((4, 3), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX truncates them
        assert allclose(fn, model, [jnp.asarray(ids), table])[0]
        assert verify(fn, model, [jnp.asarray(ids), table])
    double = to_onnx(fn, inputs, enable_double_precision=True)
    assert double.graph.input[0].type.tensor_type.elem_type == code
