"""PRNG keys and random bits."""

import jax
import numpy as np
from jax import lax

from primitives.operands import Key, Programs, bind, i32, u32

IMPLEMENTATIONS = ("philox2x32", "philox4x32", "threefry4x32")

PROGRAMS: Programs = {
    "random_wrap": (lambda k: jax.random.key_data(jax.random.wrap_key_data(k)), u32(2)),
    "random_unwrap": (jax.random.key_data, Key()),
    "random_bits": (lambda k: jax.random.bits(k, (3,)), Key()),
    "random_split": (lambda k: jax.random.key_data(jax.random.split(k)), Key()),
    "random_fold_in": (lambda k, i: jax.random.key_data(jax.random.fold_in(k, i)), Key(), i32()),
    "random_seed": (lambda s: jax.random.key_data(jax.random.key(s)), i32()),
    "random_clone": (lambda k: jax.random.key_data(jax.random.clone(k)), Key()),
    "random_gamma": (lambda k, a: jax.random.gamma(k, a), Key(), np.float32([0.5, 2.0])),
    "threefry2x32": (bind("threefry2x32"), u32(), u32(), u32(2), u32(2)),
    "rng_bit_generator": (lambda k: lax.rng_bit_generator(k, (3,)), u32(4)),
    "iota_2x32_shape": (bind("iota_2x32_shape", shape=(2, 3)),),
    **{name: (lambda k: jax.random.bits(k, (3,)), Key(name)) for name in IMPLEMENTATIONS},
    "jit.uniform": (jax.jit(lambda k: jax.random.uniform(k, (3,))), Key()),
    "rng_bit_generator.threefry": (
        lambda k: lax.rng_bit_generator(k, (2, 3), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY),
        u32(4),
    ),
    "rng_bit_generator.bytes": (
        lambda k: lax.rng_bit_generator(k, (5,), dtype=np.uint8),
        u32(4),
    ),
    "random_bits.bytes": (lambda k: jax.random.bits(k, (3,), np.uint8), Key()),
    "random_wrap.rbg": (
        lambda k: jax.random.key_data(jax.random.wrap_key_data(k, impl="rbg")),
        u32(4),
    ),
}
