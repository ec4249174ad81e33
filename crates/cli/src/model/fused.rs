//! Which nodes of the exported model a node fused by a runtime stands for.
//!
//! A fused node has the results of the last node it replaced and the operands of the first ones, so
//! it stands for everything in between. If a runtime replaced nodes by several others, these are
//! connected by values that the exported model does not have. Together they stand for everything
//! between the known values around them.

use std::cell::{Cell, OnceCell};

use provenance::SourceMap;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Index, Node};

/// How many nodes of the exported model are listed for one node of an optimised model.
const MOST: usize = 64;

/// How many nodes may be visited for each node of the model. A model that fits its map takes few,
/// and one that does not must not take forever.
const FUEL: usize = 64;

/// The groups of nodes that share values unknown to the map, computed on first use.
#[derive(Debug, Default)]
pub(super) struct Groups {
    found: OnceCell<FxHashMap<usize, Vec<usize>>>,
    spent: Cell<usize>,
}

impl Index<'_> {
    /// The nodes of the source map that `node` stands for, those that compute its results first.
    pub(super) fn exported(&self, map: &SourceMap, node: usize) -> Vec<usize> {
        let proto = self.nodes[node].proto;
        let results = proto.output.iter().filter(|name| !name.is_empty());
        let own = results.filter_map(|name| map.find(name)).next();
        if own.is_some_and(|own| map.node_name(own) == Some(&proto.name)) {
            return own.into_iter().collect();
        }
        let inlined = map.find_inlined(&proto.name);
        let spent = self.groups.spent.get();
        let mut found = Vec::new();
        if spent < FUEL * self.nodes.len() {
            found = self.between(map, node);
            self.groups.spent.set(spent + found.len());
            found.truncate(MOST);
        }
        if let Some(inlined) = inlined {
            // The map may list its result as the call's, whose line is a different one.
            found.retain(|node| *node != inlined && !map.is_call(*node));
            found.insert(0, inlined);
        }
        if found.is_empty() {
            found.extend(own.or_else(|| map.find(&proto.name)));
        }
        found
    }

    fn between(&self, map: &SourceMap, node: usize) -> Vec<usize> {
        let groups = self.groups.found.get_or_init(|| groups(map, &self.nodes));
        let alone = [node];
        let group = groups.get(&node).map_or(&alone[..], Vec::as_slice);
        let protos = || group.iter().map(|node| self.nodes[*node].proto);
        let made: Vec<&str> = protos().rev().flat_map(|n| &n.output).map(String::as_str).collect();
        let known: FxHashSet<&str> = made.iter().copied().collect();
        let read = protos().flat_map(|n| &n.input).map(String::as_str);
        let read: Vec<&str> = read.filter(|name| !known.contains(name)).collect();
        map.between(&read, &made)
    }
}

/// Each node that belongs to a group of several, with its group.
fn groups(map: &SourceMap, nodes: &[Node<'_>]) -> FxHashMap<usize, Vec<usize>> {
    let mut leaders: Vec<usize> = (0..nodes.len()).collect();
    let mut makers: FxHashMap<(usize, &str), usize> = FxHashMap::default();
    for (position, node) in nodes.iter().enumerate() {
        for name in &node.proto.input {
            if let Some(&maker) = makers.get(&(node.body, name.as_str())) {
                let (own, other) = (leader(&mut leaders, position), leader(&mut leaders, maker));
                leaders[own] = other;
            }
        }
        for name in node.proto.output.iter().filter(|name| !name.is_empty()) {
            if !map.has_value(name) {
                makers.insert((node.body, name), position);
            }
        }
    }
    let mut groups: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for position in 0..nodes.len() {
        groups.entry(leader(&mut leaders, position)).or_default().push(position);
    }
    let several = groups.into_values().filter(|group| (2..=MOST).contains(&group.len()));
    several.flat_map(|group| group.clone().into_iter().map(move |n| (n, group.clone()))).collect()
}

fn leader(leaders: &mut [usize], mut position: usize) -> usize {
    while leaders[position] != position {
        leaders[position] = leaders[leaders[position]];
        position = leaders[position];
    }
    position
}
