//! Permutations of axes.

use onnx::{Graph, Node, fold};
use tensor::Dim;

/// The source axis of each axis of a transposed value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Permutation(Vec<usize>);

impl Permutation {
    /// Returns the permutation of a `Transpose`.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let perm = node.ints("perm").filter(|_| node.is("Transpose"))?;
        let perm: Vec<usize> =
            perm.iter().map(|&p| usize::try_from(p).ok()).collect::<Option<_>>()?;
        let complete = (0..perm.len()).all(|axis| perm.contains(&axis));
        complete.then_some(Self(perm))
    }

    /// Returns the permutation from channels last to channels second, for ranks that convolutions
    /// support.
    pub(super) fn channels_second(rank: usize) -> Option<Self> {
        (3..=5)
            .contains(&rank)
            .then(|| Self([0, rank - 1].into_iter().chain(1..rank - 1).collect()))
    }

    /// Returns `true` if a node applies this permutation: a `Transpose`, or a `Reshape` that only
    /// moves unit axes.
    pub(super) fn is_made_by(&self, graph: &Graph, node: &Node) -> bool {
        let renames = || {
            let from = &graph.ty(node.input(0)?).shape;
            let to = &graph.ty(*node.outputs.first()?).shape;
            let fits = from.len() == self.rank() && self.apply(from) == *to;
            Some(fits && self.only_renames(from))
        };
        match node.is("Reshape") {
            true => renames() == Some(true),
            false => Self::of(node).as_ref() == Some(self),
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.0.len()
    }

    pub(super) fn inverse(&self) -> Self {
        let mut inverse = vec![0; self.0.len()];
        for (to, &from) in self.0.iter().enumerate() {
            inverse[from] = to;
        }
        Self(inverse)
    }

    /// Permutes a list with one item per axis.
    pub(super) fn apply<T: Clone>(&self, of_axes: &[T]) -> Vec<T> {
        self.0.iter().filter_map(|&axis| of_axes.get(axis).cloned()).collect()
    }

    /// Returns the new position of an axis, counted from the front. The argument may count from the
    /// back.
    pub(super) fn axis(&self, axis: i64) -> Option<i64> {
        let axis = fold::axis(axis, self.0.len()).ok()?;
        self.0.iter().position(|&from| from == axis).map(|to| to as i64)
    }

    /// Returns `true` if the axes selected by `kept` stay in the same order.
    pub(super) fn keeps_order_of(&self, kept: impl Fn(usize) -> bool) -> bool {
        self.0.iter().filter(|&&axis| kept(axis)).is_sorted()
    }

    /// Returns `true` if transposing a value of this shape preserves the order of its elements.
    pub(super) fn only_renames(&self, shape: &[Dim]) -> bool {
        self.keeps_order_of(|axis| shape.get(axis) != Some(&Dim::Known(1)))
    }

    pub(super) fn attr(&self) -> Vec<i64> {
        self.0.iter().map(|&p| p as i64).collect()
    }
}
