//! Type inference: the element types and shapes of a node's results.
//!
//! Lowering infers as it builds, so a rule never states a type, and the driver can compare what a
//! rule built with what JAX says it must be.

use tensor::{Dim, Type};

use crate::{Attr, Attrs, Error, Graph, Op, Result, ValueId};

/// A node about to be emitted.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) op: &'a Op,
    pub(crate) inputs: &'a [Option<ValueId>],
    pub(crate) attrs: &'a Attrs,
    /// How many results are asked for.
    pub(crate) count: usize,
}

impl<'a> Call<'a> {
    /// The operand at `index`, which must be there.
    pub(crate) fn value(&self, index: usize) -> Result<ValueId> {
        let value = self.inputs.get(index).copied().flatten();
        value.ok_or_else(|| self.error(format!("input {index} is missing")))
    }

    /// The type of the operand at `index`, which must be there.
    pub(crate) fn ty(&self, index: usize) -> Result<&'a Type> {
        Ok(self.graph.ty(self.value(index)?))
    }

    /// The elements of the integer operand at `index`; an error if they are not known.
    pub(crate) fn content(&self, index: usize) -> Result<Vec<Dim>> {
        let known = self.graph.content(self.value(index)?);
        known.ok_or_else(|| self.error(format!("input {index} must be known here")))
    }

    pub(crate) fn attr(&self, name: &str) -> Option<&'a Attr> {
        self.attrs.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    pub(crate) fn int(&self, name: &str, default: i64) -> i64 {
        match self.attr(name) {
            Some(Attr::Int(value)) => *value,
            _ => default,
        }
    }

    pub(crate) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        match self.attr(name) {
            Some(Attr::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// A complaint about this node.
    pub(crate) fn error(&self, reason: impl Into<String>) -> Error {
        Error::invalid(&self.op.name, reason)
    }
}

/// The types of the results of `call`.
pub(crate) fn infer(call: &Call<'_>) -> Result<Vec<Type>> {
    Err(call.error("no type inference for this operator"))
}
