//! Random bits, identical to those of JAX's generators.

pub(crate) mod hash_rounds;
pub(crate) mod iota_2x32_shape;
pub(crate) mod philox;
pub(crate) mod rng_bit_generator;
pub(crate) mod threefry;
