"""Lowering rules that users write."""

import linecache
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax.extend.core import Primitive
from jax.interpreters import mlir

import jax2onnx
from harness.checking import check_model, op_types, run
from harness.provenance_of import PLUGIN, STACKTRACE, callsite, line_of, metadata, of_type
from jax2onnx import InvalidInputError, UnsupportedError, to_onnx

DOCS = Path(__file__).parents[2] / "docs" / "custom-rules.md"


def _primitive(name: str, fn: Callable[..., Any], *, several: bool = False) -> Primitive:
    primitive = Primitive(name)
    primitive.multiple_results = several
    primitive.def_impl(fn)
    primitive.def_abstract_eval(
        lambda *avals, **params: jax.tree_util.tree_map(
            lambda s: jax.core.ShapedArray(s.shape, s.dtype),
            jax.eval_shape(lambda *x: fn(*x, **params), *avals),
        )
    )
    mlir.register_lowering(primitive, mlir.lower_fun(fn, multiple_results=several))
    return primitive


double_p = _primitive("test_double", lambda x: x + x)
split_p = _primitive("test_split", lambda x: [x[:, :1], x[:, 1:]], several=True)
spin_p = _primitive("test_spin", lambda z: z * 1j)


# It has no implementation.
bare_p = Primitive("test_bare")
bare_p.def_abstract_eval(lambda x: x)


def bare(x: jax.Array) -> Any:
    return bare_p.bind(x)


def double(x: jax.Array) -> jax.Array:
    return double_p.bind(x)  # the call


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with jax2onnx.local_lowerings():
        yield


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_the_documented_example(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    source = "\n\n".join(blocks)
    path = str(tmp_path / "example.py")
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    namespace: dict[str, Any] = {"__name__": "example"}
    for block in blocks[:3]:
        exec(compile(block, path, "exec"), namespace)
    namespace["test_softclip"]()
    exec(compile(blocks[3], path, "exec"), namespace)
    model = to_onnx(lambda x: namespace["softclip"](x, 2.0), [(3,)])
    assert op_types(model) == ["Scale", "SoftClip"]
    assert {(o.domain, o.version) for o in model.opset_import} == {("", 18), ("com.example", 1)}


def test_nodes_name_the_function_and_its_line() -> None:
    def helper(ctx: Any, x: Any) -> Any:
        return ctx.op("Add", x, x)

    @jax2onnx.lowering(double_p)
    def lower_double(ctx: Any, x: Any) -> Any:
        once = helper(ctx, x)  # added
        return ctx.op("Identity", ctx.op("Neg", ctx.op("Neg", once)))  # negated

    model = to_onnx(lambda x: double(x), [(2, 3)], stacktrace_metadata="full")
    name = "test_nodes_name_the_function_and_its_line.<locals>.lower_double"
    here = test_nodes_name_the_function_and_its_line
    (add,) = of_type(model, "Add")
    assert metadata(add)[PLUGIN] == f"{name}:{line_of('added', here)}"
    assert metadata(add)[STACKTRACE].split("\n")[-1] == (
        f"tests/export/test_custom_rules.py:{line_of('added', here)} in {name}"
    )
    assert callsite(add) == f"double:{line_of('the call', here)}"
    (neg, *_) = of_type(model, "Neg")
    assert metadata(neg)[PLUGIN] == f"{name}:{line_of('negated', here)}"
    mapped = to_onnx(lambda x: double(x), [(2, 3)], stacktrace_metadata="sourcemap")
    (source,) = jax2onnx.SourceMap.load(mapped).lookup(add.output[0])
    assert source.rule == metadata(add)[PLUGIN]


def test_numbers_operands_and_attributes() -> None:
    @jax2onnx.lowering("test_double")
    def rule(ctx: Any, x: Any) -> Any:
        assert (x.shape, x.dtype, x.ndim) == (("B", 3), np.float32, 2)
        assert ctx.primitive == "test_double"
        assert ctx.params == {}
        flat = ctx.op("Reshape", x, [-1])
        whole = ctx.op("Cast", flat, to=jnp.int32)
        again = ctx.op("Cast", whole, to=np.dtype("float32"))
        clipped = ctx.op("Clip", again, None, 1000)
        row = ctx.op("Unsqueeze", clipped, [0])
        total = ctx.op("ReduceSum", ctx.op("Concat", row, row, axis=0), [0], keepdims=False)
        return ctx.op("Reshape", total, ctx.dims(ctx.out_avals[0].shape))

    model = to_onnx(double, [("B", 3)])
    onnx.checker.check_model(model, full_check=True)
    np.testing.assert_array_equal(run(model, [X])[0], 2 * X)
    np.testing.assert_array_equal(run(model, [X[:1]])[0], 2 * X[:1])


def test_several_results() -> None:
    @jax2onnx.lowering("test_split")
    def rule(ctx: Any, x: Any) -> Any:
        return ctx.op("Split", x, [1, 2], outputs=2, axis=1)

    check_model(lambda x: split_p.bind(x), [X])


def test_complex_values_are_two() -> None:
    @jax2onnx.lowering("test_spin")
    def rule(ctx: Any, z: Any) -> Any:
        assert z.is_complex
        assert z.dtype == np.complex64
        return ctx.complex(ctx.op("Neg", z.imag), z.real)

    check_model(lambda z: spin_p.bind(z), [X + 1j * X[::-1]])


def test_a_rule_may_replace_a_built_in_one() -> None:
    @jax2onnx.lowering("sin", override=True)
    def rule(ctx: Any, x: Any) -> Any:
        if ctx.scope == "cosines":
            return ctx.op("Cos", x)
        return ctx.built_in(x)

    def fn(x: jax.Array) -> jax.Array:
        with jax.named_scope("cosines"):
            y = jnp.sin(x)
        return y - jnp.sin(x)

    model = to_onnx(fn, [(2, 3)], stacktrace_metadata=True)
    np.testing.assert_allclose(run(model, [X])[0], np.cos(X) - np.sin(X), atol=1e-6)
    (sin,) = of_type(model, "Sin")
    assert metadata(sin)[PLUGIN].startswith("sin.lower:")


def test_a_rule_may_inline_a_jaxpr() -> None:
    @jax2onnx.lowering("jit", override=True)
    def rule(ctx: Any, *x: Any) -> Any:
        return ctx.inline(ctx.params["jaxpr"], *x)

    model = to_onnx(lambda x: jax.jit(jnp.cosh)(x), [(2, 3)], stacktrace_metadata="full")
    np.testing.assert_allclose(run(model, [X])[0], np.cosh(X), rtol=1e-6)
    assert all("rule" in metadata(node)[STACKTRACE] for node in model.graph.node)


def test_inside_loops_and_transformations() -> None:
    @jax2onnx.lowering("test_double")
    def rule(ctx: Any, x: Any) -> Any:
        return ctx.op("Add", x, x)

    def fn(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 3, lambda _, y: double(y), x)

    check_model(fn, [X])


def test_a_rule_that_exists_is_not_replaced_by_accident() -> None:
    with pytest.raises(InvalidInputError, match=r"\[rule-exists\] `sin` has a built-in rule"):
        jax2onnx.lowering("sin")(lambda ctx, x: x)
    jax2onnx.lowering("test_double")(lambda ctx, x: ctx.op("Add", x, x))
    with pytest.raises(
        InvalidInputError, match=r"already has a rule\n  --> tests/export/test_custom_rules.py"
    ):
        jax2onnx.lowering("test_double")(lambda ctx, x: x)
    jax2onnx.lowering("test_double", override=True)(lambda ctx, x: ctx.op("Mul", x, 2))
    assert op_types(to_onnx(double, [(2,)])) == ["Mul"]
    with pytest.raises(InvalidInputError, match="is not a primitive"):
        jax2onnx.lowering(lambda ctx, x: x)
    with pytest.raises(InvalidInputError, match="is not a Python function"):
        jax2onnx.lowering("test_spin")(np.sin)


def test_without_a_rule_the_primitive_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="`test_bare` has no ONNX lowering"):
        to_onnx(bare, [(2,)])


@pytest.mark.parametrize("op", ["Greater", "GreaterOrEqual", "Equal"])
def test_operators_of_other_domains_stay(op: str) -> None:
    compare = Primitive("test_compare")
    compare.def_abstract_eval(lambda a, b: jax.core.ShapedArray(a.shape, jnp.bool_))

    @jax2onnx.lowering("test_compare")
    def rule(ctx: Any, a: Any, b: Any) -> Any:
        return ctx.op(op, a, b, domain="com.example")

    for fn in (compare.bind, lambda a, _: compare.bind(a, a)):
        (node,) = to_onnx(fn, [(3,), (3,)]).graph.node
        assert (node.domain, node.op_type) == ("com.example", op)


def _foreign(ctx: Any, x: Any) -> Any:
    return ctx.op("Tanh", ctx.op("Foo", x, domain="com.example"))


def _key(ctx: Any, x: Any) -> Any:
    return ctx.params["missing"]


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "no value": (lambda ctx, x: None, "returned `NoneType` instead of a value"),
    "an array": (lambda ctx, x: np.ones(3), "returned `ndarray` instead of a value"),
    "too many": (lambda ctx, x: (x, x), "returned 2 values instead of 1"),
    "shape": (lambda ctx, x: ctx.op("ReduceSum", x), r"returned f32\[1,1\] as result 0"),
    "dtype": (lambda ctx, x: ctx.op("Cast", x, to=jnp.int32), r"returned i32\[2,3\] as result 0"),
    "no operator": (lambda ctx, x: ctx.op("tanh", x), "did you mean `Tanh`"),
    "broadcast": (lambda ctx, x: ctx.op("Add", x, np.ones(4, "f4")), "do not broadcast"),
    "types": (lambda ctx, x: ctx.op("Add", x, np.ones(3, "i4")), "Add: operands are"),
    "operands": (lambda ctx, x: ctx.op("Add", x), "there are 1 operands, not 2"),
    "attribute": (lambda ctx, x: ctx.op("Tanh", x, axis=1), "no attribute `axis`"),
    "attribute kind": (lambda ctx, x: ctx.op("Softmax", x, axis="1"), "is Int, not '1'"),
    "fraction": (lambda ctx, x: ctx.op("Reshape", x, [2.5]), r"\[2.5\] is not of type i64"),
    "unknown type": (_foreign, "pass `out_types`"),
    "known type": (lambda ctx, x: ctx.op("Tanh", x, out_types=[x]), "omit `out_types`"),
    "no built-in": (lambda ctx, x: ctx.built_in(x), "has no built-in rule"),
    "no jaxpr": (lambda ctx, x: ctx.inline(3, x), "is not a jaxpr among"),
    "exception": (_key, "the rule raised KeyError: 'missing'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_rule_names_its_line_and_the_models(case: str) -> None:
    rule, message = WRONG[case]
    jax2onnx.lowering("test_double")(rule)
    with pytest.raises(InvalidInputError, match=message) as caught:
        to_onnx(double, [(2, 3)])
    assert caught.value.code == "wrong-rule"
    here = test_a_wrong_rule_names_its_line_and_the_models
    assert f"test_custom_rules.py:{line_of('the call', here)}:" in caught.value.place
    first = rule.__code__.co_firstlineno
    lines = range(first, first + 2)
    places = re.findall(r"test_custom_rules.py:(\d+)", caught.value.place)
    assert int(places[-1]) in lines
    assert ": the rule" in caught.value.place
    assert isinstance(caught.value.__cause__, KeyError) == (case == "exception")


def test_a_rule_may_say_that_something_is_unsupported() -> None:
    jax2onnx.lowering("test_double")(lambda ctx, x: ctx.unsupported("not today", "wait"))
    with pytest.raises(UnsupportedError, match="`test_double`: not today") as caught:
        to_onnx(double, [(2,)])
    assert caught.value.help == "wait"
    assert "double_p.bind(x)" in caught.value.place


def test_an_interrupt_passes_through() -> None:
    def rule(ctx: Any, x: Any) -> Any:
        raise KeyboardInterrupt

    jax2onnx.lowering("test_double")(rule)
    with pytest.raises(KeyboardInterrupt):
        to_onnx(double, [(2,)])


def test_missing_rules_of_an_inlined_jaxpr_are_reported() -> None:
    @jax2onnx.lowering("jit", override=True)
    def rule(ctx: Any, *x: Any) -> Any:
        return ctx.inline(ctx.params["jaxpr"], *x)

    with pytest.raises(UnsupportedError, match="`test_bare` has no ONNX lowering") as caught:
        to_onnx(lambda x: jax.jit(bare)(x), [(2,)])
    assert "bare_p.bind(x)" in caught.value.place


def test_a_context_is_good_for_one_call() -> None:
    kept: list[Any] = []

    def rule(ctx: Any, x: Any) -> Any:
        if kept:
            return ctx.op("Add", kept[1], x)
        kept.extend([ctx, x])
        return ctx.op("Add", x, x)

    jax2onnx.lowering("test_double")(rule)
    with pytest.raises(InvalidInputError, match="belongs to another call of a rule"):
        to_onnx(lambda x: double(double(x)), [(2,)])
    with pytest.raises(InvalidInputError, match="used after its rule returned"):
        kept[0].op("Add", kept[1], kept[1])
