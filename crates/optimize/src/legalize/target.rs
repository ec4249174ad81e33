//! Questions about a target: the nodes that it runs, and the element types that it accepts.

use onnx::schema::{self, Binding, Schema, Types};
use onnx::{Graph, Node, Op, ValueId};
use smallvec::SmallVec;
use tensor::{DType, Dim};

use super::nan;
use crate::ranges::{Range, sum_terms};
use crate::targets::{Right, Target};

/// One set of element types per constraint of an operator.
pub(crate) type Row = SmallVec<[Types; 4]>;

impl Target {
    /// Whether it computes in double precision.
    pub(super) fn has_double(self, opset: i64) -> bool {
        self.casts(opset, DType::F32, DType::F64)
    }

    /// Whether it accepts a node with the given element types.
    pub(super) fn accepts(
        self,
        schema: &'static Schema,
        graph: &Graph,
        node: &Node,
        binding: &Binding,
    ) -> bool {
        let Some(kernels) = self.kernels else { return binding.is_allowed(schema) };
        let rows = kernels.rows(schema, &node.attrs);
        let mut rows = rows.filter(|row| binding.fits(row.types()));
        rows.any(|row| match row.right {
            Right::Always => true,
            Right::SmallNumbers => of_small_numbers(graph, node),
            Right::Numbers => !nan::matters(graph, node),
            Right::Terms => has_terms(graph, node),
        })
    }

    /// Whether it runs a node with the given element types, right or wrong.
    pub(super) fn runs(self, schema: &'static Schema, node: &Node, binding: &Binding) -> bool {
        self.kernels.is_some_and(|kernels| {
            kernels.rows(schema, &node.attrs).any(|row| binding.fits(row.types()))
        })
    }

    /// The combinations of element types that it accepts for a node.
    pub(crate) fn rows(self, schema: &'static Schema, graph: &Graph, node: &Node) -> Vec<Row> {
        let Some(kernels) = self.kernels else {
            return vec![schema.types.iter().map(|c| c.allowed).collect()];
        };
        let is_float = node.input(0).is_some_and(|value| graph.ty(value).dtype.is_float());
        let rows = kernels.rows(schema, &node.attrs).filter(|row| match row.right {
            Right::Always => true,
            Right::SmallNumbers => false,
            Right::Numbers => !is_float || !nan::matters(graph, node),
            Right::Terms => has_terms(graph, node),
        });
        rows.map(|row| row.types().collect()).collect()
    }

    /// Whether it casts `from` to `to`.
    pub(super) fn casts(self, opset: i64, from: DType, to: DType) -> bool {
        let Some(schema) = schema::find(&Op::onnx("Cast"), opset) else { return false };
        let fits = |mut sets: Row| {
            let second = sets.pop().is_some_and(|set| set.contains(to));
            second && sets.pop().is_some_and(|set| set.contains(from))
        };
        match self.kernels {
            None => fits(schema.types.iter().map(|c| c.allowed).collect()),
            Some(kernels) => kernels.rows(schema, &[]).any(|row| fits(row.types().collect())),
        }
    }
}

/// Whether a node computes with sizes and positions, which are small numbers, or compares or sums up numbers
/// that are known to be small.
fn of_small_numbers(graph: &Graph, node: &Node) -> bool {
    if node.is("ReduceSum") && node.input(0).is_some_and(|x| has_small_sums(graph, node, x)) {
        return true;
    }
    let compares = matches!(node.op.name, "Clip" | "Max" | "Min");
    // A person may well sum up other constants than sizes.
    let is_small = |number: &Dim| match number {
        Dim::Known(n) => i32::try_from(*n).is_ok(),
        Dim::Symbolic(_) => true,
    };
    node.inputs.iter().flatten().all(|value| {
        graph.content(*value).is_some_and(|content| content.iter().all(is_small))
            || compares && {
                let Range { low, high } = Range::of(graph, *value);
                [low, high].iter().all(|bound| bound.as_ref().is_some_and(is_small))
            }
    })
}

/// Whether sums over elements of `x` are known to be small, as those of counts are: their type holds them, and
/// so does double precision.
fn has_small_sums(graph: &Graph, node: &Node, x: ValueId) -> bool {
    let Range { low: Some(Dim::Known(low)), high: Some(Dim::Known(high)) } = Range::of(graph, x)
    else {
        return false;
    };
    let largest = low.unsigned_abs().max(high.unsigned_abs());
    match sum_terms(graph, node) {
        Some(Dim::Known(terms)) => {
            let sum = u64::try_from(terms).ok().and_then(|terms| largest.checked_mul(terms));
            sum.is_some_and(|sum| sum <= i32::MAX as u64)
        }
        // As many as a size, which is a small number.
        Some(Dim::Symbolic(_)) => largest <= 1,
        None => false,
    }
}

/// Whether the sums of a product have terms, whatever symbolic sizes are.
fn has_terms(graph: &Graph, node: &Node) -> bool {
    let size = node.input(0).and_then(|value| graph.ty(value).shape.last());
    size.and_then(Dim::as_known).is_some_and(|size| size > 0)
}
