//! The syntax tree of a model, with names instead of values. Positions are byte offsets.

use tensor::{Tensor, Type};

use crate::Attr;

/// A name and its position.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) at: usize,
    pub(super) text: String,
}

/// A value and its type, if the type is given.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) name: Name,
    pub(super) ty: Option<Type>,
}

/// The body of a model, a subgraph or a function.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) name: String,
    pub(super) inputs: Vec<Declared>,
    pub(super) outputs: Vec<Declared>,
    /// Initializers, and declared types of other values, which have no data.
    pub(super) values: Vec<(Declared, Option<Tensor>)>,
    pub(super) nodes: Vec<Statement>,
}

/// A node.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) at: usize,
    pub(super) label: Option<String>,
    pub(super) outputs: Vec<Name>,
    pub(super) domain: String,
    pub(super) op: String,
    pub(super) attrs: Vec<(Name, Argument)>,
    pub(super) inputs: Vec<Name>,
}

/// The value of an attribute.
#[derive(Debug)]
pub(super) enum Argument {
    Plain(Attr),
    Graph(Body),
}

/// A function and its domain.
#[derive(Debug)]
pub(super) struct FunctionText {
    pub(super) at: usize,
    pub(super) domain: String,
    pub(super) body: Body,
}

/// A complete text: a model with its functions.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) graph: Body,
    pub(super) functions: Vec<FunctionText>,
}
