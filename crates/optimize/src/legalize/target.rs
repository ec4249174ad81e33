//! Kernels of a target that run a node, and the element types that they support.

use onnx::facts::Interval;
use onnx::schema::{self, Binding, CONTRIB, Schema, Types};
use onnx::{Graph, Node, Op, ValueId};
use smallvec::SmallVec;
use tensor::{DType, Dim};

use super::nan;
use crate::targets::{Kernels, Right, Target};

/// One set of element types per constraint of an operator.
pub(crate) type Row = SmallVec<[Types; 4]>;

impl Target {
    /// Returns `true` if the target computes in double precision.
    pub(super) fn has_double(self, opset: i64) -> bool {
        self.casts(opset, DType::F32, DType::F64)
    }

    /// Returns `true` if the target accepts a node with the given element types.
    pub(super) fn accepts(
        self,
        schema: &'static Schema,
        graph: &Graph,
        node: &Node,
        binding: &Binding,
    ) -> bool {
        if self.kernels.is_none() {
            return binding.is_allowed(schema);
        }
        let places = [self.on_device, self.kernels].into_iter().flatten();
        places.into_iter().any(|kernels| kernels.accept(schema, graph, node, binding))
    }

    /// Returns `true` if the target runs a node with the given element types, correctly or not.
    pub(super) fn runs(self, schema: &'static Schema, node: &Node, binding: &Binding) -> bool {
        self.kernels.is_some_and(|kernels| kernels.run(schema, node, binding))
    }

    /// Returns the combinations of element types that the target accepts for a node.
    pub(crate) fn rows(self, schema: &'static Schema, graph: &Graph, node: &Node) -> Vec<Row> {
        match self.kernels {
            None => vec![schema.types.iter().map(|c| c.allowed).collect()],
            Some(kernels) => kernels.combinations(schema, graph, node),
        }
    }

    /// Returns the versions of an operator that a model may get instead of `newest`, because its opset
    /// is lowered for a device.
    pub(crate) fn versions(self, newest: &'static Schema) -> impl Iterator<Item = &'static Schema> {
        let lowest = if self.keeps_on_device { self.lowest_opset } else { newest.until };
        let versions = schema::versions(&Op::onnx(newest.name)).iter();
        versions.filter(move |s| s.since <= newest.since && s.until >= lowest.min(newest.until))
    }

    /// Returns `true` if the target runs a node with other types, on its device if it has one.
    pub(crate) fn runs_as(
        self,
        schema: &'static Schema,
        graph: &Graph,
        node: &Node,
        types: &[Types],
    ) -> bool {
        if node.op.domain == CONTRIB {
            let allowed = self.contributed_types(node.op.name);
            return types.iter().any(|have| allowed.iter().any(|t| *have == Types::of(*t)));
        }
        let fits = |row: &Row| types.iter().zip(row).all(|(have, set)| have.is_subset(*set));
        match self.on_device.filter(|_| self.keeps_on_device) {
            None => self.rows(schema, graph, node).iter().any(fits),
            Some(kernels) => self
                .versions(schema)
                .any(|schema| kernels.combinations(schema, graph, node).iter().any(fits)),
        }
    }

    /// Returns `true` if the target casts `from` to `to`.
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

impl Kernels {
    /// Returns `true` if there is a kernel for a node with the given element types, correct or not.
    pub(super) fn run(self, schema: &'static Schema, node: &Node, binding: &Binding) -> bool {
        self.rows(schema, &node.attrs).any(|row| binding.fits(row.types()))
    }

    /// Returns `true` if a kernel computes a node with the given element types correctly.
    pub(super) fn accept(
        self,
        schema: &'static Schema,
        graph: &Graph,
        node: &Node,
        binding: &Binding,
    ) -> bool {
        let rows = self.rows(schema, &node.attrs);
        let mut rows = rows.filter(|row| binding.fits(row.types()));
        rows.any(|row| match row.right {
            Right::Always => true,
            Right::SmallNumbers => of_small_numbers(graph, node),
            Right::Numbers => !nan::matters(graph, node),
            Right::Terms => has_terms(graph, node),
        })
    }

    /// Returns the combinations of element types for which a node is computed correctly.
    pub(super) fn combinations(
        self,
        schema: &'static Schema,
        graph: &Graph,
        node: &Node,
    ) -> Vec<Row> {
        let is_float = node.input(0).is_some_and(|value| graph.ty(value).dtype.is_float());
        let rows = self.rows(schema, &node.attrs).filter(|row| match row.right {
            Right::Always => true,
            Right::SmallNumbers => false,
            Right::Numbers => !is_float || !nan::matters(graph, node),
            Right::Terms => has_terms(graph, node),
        });
        rows.map(|row| row.types().collect()).collect()
    }
}

/// Returns `true` if a node computes with sizes and positions, which are small numbers, or compares
/// or sums numbers that are known to be small.
fn of_small_numbers(graph: &Graph, node: &Node) -> bool {
    if node.is("ReduceSum") && node.input(0).is_some_and(|x| has_small_sums(graph, node, x)) {
        return true;
    }
    let compares = matches!(node.op.name, "Clip" | "Max" | "Min");
    // Constants that are not sizes may be large, so they are checked.
    let is_small = |number: &Dim| match number {
        Dim::Known(n) => i32::try_from(*n).is_ok(),
        Dim::Symbolic(_) => true,
    };
    node.inputs.iter().flatten().all(|value| {
        graph.content(*value).is_some_and(|content| content.iter().all(is_small))
            || compares && {
                let Interval { low, high } = graph.facts().interval(*value);
                [low, high].iter().all(|bound| bound.as_ref().is_some_and(is_small))
            }
    })
}

/// Returns `true` if sums over elements of `x` are known to be small, as those of counts are. Then
/// both their type and double precision can represent them.
fn has_small_sums(graph: &Graph, node: &Node, x: ValueId) -> bool {
    let Interval { low: Some(Dim::Known(low)), high: Some(Dim::Known(high)) } =
        graph.facts().interval(x)
    else {
        return false;
    };
    let largest = low.unsigned_abs().max(high.unsigned_abs());
    match graph.facts().terms_of_sums(node) {
        Some(Dim::Known(terms)) => {
            let sum = u64::try_from(terms).ok().and_then(|terms| largest.checked_mul(terms));
            sum.is_some_and(|sum| sum <= i32::MAX as u64)
        }
        // The number of terms is a size, which is a small number.
        Some(Dim::Symbolic(_)) => largest <= 1,
        None => false,
    }
}

/// Returns `true` if the sums of a product have at least one term, for all symbolic sizes.
fn has_terms(graph: &Graph, node: &Node) -> bool {
    let size = node.input(0).and_then(|value| graph.ty(value).shape.last());
    size.and_then(Dim::as_known).is_some_and(|size| size > 0)
}
