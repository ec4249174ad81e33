//! Legalisation: adapts a model to the capabilities of a target.
//!
//! Lowering and optimisation assume ideal ONNX, where every operator supports every element type.
//! Here, nodes with types that the target does not support get casts, chosen by the operator's
//! algebra, or are replaced by an equivalent.

mod biased_gru;
mod casts;
mod complement;
mod equivalents;
mod error;
mod four_bit_floats;
mod lowest;
mod nan;
mod nan_comparisons;
mod older;
mod placement;
mod readable;
mod shifted_exponentials;
mod single_signals;
mod sums_before_norms;
mod target;
#[cfg(test)]
pub(crate) mod testing;

pub use error::Error;
pub use lowest::{lowest_opset, replace_fused};
pub use placement::{Fallback, fallbacks};

use crate::Forms;
use crate::targets::{self, Target};
use equivalents::{Equivalent, Lack};

use onnx::schema::{self, Binding, Schema};
use onnx::{BlockId, Builder, Editor, Graph, Node, NodeId, ValueId};
use provenance::{Origins, Stage};
use rustc_hash::FxHashMap;
use tensor::{DType, Dim};

/// The maximum depth of equivalents that contain operators which need an equivalent themselves.
const ROUNDS: usize = 4;

/// Adapts every node of `graph` to the kernels of `target` at `opset`.
pub fn legalize(
    graph: &mut Graph,
    origins: &mut Origins,
    opset: i64,
    target: Target,
) -> Result<(), Error> {
    let newest = target.newest_opset;
    if opset > newest {
        return Err(Error::OpsetTooNew { target, opset, newest });
    }
    check_lacking_types(graph, opset, target)?;
    let mut work = Legalizer::new(graph, origins, opset, target);
    older::simplify(&mut work)?;
    complement::expand(&mut work)?;
    four_bit_floats::widen(&mut work)?;
    work.adapt()?;
    if target.mistakes_matrices_for_signals {
        single_signals::batch(&mut work)?;
    }
    Ok(())
}

/// The oldest opset at which the kernels of all targets were listed.
const OLDEST_LISTED: i64 = 13;

/// Fails at an older opset if a node has an element type that the target lacks altogether, so that it has no
/// kernels for it at any opset.
fn check_lacking_types(graph: &Graph, opset: i64, target: Target) -> Result<(), Error> {
    if opset >= OLDEST_LISTED {
        return Ok(());
    }
    for id in graph.all_nodes() {
        let node = graph.node(id);
        let values = node.inputs.iter().flatten().chain(&node.outputs);
        let mut types = values.map(|value| graph.ty(*value).dtype);
        let is_lacking = |dtype: &DType| !target.casts(OLDEST_LISTED, *dtype, DType::F32);
        if let Some(dtype) = types.find(is_lacking) {
            let (op, origin) = (node.op.name, node.origin);
            let reason = "it has no such type".to_owned();
            return Err(Error::Unsupported { op, dtype, target, reason, origin });
        }
    }
    Ok(())
}

/// Adapts the `Identity` nodes that were added for finished outputs, because some types cannot even
/// be copied.
pub fn legalize_outputs(
    graph: &mut Graph,
    origins: &mut Origins,
    opset: i64,
    target: Target,
) -> Result<(), Error> {
    let mut work = Legalizer::new(graph, origins, opset, target);
    for id in work.graph().all_nodes() {
        if work.graph().node(id).is("Identity") {
            work.node(id, None)?;
        }
    }
    Ok(())
}

/// Returns the lowest opset, starting at the target's, at which every node is valid or has an
/// alternative form for the target's opset.
pub fn required_opset(graph: &Graph, target: Target) -> Result<i64, Error> {
    let floor = target.opset;
    let dispensable = older::dispensable(graph, floor);
    Ok(onnx::required_opset(graph, floor, |id| !dispensable.contains(&id))?)
}

/// Avoids operators that `target` computes incorrectly or slowly. Runs last, because clean-ups
/// could undo the changes.
pub fn avoid_bugs(
    graph: &mut Graph,
    origins: &mut Origins,
    opset: i64,
    target: Target,
    forms: &Forms,
) -> Result<(), Error> {
    let mut work = Legalizer::new(graph, origins, opset, target);
    let before = work.graph().value_count();
    targets::avoid(&mut work)?;
    if target.limits_biased_sums {
        biased_gru::guard(&mut work, forms)?;
    }
    if target.fuses_sums_with_norms {
        sums_before_norms::keep_apart(&mut work)?;
    }
    // Replacements may have any element type, too.
    if work.graph().value_count() > before {
        work.adapt()?;
    }
    nan_comparisons::convert(&mut work)
}

/// Returns `true` if all operators have their current form at `opset`. Otherwise they are invalid
/// there until [`replace_fused`] or [`spell`] converts them.
pub fn has_present_forms(graph: &Graph, opset: i64, target: Target) -> bool {
    let mut nodes = graph.all_nodes().into_iter().map(|id| graph.node(id));
    older::is_present(opset) && !nodes.any(|node| lowest::is_fused_later(node, opset, target))
}

/// Converts operators to the form that they have at `opset`. Runs after all stages that examine
/// them.
pub fn spell(graph: &mut Graph, origins: &mut Origins, opset: i64) -> Result<(), Error> {
    let mut work = Legalizer::new(graph, origins, opset, Target::any());
    readable::spell(&mut work)?;
    older::spell(&mut work)
}

/// Returns the node that computes `value`, if its operator is `op`.
pub(crate) fn made_by<'g>(graph: &'g Graph, value: ValueId, op: &str) -> Option<&'g Node> {
    graph.producer(value).map(|id| graph.node(id)).filter(|node| node.is(op))
}

/// A graph that is adapted to a target.
pub(crate) struct Legalizer<'a> {
    pub(crate) edit: Editor<'a>,
    /// The number of nodes before the first one that replaces something, until it is replaced.
    mark: Option<usize>,
    pub(crate) opset: i64,
    pub(crate) target: Target,
    /// The sizes of axes that `TopK` orders, and the elements that another one adds. Only some targets
    /// need them.
    pub(crate) sorted: FxHashMap<Dim, i64>,
}

impl<'a> Legalizer<'a> {
    fn new(graph: &'a mut Graph, origins: &'a mut Origins, opset: i64, target: Target) -> Self {
        let edit = Editor::new(graph, origins, Stage::Legalize);
        Self { edit, mark: None, opset, target, sorted: FxHashMap::default() }
    }

    pub(crate) fn graph(&self) -> &Graph {
        self.edit.graph()
    }

    /// Adapts all nodes and their replacements.
    fn adapt(&mut self) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            let mut again = false;
            for block in self.graph().live_blocks() {
                again |= self.block(block)?;
            }
            if !again {
                return Ok(());
            }
        }
        Err(onnx::Error::Graph("legalisation does not terminate".to_owned()).into())
    }

    /// Adapts the nodes of a block. Returns `true` if there may be new nodes to adapt.
    fn block(&mut self, block: BlockId) -> Result<bool, Error> {
        let nodes: Vec<_> = self.graph().nodes_of(block).collect();
        let mut again = false;
        for (i, id) in nodes.iter().enumerate() {
            again |= self.node(*id, nodes.get(i + 1).copied())?;
        }
        Ok(again)
    }

    /// Adapts a node, which comes before `next`. Returns `true` if it was replaced.
    fn node(&mut self, id: NodeId, next: Option<NodeId>) -> Result<bool, Error> {
        let node = self.graph().node(id);
        if !node.op.domain.is_empty() || lowest::is_fused_later(node, self.opset, self.target) {
            return Ok(false);
        }
        let is_known = onnx::is_valid_at(node, self.opset) || older::is_respelled(node, self.opset);
        let schema = node.schema(self.opset).filter(|_| is_known);
        let Some(schema) = schema else {
            return self.missing(id).map(|()| true);
        };
        let complain = |reason| onnx::Error::invalid(node.op.name, reason);
        let binding = Binding::new(schema, self.graph(), node).map_err(complain)?;
        if let Some(replaced) = self.keep_on_device(id, next, schema, &binding)? {
            return Ok(replaced);
        }
        if self.run_elsewhere(id, schema, &binding)? {
            return Ok(true);
        }
        let node = self.graph().node(id);
        if self.target.accepts(schema, self.graph(), node, &binding) {
            return Ok(false);
        }
        let rows = self.target.rows(schema, self.graph(), node);
        let casts = |from, to| self.target.casts(self.opset, from, to);
        let reason = match casts::choose(schema, node, &binding, &rows, casts) {
            Ok(types) => {
                casts::apply(self, id, next, schema, &types)?;
                return Ok(false);
            }
            Err(_) if self.target.runs(schema, node, &binding) => {
                "its kernel is only correct for small numbers".to_owned()
            }
            Err(reason) => reason,
        };
        let (_, dtype) = casts::culprit(&binding, &rows);
        let has_double = self.target.has_double(self.opset);
        let equivalent = equivalents::for_type(node.op.name, dtype, has_double);
        let reason = match equivalent {
            None => reason,
            Some(equivalent) => match self.try_replace(id, equivalent)? {
                None => return Ok(true),
                Some(why) => format!("{reason}, and {why}"),
            },
        };
        let too_old = self.too_old_for(id, dtype);
        Err(too_old.unwrap_or_else(|| self.unsupported(id, dtype, &reason)))
    }

    /// Adapts a node to the kernels of the target's device. Returns `true` if it was replaced, and
    /// `None` if the device cannot run it in any form, or need not.
    fn keep_on_device(
        &mut self,
        id: NodeId,
        next: Option<NodeId>,
        schema: &'static Schema,
        binding: &Binding,
    ) -> Result<Option<bool>, Error> {
        let (graph, node) = (self.graph(), self.graph().node(id));
        let kernels = self.target.on_device.filter(|_| self.target.keeps_on_device);
        let Some(kernels) = kernels.filter(|_| !placement::is_size(graph, node)) else {
            return Ok(None);
        };
        if kernels.accept(schema, graph, node, binding) {
            return Ok(Some(false));
        }
        if let Some(is_replaced) = self.replace_for_device(id)? {
            return Ok(is_replaced.then_some(true));
        }
        let (graph, node) = (self.graph(), self.graph().node(id));
        let rows = kernels.combinations(schema, graph, node);
        let casts = |from, to| self.target.casts(self.opset, from, to);
        let Ok(types) = casts::choose(schema, node, binding, &rows, casts) else { return Ok(None) };
        casts::apply(self, id, next, schema, &types)?;
        Ok(Some(false))
    }

    /// Replaces a node by its equivalent for devices, if it has one. Returns `false` if that does not
    /// apply.
    fn replace_for_device(&mut self, id: NodeId) -> Result<Option<bool>, Error> {
        let (graph, node) = (self.graph(), self.graph().node(id));
        let dtype = node.input(0).map(|x| graph.ty(x).dtype);
        let equivalent = dtype.and_then(|dtype| equivalents::for_device(node.op.name, dtype));
        let Some(equivalent) = equivalent else { return Ok(None) };
        Ok(Some(self.try_replace(id, equivalent)?.is_none()))
    }

    /// Replaces a node that another device of the target would leave to the CPU. Returns `true` if it
    /// was replaced.
    fn run_elsewhere(
        &mut self,
        id: NodeId,
        schema: &'static Schema,
        binding: &Binding,
    ) -> Result<bool, Error> {
        let (graph, node) = (self.graph(), self.graph().node(id));
        let kernels = self.target.elsewhere.filter(|_| !placement::is_size(graph, node));
        if kernels.is_none_or(|kernels| kernels.accept(schema, graph, node, binding)) {
            return Ok(false);
        }
        Ok(self.replace_for_device(id)? == Some(true))
    }

    /// Returns the error for a node that the target cannot compute in `dtype`.
    pub(crate) fn unsupported(&self, id: NodeId, dtype: DType, reason: &str) -> Error {
        let node = self.graph().node(id);
        let (op, reason, origin) = (node.op.name, reason.to_owned(), node.origin);
        Error::Unsupported { op, dtype, target: self.target, reason, origin }
    }

    /// Returns the error for a node that the target would accept unchanged at a newer opset.
    fn too_old_for(&self, id: NodeId, dtype: DType) -> Option<Error> {
        let node = self.graph().node(id);
        let accepts = |opset: &i64| {
            let schema = node.schema(*opset).filter(|_| onnx::is_valid_at(node, *opset));
            schema.is_some_and(|schema| {
                let binding = Binding::new(schema, self.graph(), node);
                binding.is_ok_and(|b| self.target.accepts(schema, self.graph(), node, &b))
            })
        };
        let needs = (self.opset + 1..=self.target.newest_opset).find(accepts)?;
        let (op, origin) = (node.op.name.to_owned(), Some(node.origin));
        let reason = Some(format!("for {dtype}"));
        Some(onnx::Error::OpsetTooOld { op, needs, given: self.opset, reason, origin }.into())
    }

    /// Replaces a node whose operator does not exist at the opset.
    fn missing(&mut self, id: NodeId) -> Result<(), Error> {
        let node = self.graph().node(id);
        let (op, origin) = (node.op, node.origin);
        let is_known = |opset: &i64| {
            let has = schema::find(&op, *opset).is_some();
            onnx::is_valid_at(node, *opset) || has && older::is_respelled(node, *opset)
        };
        let needs = (self.opset..=schema::NEWEST).find(is_known);
        let is_lacking = schema::find(&op, self.opset).is_none();
        let equivalent = equivalents::for_opset(op.name).filter(|_| is_lacking);
        let mut reason = None;
        if let Some(equivalent) = equivalent {
            let Some(why) = self.try_replace(id, equivalent)? else { return Ok(()) };
            reason = Some(why.to_owned());
        }
        let Some(needs) = needs else {
            let problem = format!("not valid at any opset from {} on", self.opset);
            return Err(onnx::Error::invalid(op.name, problem).into());
        };
        let (op, origin) = (op.name.to_owned(), Some(origin));
        Err(onnx::Error::OpsetTooOld { op, needs, given: self.opset, reason, origin }.into())
    }

    /// Replaces a node by an equivalent.
    fn replace(&mut self, id: NodeId, equivalent: Equivalent) -> Result<(), Lack> {
        let node = self.graph().node(id).clone();
        let results = equivalent(&mut self.builder(id), &node)?;
        Ok(self.substitute(id, &results)?)
    }

    /// Replaces a node by an equivalent, or returns the reason why that does not apply.
    fn try_replace(
        &mut self,
        id: NodeId,
        equivalent: Equivalent,
    ) -> onnx::Result<Option<&'static str>> {
        match self.replace(id, equivalent) {
            Ok(()) => Ok(None),
            Err(Lack::Because(reason)) => Ok(Some(reason)),
            Err(Lack::Graph(error)) => Err(error),
        }
    }

    /// Replaces a node by the nodes that were emitted for it.
    pub(crate) fn substitute(&mut self, id: NodeId, results: &[ValueId]) -> onnx::Result<()> {
        let (name, fresh) = (self.graph().node(id).op.name, self.take_fresh());
        self.edit.replace(name, id, results, &fresh)
    }

    /// Replaces an operand of a node by `value`, and removes nodes that were computed only for the old one.
    pub(crate) fn set_input(&mut self, id: NodeId, index: usize, value: ValueId) {
        let old = self.graph().node(id).input(index).and_then(|old| self.graph().producer(old));
        let fresh = self.take_fresh();
        self.edit.set_input(id, index, Some(value));
        if let Some(old) = old {
            let heirs = if fresh.is_empty() { vec![id] } else { fresh };
            self.edit.remove_unread(old, &heirs);
        }
    }

    /// Takes the list of emitted nodes that have not replaced anything yet.
    fn take_fresh(&mut self) -> Vec<NodeId> {
        self.mark.take().map(|mark| self.edit.added_since(mark)).unwrap_or_default()
    }

    /// Returns a builder that emits replacements of `node` in front of it.
    pub(crate) fn builder(&mut self, node: NodeId) -> Builder<'_> {
        self.builder_before(node, Some(node))
    }

    /// Returns a builder that emits replacements of `node` before `before`.
    fn builder_before(&mut self, node: NodeId, before: Option<NodeId>) -> Builder<'_> {
        let replaced = self.graph().node(node);
        let (name, block, origin) = (replaced.op.name, replaced.block(), replaced.origin);
        self.mark.get_or_insert(self.edit.mark());
        self.edit.builder_at(name, origin, block, before)
    }
}

#[cfg(test)]
mod tests;
