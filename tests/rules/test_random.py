"""Random numbers: the same bits as in JAX, from keys of every kind."""

import equinox
import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import lax, random

from harness.checking import assert_close, check_model, check_sizes, op_types, run
from jax2onnx import to_onnx

KEYS = {"typed": random.key(42), "raw": random.PRNGKey(42)}
# Newer versions of JAX have more of them.
IMPLEMENTATIONS = ["threefry2x32", "rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32"]

SAMPLERS = {
    "split": lambda key: random.split(key, (3, 2)),
    "fold_in": lambda key: random.fold_in(key, 7),
    "bits": lambda key: random.bits(key, (3, 5)),
    "bytes": lambda key: random.bits(key, (9,), jnp.uint8),
    "uniform": lambda key: random.uniform(key, (50,), minval=-2, maxval=3),
    "half": lambda key: random.uniform(key, (50,), jnp.float16),
    "normal": lambda key: random.normal(key, (50,)),
    "randint": lambda key: random.randint(key, (50,), -5, 1000),
    "bernoulli": lambda key: random.bernoulli(key, 0.3, (50,)),
    "permutation": lambda key: random.permutation(key, 20),
    "independent": lambda key: random.permutation(
        key, jnp.arange(12).reshape(3, 4), axis=1, independent=True
    ),
    "choice": lambda key: random.choice(key, jnp.arange(20), (5,), replace=False),
    "weighted": lambda key: random.choice(key, 8, (5,), p=jnp.arange(8) / 28),
    "categorical": lambda key: random.categorical(key, jnp.log(jnp.arange(1.0, 6.0)), shape=(20,)),
    "gumbel": lambda key: random.gumbel(key, (50,)),
    "truncated_normal": lambda key: random.truncated_normal(key, -1, 2, (50,)),
    "exponential": lambda key: random.exponential(key, (50,)),
    "laplace": lambda key: random.laplace(key, (50,)),
    "gamma": lambda key: random.gamma(key, jnp.array([0.3, 1.0, 4.0]), (5, 3)),
    "dirichlet": lambda key: random.dirichlet(key, jnp.ones(4), (3,)),
    "poisson": lambda key: random.poisson(key, 3.5, (20,)),
}


@pytest.mark.parametrize("sample", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_sampling(sample):
    # None of them needs a new operator.
    model = check_model(sample, [KEYS["typed"]])
    assert model.opset_import[0].version <= 20
    assert model.graph.input[0].type.tensor_type.elem_type == 12  # uint32


@pytest.mark.parametrize("sample", ["split", "normal", "permutation"])
def test_sampling_from_raw_keys(sample):
    check_model(SAMPLERS[sample], [KEYS["raw"]])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_implementations(implementation):
    try:
        key = random.key(9, impl=implementation)
    except ValueError:
        pytest.skip("this version of JAX does not have it")
    samples = [SAMPLERS[name] for name in ("bits", "bytes", "fold_in", "uniform")]
    check_model(lambda key: [sample(key) for sample in samples], [key])
    check_model(lambda key: jax.vmap(SAMPLERS["bits"])(random.split(key, 3)), [key])
    check_model(lambda seed: random.key(seed, impl=implementation), [np.array(-3, np.int32)])


def test_keys_that_are_not_partitionable():
    with jax.threefry_partitionable(False):
        samples = [SAMPLERS[name] for name in ("bits", "bytes", "split", "uniform")]
        check_model(lambda key: [sample(key) for sample in samples], [KEYS["typed"]])


@pytest.mark.parametrize("seed", [0, -1, 2**31 - 1])
def test_seeds(seed):
    check_model(random.key, [np.array(seed, np.int32)])
    check_model(lambda x: x + random.uniform(random.key(seed), (3,)), [np.zeros(3, np.float32)])


def test_wide_types():
    for sample in (
        lambda key: random.bits(key, (5,), jnp.uint64),
        lambda key: random.uniform(key, (5,), jnp.float64),
        lambda key: random.randint(key, (5,), -(2**62), 2**62, jnp.int64),
    ):
        model = to_onnx(sample, [KEYS["typed"]], enable_double_precision=True)
        with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
            assert_close(run(model, [KEYS["typed"]]), [sample(KEYS["typed"])])


def test_sizes_are_known_later():
    def mask(key, x):
        return jnp.where(random.bernoulli(key, 0.5, x.shape), x, 0)

    key = random.key_data(KEYS["typed"])
    runs = [[key, np.ones((rows, 4), np.float32)] for rows in (1, 7)]
    check_sizes(
        lambda key, x: mask(random.wrap_key_data(key), x),
        [jax.ShapeDtypeStruct((2,), jnp.uint32), ("B", 4)],
        *runs,
    )


def test_keys_in_control_flow():
    keys = random.split(KEYS["typed"], 5)
    check_model(
        lambda key: lax.scan(
            lambda key, _: (random.split(key)[0], random.uniform(key)), key, None, length=4
        ),
        [KEYS["typed"]],
    )
    check_model(lambda keys: lax.map(random.bits, keys), [keys])
    check_model(
        lambda key: lax.while_loop(
            lambda state: state[1] < 3,
            lambda state: (random.split(state[0])[1], state[1] + random.uniform(state[0])),
            (key, 0.0),
        ),
        [KEYS["typed"]],
    )
    for choice in (False, True):
        check_model(
            lambda key, which: lax.cond(which, lambda k: random.split(k)[0], lambda k: k, key),
            [KEYS["typed"], np.array(choice)],
        )


MOVES = {
    "reshape": lambda keys: keys.reshape(2, 3),
    "transpose": lambda keys: keys.reshape(2, 3).T,
    "slice": lambda keys: keys[1:5:2],
    "reverse": lambda keys: keys[::-1],
    "index": lambda keys: keys[2],
    "gather": lambda keys: keys[jnp.array([4, 0, 4])],
    "take": lambda keys: jnp.take(keys, jnp.array([1, 5]), axis=0, mode="clip"),
    "broadcast": lambda keys: jnp.broadcast_to(keys, (4, 6)),
    "squeeze": lambda keys: keys[None].squeeze(0),
    "stack": lambda keys: jnp.stack([keys, keys], 1),
    "concatenate": lambda keys: jnp.concatenate([keys, keys[:1]]),
    "roll": lambda keys: jnp.roll(keys, 2),
    "set": lambda keys: keys.at[3].set(keys[0]),
    "where": lambda keys: jnp.where(jnp.arange(6) < 3, keys, keys[::-1]),
    "equal": lambda keys: (keys == keys[::-1], keys != keys[0]),
    "clone": random.clone,
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())
def test_keys_that_move(move):
    check_model(move, [random.split(KEYS["typed"], 6)])


def test_indices_that_are_known_later():
    keys, index = random.split(KEYS["typed"], 6), np.array(3, np.int32)
    check_model(lambda keys, i: keys[i], [keys, index])
    check_model(lambda keys, i: lax.dynamic_slice(keys, (i,), (2,)), [keys, index])
    check_model(lambda keys, i: keys.at[i].set(keys[0]), [keys, index])
    check_model(lambda keys, i: jax.vmap(random.fold_in, (0, None))(keys, i), [keys, index])


def test_keys_that_a_function_holds():
    key = random.key(3)
    with pytest.warns(UserWarning, match=r"\[constant-key\]"):
        model = check_model(lambda x: x + random.uniform(key, (4,)), [np.zeros(4, np.float32)])
    assert "key" in [tensor.name for tensor in model.graph.initializer]


@pytest.mark.parametrize("algorithm", ["RNG_DEFAULT", "RNG_PHILOX", "RNG_THREE_FRY"])
@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.uint32])
def test_bit_generator(algorithm, dtype):
    # The counter is about to overflow.
    key = np.array([1, 2, 2**32 - 2, 2**32 - 1], np.uint32)
    which = getattr(lax.RandomAlgorithm, algorithm)
    shapes = [(), (1,), (5,), (3, 5), (3, 4), (0, 2)]
    check_model(
        lambda key: [lax.rng_bit_generator(key, shape, dtype, which) for shape in shapes], [key]
    )


def test_dropout():
    x = np.ones((8, 16), np.float32)

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Dropout(0.5, rngs=rngs)
            self.second = nnx.Dropout(0.1, rngs=rngs)

        def __call__(self, x):
            return self.second(self.first(x))

    model = to_onnx(Model(nnx.Rngs(0)), [x], training="allow")
    assert_close(run(model, [x]), [Model(nnx.Rngs(0))(x)])
    assert "Scan" in op_types(model)

    layer = flax.linen.Dropout(0.5, deterministic=False)
    check_model(lambda key, x: layer.apply({}, x, rngs={"dropout": key}), [KEYS["typed"], x])
    check_model(lambda key, x: equinox.nn.Dropout(0.5)(x, key=key), [KEYS["raw"], x])
