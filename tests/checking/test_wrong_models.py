"""Wrong models of every kind: `verify` reports the line of the change."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx

from harness.provenance_of import line_of
from jax2onnx import Verification, _core, onnx_function, to_onnx, verify

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(4, 16)).astype(np.float32)


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(16, rngs=rngs)
        self.up = nnx.Linear(16, 32, rngs=rngs)
        self.down = nnx.Linear(32, 16, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.norm(x)  # norm
        y = self.up(y)  # up
        y = jnp.tanh(y)  # tanh
        y = self.down(y)  # down
        return x - y  # rest


class Model(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([Block(rngs) for _ in range(3)])

    def __call__(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        total = jnp.sum(x, axis=-1, keepdims=True)  # sum
        return jax.nn.softmax(x / (1 + total**2))  # softmax


def loops(x: jax.Array) -> jax.Array:
    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jnp.sin(carry) * 0.5  # sine
        carry = carry - row  # row
        return carry, carry * 2

    last, rows = jax.lax.scan(step, x[0], x)
    grown = jax.lax.while_loop(
        lambda v: jnp.sum(v) < 40,
        lambda v: v * 1.5 + 1,  # grow
        jnp.abs(last),
    )
    chosen = jax.lax.cond(
        grown[0] > 0,
        lambda v: jnp.cos(v) - 3,  # cosine
        lambda v: v,
        grown,
    )
    return rows.sum(0) + chosen


@onnx_function
def inner(x: jax.Array) -> jax.Array:
    y = jnp.cos(x)  # inner cosine
    return y - x  # inner difference


def nested(x: jax.Array) -> jax.Array:
    y = inner(x)  # first call
    return inner(y + 1) * 2


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(nnx.Rngs(0))


@pytest.fixture(scope="module")
def exported(model: Model) -> onnx.ModelProto:
    return to_onnx(model, [("B", 16)])


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _nodes(body)


def _node(proto: onnx.ModelProto, op: str, name: str = "") -> Any:
    graphs = (proto.graph, *proto.functions)
    found = [n for g in graphs for n in _nodes(g) if n.op_type == op and n.name.startswith(name)]
    return found[0]


def _replaced(proto: onnx.ModelProto) -> None:
    _node(proto, "Sub", "/blocks.1/").op_type = "Add"


def _swapped(proto: onnx.ModelProto) -> None:
    node = _node(proto, "Sub", "/blocks.1/")
    node.input[0], node.input[1] = node.input[1], node.input[0]


def _weight(proto: onnx.ModelProto) -> None:
    (kernel,) = (t for t in proto.graph.initializer if t.name == "blocks.2.down.kernel")
    array = onnx.numpy_helper.to_array(kernel).copy()
    array[3] *= 3
    kernel.CopyFrom(onnx.numpy_helper.from_array(array, kernel.name))


def _small_weight(proto: onnx.ModelProto) -> None:
    (bias,) = (t for t in proto.graph.initializer if t.name == "blocks.1.up.bias")
    array = onnx.numpy_helper.to_array(bias) + np.float32(0.5)
    bias.CopyFrom(onnx.numpy_helper.from_array(array, bias.name))


def _attribute(proto: onnx.ModelProto) -> None:
    node = _node(proto, "LayerNormalization", "/blocks.1/")
    (epsilon,) = (a for a in node.attribute if a.name == "epsilon")
    epsilon.f = 0.5


def _axis(proto: onnx.ModelProto) -> None:
    node = _node(proto, "Softmax")
    (axis,) = (a for a in node.attribute if a.name == "axis")
    axis.i = 0


def _operator(op: str, new: str) -> Callable[[onnx.ModelProto], None]:
    def change(proto: onnx.ModelProto) -> None:
        _node(proto, op).op_type = new

    return change


def _wrong(proto: onnx.ModelProto, change: Callable[[onnx.ModelProto], None]) -> onnx.ModelProto:
    wrong = copy.deepcopy(proto)
    change(wrong)
    return wrong


def _line(mark: str) -> int:
    return line_of(mark, _line)


def _names(found: Verification, mark: str, module: str = "") -> None:
    assert not found, found
    assert f"test_wrong_models.py:{_line(mark)}:" in found.place, found.message
    assert found.module == module
    assert found.certainty


@pytest.mark.parametrize(
    ("change", "mark", "module", "op"),
    [
        (_replaced, "rest", "blocks.1", "Sub"),
        (_swapped, "rest", "blocks.1", "Sub"),
        (_weight, "down", "blocks.2/down", "Gemm"),
        (_small_weight, "up", "blocks.1/up", "Gemm"),
        (_attribute, "norm", "blocks.1/norm", "LayerNormalization"),
        (_axis, "softmax", "", "Softmax"),
    ],
)
def test_a_change_in_the_main_graph_is_located(
    model: Model, exported: onnx.ModelProto, change: Any, mark: str, module: str, op: str
) -> None:
    found = verify(model, _wrong(exported, change), [X])
    _names(found, mark, module)
    assert found.node == _node(exported, op, f"/{module}" if module else "").name
    assert found.certainty.startswith("certain: ")
    assert "All other values agree" in found.certainty


def _renamed(proto: onnx.ModelProto, *, constants: bool) -> onnx.ModelProto:
    """Returns a model whose values have other names, and whose nodes have none."""
    renamed = copy.deepcopy(proto)
    graph = renamed.graph
    kept = {value.name for value in (*graph.input, *graph.output)}
    kept |= set() if constants else {tensor.name for tensor in graph.initializer}
    names: dict[str, str] = {}

    def name(old: str) -> str:
        return old if old in kept or not old else names.setdefault(old, f"v{len(names)}")

    for tensor in graph.initializer:
        tensor.name = name(tensor.name)
    for node in graph.node:
        node.name = ""
        node.input[:] = [name(old) for old in node.input]
        node.output[:] = [name(old) for old in node.output]
    del graph.value_info[:]
    return renamed


@pytest.mark.parametrize("constants", [False, True])
def test_swapped_operands_among_renamed_values(
    model: Model, exported: onnx.ModelProto, constants: bool
) -> None:
    renamed = _renamed(exported, constants=constants)
    subs = [node for node in renamed.graph.node if node.op_type == "Sub"]
    subs[1].input[:] = [subs[1].input[1], subs[1].input[0]]
    reference = to_onnx(model, [("B", 16)], stacktrace_metadata="sourcemap")
    for found in (verify(model, renamed, [X]), verify(reference, renamed, [X])):
        _names(found, "rest", "blocks.1")
        assert found.value == subs[1].output[0]
        assert "constant" not in found.message
        assert not found.certainty.startswith("certain")


@pytest.mark.parametrize("renamed", [False, True])
def test_two_exchanged_weights_are_blamed_on_the_nodes_that_read_them(
    model: Model, exported: onnx.ModelProto, renamed: bool
) -> None:
    wrong = copy.deepcopy(exported)
    names = {"blocks.0.down.kernel": "blocks.2.down.kernel"}
    names |= {new: old for old, new in names.items()}
    for node in wrong.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    products = [node.output[0] for node in wrong.graph.node if node.op_type == "Gemm"]
    if renamed:
        wrong = _renamed(wrong, constants=True)
        products = [node.output[0] for node in wrong.graph.node if node.op_type == "Gemm"]
    reference = to_onnx(model, [("B", 16)], stacktrace_metadata="sourcemap")
    for found in (verify(model, wrong, [X]), verify(reference, wrong, [X])):
        _names(found, "down", "blocks.0/down")
        assert found.value == products[1]
        assert "1 other value differs even with the right operands" in found.certainty
        assert not renamed or not found.certainty.startswith("certain")


def test_a_constant_of_the_same_name_elsewhere_is_not_a_reason() -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = x * 2.0  # first factor
        z = jnp.sin(y)
        return z * 3.0  # second factor

    proto = to_onnx(fn, [(4, 16)])
    first, second = (node for node in proto.graph.node if node.op_type == "Mul")
    wrong = copy.deepcopy(proto)
    # The constants swap their names, and one of the products becomes a quotient.
    names = {first.input[1]: second.input[1], second.input[1]: first.input[1]}
    for tensor in wrong.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in wrong.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    next(node for node in wrong.graph.node if node.op_type == "Mul").op_type = "Div"
    found = verify(fn, wrong, [X])
    _names(found, "first factor")
    assert "this constant was changed" not in found.message


def test_a_changed_constant_of_merged_lines_names_them_all() -> None:
    """A batch norm is written on several lines; the changed constant belongs to one of them."""
    mean, variance, scale, kernel = (
        jnp.asarray(RANDOM.uniform(0.5, 2, shape), jnp.float32)
        for shape in [(8, 1, 1), (8, 1, 1), (8, 1, 1), (8, 3, 3, 3)]
    )

    def fn(x: jax.Array) -> jax.Array:
        y = jax.lax.conv(x, kernel, (1, 1), "SAME")
        y = (y - mean) * jax.lax.rsqrt(variance + 1e-5)  # centred
        return jax.nn.relu(y * scale + 1.0)  # scaled

    proto = to_onnx(fn, [(1, 3, 8, 8)], stacktrace_metadata="sourcemap")
    wrong = copy.deepcopy(proto)
    (norm,) = [node for node in wrong.graph.node if node.op_type == "BatchNormalization"]
    (tensor,) = [t for t in wrong.graph.initializer if t.name == norm.input[3]]
    tensor.CopyFrom(
        onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) + 1, tensor.name)
    )
    found = verify(fn, wrong, [RANDOM.normal(size=(1, 3, 8, 8)).astype(np.float32)])
    assert "this constant was changed" in found.message
    assert "computes 2 lines at once" in found.message
    for mark in ("centred", "scaled"):
        assert f"test_wrong_models.py:{_line(mark)} in" in found.message, mark


@pytest.mark.slow
def test_a_changed_weight_is_named(model: Model, exported: onnx.ModelProto) -> None:
    found = verify(model, _wrong(exported, _weight), [X])
    assert "constant blocks.2.down.kernel differs: 16 of 512 elements" in found.message


@pytest.mark.parametrize(
    ("change", "mark", "inside"),
    [
        (_operator("Sin", "Cos"), "sine", "in iteration 0 of /Scan"),
        (_operator("Sub", "Add"), "row", "in iteration 0 of /Scan"),
        (_operator("Cos", "Sin"), "cosine", "in the then_branch of /If"),
    ],
)
def test_loops_and_branches_are_looked_into(change: Any, mark: str, inside: str) -> None:
    proto = to_onnx(loops, [(4, 16)])
    assert (right := verify(loops, proto, [X])), right
    found = verify(loops, _wrong(proto, change), [X])
    _names(found, mark)
    assert f"  inside: {inside}, " in found.message


def test_a_loop_without_a_known_end() -> None:
    proto = to_onnx(loops, [(4, 16)])
    wrong = copy.deepcopy(proto)
    body = next(n for n in wrong.graph.node if n.op_type == "Loop").attribute[0].g
    next(n for n in body.node if n.op_type == "Mul").op_type = "Add"
    _names(verify(loops, wrong, [X]), "grow")


@pytest.mark.parametrize(
    ("change", "mark"),
    [(_operator("Cos", "Sin"), "inner cosine"), (_operator("Sub", "Add"), "inner difference")],
)
def test_functions_are_looked_into(change: Any, mark: str) -> None:
    proto = to_onnx(nested, [(4, 16)])
    assert (right := verify(nested, proto, [X])), right
    assert (right := verify(nested, _renamed(proto, constants=True), [X])), right
    found = verify(nested, _wrong(proto, change), [X])
    _names(found, mark, "inner")
    at = f"test_wrong_models.py:{_line('first call')} in nested"
    assert f"  inside: in /inner, tests/checking/{at}\n" in found.message


@pytest.mark.slow
def test_the_weight_of_a_function(model: Model) -> None:
    proto = to_onnx(model, [("B", 16)], functions="modules")
    assert (right := verify(model, proto, [X])), right
    found = verify(model, _wrong(proto, _weight), [X])
    assert not found
    assert f"test_wrong_models.py:{_line('down')}" in found.message
    assert "constant Linear.2.kernel differs" in found.message


def _optimised(proto: onnx.ModelProto, path: Path, level: str) -> onnx.ModelProto:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return onnx.load(path)


def test_a_changed_weight_of_a_fused_node_names_the_line_that_reads_it(
    model: Model, exported: onnx.ModelProto, tmp_path: Path
) -> None:
    wrong = _wrong(exported, _small_weight)
    optimised = _optimised(wrong, tmp_path / "model.onnx", "ORT_ENABLE_EXTENDED")
    found = verify(model, optimised, [X])
    assert "the export has Gemm, Tanh here" in found.message
    _names(found, "up", "blocks.1/up")
    assert "of which this one reads the constant" in found.certainty


@pytest.mark.parametrize(
    ("change", "mark"),
    [(_operator("Cos", "Sin"), "inner cosine"), (_operator("Sub", "Add"), "inner difference")],
)
def test_an_inlined_function_is_looked_into(change: Any, mark: str, tmp_path: Path) -> None:
    wrong = _wrong(to_onnx(nested, [(4, 16)], stacktrace_metadata="sourcemap"), change)
    inlined = _optimised(wrong, tmp_path / "model.onnx", "ORT_ENABLE_BASIC")
    assert not inlined.functions
    _names(verify(nested, inlined, [X]), mark, "inner")


def _dynamic(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    from onnxruntime.quantization import quantize_dynamic

    # Without the smaller range, products overflow on processors without instructions for them.
    quantize_dynamic(proto, path, reduce_range=True)
    return onnx.load(path)


def _static(form: str) -> Callable[[onnx.ModelProto, Path], onnx.ModelProto]:
    def quantised(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

        class Reader(CalibrationDataReader):
            def __init__(self) -> None:
                self.left = [{"x": X}]

            def get_next(self) -> Any:
                return self.left.pop() if self.left else None

        quantize_static(proto, path, Reader(), quant_format=QuantFormat[form])
        return onnx.load(path)

    return quantised


def _half(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    half: onnx.ModelProto = convert_float_to_float16(copy.deepcopy(proto), keep_io_types=True)
    return half


def _by_runtime(level: str) -> Callable[[onnx.ModelProto, Path], onnx.ModelProto]:
    return lambda proto, path: _optimised(proto, path, level)


TOOLS: dict[str, Callable[[onnx.ModelProto, Path], onnx.ModelProto]] = {
    "dynamic int8": _dynamic,
    "static int8, QDQ": _static("QDQ"),
    "static int8, operators": _static("QOperator"),
    "float16": _half,
    "onnxruntime, basic": _by_runtime("ORT_ENABLE_BASIC"),
    "onnxruntime, extended": _by_runtime("ORT_ENABLE_EXTENDED"),
    "onnxruntime, all": _by_runtime("ORT_ENABLE_ALL"),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_right_models_of_other_tools(
    model: Model, exported: onnx.ModelProto, tmp_path: Path, tool: str
) -> None:
    changed = TOOLS[tool](copy.deepcopy(exported), tmp_path / "m.onnx")
    found = verify(model, changed, [X])
    assert found, found
    assert found.compared >= 10, found


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("change", "mark", "module"),
    [
        (_replaced, "rest", "blocks.1"),
        (_weight, "down", "blocks.2/down"),
        (_attribute, "norm", "blocks.1/norm"),
        (_axis, "softmax", ""),
    ],
)
def test_wrong_models_of_other_tools(
    model: Model,
    exported: onnx.ModelProto,
    tmp_path: Path,
    tool: str,
    change: Any,
    mark: str,
    module: str,
) -> None:
    changed = TOOLS[tool](_wrong(exported, change), tmp_path / "m.onnx")
    found = verify(model, changed, [X])
    _names(found, mark, module)


@pytest.mark.parametrize("tool", TOOLS)
def test_two_models_are_compared(model: Model, tmp_path: Path, tool: str) -> None:
    reference = to_onnx(model, [("B", 16)], stacktrace_metadata="sourcemap")
    right = TOOLS[tool](copy.deepcopy(reference), tmp_path / "right.onnx")
    assert (found := verify(reference, right, [X])), found
    assert found.compared >= 10
    wrong = TOOLS[tool](_wrong(reference, _replaced), tmp_path / "wrong.onnx")
    _names(verify(reference, wrong, [X]), "rest", "blocks.1")


def test_two_models_with_functions_and_loops() -> None:
    for fn, change, mark, module in (
        (nested, _operator("Cos", "Sin"), "inner cosine", "inner"),
        (loops, _operator("Sin", "Cos"), "sine", ""),
    ):
        reference = to_onnx(fn, [(4, 16)], stacktrace_metadata="sourcemap")
        assert (found := verify(reference, reference, [X])), found
        _names(verify(reference, _wrong(reference, change), [X]), mark, module)


def _command(*arguments: Any, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = _core.main(["verify", *map(str, arguments)])
    return status, capsys.readouterr().out


def test_the_command(model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = to_onnx(model, [("B", 16)], stacktrace_metadata="sourcemap")
    names = right, half, wrong, x = [tmp_path / n for n in ("r.onnx", "h.onnx", "w.onnx", "x.npz")]
    onnx.save(reference, right)
    onnx.save(_half(reference, half), half)
    onnx.save(_wrong(reference, _weight), wrong)
    np.savez(x, x=X)
    assert len(names) == 4
    status, out = _command(half, "--reference", right, "--inputs", x, "--errors", capsys=capsys)
    assert status == 0
    assert out.startswith("all values agree: ")
    assert f"test_wrong_models.py:{_line('up')} in Block.__call__" in out
    status, out = _command(wrong, "--reference", right, "--inputs", x, "--json", capsys=capsys)
    assert status == 1
    found = json.loads(out)
    assert found["ok"] is False
    assert found["module"] == "blocks.2/down"
    assert found["by_line"]
    status, out = _command(right, "--reference", right, capsys=capsys)
    assert (status, out.splitlines()[0]) == (0, "all values agree: 20 compared")
    np.savez(x, y=X)
    assert _core.main(["verify", str(right), "--reference", str(right), "--inputs", str(x)]) == 2
    assert "has no array `x`; it has y" in capsys.readouterr().err


def test_errors_by_line(model: Model, exported: onnx.ModelProto, tmp_path: Path) -> None:
    changed = _dynamic(copy.deepcopy(exported), tmp_path / "m.onnx")
    found = verify(model, changed, [X])
    assert found, found
    worst = [row.place for row in found.by_line[:2]]
    assert sorted(worst) == sorted(
        f"tests/checking/test_wrong_models.py:{_line(mark)} in Block.__call__"
        for mark in ("up", "down")
    )
    assert found.by_line[0].values == 3
    assert 20 < found.by_line[0].signal_to_noise < 50
    assert found.by_line[-1].signal_to_noise > 100
    assert {row.place for row in found.by_module[:6]} == {
        f"blocks.{i}/{name}" for i in range(3) for name in ("up", "down")
    }
    assert json.loads(found.to_json())["by_line"][0]["place"] == found.by_line[0].place
    assert found.by_line[0].place in found.table()


@pytest.mark.slow
def test_errors_inside_functions(model: Model) -> None:
    proto = to_onnx(model, [("B", 16)], functions="modules")
    found = verify(model, _half(proto, Path()), [X])
    assert found, found
    assert f"test_wrong_models.py:{_line('tanh')} in Block.__call__" in found.table()


def test_small_errors_add_up() -> None:
    def fn(x: jax.Array) -> jax.Array:
        for _ in range(30):
            x = x * 1.001
        return x

    wrong = to_onnx(fn, [(4, 16)])
    for tensor in wrong.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.float32(1.0014), tensor.name))
    found = verify(fn, wrong, [X])
    assert found.message.startswith("[errors-add-up] the output `output` differs from JAX")
    assert found.by_line


@pytest.mark.slow
def test_where_numbers_stop_being_finite() -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = jnp.exp(x * 3)
        z = y * y  # overflow
        return jnp.log(z + 1)

    half = _half(to_onnx(fn, [(4,)]), Path())
    found = verify(fn, half, [np.array([1.0, 2.0, 3.0, 3.5], np.float32)])
    _names(found, "overflow")
    said = "first numbers that are not finite: 3 infinite; all operands are finite."
    assert said in found.message
    assert found.certainty.startswith("certain: ")
    assert "operands beyond the range" in found.message


def test_the_lowest_number_of_a_type_is_no_overflow() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jax.nn.softmax(jnp.where(x > 0, x, jnp.finfo(x.dtype).min))

    found = verify(fn, _half(to_onnx(fn, [(4, 16)]), Path()), [X])
    assert found, found


def test_a_model_that_does_not_load_is_explained(exported: onnx.ModelProto) -> None:
    wrong = _wrong(exported, lambda proto: _node(proto, "Sub", "/blocks.1/").input.pop())
    for reference in (Model(nnx.Rngs(0)), exported):
        found = verify(reference, wrong, [X])
        assert not found
        assert found.message.startswith("[cannot-run] onnxruntime cannot run the model")
        assert "/blocks.1/Sub" in found.message


def test_a_part_that_does_not_load_is_explained() -> None:
    """onnxruntime believes the shape that the model declares for the sum, and the values run."""

    def fn(x: jax.Array) -> jax.Array:
        total = jnp.sum(x, 0)
        return jax.lax.while_loop(lambda v: v[0] < 40, lambda v: v * 2 + 1, total)  # while

    def change(proto: onnx.ModelProto) -> None:
        (keep,) = (a for a in _node(proto, "ReduceSum").attribute if a.name == "keepdims")
        keep.i = 1

    exported = to_onnx(fn, [(4, 16)], stacktrace_metadata="sourcemap")
    for reference in (fn, exported):
        found = verify(reference, _wrong(exported, change), [X])
        assert not found
        assert found.message.startswith("[cannot-run] onnxruntime cannot run a part of the model")
        assert f"test_wrong_models.py:{_line('while')}:" in found.place


def test_a_node_that_fails_is_named(model: Model, exported: onnx.ModelProto) -> None:
    def change(proto: onnx.ModelProto) -> None:
        (kernel,) = (t for t in proto.graph.initializer if t.name == "blocks.1.up.kernel")
        array = onnx.numpy_helper.to_array(kernel)[:15]
        kernel.CopyFrom(onnx.numpy_helper.from_array(array, kernel.name))

    dynamic = copy.deepcopy(exported)
    del dynamic.graph.value_info[:]
    found = verify(model, _wrong(dynamic, change), [X])
    assert not found
    assert "/blocks.1/up" in found.message


def test_skipped_values_are_counted_by_reason(
    model: Model, exported: onnx.ModelProto, tmp_path: Path
) -> None:
    changed = _optimised(exported, tmp_path / "m.onnx", "ORT_ENABLE_EXTENDED")
    found = verify(model, changed, [X])
    assert found.skipped == sum(found.skipped_because.values()) > 0
    for why, count in found.skipped_because.items():
        assert f"not compared: {count} " in found.message, why


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_error_of_lower_precision_is_located(dtype: str) -> None:
    def make(dtype: str) -> Callable[[jax.Array], jax.Array]:
        weights = jnp.asarray(X[:, :4], dtype)

        def fn(x: jax.Array) -> jax.Array:
            y = x.T @ weights  # product
            return jnp.tanh(y)  # squash

        return fn

    low = to_onnx(make(dtype), [jax.ShapeDtypeStruct(X.shape, dtype)])
    found = verify(make("float32"), low, [X])
    assert found, found
    places = [row.place.partition(" in ")[0] for row in found.by_line]
    assert f"tests/checking/test_wrong_models.py:{_line('product')}" in places
    assert f"tests/checking/test_wrong_models.py:{_line('squash')}" in places
    assert all(30 < row.signal_to_noise < 100 for row in found.by_line)


def idle_branch(x: jax.Array) -> jax.Array:
    return jax.lax.cond(  # branch
        x[0, 0] < 100,
        lambda v: jnp.cos(v) - 3,
        lambda v: jnp.sin(v) * 2,
        x,
    )


def idle_in_loop(x: jax.Array) -> jax.Array:
    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jax.lax.cond(  # inner branch
            row[0] < 100, lambda v: jnp.cos(v) - 3, lambda v: jnp.sin(v) * 2, carry
        )
        return carry, carry

    last, rows = jax.lax.scan(step, x[0], x)
    return last + rows


def idle_loop(x: jax.Array) -> jax.Array:
    return jax.lax.while_loop(  # loop
        lambda v: v[0, 0] > 100,
        lambda v: jax.lax.cond(v[0, 1] > 0, lambda w: jnp.sin(w) * 2, lambda w: w - 1, v),
        x,
    )


def both_in_turn(x: jax.Array) -> jax.Array:
    def step(i: jax.Array, v: jax.Array) -> jax.Array:
        return jax.lax.cond(i % 2 == 0, lambda w: jnp.cos(w) - 3, lambda w: jnp.sin(w) * 2, v)

    return jax.lax.fori_loop(0, 2, step, x)


@onnx_function
def idle_function(x: jax.Array) -> jax.Array:
    return idle_branch(x)


@pytest.mark.parametrize(
    ("fn", "count", "where", "mark"),
    [
        (idle_branch, 2, "else_branch", "branch"),
        (idle_in_loop, 2, "else_branch", "inner branch"),
        (idle_loop, None, "body", "loop"),
        (idle_function, 2, "else_branch", "branch"),
    ],
)
def test_values_that_were_not_computed_are_not_compared(
    fn: Any, count: int, where: str, mark: str
) -> None:
    proto = to_onnx(fn, [(4, 16)], stacktrace_metadata="sourcemap")
    wrong = _wrong(proto, _operator("Sin", "Tanh"))
    for found in (verify(fn, wrong, [X]), verify(proto, wrong, [X])):
        assert found, found
        assert found.message.startswith("all compared values agree: ")
        ((why, n),) = [row for row in found.skipped_because.items() if "did not run" in row[0]]
        assert count in (n, None)
        assert f"is in the {where} of " in why
        assert f"test_wrong_models.py:{_line(mark)} in " in why


def test_branches_that_take_turns_both_run() -> None:
    proto = to_onnx(both_in_turn, [(4, 16)])
    assert any(node.op_type == "If" for node in _nodes(proto.graph))
    found = verify(both_in_turn, proto, [X])
    assert found.message.startswith("all values agree: "), found
    assert "did not run" not in found.message


ANGLES = RANDOM.uniform(0, 6, size=(4, 8)).astype(np.float32)


def rotation(x: jax.Array) -> jax.Array:
    small = x.astype(jnp.bfloat16)  # rounding
    cos, sin = jnp.cos(ANGLES).astype(small.dtype), jnp.sin(ANGLES).astype(small.dtype)
    a, b = jnp.split(small, 2, axis=-1)
    real = a * cos - b * sin  # real
    imaginary = a * sin + b * cos  # imaginary
    turned = jnp.concatenate([real, imaginary], axis=-1)  # turned
    return turned.astype(jnp.float32)


def _unrounded(proto: onnx.ModelProto, number: int) -> onnx.ModelProto:
    """Returns a model without one of its conversions to bfloat16."""
    wrong = copy.deepcopy(proto)
    to = [a for n in wrong.graph.node if n.op_type == "Cast" for a in n.attribute]
    [a for a in to if a.i == onnx.TensorProto.BFLOAT16][number].i = onnx.TensorProto.FLOAT
    del wrong.graph.value_info[:]
    return wrong


@pytest.mark.parametrize(
    ("operators", "number", "mark"),
    [
        ("native", 0, "rounding"),
        ("native", 1, "real"),
        ("elementary", 0, "rounding"),
        ("elementary", 1, "real"),
        ("elementary", 4, "imaginary"),
    ],
)
def test_a_rotation_that_is_not_rounded(operators: Any, number: int, mark: str) -> None:
    proto = to_onnx(rotation, [(4, 16)], operators=operators)
    # One node would not round the products.
    assert all(node.op_type != "RotaryEmbedding" for node in proto.graph.node)
    assert (right := verify(rotation, proto, [X])), right
    wrong = _unrounded(proto, number)
    found = verify(rotation, wrong, [X])
    _names(found, mark)
    assert found.message.startswith("[value-differs] `Cast` differs from JAX")
    assert found.certainty.startswith("certain: ")
    # An explicit tolerance defines what is a difference.
    assert verify(rotation, wrong, [X], rtol=0.1, atol=0.1)


class Stem(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(2, 3, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(3, use_running_average=True, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.conv(x)  # conv
        x = self.norm(x)  # batch norm
        return jax.nn.relu(x)  # activation


def test_a_fused_node_names_all_its_lines(tmp_path: Path) -> None:
    import onnxruntime

    stem, x = Stem(nnx.Rngs(0)), RANDOM.normal(size=(1, 5, 5, 2)).astype(np.float32)
    exported, path = str(tmp_path / "stem.onnx"), str(tmp_path / "optimised.onnx")
    to_onnx(stem, [x.shape], return_mode="file", output_path=exported)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = path
    onnxruntime.InferenceSession(exported, options, providers=["CPUExecutionProvider"])
    optimised = onnx.load(path)
    node = _node(optimised, "FusedConv")
    (kernel,) = (t for t in optimised.graph.initializer if t.name == node.input[1])
    kernel.CopyFrom(
        onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(kernel) * 2, kernel.name)
    )
    found = verify(stem, optimised, [x])
    assert found.node == node.name
    for mark in ("conv", "batch norm", "activation"):
        line = line_of(mark, Stem.__call__)
        assert f"test_wrong_models.py:{line} in Stem.__call__" in found.message, found.message
    assert "It computes 3 lines at once" in found.certainty
