//! The interface of rules: the equation's parameters and types, and methods that emit nodes.
//! Everything else belongs to the driver.

use std::panic::Location;

use jaxpr::{Eqn, FromParam, Jaxpr, JaxprId};
use onnx::{BlockId, Builder, Graph, ValueId};
use provenance::{CallId, Emitter, ScopeId, Site, Stage};
use tensor::{DType, Type};

use super::{Destination, Driver, State};
use crate::parts::{Parts, part_type, width};
use crate::{ExternalRules, Result, RuleError};

/// The equation being lowered.
#[derive(Debug)]
pub struct Context<'a> {
    pub(super) builder: Builder<'a>,
    pub(super) state: &'a mut State,
    pub(super) program: &'a jaxpr::Program,
    pub(super) eqn: &'a Eqn,
    pub(super) jaxpr: &'a Jaxpr,
    pub(super) call: CallId,
    pub(super) scope: ScopeId,
    pub(super) external: &'a ExternalRules,
    /// The index of the equation in the recorded results.
    pub(super) recorded: Option<u32>,
}

impl<'a> Context<'a> {
    /// Returns the equation.
    pub fn eqn(&self) -> &'a Eqn {
        self.eqn
    }

    /// Returns the types of the equation's results, complex ones included.
    pub fn result_types(&self) -> impl Iterator<Item = &'a Type> {
        self.eqn.outputs.iter().map(|var| self.jaxpr.ty(*var))
    }

    /// Returns the path of the module that the equation belongs to.
    pub fn scope_path(&self) -> &str {
        self.builder.origins().scope_path(self.scope)
    }

    /// Applies this crate's own rule for the equation's primitive, on behalf of an external rule.
    pub fn built_in(&mut self, inputs: &[Parts]) -> Result<Vec<Parts>> {
        let Some(rule) = crate::rules::primitive(&self.eqn.primitive) else {
            let reason = format!("`{}` has no built-in rule", self.eqn.primitive);
            return Err(RuleError::External(reason));
        };
        let (name, stage) = self.builder.set_rule(rule.name, Stage::Lower);
        let site = self.builder.set_site(None);
        let outputs = rule.apply(self, inputs);
        self.builder.set_rule(name, stage);
        self.builder.set_site(site);
        outputs
    }

    /// Returns the parameter `name`, read as a `T`.
    pub fn param<T: FromParam>(&self, name: &str) -> Result<T> {
        Ok(self.eqn.params.get(name)?)
    }

    /// Returns `true` if the equation has a parameter `name`, which may depend on the version of
    /// JAX.
    pub(crate) fn has_param(&self, name: &str) -> bool {
        self.eqn.params.raw(name).is_some()
    }

    /// Returns the parameter `name`, or `default` if this version of JAX lacks it.
    pub(crate) fn param_or<T: FromParam>(&self, name: &str, default: T) -> Result<T> {
        if self.has_param(name) { self.param(name) } else { Ok(default) }
    }

    /// Returns JAX's type of the result at `index`; for a complex result, the type of its parts.
    pub fn out(&self, index: usize) -> Type {
        part_type(self.jaxpr.ty(self.eqn.outputs[index]))
    }

    /// Returns the number of values that represent each result of the equation: two if it is
    /// complex.
    pub(crate) fn out_widths(&self) -> impl Iterator<Item = usize> {
        self.eqn.outputs.iter().map(|var| width(self.jaxpr.ty(*var).dtype))
    }

    /// Returns the number of values that represent all results of the equation.
    pub(crate) fn out_count(&self) -> usize {
        self.out_widths().sum()
    }

    /// Returns the number of values that represent the first `count` operands: two for each complex
    /// one.
    pub(crate) fn in_count(&self, count: usize) -> usize {
        let operands = self.eqn.inputs.iter().take(count);
        operands.map(|atom| width(self.jaxpr.atom_ty(atom).dtype)).sum()
    }

    /// Returns `true` if any of the equation's results is complex.
    pub fn is_complex(&self) -> bool {
        self.out_count() != self.eqn.outputs.len()
    }

    /// Groups the values of `flat` into the equation's results.
    pub(crate) fn regroup(&self, flat: &mut impl Iterator<Item = ValueId>) -> Result<Vec<Parts>> {
        let parts = self.eqn.outputs.iter().map(|var| Parts::next(self.jaxpr.ty(*var).dtype, flat));
        let parts: Option<Vec<Parts>> = parts.collect();
        parts.ok_or_else(|| RuleError::Internal("the rule returned too few values".to_owned()))
    }

    /// Returns a jaxpr of the program.
    pub fn jaxpr(&self, id: JaxprId) -> &'a Jaxpr {
        self.program.jaxpr(id)
    }

    /// Lowers the jaxpr `id`, called with `inputs`, in place. Complex inputs and results are two
    /// values each.
    #[track_caller]
    pub fn inline(&mut self, id: JaxprId, inputs: &[ValueId]) -> Result<Vec<ValueId>> {
        let block = self.builder.block();
        let caller = Some(self.caller(Location::caller()));
        // The equations of a body have no single value, so they are not recorded.
        let recorded = self.recorded.filter(|_| block == Graph::MAIN).map(Some);
        let place = Destination { block, scope: self.scope, caller, recorded };
        Ok(self.driver().jaxpr(id, inputs, place)?)
    }

    /// Emits nodes into a new block. `fill` returns the outputs of the block.
    pub fn block(
        &mut self,
        fill: impl FnOnce(&mut Self, BlockId) -> Result<Vec<ValueId>>,
    ) -> Result<BlockId> {
        let block = self.builder.graph_mut().add_block();
        let outer = self.builder.enter(block);
        let outputs = fill(self, block);
        self.builder.enter(outer);
        self.builder.graph_mut().set_outputs(block, &outputs?);
        Ok(block)
    }

    /// Adds inputs of the given types to a block.
    pub fn inputs(&mut self, block: BlockId, types: Vec<Type>) -> Vec<ValueId> {
        types.into_iter().map(|ty| self.builder.graph_mut().add_input(block, ty)).collect()
    }

    /// Adds the first inputs of the body of a `Loop`: the number of the iteration, and the condition.
    pub(crate) fn loop_inputs(&mut self, block: BlockId) -> [ValueId; 2] {
        let graph = self.builder.graph_mut();
        [DType::I64, DType::Bool].map(|dtype| graph.add_input(block, Type::new(dtype, [])))
    }

    /// Emits nodes on behalf of a statement outside this project.
    pub fn at<T>(&mut self, site: Site, emit: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.builder.set_site(Some(site));
        let emitted = emit(self);
        self.builder.set_site(outer);
        emitted
    }

    /// Returns the equation as a caller, together with the statement at `at` that descends from it.
    pub(super) fn caller(&self, at: &'static Location<'static>) -> (CallId, Emitter) {
        (self.call, self.builder.emitter(at))
    }

    /// Returns the driver that entered this equation.
    pub(super) fn driver(&mut self) -> Driver<'_> {
        let (graph, origins) = self.builder.parts_mut();
        let (program, external) = (self.program, self.external);
        Driver { program, graph, origins, state: self.state, external }
    }
}
