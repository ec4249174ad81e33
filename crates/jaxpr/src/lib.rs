//! A jaxpr as plain data, copied out of Python once.

mod alike;
mod outline;
mod param;
mod program;
mod results;
pub mod text;

pub use alike::{Alike, ClassId};
pub use outline::{CALL, Cut, outline};
pub use param::{FromParam, Param, ParamError, Params};
pub use program::{Atom, Constant, Entered, Eqn, Function, Jaxpr, JaxprId, Program, VarId};
