//! Optimisation: rewrites and passes on the graph. Clean-ups preserve results bit for bit. Fusions
//! may change the order of summation.
//!
//! A rewrite examines one node and its neighbourhood; a pass examines the whole graph. The runner
//! applies rewrites until none matches, maintains provenance, counts fuel and verifies. Operators
//! that JAX spells out are recognised by patterns (`recognize`). Finally, `legalize` adapts the
//! graph to the capabilities of a runtime.

pub mod compute;
mod edit;
mod error;
mod index_vectors;
pub mod legalize;
mod loops;
mod movement;
mod options;
mod pass;
mod passes;
mod pipeline;
mod recognize;
mod rewrite;
mod rewrites;
mod runner;
mod targets;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod weights;
mod wildcard;

pub(crate) use edit::Editor;
pub use error::{Error, Problem};
pub use options::{Missed, Options, Report, Verify};
pub(crate) use pass::{Changed, Pass};
pub use pipeline::optimize;
pub use recognize::{ALL_OPERATORS, Form, Forms, NORMALIZATIONS, operators};
pub(crate) use rewrite::{Match, Rewrite, Roots, Skip};
pub use targets::{Spec, Target};
