//! Programs as text, close to what JAX prints.
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
//! - Arrays that are large, or that several jaxprs hold, come before the jaxprs: numbers in braces,
//!   `base64 "…"`, or `...` for values that are left out. Which constants are one array is part of
//!   the text. An element written as `0x…` is given by its bits.
//! - Jaxprs that are called more than once are defined as `@0 = { lambda … }` and called `@0`.
//! - `where "B >= 4"` before the arrays is a constraint on dimension variables.
//! - Parameters are `None`, `True`, `3`, `1.5`, `"text"`, `f32`, `CLIP` (a member of an enum), `(1, 2)`,
//!   `[field=1]`, `{1, 2}:i32[2]` (an array), a jaxpr, `dim "b + 1"` or `opaque "Mesh"`.
//! - Behind `::` stand the scope of an equation, the number of its stack and whether a rule from outside
//!   lowers it. The stacks themselves are the sections `frames`, `links` and `stacks` at the end.
//! - `//` begins a comment.
//!
//! What JAX numbers its equations by (`Jaxpr::made_by`) is not part of the text, nor are the marks that
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

/// Why a text cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct TextError {
    /// The line, from 1.
    pub line: usize,
    /// The character of the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub reason: String,
}

/// A text that was read.
#[derive(Debug, Default)]
pub struct Document {
    /// What comes before the program: how to convert it.
    pub header: Params,
    /// The program.
    pub program: Program,
    /// The stacks that its equations refer to.
    pub stacks: Stacks,
    /// The stack of the call to the converter.
    pub entry: Option<StackId>,
    /// The arrays whose values the text leaves out, and the parameters that they are. Their elements
    /// are zero except the first, which is another in each array of floats, so that nobody takes them
    /// for one array or for zero.
    pub elided: Vec<(Option<Arc<str>>, Type)>,
    /// The primitives whose equations are left to rules from outside.
    pub external: Vec<Arc<str>>,
}

/// Reads a text. Arrays whose values are left out may take `limit` bytes altogether.
pub fn parse(text: &str, limit: usize) -> Result<Document, TextError> {
    jaxpr::document(text, limit).map_err(|fail| {
        let (line, column) = fail.position(text);
        TextError { line, column, reason: fail.reason }
    })
}

#[cfg(test)]
mod tests;
