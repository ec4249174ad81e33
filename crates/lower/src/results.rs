//! The values of every equation of the main graph, for comparing a model with JAX.

use provenance::{CallId, ScopeId, Stage};
use tensor::Type;

use crate::Parts;

/// An equation that was lowered into the main graph.
#[derive(Clone, Debug)]
pub struct EqnResult {
    /// The equation that called the jaxpr it is in, by its position in [`Results`].
    pub caller: Option<u32>,
    /// For each result, the index of the equation in JAX's jaxpr and the index of the result.
    pub made_by: Vec<Option<(u32, u32)>>,
    /// The values of its results in the graph at the time of lowering.
    pub values: Vec<Parts>,
    /// Their types.
    pub types: Vec<Type>,
    /// The rule that lowered it, and its stage.
    pub rule: (&'static str, Stage),
    /// The equation's position in the program.
    pub call: CallId,
    /// The module that it belongs to.
    pub scope: ScopeId,
}

/// The equations of the main graph, with callers before callees. Bodies of loops and branches are
/// not included: their equations have no single value.
#[derive(Clone, Debug, Default)]
pub struct Results(pub Vec<EqnResult>);

impl Results {
    /// Adds an equation whose values are not known yet.
    pub(crate) fn enter(&mut self, eqn: EqnResult) -> u32 {
        self.0.push(eqn);
        u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX)
    }

    /// Sets the values of an equation.
    pub(crate) fn leave(&mut self, id: u32, values: &[Parts]) {
        if let Some(eqn) = self.0.get_mut(id as usize) {
            values.clone_into(&mut eqn.values);
        }
    }
}
