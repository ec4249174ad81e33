//! Adapts a model to what a target runs.
//!
//! Lowering and optimisation assume ideal ONNX, where every operator supports every element type.
//! Here every node whose types the target does not support gets casts around it, chosen by what the
//! operator does with its elements, or is replaced by an equivalent.

mod algebra;
mod casts;
mod complement;
mod equivalents;
mod error;
mod nan;
mod runtime_bugs;
mod single_signals;
#[cfg(test)]
mod testing;

pub use error::Error;

use equivalents::{Equivalent, Lack};

use std::fmt;

use onnx::schema::{self, Binding, Right, Schema, Types};
use onnx::{BlockId, Builder, Graph, Node, NodeId, Op, Source, ValueId};
use provenance::{Origins, Stage};
use smallvec::SmallVec;
use tensor::{DType, Dim};

use crate::ranges::Range;

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any runtime: what the specification allows.
    Spec,
    /// onnxruntime's CPU provider.
    OnnxRuntime,
}

/// One set of element types per constraint of an operator.
type Row = SmallVec<[Types; 4]>;

impl Target {
    /// Whether it accepts a node with the given element types.
    fn accepts(
        self,
        schema: &'static Schema,
        graph: &Graph,
        node: &Node,
        binding: &Binding,
    ) -> bool {
        if self == Target::Spec {
            return binding.is_allowed(schema);
        }
        let mut rows = schema.rows(&node.attrs).filter(|row| binding.fits(row.types()));
        rows.any(|row| match row.right {
            Right::Always => true,
            Right::SmallNumbers => of_small_numbers(graph, node),
            Right::Numbers => !nan::matters(graph, node),
            Right::Terms => has_terms(graph, node),
        })
    }

    /// Whether it runs a node with the given element types, right or wrong.
    fn runs(self, schema: &'static Schema, node: &Node, binding: &Binding) -> bool {
        let mut rows = schema.rows(&node.attrs);
        self == Target::OnnxRuntime && rows.any(|row| binding.fits(row.types()))
    }

    /// The combinations of element types that it accepts for a node.
    fn rows(self, schema: &'static Schema, graph: &Graph, node: &Node) -> Vec<Row> {
        if self == Target::Spec {
            return vec![schema.types.iter().map(|c| c.allowed).collect()];
        }
        let is_float = node.input(0).is_some_and(|value| graph.ty(value).dtype.is_float());
        let rows = schema.rows(&node.attrs).filter(|row| match row.right {
            Right::Always => true,
            Right::SmallNumbers => false,
            Right::Numbers => !is_float || !nan::matters(graph, node),
            Right::Terms => has_terms(graph, node),
        });
        rows.map(|row| row.types().collect()).collect()
    }

    /// Whether it casts `from` to `to`.
    fn casts(self, opset: i64, from: DType, to: DType) -> bool {
        let Some(schema) = schema::find(&Op::onnx("Cast"), opset) else { return false };
        let fits = |mut sets: Row| {
            let second = sets.pop().is_some_and(|set| set.contains(to));
            second && sets.pop().is_some_and(|set| set.contains(from))
        };
        match self {
            Target::Spec => fits(schema.types.iter().map(|c| c.allowed).collect()),
            Target::OnnxRuntime => schema.rows(&[]).any(|row| fits(row.types().collect())),
        }
    }
}

/// Whether a node computes with sizes and positions, which are small numbers, or compares numbers that
/// are known to be small.
fn of_small_numbers(graph: &Graph, node: &Node) -> bool {
    let compares = matches!(node.op.name, "Clip" | "Max" | "Min");
    let is_small = |bound: Option<Dim>| match bound {
        Some(Dim::Known(n)) => i32::try_from(n).is_ok(),
        Some(Dim::Symbolic(_)) => true,
        None => false,
    };
    node.inputs.iter().flatten().all(|value| {
        graph.content(*value).is_some()
            || compares && {
                let Range { low, high } = Range::of(graph, *value);
                is_small(low) && is_small(high)
            }
    })
}

/// Whether the sums of a product have terms, whatever symbolic sizes are.
fn has_terms(graph: &Graph, node: &Node) -> bool {
    let size = node.input(0).and_then(|value| graph.ty(value).shape.last());
    size.and_then(Dim::as_known).is_some_and(|size| size > 0)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Target::Spec => "ONNX",
            Target::OnnxRuntime => "onnxruntime",
        })
    }
}

/// Equivalents may contain operators that need an equivalent themselves, but not more deeply than
/// this.
const ROUNDS: usize = 4;

/// Adapts every node of `graph` to what `target` runs at `opset`.
pub fn legalize(
    graph: &mut Graph,
    origins: &mut Origins,
    opset: i64,
    target: Target,
) -> Result<(), Error> {
    let mut work = Work { graph, origins, opset, target };
    complement::expand(&mut work)?;
    for _ in 0..ROUNDS {
        let mut again = false;
        for block in work.graph.live_blocks() {
            again |= work.block(block)?;
        }
        if !again {
            if target == Target::OnnxRuntime {
                single_signals::batch(&mut work)?;
            }
            return Ok(());
        }
    }
    Err(onnx::Error::Graph("legalisation does not terminate".to_owned()).into())
}

/// Avoids what `target` gets wrong. Comes last: a clean-up may put things together again.
pub fn avoid_bugs(
    graph: &mut Graph,
    origins: &mut Origins,
    opset: i64,
    target: Target,
) -> Result<(), Error> {
    runtime_bugs::avoid(&mut Work { graph, origins, opset, target })
}

/// Replaces operators that are newer than `opset`. Those without a known replacement stay.
pub fn backport(graph: &mut Graph, origins: &mut Origins, opset: i64) -> Result<(), Error> {
    let mut work = Work { graph, origins, opset, target: Target::Spec };
    for (newer, op, equivalent) in equivalents::OLDER {
        if schema::find(&Op::onnx(newer), opset).is_some() {
            continue;
        }
        let mut replaced = false;
        for id in work.graph.all_nodes() {
            let node = work.graph.node(id);
            if !node.op.domain.is_empty() || !node.is(op) {
                continue;
            }
            match work.replace(id, *equivalent) {
                Ok(()) => replaced = true,
                Err(Lack::Because(_)) => {}
                Err(Lack::Graph(error)) => return Err(error.into()),
            }
        }
        if replaced {
            work.remove_unread();
        }
    }
    Ok(())
}

struct Work<'a> {
    graph: &'a mut Graph,
    origins: &'a mut Origins,
    opset: i64,
    target: Target,
}

impl Work<'_> {
    /// Adapts the nodes of a block. Returns whether there may be new ones to adapt.
    fn block(&mut self, block: BlockId) -> Result<bool, Error> {
        let nodes: Vec<_> = self.graph.nodes_of(block).collect();
        let mut again = false;
        for (i, id) in nodes.iter().enumerate() {
            again |= self.node(*id, nodes.get(i + 1).copied())?;
        }
        Ok(again)
    }

    /// Adapts a node, which comes before `next`. Returns whether it was replaced.
    fn node(&mut self, id: NodeId, next: Option<NodeId>) -> Result<bool, Error> {
        let node = self.graph.node(id);
        if !node.op.domain.is_empty() {
            return Ok(false);
        }
        let complain = |reason| onnx::Error::invalid(node.op.name, reason);
        let schema = schema::find(&node.op, self.opset);
        let missing = || complain(format!("ONNX has no such operator at opset {}", self.opset));
        let schema = schema.ok_or_else(missing)?;
        let binding = Binding::new(schema, self.graph, node).map_err(complain)?;
        if self.target.accepts(schema, self.graph, node, &binding) {
            return Ok(false);
        }
        let rows = self.target.rows(schema, self.graph, node);
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
        let (op, origin, target) = (node.op.name, node.origin, self.target);
        let unsupported = |reason| Error::Unsupported { op, dtype, target, reason, origin };
        let Some(equivalent) = equivalents::find(op, dtype) else {
            return Err(unsupported(reason));
        };
        match self.replace(id, equivalent) {
            Ok(()) => Ok(true),
            Err(Lack::Because(why)) => Err(unsupported(format!("{reason}, and {why}"))),
            Err(Lack::Graph(error)) => Err(error.into()),
        }
    }

    /// Replaces a node by an equivalent.
    fn replace(&mut self, id: NodeId, equivalent: Equivalent) -> Result<(), Lack> {
        let node = self.graph.node(id).clone();
        let results = equivalent(&mut self.builder(id, Some(id)), &node)?;
        self.substitute(id, &results);
        Ok(())
    }

    /// Removes a node whose results have been replaced.
    fn substitute(&mut self, id: NodeId, results: &[ValueId]) {
        let outputs = self.graph.node(id).outputs.clone();
        for (old, new) in outputs.iter().zip(results) {
            self.graph.value_mut(*new).name = std::mem::take(&mut self.graph.value_mut(*old).name);
            self.graph.replace_uses(*old, *new);
        }
        self.graph.remove_node(id);
    }

    /// Removes nodes whose results nothing reads.
    fn remove_unread(&mut self) {
        for id in self.graph.all_nodes().into_iter().rev() {
            let results = self.graph.get(id).map(|node| node.outputs.iter());
            let is_read = |value: &ValueId| self.graph.value(*value).is_used();
            if results.is_some_and(|mut results| !results.any(is_read)) {
                self.graph.remove_node(id);
            }
        }
    }

    /// Emits nodes that replace `node`, before `before`.
    fn builder(&mut self, node: NodeId, before: Option<NodeId>) -> Builder<'_> {
        let replaced = self.graph.node(node);
        let (name, block, primary) = (replaced.op.name, replaced.block(), replaced.origin);
        Builder {
            graph: self.graph,
            origins: self.origins,
            name,
            stage: Stage::Legalize,
            site: None,
            source: Source::Replacing { primary, others: Vec::new() },
            block,
            before,
        }
    }
}

#[cfg(test)]
mod tests;
