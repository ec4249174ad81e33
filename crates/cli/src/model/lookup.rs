//! Lookup of exported nodes by the names that runtimes derive from theirs.

use provenance::SourceMap;

use super::renamed::{before_inlining, in_branch};

/// Lookup of names in a model that a runtime may have optimised.
pub trait Lookup {
    /// Returns the node that computes the value `name`, or else the node named `name`. Nodes of
    /// functions and branches are also found by the names that inlining gives them.
    fn find(&self, name: &str) -> Option<usize>;

    /// Returns the function node that `name` refers to, if inlining gave it this name.
    fn find_inlined(&self, name: &str) -> Option<usize>;

    /// Returns `true` if the exported model has an input or a result named `name`. Runtimes name
    /// recomputed values after the node, so node names count, too.
    fn has_value(&self, name: &str) -> bool;
}

impl Lookup for SourceMap {
    fn find(&self, name: &str) -> Option<usize> {
        let inside = in_branch(name);
        let found =
            |name: &str| self.position(name).or_else(|| self.position(before_inlining(name)?));
        found(name).or_else(|| found(inside).filter(|_| inside != name))
    }

    fn find_inlined(&self, name: &str) -> Option<usize> {
        self.find(before_inlining(name).filter(|_| !self.has_node(name))?)
    }

    fn has_value(&self, name: &str) -> bool {
        self.find(name).is_some() || self.has_input(name)
    }
}
