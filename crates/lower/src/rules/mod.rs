//! The rules, grouped by subject, and the table of primitives that refers to them.
//!
//! A rule reads the equation's parameters, emits operators and returns values. It assigns no names,
//! states no types and knows no origins.

mod bits;
mod complex;
mod control_flow;
mod elementwise;
mod fourier;
mod indexing;
mod linear_algebra;
mod movement;
mod primitive;
mod random;
mod reduction;
mod special;
mod table;
mod windows;

pub use control_flow::row_loop::RowLoop;
pub use primitive::{
    Alone, Beyond, Control, EXPANSION, Equation, Expands, Expansion, Keys, Primitive,
};
pub(crate) use table::TABLE_FILE;
pub use table::{BEYOND_MODELS, primitive, primitives};
