//! The element types that a node binds to its operator's type constraints.

use smallvec::SmallVec;
use tensor::DType;

use super::{Arity, Param, Schema, Types};
use crate::{Graph, Node};

/// The element types of a node, one set per constraint of its schema.
///
/// A set contains the one type that the parameters share. It contains several types for
/// [`Arity::Mixed`] parameters, and none if all parameters of the constraint are omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding(SmallVec<[Types; 4]>);

impl Binding {
    /// Returns the types of `node`, which must have no more operands and results than `schema`.
    /// Fails with a reason if parameters that must have the same type do not.
    pub fn new(schema: &Schema, graph: &Graph, node: &Node) -> Result<Self, String> {
        let mut sets: SmallVec<[Types; 4]> = SmallVec::from_elem(Types::NONE, schema.types.len());
        let dtype = |value| graph.ty(value).dtype;
        for (i, input) in node.inputs.iter().enumerate() {
            if let (Some(value), Some(param)) = (input, schema.input(i)) {
                add(&mut sets, schema, param, dtype(*value))?;
            }
        }
        for (i, output) in node.outputs.iter().enumerate() {
            if let Some(param) = schema.output(i) {
                add(&mut sets, schema, param, dtype(*output))?;
            }
        }
        Ok(Self(sets))
    }

    /// Returns the types of each constraint.
    pub fn types(&self) -> impl ExactSizeIterator<Item = Types> {
        self.0.iter().copied()
    }

    /// Returns `true` if each constraint's types are in the corresponding set.
    pub fn fits(&self, sets: impl IntoIterator<Item = Types>) -> bool {
        self.types().zip(sets).all(|(have, allowed)| have.is_subset(allowed))
    }

    /// Returns `true` if the specification allows these types.
    pub fn is_allowed(&self, schema: &Schema) -> bool {
        self.fits(schema.types.iter().map(|c| c.allowed))
    }
}

fn add(
    sets: &mut [Types],
    schema: &Schema,
    param: &Param,
    dtype: DType,
) -> std::result::Result<(), String> {
    let set = &mut sets[param.types];
    if !set.is_empty() && !set.contains(dtype) && !matches!(param.arity, Arity::Mixed(_)) {
        let constraint = schema.types[param.types].name;
        return Err(format!(
            "`{}` is {dtype}, but its type {constraint} is already {set}",
            param.name
        ));
    }
    *set = set.union(Types::of(dtype));
    Ok(())
}
