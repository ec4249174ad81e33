//! Movements that keep axes whole: transposes, and the removal of unit axes.

use onnx::{Graph, Node, fold};
use tensor::Dim;

/// The source axis of each axis of a moved value: a permutation, or a selection that lacks some axes
/// of size one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AxisMap {
    sources: Vec<usize>,
    rank: usize,
}

impl AxisMap {
    /// Returns the permutation of a `Transpose`.
    pub(crate) fn of(graph: &Graph, node: &Node) -> Option<Self> {
        let rank = graph.ty(node.input(0).filter(|_| node.is("Transpose"))?).rank();
        let sources = fold::permutation(node, rank).ok()?;
        (sources.len() == rank).then_some(Self { sources, rank })
    }

    /// Returns the permutation to this order of axes.
    pub(crate) fn permutation(sources: Vec<usize>) -> Self {
        Self { rank: sources.len(), sources }
    }

    /// Returns the map that removes the axes `gone` of `rank` axes.
    pub(crate) fn without(gone: &[usize], rank: usize) -> Self {
        Self { sources: (0..rank).filter(|axis| !gone.contains(axis)).collect(), rank }
    }

    /// Returns the permutation from channels last to channels second, for ranks that convolutions
    /// support.
    pub(crate) fn channels_second(rank: usize) -> Option<Self> {
        let order = || [0, rank - 1].into_iter().chain(1..rank - 1).collect();
        (3..=5).contains(&rank).then(|| Self::permutation(order()))
    }

    /// Returns `true` if a node applies this permutation: a `Transpose`, or a `Reshape` that only
    /// moves unit axes.
    pub(crate) fn is_made_by(&self, graph: &Graph, node: &Node) -> bool {
        let renames = || {
            let from = &graph.ty(node.input(0)?).shape;
            let to = &graph.ty(*node.outputs.first()?).shape;
            let fits = from.len() == self.rank() && self.apply(from) == *to;
            Some(fits && self.only_renames(from))
        };
        match node.is("Reshape") {
            true => renames() == Some(true),
            false => Self::of(graph, node).as_ref() == Some(self),
        }
    }

    /// Returns the number of axes before the movement.
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the source of each axis.
    pub(crate) fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// Returns the permutation that undoes this one.
    pub(crate) fn inverse(&self) -> Self {
        let mut inverse = vec![0; self.rank];
        for (to, &from) in self.sources.iter().enumerate() {
            inverse[from] = to;
        }
        Self::permutation(inverse)
    }

    /// Returns the permutation that this one and then `next` result in.
    pub(crate) fn then(&self, next: &Self) -> Self {
        Self::permutation(next.apply(&self.sources))
    }

    /// Returns the map of the axes that remain if the axes `gone` are removed before and after.
    pub(crate) fn of_others(&self, gone: &[usize]) -> Self {
        let before = |axis: usize| gone.iter().filter(|other| **other < axis).count();
        let others = self.sources.iter().filter(|axis| !gone.contains(axis));
        Self {
            sources: others.map(|axis| axis - before(*axis)).collect(),
            rank: self.rank - gone.len(),
        }
    }

    /// Returns `true` if no axis is removed.
    pub(crate) fn is_permutation(&self) -> bool {
        self.sources.len() == self.rank
    }

    /// Returns `true` if every axis keeps its position.
    pub(crate) fn is_identity(&self) -> bool {
        self.kept() == self.rank
    }

    /// Returns the number of trailing axes that keep their positions.
    pub(crate) fn kept(&self) -> usize {
        self.sources.iter().enumerate().rev().take_while(|(to, from)| to == *from).count()
    }

    /// Moves a list with one item per axis.
    pub(crate) fn apply<T: Clone>(&self, of_axes: &[T]) -> Vec<T> {
        self.sources.iter().filter_map(|&axis| of_axes.get(axis).cloned()).collect()
    }

    /// Returns the shape before the movement, given the shape after it.
    pub(crate) fn shape_before(&self, shape: &[Dim]) -> Vec<Dim> {
        let mut before = vec![Dim::Known(1); self.rank];
        for (&from, dim) in self.sources.iter().zip(shape) {
            before[from] = dim.clone();
        }
        before
    }

    /// Returns the new position of an axis, counted from the front. The argument may count from the
    /// back.
    pub(crate) fn axis(&self, axis: i64) -> Option<i64> {
        let axis = fold::axis(axis, self.rank).ok()?;
        self.sources.iter().position(|&from| from == axis).map(|to| to as i64)
    }

    /// Returns `true` if moving a value of this shape preserves the order of its elements.
    pub(crate) fn only_renames(&self, shape: &[Dim]) -> bool {
        let is_one = |axis: &&usize| shape.get(**axis) == Some(&Dim::Known(1));
        self.sources.iter().filter(|axis| !is_one(axis)).is_sorted()
    }

    /// Returns the attribute `perm` of a `Transpose`.
    pub(crate) fn attr(&self) -> Vec<i64> {
        self.sources.iter().map(|&p| p as i64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_are_removed_on_both_sides_leave_the_others() {
        let order = AxisMap::permutation(vec![2, 0, 3, 1]);
        assert_eq!(order.of_others(&[0]), AxisMap::permutation(vec![1, 2, 0]));
        assert_eq!(order.of_others(&[3, 1]), AxisMap::permutation(vec![1, 0]));
        assert!(order.is_permutation() && !AxisMap::without(&[1], 4).is_permutation());
    }
}
