//! Attribution of profiled kernels to the nodes of a model.
//!
//! A profile identifies nodes by name only, and runtimes rename the nodes that they change.

use rustc_hash::FxHashMap;

use super::fuse::fuse;
use super::moved::attribute_moved;
use super::read::{Kernel, Profile};
use crate::model::{Chain, Index, Lookup, Origin, originals};

/// The target of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A node of the model, the call chains that may have led to it, and the nodes that ran as part
    /// of it.
    Node(usize, Vec<Chain>, Vec<usize>),
    /// A node that is in the source map, but not in the model.
    Exported(usize),
    Unknown,
}

/// The kernels of a profile, each with its target.
pub(crate) type Attributed<'p> = Vec<(&'p Kernel, Target)>;

/// Finds the nodes of `index` that the kernels of `profile` ran.
pub(crate) fn attribute<'p>(index: &Index<'_>, profile: &'p Profile) -> Attributed<'p> {
    let finder = Finder::new(index);
    let mut kernels: Attributed<'p> = Vec::with_capacity(profile.kernels.len());
    for kernel in &profile.kernels {
        let around = kernel.inside.and_then(|inside| kernels.get(inside)).map(|(_, around)| around);
        let target = finder.find(kernel, around);
        kernels.push((kernel, target));
    }
    attribute_moved(index, &mut kernels);
    fuse(index, &mut kernels);
    kernels
}

impl Target {
    /// Returns the sources of what the target computes, its own first.
    pub(crate) fn origins<'m>(&self, index: &Index<'m>) -> Vec<Origin<'m>> {
        let mut origins = match self {
            Target::Node(node, chains, also) => {
                let nodes = std::iter::once(node).chain(also);
                nodes.flat_map(|node| index.origins_in(*node, chains)).collect()
            }
            Target::Exported(node) => index.exported_origins(*node),
            Target::Unknown => Vec::new(),
        };
        if origins.iter().any(|origin| !origin.is_idle && origin.site.is_some()) {
            origins.retain(|origin| !origin.is_idle);
        }
        origins
    }
}

struct Finder<'i, 'm> {
    index: &'i Index<'m>,
    /// Unnamed nodes by position, if there is only one graph. The runtime names such nodes by their
    /// operator and their position in the graph.
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

    /// Finds the target of a kernel. `around` is the loop or branch that it ran in.
    fn find(&self, kernel: &Kernel, around: Option<&Target>) -> Target {
        let names = || {
            let renamed = originals(&kernel.name, &self.functions);
            std::iter::once(kernel.name.clone()).chain(renamed)
        };
        // The map also knows inlined names, but only a node of the model identifies the call.
        let node = names().find_map(|name| self.node(&name)).or_else(|| self.by_position(kernel));
        // Names are unique only within their graph.
        let owner = match around {
            Some(Target::Node(owner, ..)) => Some(*owner),
            _ => None,
        };
        let is_there = |node: &usize| self.index.owner(*node) == owner;
        let there = |node: usize| self.index.namesakes(node).find(is_there).unwrap_or(node);
        let node = node.map(|node| if is_there(&node) { node } else { there(node) });
        match node {
            Some(node) => Target::Node(node, self.calls(node, kernel, around), Vec::new()),
            None => names().find_map(|name| self.exported(&name)).unwrap_or(Target::Unknown),
        }
    }

    fn node(&self, name: &str) -> Option<usize> {
        self.index.named(name).or_else(|| self.index.producer(name))
    }

    /// Returns the call chains of a node that are consistent with where the kernel ran.
    fn calls(&self, node: usize, kernel: &Kernel, around: Option<&Target>) -> Vec<Chain> {
        let calls = self.index.calls();
        let chains = calls.of_name(self.index, node, &kernel.name);
        let is_there = |chain: &&Chain| match (calls.around(self.index, node, chain), around) {
            (None, None) => true,
            (Some((owner, outer)), Some(Target::Node(around, chains, _))) => {
                owner == *around && chains.iter().any(|chain| chain.as_slice() == outer)
            }
            _ => false,
        };
        let there: Vec<Chain> = chains.iter().filter(is_there).cloned().collect();
        if there.is_empty() { chains } else { there }
    }

    fn exported(&self, name: &str) -> Option<Target> {
        self.index.model.map.as_ref()?.find(name).map(Target::Exported)
    }

    fn by_position(&self, kernel: &Kernel) -> Option<usize> {
        let position = kernel.position?;
        let node = *self.unnamed.get(&position)?;
        let same = self.index.nodes[node].proto.op_type == kernel.op
            && kernel.name == format!("{}_{position}", kernel.op);
        same.then_some(node)
    }
}
