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
    /// The equation's number among those that are left to rules from outside; the same for
    /// equations that a rule cannot tell apart.
    pub external: Option<u32>,
    /// The functions whose calls it belongs to, relative to the enclosing jaxpr, outermost first.
    pub functions: Arc<[Entered]>,
}

/// What the user said about a function that the model is to have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// What its calls are called.
    pub name: Arc<str>,
    /// What its domain begins with.
    pub namespace: Arc<str>,
    /// Whether its domain says `unique` rather than a number.
    pub unique: bool,
    /// Whether it is one because all modules are.
    pub module: bool,
}

/// A call of a function that an equation belongs to.
#[derive(Clone, Debug)]
pub struct Entered {
    /// The function.
    pub function: Arc<Function>,
    /// Which call it is: equal for the equations of one call, and never for those of two. What
    /// transformations turn a call into are calls of their own.
    pub call: Arc<str>,
    /// How many bytes of the equation's scope belong to the caller.
    pub outer: usize,
    /// How many calls are around this one on the equation's stack.
    pub depth: usize,
}

/// A function in the form JAX traces to.
#[derive(Clone, Debug, Default)]
pub struct Jaxpr {
    /// The type of every variable, by its id.
    pub vars: Vec<Type>,
    /// By variable: the number of the equation of JAX's jaxpr that makes it, and which of its
    /// results it is. Variables that JAX has no equation for have none, or are beyond the end.
    pub made_by: Vec<Option<(u32, u32)>>,
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

/// Constants up to this many bytes are part of the code, unless they are parameters.
const SMALL: usize = 64;

impl Constant {
    /// Whether a function takes it as an operand, so that calls with other values share its body.
    pub(crate) fn is_operand(&self) -> bool {
        self.tensor.byte_len() > 0 && (self.name.is_some() || Self::is_large(&self.tensor))
    }

    /// Whether an array is too large to be part of the code.
    pub(crate) fn is_large(tensor: &Tensor) -> bool {
        tensor.byte_len() > SMALL
    }

    /// Which array it is: where its bytes are, and their type.
    pub fn array(&self) -> (usize, Type) {
        (self.tensor.address(), self.tensor.ty())
    }
}

impl Atom {
    /// The variable it is.
    pub fn as_var(&self) -> Option<VarId> {
        match self {
            Atom::Var(var) => Some(*var),
            Atom::Literal(_) => None,
        }
    }
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
    /// All jaxprs.
    pub jaxprs: Vec<Jaxpr>,
    /// The outermost one.
    pub main: Option<JaxprId>,
    /// What is known of the dimension variables, which refer to it.
    pub constraints: Arc<Constraints>,
}

impl Program {
    /// The jaxpr behind an id.
    pub fn jaxpr(&self, id: JaxprId) -> &Jaxpr {
        &self.jaxprs[id.0 as usize]
    }
}
