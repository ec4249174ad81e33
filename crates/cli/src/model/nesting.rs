//! Nesting of nodes in bodies, of bodies in nodes, and of modules.

use rustc_hash::FxHashMap;

use super::{BodyKind, Index};

/// Returns a module and the modules that contain it, outermost first.
pub(crate) fn enclosing(scope: &str) -> impl Iterator<Item = &str> {
    let ends = scope.match_indices('/').map(|(at, _)| at).chain([scope.len()]);
    ends.filter(|end| *end > 0).map(|end| &scope[..end])
}

/// The nesting of a model's nodes.
#[derive(Debug)]
pub(crate) struct Nesting<'m> {
    /// The nodes of each body.
    pub(crate) members: Vec<Vec<usize>>,
    /// The number of nodes of each body, including those of its subgraphs.
    pub(crate) sizes: Vec<usize>,
    inner: FxHashMap<usize, Vec<(&'m str, usize)>>,
}

impl<'m> Nesting<'m> {
    pub(crate) fn new(index: &Index<'m>) -> Self {
        let mut members = vec![Vec::new(); index.bodies.len()];
        for (position, node) in index.nodes.iter().enumerate() {
            members[node.body].push(position);
        }
        let mut inner: FxHashMap<usize, Vec<(&str, usize)>> = FxHashMap::default();
        for (position, body) in index.bodies.iter().enumerate() {
            if let BodyKind::Inner(owner, attribute) = body.kind {
                inner.entry(owner).or_default().push((attribute, position));
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

    /// Returns the bodies inside a node, with the names of their attributes.
    pub(crate) fn inside(&self, node: usize) -> &[(&'m str, usize)] {
        self.inner.get(&node).map_or(&[], Vec::as_slice)
    }
}
