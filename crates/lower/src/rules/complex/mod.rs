//! Rules for complex numbers, for primitives whose real rule cannot be applied to each part.

pub(super) mod arithmetic;
pub(super) mod conversion;
pub(super) mod exponential;
pub(super) mod indexing;
pub(super) mod inverse;
pub(super) mod linear;
pub(super) mod modulus;
pub(super) mod order;
pub(super) mod part;
pub(super) mod power;
pub(super) mod reduction;
pub(super) mod trigonometric;

pub(super) use exponential::log_add_exp;
pub(super) use order::{larger, smaller};
pub(super) use reduction::{extremum, product};
