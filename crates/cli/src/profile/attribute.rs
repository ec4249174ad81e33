//! From the names in a profile to the nodes of a model.
//!
//! A profile identifies nodes by name only, and runtimes rename the nodes that they change.

use provenance::originals;
use rustc_hash::FxHashMap;

use super::read::{Kernel, Profile};
use crate::model::{Index, Origin};

/// What ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A node of the model.
    Node(usize),
    /// A node that is in the source map, but not in the model.
    Exported(usize),
    /// Unknown.
    Unknown,
}

/// The kernels of a profile, each with the node that it ran.
#[derive(Debug)]
pub(crate) struct Attributed<'p> {
    /// Kernels and targets.
    pub(crate) kernels: Vec<(&'p Kernel, Target)>,
}

/// Finds the nodes of `index` that the kernels of `profile` ran.
pub(crate) fn attribute<'p>(index: &Index<'_>, profile: &'p Profile) -> Attributed<'p> {
    let finder = Finder::new(index);
    let find = |kernel: &'p Kernel| (kernel, finder.find(kernel));
    Attributed { kernels: profile.kernels.iter().map(find).collect() }
}

impl Attributed<'_> {
    /// How many kernels were matched.
    pub(crate) fn known(&self) -> usize {
        self.kernels.iter().filter(|(_, target)| *target != Target::Unknown).count()
    }

    /// Nanoseconds by node.
    pub(crate) fn by_node(&self) -> FxHashMap<usize, u64> {
        let mut times = FxHashMap::default();
        for (kernel, target) in &self.kernels {
            if let Target::Node(node) = target {
                *times.entry(*node).or_default() += kernel.ns;
            }
        }
        times
    }
}

impl Target {
    /// The sources of what ran, its own first.
    pub(crate) fn origins<'m>(self, index: &Index<'m>) -> Vec<Origin<'m>> {
        match self {
            Target::Node(node) => index.origins(node),
            Target::Exported(node) => index.exported_origins(node),
            Target::Unknown => Vec::new(),
        }
    }
}

struct Finder<'i, 'm> {
    index: &'i Index<'m>,
    /// Unnamed nodes by position, if there is only one graph: the runtime counts the nodes of each
    /// graph and names them by operator and number.
    unnamed: FxHashMap<usize, usize>,
    functions: Vec<&'m str>,
}

impl<'i, 'm> Finder<'i, 'm> {
    fn new(index: &'i Index<'m>) -> Self {
        let nodes = index.nodes.iter().enumerate().filter(|_| index.bodies.len() == 1);
        let unnamed = nodes.filter(|(_, node)| node.proto.name.is_empty()).map(|(at, _)| (at, at));
        let functions = index.model.proto.functions.iter();
        Self {
            index,
            unnamed: unnamed.collect(),
            functions: functions.map(|f| f.name.as_str()).collect(),
        }
    }

    fn find(&self, kernel: &Kernel) -> Target {
        let renamed = || originals(&kernel.name, &self.functions).into_iter();
        let found =
            self.exact(&kernel.name).or_else(|| renamed().find_map(|name| self.exact(&name)));
        found.or_else(|| self.by_position(kernel)).unwrap_or(Target::Unknown)
    }

    fn exact(&self, name: &str) -> Option<Target> {
        let node = self.index.named(name).or_else(|| self.index.producer(name));
        let exported = || self.index.model.map.as_ref()?.find(name).map(Target::Exported);
        node.map(Target::Node).or_else(exported)
    }

    fn by_position(&self, kernel: &Kernel) -> Option<Target> {
        let position = kernel.position?;
        let node = *self.unnamed.get(&position)?;
        let same = self.index.nodes[node].proto.op_type == kernel.op
            && kernel.name == format!("{}_{position}", kernel.op);
        same.then_some(Target::Node(node))
    }
}
