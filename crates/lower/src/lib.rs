//! Lowering: one rule per JAX primitive, and a driver that handles everything that rules should not
//! care about: origins, names, types, nesting.

mod driver;
mod error;
mod external;
mod formula;
mod parts;
mod preflight;
mod results;
mod rules;

pub use driver::{Boundary, Context, Foreign, Lowered, Options, lower};
pub(crate) use error::Result;
pub use error::{Error, Fault, Missing, RuleError};
pub use external::{ExternalRule, ExternalRules};
pub use parts::Parts;
pub use results::{EqnResult, Results};
pub use rules::{
    Alone, BEYOND_MODELS, Beyond, Control, EXPANSION, Equation, Expands, Expansion, Keys,
    Primitive, RowLoop, primitive, primitives,
};
