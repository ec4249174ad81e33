//! Programs as text, in a syntax close to that of JAX.
//!
//! ```text
//! %0 = f32[4] {0.5, 1.0, -0.0, nan}
//! { lambda a:f32[4] "bias" = %0; b:f32[B,4]. let
//!     c:f32[B,4] = add b a :: "mlp/last" #0
//!     d:f32[B,4] = jit[jaxpr={ lambda ; a:f32[B,4]. let
//!         b:f32[B,4] = max a 0.0:f32[]
//!       in (b,) } name="relu"] c
//!   in (d,) }
//! ```
//!
//! - Arrays that are large, or that several jaxprs hold, come before the jaxprs. Their values are
//!   numbers in braces, `base64 "…"`, or `...` if they are left out. The text records which
//!   constants share one array. An element written as `0x…` is given by its bits.
//! - Jaxprs that are called more than once are defined as `@0 = { lambda … }` and called `@0`.
//! - `where "B >= 4"` before the arrays is a constraint on dimension variables.
//! - Parameters are `None`, `True`, `3`, `1.5`, `"text"`, `f32`, `CLIP` (a member of an enum), `(1, 2)`,
//!   `[field=1]`, `{1, 2}:i32[2]` (an array), a jaxpr, `dim "b + 1"` or `opaque "Mesh"`.
//! - After `::` come the scope of an equation, the number of its stack, and a marker if an external
//!   rule lowers it. The stacks themselves are the sections `frames`, `links` and `stacks` at the
//!   end.
//! - `//` begins a comment.
//!
//! The text contains neither JAX's numbering of equations (`Jaxpr::made_by`) nor the marks that
//! `outline` turns into equations: a program is printed after it was outlined.

mod array;
mod eqn;
mod jaxpr;
mod lines;
mod param;
mod print;
mod token;

use std::sync::Arc;

use provenance::{StackId, Stacks};
use tensor::Type;

use crate::{Params, Program};

pub use print::{Printed, print};

/// A syntax error and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct TextError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// A description of the error.
    pub reason: String,
}

/// A parsed text.
#[derive(Debug, Default)]
pub struct Document {
    /// The conversion settings that precede the program.
    pub header: Params,
    /// The program.
    pub program: Program,
    /// The stacks that its equations refer to.
    pub stacks: Stacks,
    /// The stack of the call to the converter.
    pub entry: Option<StackId>,
    /// The arrays whose values the text leaves out, with the parameter names if they have one.
    /// Their elements are zero except the first, which differs between arrays of floats, so that
    /// they are not mistaken for one array or for zeros.
    pub elided: Vec<(Option<Arc<str>>, Type)>,
    /// The primitives whose equations external rules lower.
    pub external: Vec<Arc<str>>,
}

/// Parses a text. Arrays whose values are left out may take `limit` bytes in total.
pub fn parse(text: &str, limit: usize) -> Result<Document, TextError> {
    jaxpr::document(text, limit).map_err(|fail| {
        let (line, column) = fail.position(text);
        TextError { line, column, reason: fail.reason }
    })
}

#[cfg(test)]
mod tests;
