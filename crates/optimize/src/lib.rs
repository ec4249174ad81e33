//! Optimisation: rewrites and passes on the graph. Clean-ups keep results bit for bit; fusions may
//! change the order in which sums are added up.
//!
//! A rewrite looks at one node and its neighbourhood; a pass looks at the whole graph. The runner
//! applies rewrites until none matches, looks after provenance, counts fuel and verifies. Operators
//! that JAX spells out are recognised by patterns (`recognize`). After all of it, `legalize` adapts the graph to what a runtime can do.

mod bounded;
pub mod compute;
mod edit;
mod error;
mod floats;
mod index_vectors;
pub mod legalize;
mod loops;
mod movement;
mod options;
mod pass;
mod passes;
mod pipeline;
mod ranges;
mod recognize;
mod rewrite;
mod rewrites;
mod runner;
mod small_set;
mod targets;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod triangle;
pub mod weights;
mod wildcard;

pub use edit::Editor;
pub use error::{Error, Problem};
pub use options::{Missed, Options, Report, Verify};
pub use pass::{Changed, Pass};
pub use pipeline::optimize;
pub use recognize::{ALL_OPERATORS, Form, Forms, NORMALIZATIONS, operators};
pub use rewrite::{Match, Rewrite, Roots, Skip};
pub use targets::{Spec, Target};
