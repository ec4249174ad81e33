//! Programs: jaxprs, equations and variables.

use std::sync::Arc;

use provenance::StackId;
use tensor::{Tensor, Type};

use crate::Params;

/// A variable of one jaxpr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VarId(pub u32);

/// A jaxpr of a program. JAX caches traced functions, so one jaxpr may be called many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JaxprId(pub u32);

/// An operand of an equation or a result of a jaxpr.
#[derive(Clone, Debug)]
pub enum Atom {
    /// A variable.
    Var(VarId),
    /// A literal.
    Literal(Tensor),
}

/// One primitive application.
#[derive(Clone, Debug)]
pub struct Eqn {
    /// The primitive's name.
    pub primitive: Arc<str>,
    /// Its operands.
    pub inputs: Vec<Atom>,
    /// The variables it defines.
    pub outputs: Vec<VarId>,
    /// Its parameters.
    pub params: Params,
    /// The Python stack that made it, up to the function that its jaxpr was traced from.
    pub stack: Option<StackId>,
    /// The name stack relative to the enclosing jaxpr, levels separated by `/`.
    pub scope: Arc<str>,
    /// The equation's number among those that are left to rules from outside.
    pub external: Option<u32>,
}

/// A function in the form JAX traces to.
#[derive(Clone, Debug, Default)]
pub struct Jaxpr {
    /// The type of every variable, by its id.
    pub vars: Vec<Type>,
    /// The variables that stand for constants, with their values.
    pub consts: Vec<(VarId, Constant)>,
    /// The formal parameters.
    pub inputs: Vec<VarId>,
    /// The body, in execution order.
    pub eqns: Vec<Eqn>,
    /// The results.
    pub outputs: Vec<Atom>,
}

/// A constant that a jaxpr closes over.
#[derive(Clone, Debug)]
pub struct Constant {
    /// The value.
    pub tensor: Tensor,
    /// The path of the parameter in the user's model, when it is one.
    pub name: Option<Arc<str>>,
}

impl Jaxpr {
    /// The type of a variable.
    pub fn ty(&self, var: VarId) -> &Type {
        &self.vars[var.0 as usize]
    }

    /// The type of a variable or literal.
    pub fn atom_ty(&self, atom: &Atom) -> Type {
        match atom {
            Atom::Var(var) => self.ty(*var).clone(),
            Atom::Literal(tensor) => tensor.ty(),
        }
    }
}

/// A traced function with all jaxprs it is made of.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All jaxprs, inner before outer.
    pub jaxprs: Vec<Jaxpr>,
    /// The outermost one.
    pub main: Option<JaxprId>,
}

impl Program {
    /// The jaxpr behind an id.
    pub fn jaxpr(&self, id: JaxprId) -> &Jaxpr {
        &self.jaxprs[id.0 as usize]
    }
}
