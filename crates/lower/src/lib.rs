//! Lowering: one rule per JAX primitive, and the driver that owns everything a rule must not care
//! about: origins, names, types, nesting.

mod context;
mod driver;
mod error;
mod formula;
mod functions;
mod parts;
mod preflight;
mod rules;

pub use context::Context;
pub use driver::{Boundary, lower};
pub use error::{Error, Missing, RuleError};
pub use parts::Parts;
pub use rules::primitives;
