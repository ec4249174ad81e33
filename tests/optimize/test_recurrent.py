"""Recurrent layers: scans that become ONNX's LSTM, GRU or RNN, for every library."""

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

from harness.checking import assert_close, check_model, op_types, run
from harness.provenance_of import of_type
from jax2onnx import SourceMap, to_onnx

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


# A bias that is multiplied by the reset gate cannot be a weight, and onnxruntime loses NaN in it.
GUARDED = {"linen.GRUCell", "eqx.GRUCell", "eqx.GRUCell in vmap"}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_by_default_layers_keep_nan(name):
    op, fn, x = LAYERS[name]()
    model = to_onnx(fn, [x])
    assert len(of_type(model, op)) == (op != "RNN")
    assert len(of_type(model, "If")) == (name in GUARDED)
    for value in (0.5, np.nan, np.inf, -np.inf, 3e38):
        special = x.copy()
        special.reshape(-1, FEATURES)[2, 1] = value
        assert_close(run(model, [special]), jax.tree.leaves(fn(special)))


def gru_step(hidden, x):
    xs, hs = x @ W[:, UNITS:] + B[UNITS:], hidden @ R[:, UNITS:] + B[:-UNITS]
    (z, r, n), (hz, hr, hn) = jnp.split(xs, 3, axis=-1), jnp.split(hs, 3, axis=-1)
    update = jax.nn.sigmoid(z + hz)
    hidden = (1 - update) * jnp.tanh(n + jax.nn.sigmoid(r + hr) * hn) + update * hidden
    return hidden, hidden


@pytest.mark.parametrize("opset", [13, 23])
@pytest.mark.parametrize("reverse", [False, True, None], ids=["forwards", "backwards", "both"])
def test_a_guarded_layer_propagates_nan(reverse, opset):
    def fn(h, x):
        one = lax.scan(gru_step, h, x, reverse=bool(reverse))
        other = lax.scan(gru_step, h, x, reverse=True)
        return one if reverse is not None else jnp.concatenate([one[1], other[1]], -1)

    model = to_onnx(fn, [("B", UNITS), ("T", "B", FEATURES)], opset=opset)
    assert len(of_type(model, "GRU")) == len(of_type(model, "If")) == 1
    for value in (0.5, np.nan, np.inf, -3e38):
        for place in range(2):
            args = [np.array(random(BATCH, UNITS)), TIME_FIRST.copy()]
            args[place][..., 0, 1] = value
            assert_close(run(model, args), jax.tree.leaves(fn(*args)))


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e20])
def test_a_large_initial_state_is_forgotten_as_in_jax(size):
    args = [size * np.asarray(random(BATCH, UNITS)), TIME_FIRST]
    assert of_type(check_model(lambda h, x: lax.scan(gru_step, h, x), args), "GRU")


def test_a_layer_of_finite_numbers_needs_no_guard():
    fn, x = flax_linen(nn.GRUCell)
    model = check_model(fn, [x], assume="finite")
    assert of_type(model, "GRU")
    assert not of_type(model, "If")


def test_a_layer_with_infinite_weights_stays_a_scan():
    def fn(x):
        def step(hidden, x):
            return gru_step(hidden, x * jnp.inf)

        return lax.scan(step, zeros(x), x)

    model = to_onnx(fn, [TIME_FIRST])
    assert not of_type(model, "GRU")
    assert_close(run(model, [TIME_FIRST]), jax.tree.leaves(fn(TIME_FIRST)))


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


BACKWARDS = {
    "nnx.GRUCell": lambda: flax_nnx(nnx.GRUCell, reverse=True, return_carry=True),
    "nnx.LSTMCell": lambda: flax_nnx(nnx.LSTMCell, reverse=True),
    "by hand": lambda: (
        lambda x: lax.scan(lstm_step, (zeros(x), zeros(x)), jnp.flip(x, 0)),
        TIME_FIRST,
    ),
    "states in both orders": lambda: (
        lambda x: (lambda h: (h, jnp.flip(h, 0)))(
            lax.scan(lstm_step, (zeros(x), zeros(x)), x, reverse=True)[1]
        ),
        TIME_FIRST,
    ),
}


@pytest.mark.parametrize("name", BACKWARDS)
@pytest.mark.parametrize("sizes", ["known", "symbolic"])
def test_a_layer_may_go_backwards_and_keep_the_order_of_its_steps(name, sizes):
    fn, x = BACKWARDS[name]()
    model = to_onnx(fn, [("A", "B", FEATURES) if sizes == "symbolic" else x])
    (node,) = of_type(model, "LSTM", "GRU")
    assert "reverse" in str(node.attribute)
    assert op_types(model).count("Slice") == 1
    for value in (0.5, np.nan, np.inf):
        special = x.copy()
        special[0, 2, 1] = value
        assert_close(run(model, [special]), jax.tree.leaves(fn(special)))


def test_the_last_state_of_a_layer_that_goes_backwards_is_its_first():
    def fn(x):
        return lax.scan(lstm_step, (zeros(x), zeros(x)), x[::-1])[1][-1]

    assert set(op_types(check_model(fn, [TIME_FIRST]))) == {"Pad", "LSTM", "Squeeze", "Gather"}


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


def masked_by_length(x):
    lengths = jnp.array([5, 2, 3])

    def step(state, scanned):
        i, x = scanned
        (hidden, cell), _ = lstm_step(state, x)
        keep = (i < lengths)[:, None]
        state = jnp.where(keep, hidden, state[0]), jnp.where(keep, cell, state[1])
        return state, state[0]

    return lax.scan(step, (zeros(x), zeros(x)), (jnp.arange(LENGTH), x))


def reset(x):
    def step(state, x):
        state = jax.tree.map(lambda s: jnp.where((x.sum(-1) > 0)[:, None], 0, s), state)
        return lstm_step(state, x)

    return lax.scan(step, (zeros(x), zeros(x)), x)


def masked_with_outputs(x):
    """As in Keras, the output of a masked step is that of the previous step."""

    def step(carry, x):
        output, state = carry
        (hidden, cell), _ = lstm_step(state, x)
        keep = (x.sum(-1) > 0)[:, None]
        state = jnp.where(keep, hidden, state[0]), jnp.where(keep, cell, state[1])
        output = jnp.where(keep, hidden, output)
        return (output, state), output

    return lax.scan(step, (zeros(x), (zeros(x), zeros(x) + 1)), x)


def lstm_step_after_product(state, x):
    hidden, cell = state
    i, f, g, o = jnp.split(x + hidden @ R + B, 4, axis=-1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
    return (hidden, cell), hidden


def gru_step_after_product(hidden, x):
    hs = hidden @ R[:, UNITS:] + B[:-UNITS]
    (z, r, n), (hz, hr, hn) = jnp.split(x[:, UNITS:], 3, axis=-1), jnp.split(hs, 3, axis=-1)
    update = jax.nn.sigmoid(z + hz)
    hidden = (1 - update) * jnp.tanh(n + jax.nn.sigmoid(r + hr) * hn) + update * hidden
    return hidden, hidden


def multiplied_before_and_read(x):
    product = x @ W
    return lax.scan(lstm_step_after_product, (zeros(x), zeros(x)), product), product


@pytest.mark.parametrize("sizes", [(BATCH, LENGTH, FEATURES), ("B", "T", FEATURES)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_all_steps_may_be_multiplied_at_once(op, reverse, sizes):
    step = {"LSTM": lstm_step_after_product, "GRU": gru_step_after_product}[op]

    def fn(x):
        zero = jnp.zeros((x.shape[0], UNITS), x.dtype)
        state = (zero, zero) if op == "LSTM" else zero
        steps = jnp.swapaxes(x @ W + B, 0, 1) + B * 2
        return jnp.swapaxes(lax.scan(step, state, steps, reverse=reverse)[1], 0, 1)

    model = to_onnx(fn, [sizes])
    assert len(of_type(model, op)) == 1
    assert not of_type(model, "MatMul")
    for value in (0.5, np.nan, np.inf, -3e38):
        special = X.copy()
        special[0, 2, 1] = value
        assert_close(run(model, [special]), [fn(special)])


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
        (masked, "a mask keeps its old state in some steps"),
        (masked_by_length, "a mask keeps its old state in some steps"),
        (masked_with_outputs, "a mask keeps its old state in some steps"),
        (multiplied_before_and_read, "its input is multiplied by weights before the scan"),
        (reset, "its state is reset in some steps"),
        (peephole, "a gate is more than a sum of products"),
        (cells, "it returns the cell state of every step"),
    ],
)
def test_other_layers_stay_scans(fn, reason, caplog):
    with caplog.at_level(logging.INFO, "jax2onnx"):
        model = check_model(fn, [TIME_FIRST], operators="native")
    assert "Scan" in op_types(model)
    assert "LSTM at " in caplog.text
    assert f"stays elementary: {reason}" in caplog.text


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


WIDE = random(UNITS, 4 * UNITS, seed=6)


def upper_lstm_step(state, x):
    return lstm_step_after_product(state, x @ WIDE)


def upper_gru_step(hidden, x):
    return gru_step_after_product(hidden, x @ WIDE)


def stacked(*cells, reverse=False, reads=lambda state: state[0]):
    """Returns layers that are computed by one scan, each of which reads the one below."""

    def fn(x):
        def step(states, x):
            after = []
            for cell, before in zip(cells, states, strict=True):
                state, x = cell(before, x)
                after.append(state)
                x = reads(state) if isinstance(state, tuple) else x
            return after, x

        has_cell = (lstm_step, upper_lstm_step)
        states = [(zeros(x), zeros(x)) if cell in has_cell else zeros(x) for cell in cells]
        return lax.scan(step, states, x, reverse=reverse)

    return fn


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "cells",
    [
        (lstm_step, upper_lstm_step),
        (gru_step, upper_lstm_step),
        (lstm_step, upper_gru_step, upper_lstm_step),
    ],
)
def test_layers_of_one_scan_are_one_node_each(cells, reverse):
    fn = stacked(*cells, reverse=reverse)
    model = check_model(fn, [TIME_FIRST], operators="native")
    assert "Scan" not in op_types(model)
    layers = ["GRU" if "gru" in cell.__name__ else "LSTM" for cell in cells]
    assert [op for op in op_types(model) if op in layers] == layers
    model = to_onnx(fn, [("T", "B", FEATURES)])
    for value in (0.5, np.nan, np.inf):
        special = TIME_FIRST.copy()
        special[2, 1, 1] = value
        assert_close(run(model, [special]), jax.tree.leaves(fn(special)))


def test_a_layer_whose_cell_state_is_read_stays_in_the_scan():
    fn = stacked(lstm_step, upper_lstm_step, reads=lambda state: state[0] + state[1])
    model = check_model(fn, [TIME_FIRST], operators="native")
    assert "Scan" in op_types(model)


def test_layers_of_a_deep_network_are_one_node_each():
    def forward(x):
        core = hk.DeepRNN([hk.LSTM(UNITS), hk.GRU(UNITS)])
        return hk.dynamic_unroll(core, x, core.initial_state(BATCH))

    forward = hk.without_apply_rng(hk.transform(forward))
    params = forward.init(jax.random.key(0), TIME_FIRST)
    model = check_model(lambda x: forward.apply(params, x), [TIME_FIRST], operators="native")
    assert "Scan" not in op_types(model)
    assert {"LSTM", "GRU"} <= set(op_types(model))


def test_layers_of_one_scan_name_their_own_cells():
    model = to_onnx(
        stacked(lstm_step, upper_gru_step), [TIME_FIRST], stacktrace_metadata="sourcemap"
    )
    (node,) = of_type(model, "LSTM")
    lines = {s.site.line for s in SourceMap.load(model).lookup_node(node) if s.site is not None}
    first = lstm_step.__code__.co_firstlineno
    assert {first + 2, first + 3, first + 4} <= lines
    other = gru_step_after_product.__code__.co_firstlineno
    assert not lines & set(range(other + 1, other + 6))


def both_ways(x, forth, back, order=1):
    def states(cell, reverse):
        (hidden, _), hiddens = lax.scan(cell, (zeros(x), zeros(x)), x, reverse=reverse)
        return hiddens, hidden

    (forth, last), (back, first) = states(forth, False), states(back, True)
    return jnp.concatenate([forth, back][::order], axis=-1), last, first


def other_lstm_step(state, x):
    w, r = random(FEATURES, 4 * UNITS, seed=4), random(UNITS, 4 * UNITS, seed=5)
    hidden, cell = state
    i, f, g, o = jnp.split(x @ w + hidden @ r + B, 4, axis=-1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
    return (hidden, cell), hidden


def nnx_bidirectional(cell, **options):
    rngs = nnx.Rngs(0)
    layers = [nnx.RNN(cell(FEATURES, UNITS, rngs=rngs)) for _ in range(2)]
    return nnx.Bidirectional(*layers, rngs=rngs, **options), X


def linen_bidirectional():
    module = nn.Bidirectional(nn.RNN(nn.LSTMCell(UNITS)), nn.RNN(nn.LSTMCell(UNITS)))
    params = module.init(jax.random.key(0), X)
    return lambda x: module.apply(params, x), X


def carry_first(layer):
    def fn(x, h, c, i, d):
        carries, y = layer(x, initial_carry=((h, c), (i, d)))
        return y, carries

    return fn


BIDIRECTIONAL = {
    "nnx.LSTMCell": lambda: ("LSTM", *nnx_bidirectional(nnx.LSTMCell)),
    "nnx.GRUCell": lambda: ("GRU", *nnx_bidirectional(nnx.GRUCell)),
    "nnx.SimpleCell": lambda: ("RNN", *nnx_bidirectional(nnx.SimpleCell)),
    "nnx.LSTMCell with its state": lambda: (
        "LSTM",
        *nnx_bidirectional(nnx.LSTMCell, return_carry=True),
    ),
    "linen.LSTMCell": lambda: ("LSTM", *linen_bidirectional()),
    "by hand": lambda: (
        "LSTM",
        lambda x: both_ways(x, lstm_step, other_lstm_step)[0],
        TIME_FIRST,
    ),
    "by hand, with the last states": lambda: (
        "LSTM",
        lambda x: both_ways(x, lstm_step, other_lstm_step),
        TIME_FIRST,
    ),
    "by hand, only the last states": lambda: (
        "LSTM",
        lambda x: jnp.concatenate(both_ways(x, lstm_step, other_lstm_step)[1:], axis=-1),
        TIME_FIRST,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BIDIRECTIONAL)
def test_two_directions_are_one_node(name):
    op, fn, x = BIDIRECTIONAL[name]()
    for operators in ("native", "auto") if op != "RNN" else ("native",):
        model = check_model(fn, [x], operators=operators)
        (node,) = of_type(model, op)
        assert b"bidirectional" in [attr.s for attr in node.attribute]
        assert "Concat" not in op_types(model)


def test_two_directions_in_a_symbolic_batch_keep_nan():
    fn = lambda x: both_ways(x, lstm_step, other_lstm_step)  # noqa: E731
    model = to_onnx(fn, [("T", "B", FEATURES)])
    assert op_types(model).count("LSTM") == 1
    for value in (0.5, np.nan, np.inf):
        x = np.asarray(random(4, 2, FEATURES)).copy()
        x[2, 1, 0] = value
        assert_close(run(model, [x]), jax.tree.leaves(fn(x)))


def test_two_directions_without_a_batch():
    def fn(x):
        y, last, first = both_ways(x[:, None], lstm_step, other_lstm_step)
        return y[:, 0], jnp.concatenate([last, first], -1)[0]

    def alone(x):
        def states(w, reverse):
            step = lambda h, x: (jnp.tanh(x @ w + h @ R[:, :UNITS]),) * 2  # noqa: E731
            return lax.scan(step, jnp.zeros(UNITS), x, reverse=reverse)

        (last, forth), (first, back) = states(W[:, :UNITS], False), states(W[:, UNITS:12], True)
        return jnp.concatenate([forth, back], -1), jnp.concatenate([last, first], -1)

    for layers in (fn, alone):
        model = check_model(layers, [X[0]], operators="native")
        assert len(of_type(model, "LSTM") + of_type(model, "RNN")) == 1


def test_two_directions_with_initial_states():
    layer, x = nnx_bidirectional(nnx.LSTMCell, return_carry=True)
    states = [np.asarray(random(BATCH, UNITS, seed=seed)) for seed in range(4)]
    model = check_model(carry_first(layer), [x, *states])
    (node,) = of_type(model, "LSTM")
    assert len(node.input) == 7


def wider_step(state, x):
    hidden, cell = state
    w, r = random(FEATURES, 32, seed=4), random(8, 32, seed=5)
    i, f, g, o = jnp.split(x @ w + hidden @ r, 4, axis=-1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
    return (hidden, cell), hidden


def of_different_sizes(x):
    wide = (jnp.zeros((BATCH, 8)),) * 2
    back = lax.scan(wider_step, wide, x, reverse=True)[1]
    return jnp.concatenate([lax.scan(lstm_step, (zeros(x), zeros(x)), x)[1], back], -1)


def of_different_inputs(x):
    forth = lax.scan(lstm_step, (zeros(x), zeros(x)), x)[1]
    back = lax.scan(other_lstm_step, (zeros(x), zeros(x)), x * x, reverse=True)[1]
    return jnp.concatenate([forth, back], -1)


def with_one_state(x):
    forth = lax.scan(lstm_step, (zeros(x), zeros(x)), x)[1]
    back = lax.scan(other_lstm_step, (zeros(x) + 1, zeros(x)), x, reverse=True)[1]
    return jnp.concatenate([forth, back], -1)


def read_alone(x):
    forth = lax.scan(lstm_step, (zeros(x), zeros(x)), x)[1]
    back = lax.scan(other_lstm_step, (zeros(x), zeros(x)), x, reverse=True)[1]
    return jnp.concatenate([forth, back], -1), back


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (of_different_sizes, "its directions have different sizes"),
        (of_different_inputs, "its directions read different inputs"),
        (with_one_state, "only one of its directions has an initial state"),
        (read_alone, "the results of one direction are read on their own"),
        (
            lambda x: both_ways(x, lstm_step, other_lstm_step, order=-1),
            "the results of the backward direction come first",
        ),
        (
            lambda x: both_ways(x, lstm_step, lstm_step),
            None,
        ),
    ],
)
def test_directions_that_do_not_fit_stay_two_nodes(fn, reason, caplog):
    with caplog.at_level(logging.INFO, "jax2onnx"):
        model = check_model(fn, [TIME_FIRST], operators="native")
    if reason is None:
        assert len(of_type(model, "LSTM")) == 1
    else:
        assert len(of_type(model, "LSTM")) == 2
        assert "bidirectional LSTM at " in caplog.text
        assert f"stays elementary: {reason}" in caplog.text


def test_a_bidirectional_layer_names_both_scans():
    def fn(x):
        forth = lax.scan(lstm_step, (zeros(x), zeros(x)), x)[1]
        back = lax.scan(other_lstm_step, (zeros(x), zeros(x)), x, reverse=True)[1]
        return jnp.concatenate([forth, back], -1)

    model = to_onnx(fn, [TIME_FIRST], stacktrace_metadata="sourcemap")
    (node,) = of_type(model, "LSTM")
    found = SourceMap.load(model).lookup_node(node)
    lines = [source.site.line for source in found if source.site is not None]
    first = fn.__code__.co_firstlineno
    assert lines[0] == first + 1
    assert {first + 2, first + 3} <= set(lines)
    cells = {step.__code__.co_firstlineno for step in (lstm_step, other_lstm_step)}
    assert all(any(0 < line - first < 8 for line in lines) for first in cells)


def test_weights_of_both_directions_are_named_after_their_layer():
    class Tagger(nnx.Module):
        def __init__(self):
            self.encoder = nnx_bidirectional(nnx.OptimizedLSTMCell)[0]

        def __call__(self, x):
            return self.encoder(x)

    model = to_onnx(Tagger(), [X], operators="native")
    shapes = {t.name: list(t.dims) for t in model.graph.initializer}
    assert shapes["encoder.W"] == [2, 4 * UNITS, FEATURES]
    assert shapes["encoder.R"] == [2, 4 * UNITS, UNITS]
    assert shapes["encoder.B"] == [2, 8 * UNITS]
