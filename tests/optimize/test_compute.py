"""Computing in float16: numbers against JAX at half precision, and exceptions in float32."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from flax import nnx

from harness import decoders
from harness.checking import quick
from jax2onnx import onnx_function, to_onnx, to_onnx_set, verify
from jax2onnx.errors import InvalidInputError

RNG = np.random.default_rng(0)
HALF = {"rtol": 5e-3, "atol": 5e-3}
FLOAT, HALF_FLOAT = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16


def normal(*shape, scale=1.0):
    return jnp.asarray(RNG.standard_normal(shape, dtype=np.float32) * np.float32(scale))


def matrix(*shape):
    return normal(*shape, scale=shape[-2] ** -0.5)


def run(model, *inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # By default, integer products round the other operand to eight bits.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    content = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(inputs)]
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, leaves, strict=True)))


def computed(model):
    """Returns the nodes of the main graph: operator, element type of the result, operands."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    values = [*inferred.graph.value_info, *inferred.graph.output]
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return [(n.op_type, types.get(n.output[0]), list(n.input)) for n in inferred.graph.node]


def types_of(model, op):
    return [dtype for name, dtype, _ in computed(model) if name == op]


def check_casts(model):
    """Checks that no cast reads another, and that none is duplicated."""
    casts = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "Cast"}
    assert not set(casts) & set(casts.values())
    made = [(n.input[0], n.attribute[0].i) for n in model.graph.node if n.op_type == "Cast"]
    assert len(made) == len(set(made))


def check(fn, *inputs, **options):
    """Exports `fn`, compares the results with JAX's and returns the model."""
    options = {"compute": "float16", **options}
    model = to_onnx(fn, inputs, **options)
    check_casts(model)
    expected = jax.tree.leaves(quick(fn)(*inputs))
    for found, right in zip(run(model, *inputs), expected, strict=True):
        assert found.dtype == right.dtype
        np.testing.assert_allclose(found, right, **HALF)
    return model


class Attention(nnx.Module):
    def __init__(self, rngs):
        linear = partial(nnx.Linear, 32, 32, rngs=rngs)
        self.q, self.k, self.v, self.o = linear(), linear(), linear(), linear()

    def __call__(self, x):
        q, k, v = (f(x).reshape(*x.shape[:2], 4, 8) for f in (self.q, self.k, self.v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(8)
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
        return self.o(mixed.reshape(x.shape))


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm1, self.norm2 = nnx.LayerNorm(32, rngs=rngs), nnx.LayerNorm(32, rngs=rngs)
        self.attn = Attention(rngs)
        self.up, self.down = nnx.Linear(32, 64, rngs=rngs), nnx.Linear(64, 32, rngs=rngs)

    def __call__(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class Transformer(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.embed = nnx.Embed(50, 32, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(2)])
        self.norm, self.head = nnx.LayerNorm(32, rngs=rngs), nnx.Linear(32, 50, rngs=rngs)

    def __call__(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Convolutions(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.one = nnx.Conv(3, 16, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(16, use_running_average=True, rngs=rngs)
        self.two = nnx.Conv(16, 32, (3, 3), strides=2, rngs=rngs)
        self.three = nnx.Conv(32, 32, (3, 3), rngs=rngs)
        self.head = nnx.Linear(32, 10, rngs=rngs)

    def __call__(self, x):
        x = nnx.max_pool(nnx.relu(self.norm(self.one(x))), (2, 2), strides=(2, 2))
        x = self.three(nnx.relu(self.two(x)))
        return self.head(x.mean((1, 2)))


IDS = RNG.integers(0, 50, (2, 6)).astype(np.int32)


def test_a_transformer():
    model = check(Transformer(), IDS)
    *products, logits = types_of(model, "MatMul") + types_of(model, "Gemm")
    assert set(products) == {HALF_FLOAT}
    assert logits == FLOAT
    for op in ("LayerNormalization", "Softmax"):
        assert set(types_of(model, op)) == {FLOAT}
    assert set(types_of(model, "Gelu")) == {HALF_FLOAT}
    kinds = {t.name: t.data_type for t in model.graph.initializer}
    assert kinds["blocks.0.attn.q.kernel"] == kinds["blocks.1.up.bias"] == HALF_FLOAT
    assert (
        kinds["blocks.0.norm1.scale"] == kinds["head.kernel"] == kinds["embed.embedding"] == FLOAT
    )


def test_convolutions():
    model = check(Convolutions(), normal(2, 16, 16, 3))
    assert set(types_of(model, "Conv")) == {HALF_FLOAT}
    assert types_of(model, "Relu") == [FLOAT, HALF_FLOAT]
    for op in ("BatchNormalization", "ReduceMean", "Gemm"):
        assert set(types_of(model, op)) == {FLOAT}


@pytest.mark.parametrize("cache", ["grows", "buffer"])
@pytest.mark.parametrize("half", [False, True])
def test_a_decoder_with_a_cache(cache, half):
    style = decoders.Style(cache=cache)
    decode = decoders.decoder(style)
    shape = decoders.cache_shape(style, batch=1, past=5)
    state = [(normal(*shape), normal(*shape)) for _ in range(decoders.LAYERS)]
    inputs = [np.asarray([[3]], np.int32), np.asarray([[5]], np.int32), state]
    if not half:
        check(decode, *inputs)
        return
    # A cache in float16 is read and written without casts.
    boundary = {"input_dtypes": {"cache.*": "float16"}, "output_dtypes": {"output_1.*": "float16"}}
    model = to_onnx(decode, inputs, compute="float16", **boundary)
    rounded = [[leaf.astype(np.float16) for leaf in pair] for pair in state]
    expected = quick(decode)(
        *inputs[:2], [[leaf.astype(np.float32) for leaf in p] for p in rounded]
    )
    for found, right in zip(
        run(model, *inputs[:2], rounded), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(found, right, **HALF)
    casts = [node for node in model.graph.node if node.op_type == "Cast"]
    ends = {name for node in casts for name in (*node.input, *node.output)}
    assert not [name for name in ends if name.startswith(("cache.", "output_1."))]


@pytest.mark.parametrize("value", [-1e30, np.finfo(np.float32).min, -np.inf, -1e4])
def test_masks_keep_their_meaning(value):
    w = matrix(8, 8)

    def attend(x, mask):
        scores = jnp.where(mask, (x @ w) @ (x @ w).T * 0.3, value)
        return jax.nn.softmax(scores) @ (x @ w) @ w

    # A row without visible entries has equal weights, or is NaN if its scores are infinite.
    mask = np.tril(np.ones((5, 5), bool))
    mask[2] = False
    model = to_onnx(attend, [normal(5, 8), mask], compute="float16")
    x = normal(5, 8)
    found, right = run(model, x, mask)[0], quick(attend)(x, mask)
    np.testing.assert_allclose(found, right, **HALF)
    assert np.isnan(found[2]).all() == np.isinf(value)


def test_masks_that_are_added():
    w = matrix(8, 8)

    def attend(x, bias):
        return jax.nn.softmax((x @ w) @ x.T + (1 - bias) * -1e9) @ (x @ w) @ w

    check(attend, normal(5, 8), jnp.asarray(np.tril(np.ones((5, 5), np.float32))))


def test_squares_are_summed_in_float32():
    # Squares of numbers above 256 overflow in float16, and a tiny epsilon underflows.
    w, v = matrix(16, 16) * 300, matrix(16, 16)

    def norm(x):
        x = x @ w
        x = x / (jnp.sqrt(jnp.sum(x * x, -1, keepdims=True)) + 1e-8)
        return jax.nn.relu(x @ v) @ v

    model = check(norm, normal(4, 16), operators="elementary")
    assert types_of(model, "MatMul")[0] == HALF_FLOAT


def test_integers_and_other_floats_are_left_alone():
    w, small = matrix(8, 8), matrix(8, 8).astype(jnp.bfloat16)

    def mixed(x, i):
        y = (x.astype(jnp.bfloat16) @ small).astype(jnp.float32)
        return y @ w @ w, i @ i, i.astype(jnp.float32) * 0.5

    i = np.arange(64, dtype=np.int32).reshape(8, 8) * 5000
    model = to_onnx(mixed, [normal(4, 8), i], compute="float16")
    x = normal(4, 8)
    found, right = run(model, x, i), mixed(x, i)
    np.testing.assert_allclose(found[0], right[0], rtol=2e-2, atol=2e-2)
    np.testing.assert_array_equal(found[1], right[1])
    np.testing.assert_array_equal(found[2], right[2])


PARAMS = {name: matrix(16, 16) for name in ("first", "second", "third")}


def net(x):
    x = jnp.tanh(x @ PARAMS["first"])
    x = jnp.tanh(x @ PARAMS["second"])
    return x @ PARAMS["third"]


LINE = inspect.getsourcelines(net)[1]


@pytest.mark.parametrize(
    ("compute", "small"),
    [
        ("float16", [True, True, False]),
        ("float16:all", [True, True, True]),
        ({f"test_compute.py:{LINE + 1}": "float16"}, [True, False, False]),
        ({f"*test_compute.py:{LINE + 2} in net": "float16"}, [False, True, False]),
        ({f"test_compute.py:{LINE + 2}": "float32", "*": "float16"}, [True, False, False]),
        ({"net": "float16:all"}, [True, True, True]),
        ({"second": "float16"}, [False, True, False]),
        ({"thi*": "float16:all"}, [False, False, True]),
    ],
)
def test_places(compute, small):
    model = check(net, normal(4, 16), compute=compute)
    assert [dtype == HALF_FLOAT for dtype in types_of(model, "MatMul")] == small
    kinds = {t.name: t.data_type == HALF_FLOAT for t in model.graph.initializer}
    assert [kinds[name] for name in PARAMS] == small


@pytest.mark.slow
def test_modules():
    model = check(Transformer(), IDS, compute={"blocks.0/attn": "float32", "blocks.*": "float16"})
    names = [node.name for node in model.graph.node if node.op_type in ("MatMul", "Gemm")]
    kinds = dict(zip(names, types_of(model, "MatMul"), strict=True))
    assert {kinds[name] for name in names if "blocks.0/attn" in name} == {FLOAT}
    assert {kinds[name] for name in names if "blocks.1/" in name} == {HALF_FLOAT}


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        ({"fourth": "float16"}, "`fourth`, which matches no module, line, function or parameter"),
        ({"test_compute.py:1": "float32"}, "matches no module, line"),
        ({"third": "float16"}, "nothing in `third` can compute in float16"),
        ("bfloat16", 'onnxruntime has no `MatMul` in bfloat16; target="any"'),
        ("int8", "`compute` cannot be 'int8'"),
        ({"*": "float32:all"}, "types are float16, bfloat16 and float32"),
        ({"": "float16"}, "patterns are names"),
    ],
)
def test_invalid_requests_are_errors(compute, message):
    with pytest.raises(InvalidInputError, match=message.replace("*", r"\*")):
        to_onnx(net, [(4, 16)], compute=compute)
    with pytest.raises(InvalidInputError, match="nothing in the model can compute in float16"):
        to_onnx(jnp.sin, [(4, 16)], compute="float16")


def test_bfloat16_where_the_target_has_it():
    model = to_onnx(net, [(4, 16)], compute="bfloat16", target="any")
    assert types_of(model, "MatMul")[:2] == [onnx.TensorProto.BFLOAT16] * 2
    onnx.checker.check_model(model, full_check=True)


def test_a_weight_that_does_not_fit(tmp_path):
    w, path = matrix(8, 8) * 1e6, tmp_path / "model.onnx"
    path.write_bytes(b"old")
    with pytest.raises(InvalidInputError, match="`w`"):
        to_onnx(
            lambda x: jnp.tanh(x @ w) @ w,
            [(2, 8)],
            compute="float16:all",
            return_mode="file",
            output_path=path,
        )
    assert path.read_bytes() == b"old"


def test_a_weight_that_is_read_both_ways_is_stored_once():
    table = matrix(256, 256)

    def tied(ids):
        x = table[ids]
        return jnp.tanh(x @ table)[:, :16] @ PARAMS["first"] + x[:, :16]

    model = check(tied, np.arange(4, dtype=np.int32))
    kinds = {t.name: t.data_type for t in model.graph.initializer}
    assert {name: kinds[name] for name in kinds if "table" in name} == {"table": FLOAT}


def test_loops_and_branches():
    ws = matrix(3, 16, 16)

    def layers(x, flag):
        def body(x, w):
            y = jnp.tanh(x @ w) @ w
            return x + y, y.mean()

        x, means = jax.lax.scan(body, x, ws)
        x = jax.lax.cond(flag, lambda x: jnp.tanh(x @ ws[0]) @ ws[1], lambda x: x, x)
        count, x = jax.lax.while_loop(
            lambda state: state[0] < 3,
            lambda state: (state[0] + 1, jnp.tanh(state[1] @ PARAMS["first"]) @ ws[2]),
            (0, x),
        )
        return x @ PARAMS["third"], means, count

    for flag in (True, False):
        model = check(layers, normal(4, 16), np.bool_(flag))
    bodies = [a.g for n in model.graph.node for a in n.attribute if a.type == a.GRAPH]
    casts = [n for body in bodies for n in body.node if n.op_type == "Cast"]
    assert casts


@pytest.mark.parametrize("functions", ["modules", "decorated"])
def test_functions(functions):
    model = check(Transformer(), IDS, functions=functions)
    assert bool(model.functions) == (functions == "modules")


def test_decorated_functions():
    @onnx_function
    def layer(x, w):
        return jnp.tanh(x @ w) @ w

    def twice(x):
        return layer(layer(x, PARAMS["first"]), PARAMS["second"]) @ PARAMS["third"]

    model = check(twice, normal(4, 16))
    inner = [node.op_type for node in model.functions[0].node]
    assert "Cast" in inner


def test_native_attention_has_its_softmax_in_float32():
    model = check(
        lambda q: jax.nn.dot_product_attention(q @ PARAMS["first"], q, q) @ PARAMS["second"],
        normal(2, 6, 4, 16),
        operators={"Attention": "native"},
    )
    attention = next(node for node in model.graph.node if node.op_type == "Attention")
    assert {a.name: a.i for a in attention.attribute}["softmax_precision"] == FLOAT


# Weights are rounded before they are quantised, so that some move to the next of sixteen levels.
@pytest.mark.parametrize(
    ("weights", "tolerance"), [("int4", 0.1), ("int8", 2e-2), ("float16", 5e-3)]
)
def test_with_smaller_weights(weights, tolerance):
    big = {name: matrix(64, 64) for name in PARAMS}

    def net(x):
        return jnp.tanh(jnp.tanh(x @ big["first"]) @ big["second"]) @ big["third"]

    x = normal(4, 64)
    model = to_onnx(net, [x], compute="float16", weights=weights)
    exact = to_onnx(net, [x], weights=weights)
    np.testing.assert_allclose(run(model, x)[0], run(exact, x)[0], atol=tolerance)


@pytest.mark.slow
def test_verify_reports_the_loss_of_each_line():
    model = to_onnx(Transformer(), [IDS], compute="float16")
    found = verify(Transformer(), model, [IDS])
    assert found, found.message
    lines = {row.place.rpartition(":")[2]: row for row in found.by_line}
    loses = {place: row.maximum for place, row in lines.items()}
    assert sum(1e-5 < maximum < 1e-2 for maximum in loses.values()) >= 5
    assert any("softmax" not in place for place in loses)


def test_sets(tmp_path):
    functions = {"one": (net, [(4, 16)]), "two": (lambda x: x @ PARAMS["first"], [(4, 16)])}
    to_onnx_set(functions, tmp_path / "set", compute={"second": "float16"})
    model = onnx.load(tmp_path / "set" / "one.onnx")
    assert HALF_FLOAT in types_of(model, "MatMul")
    with pytest.raises(InvalidInputError, match="matches no module, line, function or parameter"):
        to_onnx_set(functions, tmp_path / "set", compute={"fourth": "float16"})
