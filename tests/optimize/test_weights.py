"""Smaller weights: numbers against JAX with the same weights, and onnxruntime's operators."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from flax import nnx

import jax2onnx
from jax2onnx import SourceMap, to_onnx, verify
from jax2onnx.errors import InvalidInputError

RNG = np.random.default_rng(0)
RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255)}


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def dequantized(w, form, block=32):
    """Computes the matrix that the model holds, from scratch."""
    low, high = RANGES[form]
    result = np.empty_like(w)
    for start in range(0, w.shape[0], block):
        part = w[start : start + block]
        best = np.full(part.shape[1], np.inf, np.float32)
        # Of several ranges, the one with the least squared error wins.
        for size in (1.0, 1.05, 0.95, 0.9, 0.85, 0.8, 0.75) if "4" in form else (1.0,):
            least, most = np.minimum(part.min(0), 0), np.maximum(part.max(0), 0)
            least, most = least * np.float32(size), most * np.float32(size)
            if low == 0:
                scale = (most - least) / np.float32(high)
            else:
                scale = np.where(most > -least, most, least) / np.float32(low)
            scale = np.where(scale == 0, 1, scale).astype(np.float16).astype(np.float32)
            zero = np.clip(np.rint(-least / scale), low, high) if low == 0 else 0
            q = np.clip(np.rint(part / scale) + zero, low, high)
            found, error = (q - zero) * scale, np.zeros_like(best)
            for difference in found - part:
                error += difference * difference
            better = error < best
            result[start : start + block, better] = found[:, better]
            best = np.where(better, error, best)
    return result


def session(model, **settings):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # By default, integer products also round the other operand.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    for name, value in settings.items():
        setattr(options, name, value)
    content = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run(model, *inputs):
    names = [i.name for i in model.graph.input]
    return session(model).run(None, dict(zip(names, inputs, strict=True)))[0]


def optimised(model, tmp_path):
    """Returns the operators that onnxruntime runs."""
    path = str(tmp_path / "optimised.onnx")
    session(model, optimized_model_filepath=path)
    return [node.op_type for node in onnx.load(path).graph.node]


def types(model):
    return {t.name: onnx.TensorProto.DataType.Name(t.data_type) for t in model.graph.initializer}


@pytest.mark.parametrize("form", RANGES)
@pytest.mark.parametrize("shape", [(96, 40), (100, 33)])
def test_products_on_integers(form, shape, tmp_path):
    w, b, x = normal(*shape), normal(shape[1]), normal(3, shape[0])
    model = to_onnx(lambda x: x @ w + b, [x], weights=form)
    assert optimised(model, tmp_path) == ["MatMulNBits"]
    assert types(model)["w"] == form.upper()
    expected = x @ dequantized(w, form) + b
    np.testing.assert_allclose(run(model, x), expected, atol=2e-5 * shape[0])


@pytest.mark.parametrize("form", ["int4", "uint4"])
def test_integers_of_contributed_operators(form):
    """A table serves lookups and products. With three blocks in a row, half a byte is left."""
    table, w = normal(50, 96) + 0.5, normal(96, 40) - 0.5
    ids, x = np.asarray([3, 49, 0], np.int32), normal(3, 96)
    held = {"table": jnp.asarray(table), "w": jnp.asarray(w)}

    def model(ids, x):
        return held["table"][ids], x @ held["table"].T, x @ held["w"]

    kinds = dict.fromkeys(("MatMulNBits", "GatherBlockQuantized"), "native")
    options = {"operators": kinds, "assume": ["indices_in_range"]}
    made = to_onnx(model, [ids, x], weights={"*table*": form, "*": form}, **options)
    operators = {node.op_type for node in made.graph.node}
    assert {*kinds} <= operators
    assert "DequantizeLinear" not in operators
    names = [value.name for value in made.graph.input]
    found = session(made).run(None, dict(zip(names, (ids, x), strict=True)))
    rows = dequantized(np.ascontiguousarray(table.T), form).T
    np.testing.assert_array_equal(found[0], rows[ids])
    # Products round the other operand to 8 bits.
    for one, other in zip(found[1:], (x @ rows.T, x @ dequantized(w, form)), strict=True):
        np.testing.assert_allclose(one, other, atol=0.02 * np.abs(other).max())


@pytest.mark.parametrize("block", [16, 64, 128])
def test_the_size_of_blocks_can_be_chosen(block, tmp_path):
    w, x = normal(128, 64), normal(2, 5, 128)
    model = to_onnx(lambda x: x @ w, [x], weights=f"int4:{block}")
    assert optimised(model, tmp_path) == ["MatMulNBits"]
    np.testing.assert_allclose(run(model, x), x @ dequantized(w, "int4", block), atol=2e-3)


@pytest.mark.parametrize("form", ["int4", "uint8", "float16"])
@pytest.mark.parametrize("unrolled", [False, True])
def test_the_layers_of_a_stack(form, unrolled):
    """Blocks do not extend from one layer into the next."""
    ws, x = normal(3, 64, 64) * 0.1, normal(4, 64)
    ws[1] *= 100

    def layers(x, ws):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, ws, unroll=unrolled)[0]

    stacked = jnp.asarray(ws)
    model = to_onnx(lambda x: layers(x, stacked), [x], weights=form)
    assert types(model)["stacked"] == form.upper()
    if form == "float16":
        small = ws.astype(np.float16).astype("f")
    else:
        small = np.stack([dequantized(w, form) for w in ws])
    np.testing.assert_allclose(run(model, x), layers(x, small), atol=1e-4)


@pytest.mark.parametrize("form", ["float16", "bfloat16"])
def test_smaller_floats(form):
    w, table, x = normal(64, 64), normal(50, 64), np.asarray([3, 7, 7], np.int32)
    rows = jnp.asarray(table)
    model = to_onnx(lambda i: rows[i] @ w, [x], weights=form)
    assert types(model)["w"] == types(model)["rows"] == form.upper()
    small = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[form]
    expected = table.astype(small).astype("f")[x] @ w.astype(small).astype("f")
    np.testing.assert_allclose(run(model, x), expected, atol=1e-4)
    # Only the rows that are looked up become float32.
    gather = next(node for node in model.graph.node if node.op_type == "Gather")
    assert gather.input[0] == "rows"


class Net(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.embed = nnx.Embed(100, 64, rngs=rngs)
        self.norm = nnx.LayerNorm(64, rngs=rngs)
        self.up, self.down = (nnx.Linear(i, o, rngs=rngs) for i, o in ((64, 128), (128, 64)))
        self.head = nnx.Linear(64, 100, use_bias=False, rngs=rngs)

    def __call__(self, ids):
        x = self.embed(ids)
        x = x + self.down(nnx.relu(self.up(self.norm(x))))
        return self.head(x)


def test_weights_are_chosen_by_name():
    ids = np.zeros((1, 4), np.int32)
    formats = {"up.*": "int8:16", "embed*": "float16", "head.kernel": "keep", "*": "uint4"}
    held = types(to_onnx(Net(), [ids], weights=formats))
    assert held["up.kernel"] == "INT8"
    assert held["down.kernel"] == held["down.kernel/zero_point"] == "UINT4"
    assert held["embed.embedding"] == "FLOAT16"
    assert held["head.kernel"] == held["norm.scale"] == held["up.bias"] == "FLOAT"


@pytest.mark.parametrize("dtype", ["int4", "int8"])
@pytest.mark.parametrize("scales", ["column", "blocks"])
def test_integers_of_jax_are_not_quantised(dtype, scales, tmp_path):
    rows, columns = 256, 128
    low, high = RANGES[dtype]
    w = jnp.asarray(RNG.integers(low, high + 1, (rows, columns)), dtype)
    scale = jnp.asarray(np.abs(normal(8, 1, columns))) / 50

    def model(x):
        if scales == "column":
            return x @ (w.astype(jnp.float32) * scale[0, 0])
        blocks = w.reshape(8, 32, columns).astype(jnp.float32) * scale
        return x @ blocks.reshape(rows, columns)

    x = normal(1, rows)
    plain = to_onnx(model, [jax.ShapeDtypeStruct(x.shape, x.dtype)], return_mode="proto")
    assert "MatMulNBits" not in optimised(plain, tmp_path)
    packed = to_onnx(
        model, [jax.ShapeDtypeStruct(x.shape, x.dtype)], weights="int4", return_mode="proto"
    )
    (values,) = [i for i in packed.graph.initializer if i.name == "w"]
    bits = 4 if dtype == "int4" else 8
    assert len(values.raw_data) == rows * columns * bits // 8
    assert "MatMulNBits" in optimised(packed, tmp_path)
    expected = np.asarray(model(x))
    # Large terms cancel in some sums, and every processor adds them in its own order.
    rounding = 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(run(packed, x), expected, rtol=1e-5, atol=rounding)
    # Widened weights have the same bits, so a product without optimisations does, too.
    off = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    one, other = (
        session(model, graph_optimization_level=off).run(None, {model.graph.input[0].name: x})[0]
        for model in (plain, packed)
    )
    np.testing.assert_array_equal(one, other)


ROWS, COLUMNS = 256, 128


def given(dtype):
    low, high = RANGES[dtype]
    return jnp.asarray(RNG.integers(low, high + 1, (ROWS, COLUMNS)), dtype)


W4, U4, U8 = given("int4"), given("uint4"), given("uint8")
SCALES = jnp.asarray(np.abs(normal(8, 1, COLUMNS))) / 50
ZEROS = {
    dtype: jnp.asarray(RNG.integers(RANGES[dtype][0], RANGES[dtype][1], (8, 1, COLUMNS)), dtype)
    for dtype in ("int4", "uint4", "uint8")
}
COLUMN_ZEROS = {dtype: zeros[0] for dtype, zeros in ZEROS.items()}
FLAT_ZEROS = ZEROS["uint4"][:, 0]


def as_blocks(w):
    return w.reshape(8, 32, COLUMNS).astype(jnp.float32)


SPELLINGS = {
    "zero points of columns": lambda x: (
        x @ ((U4.astype(jnp.float32) - COLUMN_ZEROS["uint4"].astype(jnp.float32)) * SCALES[0])
    ),
    "signed zero points": lambda x: (
        x @ ((W4.astype(jnp.float32) - COLUMN_ZEROS["int4"].astype(jnp.float32)) * SCALES[0])
    ),
    "zero points of blocks": lambda x: (
        x @ ((as_blocks(U4) - ZEROS["uint4"].astype(jnp.float32)) * SCALES).reshape(ROWS, COLUMNS)
    ),
    "one zero point": lambda x: x @ ((U4.astype(jnp.float32) - 8) * SCALES[0, 0]),
    "subtracted from integers": lambda x: (
        x @ ((U4.astype(jnp.int8) - 8).astype(jnp.float32) * SCALES[0, 0])
    ),
    "repeated scales": lambda x: x @ (W4.astype(jnp.float32) * jnp.repeat(SCALES[:, 0], 32, 0)),
    "repeated zero points": lambda x: (
        x
        @ (
            (U4.astype(jnp.float32) - jnp.repeat(FLAT_ZEROS.astype(jnp.float32), 32, axis=0))
            * jnp.repeat(SCALES[:, 0], 32, 0)
        )
    ),
    "bytes": lambda x: (
        x @ ((as_blocks(U8) - ZEROS["uint8"].astype(jnp.float32)) * SCALES).reshape(ROWS, COLUMNS)
    ),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_zero_points_of_jax(spelling, tmp_path):
    model, x = SPELLINGS[spelling], normal(3, ROWS)
    plain, packed = (to_onnx(model, [x], weights=weights) for weights in (None, "int4"))
    assert [node.op_type for node in packed.graph.node] == ["DequantizeLinear", "MatMul"]
    assert optimised(packed, tmp_path) == ["MatMulNBits"]
    expected = np.asarray(model(x))
    rounding = 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(run(packed, x), expected, rtol=1e-5, atol=rounding)
    off = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    one, other = (
        session(model, graph_optimization_level=off).run(None, {model.graph.input[0].name: x})[0]
        for model in (plain, packed)
    )
    np.testing.assert_array_equal(one, other)


WRAPPING = {
    "differences": lambda x: (
        x @ ((U8.astype(jnp.uint16) - SHIFTS.astype(jnp.uint16)).astype(jnp.float32) * SCALES[0])
    ),
    "negative integers": lambda x: x @ (W8.astype(jnp.uint16).astype(jnp.float32) * SCALES[0]),
    "zero points": lambda x: (
        x @ ((W8.astype(jnp.int16) - NEGATIVE.astype(jnp.uint8)).astype(jnp.float32) * SCALES[0])
    ),
}
W8 = given("int8")
SHIFTS = COLUMN_ZEROS["uint8"]
NEGATIVE = jnp.full(COLUMNS, -3, jnp.int32)


@pytest.mark.parametrize("spelling", WRAPPING)
def test_integers_that_wrap_around_are_not_widened(spelling):
    model, x = WRAPPING[spelling], normal(3, ROWS)
    with pytest.raises(InvalidInputError, match="`weights` changes nothing"):
        to_onnx(model, [x], weights="int4")
    packed = to_onnx(model, [x])
    expected = np.asarray(model(x))
    rounding = 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(run(packed, x), expected, rtol=1e-5, atol=rounding)


def test_looked_up_integers_are_unchanged():
    """Rows of an embedding are widened after the lookup."""

    def model(ids):
        return W4[ids].astype(jnp.float32) * SCALES[0, 0]

    ids = np.asarray([3, 0, 200], np.int32)
    found = to_onnx(model, [ids])
    assert types(found)["W4"] == "INT4"
    np.testing.assert_array_equal(run(found, ids), model(ids))
    with pytest.raises(InvalidInputError, match="`weights` changes nothing"):
        to_onnx(model, [ids], weights="int4")


def test_one_option_makes_a_small_file(tmp_path):
    embedding, matrices = normal(1000, 128), [normal(128, 512) for _ in range(4)]
    tables = [jnp.asarray(embedding), *map(jnp.asarray, matrices)]

    def model(ids):
        x = tables[0][ids]
        return [x @ w for w in tables[1:]]

    def size(weights):
        path = tmp_path / "model.onnx"
        spec = [jax.ShapeDtypeStruct((1,), jnp.int32)]
        to_onnx(model, spec, weights=weights, return_mode="file", output_path=path)
        return path.stat().st_size

    small, half = size("int4:64,float16"), size("float16")
    assert small < size("int4:64")
    assert small < size({"0": "float16", "*": "int4"})
    # The embedding is a third of these weights, and stays at 16 bits.
    assert abs(small / half - (embedding.size * 16 + 4 * 128 * 512 * 4.25) / (390144 * 16)) < 0.01


def in_rows(w, form, block=32):
    """Computes the numbers of a weight with blocks along its last axis."""
    rows = w.reshape(-1, w.shape[-1])
    return np.ascontiguousarray(dequantized(np.ascontiguousarray(rows.T), form, block).T).reshape(
        w.shape
    )


@pytest.mark.parametrize("form", RANGES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tied_embeddings_are_stored_once(form, dtype, tmp_path):
    # A smaller table would be stored in both orders, each for one consumer.
    embedding, ids = normal(600, 64), np.asarray([[3, 99, 0, 3]], np.int32)
    embedding = embedding.astype(ml_dtypes.bfloat16).astype("f")
    table = jnp.asarray(embedding, dtype)

    def tied(ids):
        x = jnp.tanh(table[ids].astype(jnp.float32))
        return x, x @ table.T.astype(jnp.float32)

    model = to_onnx(tied, [ids], weights=form)
    held = {t.name: len(t.raw_data) for t in model.graph.initializer}
    size = embedding.size // (2 if "4" in form else 1)
    assert held["table"] == size
    assert sum(held.values()) < size * 1.3
    small = in_rows(embedding, form)
    rows, logits = session(model).run(None, {"ids": ids})
    # The rows of a bfloat16 table are rounded again.
    np.testing.assert_allclose(rows, np.tanh(small[ids]), atol=1e-6 if dtype == "float32" else 0.02)
    np.testing.assert_allclose(logits, rows @ small.T, atol=1e-3)
    assert "MatMulNBits" in (found := optimised(model, tmp_path))
    # The transposed integers are computed when the model is loaded.
    assert not {"Transpose", "MatMul"} & set(found)


@pytest.mark.parametrize("form", RANGES)
def test_embeddings_on_request(form):
    embedding, ids = normal(100, 64), np.asarray([[3, 99, 0, 3]], np.int32)
    table = jnp.asarray(embedding)
    model = to_onnx(lambda ids: table[ids] * 2, [ids], weights={"table": form})
    np.testing.assert_array_equal(run(model, ids), in_rows(embedding, form)[ids] * 2)


def experts(x, router, up, down):
    share, chosen = jax.lax.top_k(jax.nn.softmax(x @ router), 2)
    inner = jax.nn.silu(jnp.einsum("bsd,bsedf->bsef", x, up[chosen]))
    return jnp.einsum("bsef,bsefd,bse->bsd", inner, down[chosen], share)


def all_experts(x, router, up, down):
    inner = jax.nn.silu(jnp.einsum("bsd,edf->bsef", x, up))
    return jnp.einsum("bsef,efd,bse->bsd", inner, down, jax.nn.softmax(x @ router))


@pytest.mark.parametrize("form", ["int4", "uint8"])
def test_experts_of_mixtures(form):
    router, up, down, x = normal(32, 4), normal(4, 32, 64), normal(4, 64, 32), normal(2, 3, 32)
    held = [jnp.asarray(w) for w in (router, up, down)]
    model = to_onnx(lambda x: experts(x, *held), [x], weights=form)
    # Only experts that are chosen are widened.
    kinds = types(model)
    assert kinds["1"] == kinds["2"] == "UINT8"
    expected = experts(x, router, in_rows(up, form), in_rows(down, form))
    np.testing.assert_allclose(run(model, x), expected, atol=1e-4)

    model = to_onnx(lambda x: all_experts(x, *held), [x], weights=form)
    assert types(model)["1"] == types(model)["2"] == form.upper()
    small = [np.stack([dequantized(one, form) for one in w]) for w in (up, down)]
    np.testing.assert_allclose(run(model, x), all_experts(x, router, *small), atol=1e-4)


@pytest.mark.parametrize(
    ("mix", "shape"),
    [
        (lambda x, w, i: jnp.einsum("bi,bij->bj", x, jnp.take(w, i, axis=0)), (4, 64, 32)),
        (lambda x, w, i: jnp.einsum("bi,bji->bj", x, jnp.asarray(w)[i]), (4, 32, 64)),
    ],
    ids=["take", "transposed"],
)
def test_chosen_experts_in_other_forms(mix, shape):
    w, x, chosen = normal(*shape), normal(3, 64), np.array([2, 0, 3], np.int32)
    held = jnp.asarray(w)
    model = to_onnx(lambda x, chosen: mix(x, held, chosen), [x, chosen], weights="int4")
    assert types(model)["held"] == "UINT8"
    expected = mix(x, in_rows(w, "int4"), chosen)
    np.testing.assert_allclose(run(model, x, chosen), expected, atol=1e-4)


@pytest.mark.parametrize("form", ["int4", "uint4", "int8"])
@pytest.mark.parametrize("size", [1e-30, 1e-8, 1e-6, 1, 1e8, 1e30])
def test_weights_of_any_magnitude(form, size):
    w, x = normal(64, 32) * np.float32(size), normal(2, 64)
    held = jnp.asarray(w)
    model = to_onnx(lambda x: x @ held, [x], weights=form)
    scale = next(t for t in model.graph.initializer if t.name == "held/scale")
    assert scale.data_type == (onnx.TensorProto.FLOAT16 if size == 1 else onnx.TensorProto.FLOAT)
    expected = x @ w
    limit = np.abs(expected).max() * (0.02 if form == "int8" else 0.2)
    np.testing.assert_allclose(run(model, x), expected, rtol=0, atol=limit)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_unchanged(bad):
    w, v = normal(64, 32), normal(32, 64)
    w[3, 5] = bad
    first, second = jnp.asarray(w), jnp.asarray(v)
    exported = jax2onnx.export(lambda x: (x @ first) @ second, (2, 64), weight_format="int4")
    stored = {weight.name: weight for weight in exported.stored_weights.weights}
    assert stored["first"].format is None
    assert stored["first"].reason == "it holds NaN or infinity"
    assert stored["second"].format is not None


def test_stacked_heads():
    ws, x = normal(3, 64, 4, 16) * 0.1, normal(2, 64)
    stacked = jnp.asarray(ws)

    def layers(x, ws):
        def layer(x, w):
            return jnp.tanh(jnp.einsum("bd,dhk->bhk", x, w)).reshape(x.shape), None

        return jax.lax.scan(layer, x, ws)[0]

    model = to_onnx(lambda x: layers(x, stacked), [x], weights="int4")
    assert types(model)["stacked"] == "INT4"
    small = np.stack([dequantized(w.reshape(64, 64), "int4") for w in ws]).reshape(ws.shape)
    np.testing.assert_allclose(run(model, x), layers(x, small), atol=1e-4)


def test_lookups_in_loops():
    embedding, ids = normal(50, 32), np.asarray([3, 7, 0], np.int32)
    table = jnp.asarray(embedding)

    def fn(ids):
        return jax.lax.fori_loop(0, 3, lambda i, x: x + jnp.tanh(x) * table[ids + i], table[ids])

    model = to_onnx(fn, [ids], weights={"table": "int4"})
    small = in_rows(embedding, "int4")
    expected = small[ids]
    for i in range(3):
        expected = expected + np.tanh(expected) * small[ids + i]
    np.testing.assert_allclose(run(model, ids), expected, atol=1e-5)


def test_the_table_of_weights(caplog):
    net, ids = Net(), np.zeros((1, 4), np.int32)
    with caplog.at_level("INFO", logger="jax2onnx.weights"):
        to_onnx(net, [ids], weights="int4")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert (
        record.getMessage()
        == """\
25,600 of 39,696 bytes of weights are unchanged:
         bytes         stored  format     weight
        32,768          4,608  int4:32    down.kernel
        32,768          4,608  int4:32    up.kernel
        25,600         25,600  float32    embed.embedding  its rows are looked up; name it to \
store it like that
        25,600          3,600  int4:32    head.kernel
           512            512  float32    up.bias  it is small
           256            256  float32    down.bias  it is small
           256            256  float32    norm.bias  it is small
           256            256  float32    norm.scale  it is small
       118,016         39,696  in all"""
    )
    caplog.clear()
    with caplog.at_level("INFO", logger="jax2onnx.weights"):
        to_onnx(net, [ids], weights={"embed.*": "int4", "*": "int4"})
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_embeddings_and_norms_are_kept():
    held = types(to_onnx(Net(), [np.zeros((1, 4), np.int32)], weights="int4"))
    assert held["embed.embedding"] == held["norm.scale"] == held["norm.bias"] == "FLOAT"
    assert held["up.kernel"] == held["down.kernel"] == held["head.kernel"] == "INT4"


def test_transposed_weights_are_quantised_as_products_read_them(tmp_path):
    w, x = normal(48, 64), normal(5, 64)
    held = jnp.asarray(w)
    model = to_onnx(lambda x: x @ held.T, [x], weights="int4")
    assert optimised(model, tmp_path) == ["MatMulNBits"]
    expected = x @ dequantized(np.ascontiguousarray(w.T), "int4")
    np.testing.assert_allclose(run(model, x), expected, atol=1e-3)


def test_half_precision_weights_become_integers(tmp_path):
    w = jnp.asarray(normal(64, 32), jnp.bfloat16)

    def fn(x):
        return (x.astype(jnp.bfloat16) @ w).astype(jnp.float32)

    x = normal(3, 64)
    model = to_onnx(fn, [x], weights="int4")
    assert "MatMulNBits" in optimised(model, tmp_path)
    rounded = np.asarray(jnp.asarray(x, jnp.bfloat16).astype(jnp.float32))
    expected = rounded @ dequantized(np.asarray(w.astype(jnp.float32)), "int4")
    np.testing.assert_allclose(run(model, x), expected, rtol=2e-2, atol=2e-2)


def test_weights_of_loops_and_functions():
    w, x = normal(32, 32) / 6, normal(2, 32)

    def fn(x):
        return jax.lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ w), x)

    model = to_onnx(fn, [x], weights="int8")
    expected = x
    for _ in range(3):
        expected = np.tanh(expected @ dequantized(w, "int8"))
    np.testing.assert_allclose(run(model, x), expected, atol=1e-4)

    net, ids = Net(), np.asarray([[1, 2]], np.int32)
    inlined = to_onnx(net, [ids], weights="int8")
    outlined = to_onnx(net, [ids], weights="int8", functions="modules")
    assert outlined.functions
    assert types(outlined)["up.kernel"] == "INT8"
    np.testing.assert_allclose(run(outlined, ids), run(inlined, ids), atol=1e-5)


def test_a_weight_that_is_read_twice():
    w, x = normal(64, 64) / 8, normal(2, 64)
    model = to_onnx(lambda x: jnp.tanh(x @ w) @ w, [x], weights="int4")
    small = dequantized(w, "int4")
    np.testing.assert_allclose(run(model, x), np.tanh(x @ small) @ small, atol=1e-4)


def test_files_are_smaller(tmp_path):
    w = normal(512, 512)
    sizes = {}
    for form in [None, "float16", "int8", "int4", "uint4"]:
        path = tmp_path / "m.onnx"
        to_onnx(lambda x: x @ w, [(1, 512)], weights=form, return_mode="file", output_path=path)
        sizes[form] = path.stat().st_size
    assert sizes["float16"] < sizes[None] * 0.51
    assert sizes["int8"] < sizes["float16"] * 0.55
    assert sizes["int4"] < sizes["uint4"] < sizes["float16"] * 0.3


def test_a_file_holds_the_returned_model(tmp_path):
    w, x = normal(64, 64), normal(1, 64)
    path = str(tmp_path / "m.onnx")
    for form in ["int4", "uint8", "float16"]:
        returned = to_onnx(lambda x: x @ w, [x], weights=form)
        to_onnx(lambda x: x @ w, [x], weights=form, return_mode="file", output_path=path)
        assert onnx.load(path) == returned
    ir = to_onnx(lambda x: x @ w, [x], weights="int4", return_mode="ir")
    assert ir.graph.initializers["w"].const_value.numpy().shape == (64, 64)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("int3", "`weights` cannot be 'int3'"),
        ({"*": "int4:20"}, "`weights['*']` cannot be 'int4:20'"),
        ({"nothing.*": "int4"}, "`weights` names `nothing.*`, which matches no parameter"),
        ({"norm.scale": "int4"}, "`norm.scale` cannot be stored as int4 in blocks of 32"),
        ({"embed.*": "int8:128"}, "its rows of 64 elements are not a multiple of the block size"),
    ],
)
def test_impossible_formats_are_errors(weights, message):
    with pytest.raises(InvalidInputError) as raised:
        to_onnx(Net(), [np.zeros((1, 4), np.int32)], weights=weights)
    assert message in str(raised.value)


def test_integers_need_a_newer_opset():
    w = normal(64, 64)
    with pytest.raises(InvalidInputError, match="need opset 21 or newer"):
        to_onnx(lambda x: x @ w, [(1, 64)], weights="int4", opset=20)
    to_onnx(lambda x: x @ w, [(1, 64)], weights="float16", opset=20)


@pytest.mark.parametrize("options", [{"weights": "int8", "opset": 18}, {"weights": "uint8:column"}])
def test_columns_have_scales(options):
    w, x = normal(48, 64) * jnp.arange(1, 65), normal(3, 48)
    model = to_onnx(lambda x: x @ w, [("B", 48)], **options)
    assert model.opset_import[0].version < 21
    (widened,) = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
    assert {a.name: a.i for a in widened.attribute} == {"axis": 1}
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    assert list(stored[widened.input[1]].dims) == [64]
    # Half a step for each of the products, and the rounding of the other operand.
    step = np.abs(w).max(0) / 127
    bound = step * (np.abs(x).sum(1, keepdims=True) * 0.55) + np.abs(x @ w).max() * 0.02
    assert np.all(np.abs(run(model, x) - x @ w) <= bound)


@pytest.mark.parametrize("size", [64, 128])
def test_weights_that_cannot_be_rounded_leave_the_old_model(size, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_text("old")
    w = normal(size, size)
    w[3, 5] = np.nan
    options = {"weights": {"w": "int4"}, "return_mode": "file", "output_path": path}
    with pytest.raises(InvalidInputError, match="it holds NaN or infinity"):
        to_onnx(lambda x: x @ w, [(1, size)], **options)
    with pytest.raises(InvalidInputError, match="it holds NaN or infinity"):
        to_onnx(lambda x: x @ w, [(1, size)], weights={"w": "int4"})
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.slow
def test_the_loss_of_each_line(tmp_path):
    net, ids = Net(), np.asarray([[1, 2, 3]], np.int32)
    for form, ok in (("int4", False), (None, True)):
        model = to_onnx(net, [ids], weights=form, stacktrace_metadata=True)
        found = verify(net, model, [ids])
        assert found.ok == ok
    model = to_onnx(net, [ids], weights={"head.*": "int4"}, stacktrace_metadata=True)
    found = verify(net, model, [ids])
    assert not found.ok
    assert found.by_module[0].place == "head"
    assert "test_weights.py" in found.by_line[0].place
    assert found.by_line[0].maximum > 100 * found.by_line[1].maximum


def test_zeros_stay_tiny():
    w = np.zeros((128, 64), np.float32)
    model = to_onnx(lambda x: x @ w, [(2, 128)], weights="int4")
    # onnxruntime may compute a multiple of the smallest scale.
    assert np.abs(run(model, np.float32(1e4) * normal(2, 128))).max() < 1e-6


def test_products_of_one_operand_are_merged():
    v, w, x = normal(64, 32), normal(64, 96), normal(3, 64)

    def both(x):
        gate = x @ v
        up = x @ w
        return gate, up

    options = {"weights": "int4", "operators": {"MatMulNBits": "native"}}
    merged = to_onnx(both, [x], stacktrace_metadata="sourcemap", **options)
    assert [node.op_type for node in merged.graph.node] == ["MatMulNBits", "Split"]
    assert {"v+w", "v+w/scale"} < set(types(merged))
    results = session(merged).run(None, {merged.graph.input[0].name: x})
    for result, one in zip(results, (lambda x: x @ v, lambda x: x @ w), strict=True):
        np.testing.assert_array_equal(result, run(to_onnx(one, [x], **options), x))
    first = both.__code__.co_firstlineno
    for node in merged.graph.node:
        lines = {found.site.line for found in SourceMap.load(merged).lookup(node.name)}
        assert lines == {first + 1, first + 2}
