//! Nesting of nodes in bodies, and of bodies in nodes.

use rustc_hash::FxHashMap;

use super::{BodyKind, Index};

/// The nesting of a model's nodes.
#[derive(Debug)]
pub(crate) struct Nesting {
    /// The nodes of each body.
    pub(crate) members: Vec<Vec<usize>>,
    /// The number of nodes of each body, including those of its subgraphs.
    pub(crate) sizes: Vec<usize>,
    inner: FxHashMap<usize, Vec<usize>>,
}

impl Nesting {
    pub(crate) fn new(index: &Index<'_>) -> Self {
        let mut members = vec![Vec::new(); index.bodies.len()];
        for (position, node) in index.nodes.iter().enumerate() {
            members[node.body].push(position);
        }
        let mut inner: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for (position, body) in index.bodies.iter().enumerate() {
            if let BodyKind::Inner(owner, _) = body.kind {
                inner.entry(owner).or_default().push(position);
            }
        }
        let mut sizes: Vec<usize> = members.iter().map(Vec::len).collect();
        // A body follows the body that contains it.
        for (position, body) in index.bodies.iter().enumerate().rev() {
            if let BodyKind::Inner(owner, _) = body.kind {
                sizes[index.nodes[owner].body] += sizes[position];
            }
        }
        Self { members, sizes, inner }
    }

    /// Returns the bodies inside a node.
    pub(crate) fn inside(&self, node: usize) -> &[usize] {
        self.inner.get(&node).map_or(&[], Vec::as_slice)
    }
}
