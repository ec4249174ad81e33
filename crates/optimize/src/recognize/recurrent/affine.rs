//! Affine forms of gates: decomposes `x · W + h · R + b`, in any spelling, into a sum of products.

use std::ops::Range;

use onnx::{Graph, Node, Part, ValueId};
use tensor::Dim;

use crate::loops::Loop;

/// A sum of products along one axis of a value.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    /// The feature axis.
    axis: usize,
    pub(super) terms: Vec<Term>,
    pub(super) biases: Vec<Bias>,
}

/// A value of the iteration, multiplied by a matrix.
#[derive(Clone, Debug)]
pub(super) struct Term {
    /// The factor.
    pub(super) base: ValueId,
    /// The matrix, or `None` if the value is not multiplied.
    pub(super) weight: Option<Weight>,
    /// The columns of the product that this term uses.
    pub(super) columns: Range<usize>,
}

/// Part of a loop-invariant matrix.
#[derive(Clone, Debug)]
pub(super) struct Weight {
    pub(super) matrix: ValueId,
    /// The rows of the matrix that correspond to this factor.
    pub(super) rows: Range<usize>,
    /// `true` if rows and columns are swapped.
    pub(super) is_transposed: bool,
}

/// A loop-invariant addend that is the same for all examples.
#[derive(Clone, Debug)]
pub(super) struct Bias {
    pub(super) value: ValueId,
    /// The elements of the bias that are used, or `None` if one number is broadcast.
    pub(super) columns: Option<Range<usize>>,
}

/// The maximum depth of nested sums.
const DEPTH: usize = 32;

/// The analysis of a loop body as sums of products.
#[derive(Clone, Copy)]
pub(super) struct Analysis<'g> {
    pub(super) graph: &'g Graph,
    pub(super) scan: &'g Loop,
}

impl<'g> Analysis<'g> {
    /// Reads a gate: the sum that `activation` is applied to, either before or after the gates are
    /// split.
    pub(super) fn gate(&self, value: ValueId, activation: &str) -> Option<Affine> {
        let node = self.node(value)?;
        if node.is(activation) {
            return self.affine(node.input(0)?);
        }
        let columns = self.part(node, value)?;
        let whole = self.node(node.input(0)?)?;
        let axis = self.graph.ty(value).rank().checked_sub(1)?;
        let sum = self.affine(whole.input(0).filter(|_| whole.is(activation))?)?;
        (columns.0 == axis && sum.axis == axis).then(|| sum.part(&columns.1))
    }

    /// Reads a value as a sum, which may consist of the value alone.
    pub(super) fn affine(&self, value: ValueId) -> Option<Affine> {
        self.sum(value, 0)
    }

    /// Returns the node in the loop body that computes `value`.
    pub(super) fn node(&self, value: ValueId) -> Option<&'g Node> {
        let node = self.graph.node(self.graph.producer(value)?);
        (node.block() == self.scan.body && node.op.domain.is_empty()).then_some(node)
    }

    fn sum(&self, value: ValueId, depth: usize) -> Option<Affine> {
        if depth > DEPTH {
            return None;
        }
        let inner = |node: &Node| self.sum(node.input(0)?, depth + 1);
        let found = self.node(value).and_then(|node| match node.op.name {
            "Add" => self.add(node, depth),
            "MatMul" => self.product(node, depth),
            "Gemm" if node.attrs.is_empty() => self.gemm(node, depth),
            "Split" | "Slice" => {
                let (axis, columns) = self.part(node, value)?;
                let whole = inner(node)?;
                (whole.axis == axis).then(|| whole.part(&columns))
            }
            "Transpose" => {
                let (perm, whole) = (node.ints("perm")?, inner(node)?);
                let axis = perm.iter().position(|p| usize::try_from(*p) == Ok(whole.axis))?;
                Some(Affine { axis, ..whole })
            }
            "Identity" => inner(node),
            _ if node.is_reshape() => self.reshaped(node, value, depth),
            _ => None,
        });
        found.or_else(|| self.itself(value))
    }

    /// Treats a value of the loop body that is not a sum as a single term.
    fn itself(&self, value: ValueId) -> Option<Affine> {
        if !self.scan.is_inside(self.graph, value) {
            return None;
        }
        let axis = self.graph.ty(value).rank().checked_sub(1)?;
        let term = Term { base: value, weight: None, columns: 0..self.size(value, axis)? };
        Some(Affine { axis, terms: vec![term], biases: Vec::new() })
    }

    fn size(&self, value: ValueId, axis: usize) -> Option<usize> {
        usize::try_from(self.graph.ty(value).shape.get(axis)?.as_known()?).ok()
    }

    /// Returns the axis of a `Split` or `Slice`, and the range along it that becomes `value`.
    fn part(&self, node: &Node, value: ValueId) -> Option<(usize, Range<usize>)> {
        let Part { axis, start, step: 1, count, .. } = Part::of(self.graph, node, value)? else {
            return None;
        };
        let start = usize::try_from(start).ok()?;
        Some((axis, start..start + usize::try_from(count).ok()?))
    }

    fn add(&self, node: &Node, depth: usize) -> Option<Affine> {
        let [Some(a), Some(b)] = *node.inputs.as_slice() else { return None };
        let rank = self.graph.ty(node.outputs[0]).rank();
        let is_inside = |v| self.scan.is_inside(self.graph, v);
        match (is_inside(a), is_inside(b)) {
            (true, true) => {
                let is_same = self.graph.ty(a).rank() == self.graph.ty(b).rank();
                self.sum(a, depth + 1)?.plus(self.sum(b, depth + 1)?).filter(|_| is_same)
            }
            (true, false) => self.sum(a, depth + 1)?.with_bias(self.graph, b, rank),
            (false, true) => self.sum(b, depth + 1)?.with_bias(self.graph, a, rank),
            (false, false) => None,
        }
    }

    fn gemm(&self, node: &Node, depth: usize) -> Option<Affine> {
        let sum = self.product(node, depth)?;
        match node.input(2) {
            None => Some(sum),
            Some(added) if self.scan.is_inside(self.graph, added) => {
                sum.plus(self.sum(added, depth + 1)?)
            }
            Some(added) => sum.with_bias(self.graph, added, 2),
        }
    }

    /// Reads `x · W`, `W · xᵀ` and `[x, h] · W`.
    fn product(&self, node: &Node, depth: usize) -> Option<Affine> {
        let (a, b) = (node.input(0)?, node.input(1)?);
        let rank = |v: ValueId| self.graph.ty(v).rank();
        let (is_transposed, matrix, factor) =
            match (self.scan.is_inside(self.graph, a), self.scan.is_inside(self.graph, b)) {
                (true, false) if rank(b) == 2 => (false, b, a),
                (false, true) if rank(a) == 2 && rank(b) == 2 => (true, a, b),
                _ => return None,
            };
        let of = if is_transposed { 0 } else { rank(factor).checked_sub(1)? };
        let outputs = self.size(matrix, usize::from(!is_transposed))?;
        let mut start = 0;
        let mut terms = Vec::new();
        for part in self.joined(factor) {
            let whole = self.sum(part, depth + 1)?;
            let [Term { base, weight: None, columns }] = whole.terms.as_slice() else {
                return None;
            };
            let size = columns.len();
            let is_whole = *columns == (0..self.size(*base, rank(*base).checked_sub(1)?)?);
            if !whole.biases.is_empty() || whole.axis != of || !is_whole {
                return None;
            }
            let weight = Weight { matrix, rows: start..start + size, is_transposed };
            terms.push(Term { base: *base, weight: Some(weight), columns: 0..outputs });
            start += size;
        }
        let rows = self.size(matrix, usize::from(is_transposed))?;
        (start == rows).then_some(Affine { axis: of, terms, biases: Vec::new() })
    }

    /// Returns the values that are concatenated along the last axis.
    fn joined(&self, value: ValueId) -> Vec<ValueId> {
        let last = self.graph.ty(value).rank().saturating_sub(1);
        match self.node(value) {
            Some(node)
                if node.is("Concat")
                    && onnx::fold::axis(node.int("axis", 0), last + 1) == Ok(last) =>
            {
                node.inputs.iter().flatten().copied().collect()
            }
            _ => vec![value],
        }
    }

    /// Follows the feature axis through reshapes that add or remove unit axes.
    fn reshaped(&self, node: &Node, value: ValueId, depth: usize) -> Option<Affine> {
        let from = node.input(0)?;
        let whole = self.sum(from, depth + 1)?;
        let kept = |value| -> Vec<(usize, &Dim)> {
            let axes = self.graph.ty(value).shape.iter().enumerate();
            axes.filter(|(_, dim)| **dim != Dim::Known(1)).collect()
        };
        let (before, after) = (kept(from), kept(value));
        let is_same = before.iter().map(|(_, dim)| dim).eq(after.iter().map(|(_, dim)| dim));
        let place = before.iter().position(|(axis, _)| *axis == whole.axis)?;
        let (axis, _) = *after.get(place).filter(|_| is_same)?;
        Some(Affine { axis, ..whole })
    }
}

impl Affine {
    /// Adds another sum along the same axis.
    fn plus(mut self, other: Self) -> Option<Self> {
        self.terms.extend(other.terms);
        self.biases.extend(other.biases);
        (self.axis == other.axis).then_some(self)
    }

    /// Selects a range of columns.
    pub(super) fn part(mut self, columns: &Range<usize>) -> Self {
        let shift = |old: &Range<usize>| old.start + columns.start..old.start + columns.end;
        for term in &mut self.terms {
            term.columns = shift(&term.columns);
        }
        for bias in &mut self.biases {
            bias.columns = bias.columns.as_ref().map(shift);
        }
        self
    }

    /// Adds a loop-invariant value. It must also be the same for all examples.
    fn with_bias(mut self, graph: &Graph, value: ValueId, rank: usize) -> Option<Self> {
        let shape = &graph.ty(value).shape;
        let missing = rank.checked_sub(shape.len())?;
        let own = self.axis.checked_sub(missing).filter(|axis| *axis < shape.len());
        let is_one = |(i, dim): (usize, &Dim)| Some(i) == own || *dim == Dim::Known(1);
        if !shape.iter().enumerate().all(is_one) {
            return None;
        }
        let size = own.and_then(|axis| shape[axis].as_known());
        let columns = match size {
            None if own.is_some() => return None,
            None | Some(1) => None,
            Some(size) => Some(0..usize::try_from(size).ok()?),
        };
        self.biases.push(Bias { value, columns });
        Some(self)
    }
}
