"""Recurrent layers: scans that are LSTM, GRU or RNN of ONNX, in every library's spelling."""

import logging

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import lax

from checking import assert_close, check_model, op_types, run
from jax2onnx import SourceMap, to_onnx
from provenance_of import of_type

BATCH, LENGTH, FEATURES, UNITS = 3, 5, 4, 6
X = np.random.default_rng(0).normal(size=(BATCH, LENGTH, FEATURES)).astype(np.float32)
TIME_FIRST = np.ascontiguousarray(np.swapaxes(X, 0, 1))


def random(*shape, seed=1):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape) / 2, jnp.float32)


def flax_nnx(cell, **options):
    return nnx.RNN(cell(FEATURES, UNITS, rngs=nnx.Rngs(0)), **options), X


def flax_linen(cell, **options):
    module = nn.RNN(cell(UNITS, **options), return_carry=True)
    params = module.init(jax.random.key(0), X)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)
    return lambda x: module.apply(params, x), X


def haiku(core):
    def forward(x):
        layer = core(UNITS)
        return hk.dynamic_unroll(layer, x, layer.initial_state(BATCH))

    forward = hk.without_apply_rng(hk.transform(forward))
    params = forward.init(jax.random.key(0), TIME_FIRST)
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)
    return lambda x: forward.apply(params, x), TIME_FIRST


def equinox(cell, batched, **options):
    module = cell(FEATURES, UNITS, key=jax.random.key(0), **options)
    has_cell = cell is eqx.nn.LSTMCell

    def forward(xs):
        def step(state, x):
            state = module(x, state)
            return state, state[0] if has_cell else state

        zeros = jnp.zeros(UNITS)
        return lax.scan(step, (zeros, zeros) if has_cell else zeros, xs)

    return (jax.vmap(forward), X) if batched else (forward, X[0])


LAYERS = {
    "nnx.LSTMCell": lambda: ("LSTM", *flax_nnx(nnx.LSTMCell)),
    "nnx.OptimizedLSTMCell": lambda: ("LSTM", *flax_nnx(nnx.OptimizedLSTMCell)),
    "nnx.OptimizedLSTMCell reversed": lambda: (
        "LSTM",
        *flax_nnx(nnx.OptimizedLSTMCell, reverse=True, keep_order=True),
    ),
    "nnx.GRUCell": lambda: ("GRU", *flax_nnx(nnx.GRUCell)),
    "nnx.SimpleCell": lambda: ("RNN", *flax_nnx(nnx.SimpleCell)),
    "linen.LSTMCell": lambda: ("LSTM", *flax_linen(nn.LSTMCell)),
    "linen.OptimizedLSTMCell": lambda: ("LSTM", *flax_linen(nn.OptimizedLSTMCell)),
    "linen.GRUCell": lambda: ("GRU", *flax_linen(nn.GRUCell)),
    "linen.SimpleCell": lambda: ("RNN", *flax_linen(nn.SimpleCell)),
    "hk.LSTM": lambda: ("LSTM", *haiku(hk.LSTM)),
    "hk.GRU": lambda: ("GRU", *haiku(hk.GRU)),
    "hk.VanillaRNN": lambda: ("RNN", *haiku(hk.VanillaRNN)),
    "eqx.LSTMCell": lambda: ("LSTM", *equinox(eqx.nn.LSTMCell, batched=False)),
    "eqx.LSTMCell in vmap": lambda: ("LSTM", *equinox(eqx.nn.LSTMCell, batched=True)),
    "eqx.LSTMCell without bias": lambda: (
        "LSTM",
        *equinox(eqx.nn.LSTMCell, batched=True, use_bias=False),
    ),
    "eqx.GRUCell": lambda: ("GRU", *equinox(eqx.nn.GRUCell, batched=False)),
    "eqx.GRUCell in vmap": lambda: ("GRU", *equinox(eqx.nn.GRUCell, batched=True)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_libraries_are_one_node(name):
    op, fn, x = LAYERS[name]()
    model = check_model(fn, [x], operators="native")
    assert op_types(model).count(op) == 1
    assert "Scan" not in op_types(model)


# A bias that is multiplied by the reset gate cannot be a weight, and onnxruntime loses NaN with it.
LOSES_NAN = {"linen.GRUCell", "eqx.GRUCell", "eqx.GRUCell in vmap"}


@pytest.mark.parametrize("name", LAYERS)
def test_by_default_layers_keep_nan(name):
    op, fn, x = LAYERS[name]()
    model = to_onnx(fn, [x])
    ops = op_types(model)
    assert (op in ops) == (op != "RNN" and name not in LOSES_NAN)
    for value in (0.5, np.nan, np.inf, -np.inf, 3e38):
        special = x.copy()
        special.reshape(-1, FEATURES)[2, 1] = value
        assert_close(run(model, [special]), jax.tree.leaves(fn(special)))


W, R, B = random(FEATURES, 4 * UNITS), random(UNITS, 4 * UNITS, seed=2), random(4 * UNITS, seed=3)


def lstm_step(state, x):
    hidden, cell = state
    i, f, g, o = jnp.split(x @ W + hidden @ R + B, 4, axis=-1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
    return (hidden, cell), hidden


def zeros(x):
    return jnp.zeros((x.shape[1], UNITS), x.dtype)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("operators", ["auto", "native"])
def test_a_layer_by_hand(reverse, operators):
    def fn(h, c, x):
        return lax.scan(lstm_step, (h, c), x, reverse=reverse)

    model = check_model(
        fn, [random(BATCH, UNITS), random(BATCH, UNITS, seed=9), TIME_FIRST], operators=operators
    )
    (node,) = of_type(model, "LSTM")
    assert ("reverse" in str(node.attribute)) == reverse
    weights = {t.name: list(t.dims) for t in model.graph.initializer}
    assert weights["R"] == [1, 4 * UNITS, UNITS]


def test_symbolic_batches_and_lengths():
    def fn(x):
        return lax.scan(lstm_step, (zeros(x), zeros(x)), x)

    model = to_onnx(fn, [("T", "B", FEATURES)])
    assert "LSTM" in op_types(model)
    for shape in ((5, 3), (2, 1)):
        x = np.asarray(random(*shape, FEATURES))
        assert_close(run(model, [x]), jax.tree.leaves(fn(x)))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_small_floats(dtype):
    def fn(x):
        x = x.astype(dtype)
        w, r, b = (v.astype(dtype) for v in (W, R, B))

        def step(state, x):
            hidden, cell = state
            i, f, g, o = jnp.split(x @ w + hidden @ r + b, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        return lax.scan(step, (zeros(x), zeros(x)), x)[1].astype(jnp.float32)

    model = to_onnx(fn, [TIME_FIRST])
    assert "LSTM" in op_types(model)
    np.testing.assert_allclose(run(model, [TIME_FIRST])[0], fn(TIME_FIRST), atol=0.02)


def masked(x):
    def step(state, x):
        (hidden, cell), _ = lstm_step(state, x)
        keep = (x.sum(-1) > 0)[:, None]
        state = jnp.where(keep, hidden, state[0]), jnp.where(keep, cell, state[1])
        return state, state[0]

    return lax.scan(step, (zeros(x), zeros(x)), x)


def peephole(x):
    def step(state, x):
        hidden, cell = state
        i, f, g, o = jnp.split(x @ W + hidden @ R + B, 4, axis=-1)
        cell = jax.nn.sigmoid(f + cell) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return lax.scan(step, (zeros(x), zeros(x)), x)


def cells(x):
    def step(state, x):
        state, hidden = lstm_step(state, x)
        return state, (hidden, state[1])

    return lax.scan(step, (zeros(x), zeros(x)), x)


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (masked, None),
        (peephole, "a gate is more than a sum of products"),
        (cells, "it stacks more than its hidden states"),
    ],
)
def test_other_layers_stay_scans(fn, reason, caplog):
    with caplog.at_level(logging.INFO, "jax2onnx"):
        model = check_model(fn, [TIME_FIRST], operators="native")
    assert "Scan" in op_types(model)
    assert reason is None or f"stays elementary: {reason}" in caplog.text


def test_a_layer_names_the_lines_of_its_cell():
    def fn(x):
        return lax.scan(lstm_step, (zeros(x), zeros(x)), x)[1]

    model = to_onnx(fn, [TIME_FIRST], stacktrace_metadata="sourcemap")
    (node,) = of_type(model, "LSTM")
    found = SourceMap.load(model).lookup_node(node)
    lines = [source.site.line for source in found if source.site is not None]
    assert lines[0] == fn.__code__.co_firstlineno + 1
    first = lstm_step.__code__.co_firstlineno
    assert {first + 2, first + 3, first + 4} <= set(lines)


def test_weights_keep_their_names():
    model = to_onnx(LAYERS["nnx.OptimizedLSTMCell"]()[1], [X], operators="native")
    shapes = {t.name: list(t.dims) for t in model.graph.initializer}
    assert shapes["cell.dense_i.kernel"] == [1, 4 * UNITS, FEATURES]
    assert shapes["cell.dense_h.kernel"] == [1, 4 * UNITS, UNITS]
    assert shapes["cell.dense_h.bias"] == [1, 8 * UNITS]
