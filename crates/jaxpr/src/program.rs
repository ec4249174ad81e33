//! Programs: jaxprs, equations and variables.

use std::sync::Arc;

use provenance::StackId;
use tensor::{Constraints, Tensor, Type};

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

/// One application of a primitive.
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
    /// The Python stack that created it, up to the function that its jaxpr was traced from.
    pub stack: Option<StackId>,
    /// The name stack relative to the enclosing jaxpr, levels separated by `/`.
    pub scope: Arc<str>,
    /// The number of an equation that an external rule lowers. Equations that the rule cannot
    /// distinguish share one number.
    pub external: Option<u32>,
    /// The functions whose calls it belongs to, relative to the enclosing jaxpr, outermost first.
    pub functions: Arc<[Entered]>,
}

/// A function of the model, as the user requested it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The name of its calls.
    pub name: Arc<str>,
    /// The prefix of its domain.
    pub namespace: Arc<str>,
    /// `true` if its domain contains the word `unique`.
    pub unique: bool,
    /// `true` if it is a function because the user asked for all modules.
    pub module: bool,
}

/// A call of a function that an equation belongs to.
#[derive(Clone, Debug)]
pub struct Entered {
    /// The function.
    pub function: Arc<Function>,
    /// The identity of the call: equal exactly for the equations of one call. Transformations of a
    /// call create new calls.
    pub call: Arc<str>,
    /// The length of the caller's part of the equation's scope, in bytes.
    pub outer: usize,
    /// The number of calls around this one on the equation's stack.
    pub depth: usize,
}

/// A function as JAX traces it.
#[derive(Clone, Debug, Default)]
pub struct Jaxpr {
    /// The type of every variable, by its id.
    pub vars: Vec<Type>,
    /// For each variable, the index of the equation in JAX's jaxpr that defines it and the index of
    /// the result. It is `None`, or missing at the end, for variables without an equation in JAX.
    pub made_by: Vec<Option<(u32, u32)>>,
    /// The variables that are bound to constants, with their values.
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
    /// The path of the parameter in the user's model, if the constant is one.
    pub name: Option<Arc<str>>,
}

/// Constants up to this many bytes are part of the code, unless they are parameters.
const SMALL: usize = 64;

impl Constant {
    /// Returns `true` if a function takes the constant as an operand, so that calls with other
    /// values share its body.
    pub(crate) fn is_operand(&self) -> bool {
        self.tensor.byte_len() > 0 && (self.name.is_some() || Self::is_large(&self.tensor))
    }

    /// Returns `true` if an array is too large to be part of the code.
    pub(crate) fn is_large(tensor: &Tensor) -> bool {
        tensor.byte_len() > SMALL
    }

    /// Returns the identity of the array: the address of its bytes, and their type.
    pub fn array(&self) -> (usize, Type) {
        (self.tensor.address(), self.tensor.ty())
    }
}

impl Atom {
    /// Returns the variable, if the atom is one.
    pub fn as_var(&self) -> Option<VarId> {
        match self {
            Atom::Var(var) => Some(*var),
            Atom::Literal(_) => None,
        }
    }
}

impl Jaxpr {
    /// Returns the type of a variable.
    pub fn ty(&self, var: VarId) -> &Type {
        &self.vars[var.0 as usize]
    }

    /// Returns the type of a variable or literal.
    pub fn atom_ty(&self, atom: &Atom) -> Type {
        match atom {
            Atom::Var(var) => self.ty(*var).clone(),
            Atom::Literal(tensor) => tensor.ty(),
        }
    }
}

/// A traced function with all of its jaxprs.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All jaxprs.
    pub jaxprs: Vec<Jaxpr>,
    /// The outermost one.
    pub main: Option<JaxprId>,
    /// The constraints on the dimension variables, which hold references to them.
    pub constraints: Arc<Constraints>,
}

impl Program {
    /// Returns the jaxpr with this id.
    pub fn jaxpr(&self, id: JaxprId) -> &Jaxpr {
        &self.jaxprs[id.0 as usize]
    }
}
