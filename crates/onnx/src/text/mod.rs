//! ONNX's text syntax, for people and for tests.
//!
//! ```text
//! mlp (float[B,3] x) => (float[B,4] y)
//! <
//!   float[4] bias = {0.0, 0.5, 1.0, 1.5}
//! >
//! {
//!   c0 = Constant <value_ints: ints = [0, 4]> ()
//!   t = Reshape (x, c0)  # float[B,4]
//!   y = Add <axis: int = 1> (t, bias)  # float[B,4]
//! }
//! ```
//!
//! Named constants (parameters) are initializers; unnamed constants are `Constant` nodes. Types of
//! intermediate values are inferred; those that cannot be inferred are listed with the
//! initializers, without data. Unlike in `onnx.parser`, a 16-bit float with a point is a number. A
//! plain integer is a bit pattern in both.

mod attribute;
mod build;
mod constant;
mod functions;
mod layout;
mod lexer;
mod literal;
mod parse;
mod print;
mod syntax;

pub use build::parse;
pub use layout::SHOWN;
pub use literal::{float, write_elements};
pub use print::{print, quotable, quoted};

#[cfg(test)]
mod tests;
