//! Sizes of axes that are computed with, and numbers of elements.

use tensor::Dim;

use super::Facts;
use crate::{Node, ValueId, fold};

impl Facts<'_> {
    /// Returns the size that a single integer is, or that it was before it became a float.
    pub fn size(&self, value: ValueId) -> Option<Dim> {
        let cast = || self.node(value).filter(|node| node.is("Cast"))?.input(0);
        let integer = if self.graph.ty(value).dtype.is_float() { cast()? } else { value };
        <[Dim; 1]>::try_from(self.graph.content(integer)?).ok().map(|[size]| size)
    }

    /// Returns the number of elements that each result of a reduction combines, if its axes are known.
    pub fn terms_of_sums(&self, node: &Node) -> Option<Dim> {
        let shape = self.shape(node.input(0)?);
        let axes = match node.input(1) {
            Some(axes) => self.graph.content(axes)?,
            None if node.int("noop_with_empty_axes", 0) != 0 => Vec::new(),
            None => (0..shape.len()).map(Dim::from).collect(),
        };
        axes.iter().try_fold(Dim::Known(1), |product, axis| {
            let axis = fold::axis(axis.as_known()?, shape.len()).ok()?;
            Some(product * shape[axis].clone())
        })
    }
}
