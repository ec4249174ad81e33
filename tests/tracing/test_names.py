import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checking import check_model
from jax2onnx import InvalidInputError, to_onnx
from jax2onnx._tracing.names import Names, boundary_names, signature_of


class Cache(NamedTuple):
    k: Any
    v: Any


def names(fn: Any, args: tuple[Any, ...], kwargs: Any = None, **given: Any) -> list[str]:
    return boundary(fn, args, kwargs or {}, 0, **given)[0]


def boundary(fn: Any, args: Any, kwargs: Any, result: Any, **given: Any) -> tuple[list, list]:
    paths = (
        [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
        for tree in ((args, kwargs), result)
    )
    chosen = {"input_names": None, "output_names": None} | given
    return boundary_names(signature_of(fn), *paths, **chosen)


def results(tree: Any, **given: Any) -> list[str]:
    return boundary(lambda: 0, (), {}, tree, **given)[1]


class Module:
    def __call__(self, x: Any, *rest: Any, flag: Any = None) -> None: ...


def function(x: Any, batch: Any, /, cache: Any = None, *, flag: Any = None) -> None: ...


def test_inputs_are_named_by_parameter_and_path() -> None:
    args = (1, {"image": 2, "label": 3}, [Cache(4, 5)])
    assert names(function, args, {"flag": 6}) == [
        "x",
        "batch.image",
        "batch.label",
        "cache.0.k",
        "cache.0.v",
        "flag",
    ]


def test_variadic_arguments_are_numbered() -> None:
    assert names(Module(), (1, 2, 3)) == ["x", "rest_0", "rest_1"]


def test_bound_arguments_are_left_out() -> None:
    assert names(functools.partial(function, 0), (1, 2)) == ["batch", "cache"]
    assert names(Module().__call__, (1,)) == ["x"]
    assert names(jax.jit(function), (1, 2)) == ["x", "batch"]


def test_functions_without_signature_have_numbered_inputs() -> None:
    class Opaque:
        __signature__ = "none"

        def __call__(self, *args: Any) -> None: ...

    assert names(Opaque(), (1, 2)) == ["input_0", "input_1"]


def test_outputs_are_named_by_path() -> None:
    assert results(1) == ["output"]
    assert results((1, 2)) == ["output_0", "output_1"]
    assert results({"logits": 1, "hidden": (2, 3)}) == [
        "out.hidden.0",
        "out.hidden.1",
        "out.logits",
    ]
    assert results([{"a": 1}, 2]) == ["output_0.a", "output_1"]
    assert results(Cache(1, {"x": 2})) == ["out.k", "out.v.x"]


def test_default_names_stay_unique() -> None:
    assert names(lambda a: 0, ({"b": {"c": 1}, "b.c": 2},)) == ["a.b.c", "a.b.c_1"]
    assert boundary(lambda output: 0, (1,), {}, 1) == (["output"], ["output_1"])


@settings(derandomize=True, deadline=None, database=None)
@given(st.lists(st.sampled_from(["a", "a_1", "a_2", "b"])))
def test_a_name_is_handed_out_once(wanted: list[str]) -> None:
    namer = Names()
    assert len({namer.unique(name) for name in wanted}) == len(wanted)


def test_a_parameter_may_have_the_name_of_an_input_or_output() -> None:
    class Masked(nnx.Module):
        def __init__(self) -> None:
            self.mask = nnx.Param(jnp.full((5, 5), 2.0))
            self.linear = nnx.Linear(5, 5, rngs=nnx.Rngs(0))

        def __call__(self, x: Any, mask: Any) -> Any:
            return self.linear(x * self.mask[...] + mask)

    args = [np.ones((5, 5), np.float32), np.full((5, 5), 3, np.float32)]
    model = check_model(Masked(), args)
    assert [x.name for x in model.graph.input] == ["x", "mask"]
    weights = {tensor.name for tensor in model.graph.initializer}
    assert weights == {"mask_1", "linear.kernel", "linear.bias"}

    names = {"input_names": ["linear.kernel", "b"], "output_names": ["linear.bias"]}
    model = check_model(Masked(), args, **names)
    assert [x.name for x in model.graph.input] == ["linear.kernel", "b"]
    assert [x.name for x in model.graph.output] == ["linear.bias"]


def test_given_names_replace_the_default_ones() -> None:
    found = boundary(function, (1, 2), {}, 3, input_names=["p", "q"], output_names=("r",))
    assert found == (["p", "q"], ["r"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"input_names": ["p"]},
            "[invalid-names] `input_names` has 1 name, but the model has 2 inputs\n"
            "  help: pass one name for each of: x, batch",
        ),
        (
            {"input_names": ["p", "p"]},
            "[invalid-names] `input_names` repeats `p`, for `x` and `batch`\n"
            "  help: all inputs and outputs need different names",
        ),
        (
            {"output_names": ["x"]},
            "[invalid-names] `output_names` repeats `x`\n"
            "  help: all inputs and outputs need different names",
        ),
        (
            {"input_names": "xy"},
            "[invalid-names] `input_names` cannot be 'xy'\n"
            "  help: pass a list of strings that are not empty",
        ),
        (
            {"input_names": {"x": 1, "y": 2}},
            "[invalid-names] `input_names` maps 'x' to 1\n"
            "  help: map patterns to names, both strings",
        ),
        (
            {"output_names": [""]},
            "[invalid-names] `output_names` cannot be ['']\n"
            "  help: pass a list of strings that are not empty",
        ),
    ],
)
def test_wrong_names_are_errors_with_advice(given: Any, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        boundary(function, (1, 2), {}, 3, **given)
    assert str(caught.value) == message


def test_names_of_positional_inputs_alone() -> None:
    def fn(x: Any, y: Any, *, scale: Any) -> Any:
        return (x + y) * scale

    model = to_onnx(fn, [(2,), (2,)], input_params={"scale": 2.0}, input_names=["a", "b"])
    assert [value.name for value in model.graph.input] == ["a", "b", "scale"]
