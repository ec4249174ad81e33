//! Sizes of axes that are computed with, and the axes and numbers of elements that reductions combine.

use tensor::Dim;

use super::Facts;
use crate::operators::Axes;
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
        let sizes = self.reduced_axes(node)?.into_iter().map(|axis| shape[axis].clone());
        Some(sizes.fold(Dim::Known(1), |product, size| product * size))
    }

    /// Returns the axes that a reduction reduces, in ascending order, if they are known.
    pub fn reduced_axes(&self, node: &Node) -> Option<Vec<usize>> {
        let rank = self.shape(node.input(0)?).len();
        let given = match (node.operator().axes, node.input(1)) {
            (Axes::ArgReduce, _) => vec![Dim::Known(node.int("axis", 0))],
            (Axes::Reduce, Some(axes)) => self.graph.content(axes)?,
            (Axes::Reduce, None) => Vec::new(),
            _ => return None,
        };
        if given.is_empty() {
            let is_all = node.int("noop_with_empty_axes", 0) == 0;
            return Some(if is_all { (0..rank).collect() } else { Vec::new() });
        }
        let axes = given.iter().map(|axis| fold::axis(axis.as_known()?, rank).ok());
        let mut axes = axes.collect::<Option<Vec<_>>>()?;
        axes.sort_unstable();
        axes.dedup();
        Some(axes)
    }
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use crate::Graph;
    use crate::text::parse;

    #[test]
    fn reductions_name_their_axes_in_several_ways() {
        for (node, axes, terms) in [
            ("ReduceSum (x, a)", vec![0, 2], Some("8")),
            ("ReduceSum (x)", vec![0, 1, 2], Some("8*T")),
            ("ReduceSum (x, none)", vec![0, 1, 2], Some("8*T")),
            ("ReduceSum <noop_with_empty_axes = 1> (x, none)", vec![], Some("1")),
            ("ReduceSum <noop_with_empty_axes = 1> (x)", vec![], Some("1")),
            ("ArgMax <axis = -2> (x)", vec![1], Some("T")),
        ] {
            let text = format!(
                "g (float[2,T,4] x) => (int64 n) {{
                    a = Constant <value_ints = [-1, 0]> ()
                    none = Constant <value = int64[0] {{}}> ()
                    y = {node}
                    n = Size (y)
                }}"
            );
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let node = graph.node(graph.nodes_of(Graph::MAIN).next().unwrap());
            assert_eq!(graph.facts().reduced_axes(node), Some(axes), "{text}");
            let found = graph.facts().terms_of_sums(node).map(|terms| terms.to_string());
            assert_eq!(found.as_deref(), terms, "{text}");
        }
    }
}
