//! Producers of values, resolved from the bodies of a model.

use rustc_hash::FxHashMap;

use super::{BodyKind, Index};

/// The nodes of a model by their results. Different bodies may use a name for different values.
#[derive(Debug)]
pub(crate) struct Makers<'m>(FxHashMap<(usize, &'m str), usize>);

impl<'m> Makers<'m> {
    /// Records the results of all nodes.
    pub(crate) fn new(index: &Index<'m>) -> Self {
        let mut makers = FxHashMap::default();
        for (position, node) in index.nodes.iter().enumerate() {
            for name in node.proto.output.iter().filter(|name| !name.is_empty()) {
                makers.insert((node.body, name.as_str()), position);
            }
        }
        Self(makers)
    }

    /// Returns the node that computes the value visible as `name` in `body`.
    pub(crate) fn find(&self, index: &Index<'m>, mut body: usize, name: &str) -> Option<usize> {
        loop {
            if let Some(found) = self.0.get(&(body, name)) {
                return Some(*found);
            }
            let BodyKind::Inner(owner, ..) = index.bodies[body].kind else { return None };
            body = index.nodes[owner].body;
        }
    }
}
