//! A jaxpr as plain data: what JAX traced, copied out of Python once.

mod param;
mod program;

pub use param::{FromParam, Param, ParamError, Params};
pub use program::{Atom, Constant, Eqn, Jaxpr, JaxprId, Program, VarId};
