//! Lowering: one rule per JAX primitive, and the driver, which handles everything that rules should
//! not care about: origins, names, types, nesting.

mod context;
mod driver;
mod error;
mod external;
mod formula;
mod functions;
mod parts;
mod preflight;
mod results;
mod rules;

pub use context::Context;
pub use driver::{Boundary, Lowered, Options, lower};
pub use error::{Error, Missing, RuleError};
pub use external::{ExternalRule, ExternalRules};
pub use parts::Parts;
pub use results::{EqnResult, Results};
pub use rules::primitives;
