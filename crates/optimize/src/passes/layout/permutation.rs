//! Orders of axes.

use onnx::{Graph, Node, fold};
use tensor::Dim;

/// The axes of a transposed value, by where they come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Permutation(Vec<usize>);

impl Permutation {
    /// The order that a `Transpose` makes.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let perm = node.ints("perm").filter(|_| node.is("Transpose"))?;
        let perm: Vec<usize> =
            perm.iter().map(|&p| usize::try_from(p).ok()).collect::<Option<_>>()?;
        let complete = (0..perm.len()).all(|axis| perm.contains(&axis));
        complete.then_some(Self(perm))
    }

    /// Channels second instead of last, where there are convolutions of such a rank.
    pub(super) fn channels_second(rank: usize) -> Option<Self> {
        (3..=5)
            .contains(&rank)
            .then(|| Self([0, rank - 1].into_iter().chain(1..rank - 1).collect()))
    }

    /// Whether a node makes this order: a `Transpose`, or a `Reshape` where only axes of size one move.
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

    /// What belongs to each axis, in the new order.
    pub(super) fn apply<T: Clone>(&self, of_axes: &[T]) -> Vec<T> {
        self.0.iter().filter_map(|&axis| of_axes.get(axis).cloned()).collect()
    }

    /// Where an axis goes, counted from the front; it may be counted from behind.
    pub(super) fn axis(&self, axis: i64) -> Option<i64> {
        let axis = fold::axis(axis, self.0.len()).ok()?;
        self.0.iter().position(|&from| from == axis).map(|to| to as i64)
    }

    /// Whether the axes in `kept` follow one another as before.
    pub(super) fn keeps_order_of(&self, kept: impl Fn(usize) -> bool) -> bool {
        self.0.iter().filter(|&&axis| kept(axis)).is_sorted()
    }

    /// Whether the transposed value of this shape has its elements in the same order.
    pub(super) fn only_renames(&self, shape: &[Dim]) -> bool {
        self.keeps_order_of(|axis| shape.get(axis) != Some(&Dim::Known(1)))
    }

    pub(super) fn attr(&self) -> Vec<i64> {
        self.0.iter().map(|&p| p as i64).collect()
    }
}
