//! Finds exported nodes by the names that runtimes derive from theirs.

use provenance::SourceMap;

use super::renamed::before_inlining;

/// Looks up names of a model that a runtime may have optimised.
pub trait Lookup {
    /// The node that computes the value `name`, or else the node named `name`. Nodes of functions
    /// are also found by the names that inlining gives them.
    fn find(&self, name: &str) -> Option<usize>;

    /// The function node that `name` refers to, if it is a name given by inlining.
    fn find_inlined(&self, name: &str) -> Option<usize>;

    /// Whether the exported model has a value named `name`: an input or a result. Runtimes name
    /// values that they recompute after the node, so the node's name counts as well.
    fn has_value(&self, name: &str) -> bool;
}

impl Lookup for SourceMap {
    fn find(&self, name: &str) -> Option<usize> {
        self.position(name).or_else(|| self.position(before_inlining(name)?))
    }

    fn find_inlined(&self, name: &str) -> Option<usize> {
        self.find(before_inlining(name).filter(|_| !self.has_node(name))?)
    }

    fn has_value(&self, name: &str) -> bool {
        self.find(name).is_some() || self.has_input(name)
    }
}
