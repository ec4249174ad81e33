//! Which nodes of the exported model a node fused by a runtime stands for.
//!
//! A fused node has the results of the last node it replaced and the operands of the first ones, so
//! it stands for everything in between. If a runtime replaced nodes by several others, these are
//! connected by values that the exported model does not have. Together they stand for everything
//! between the known values around them.

use std::cell::Cell;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::SourceMap;

/// How many nodes of the exported model are listed for one node of an optimised model.
const MOST: usize = 64;

/// How many nodes may be visited for each node of the model. A model that fits its map takes few,
/// and one that does not must not take forever.
const FUEL: usize = 64;

/// A node of a model that a runtime may have optimised.
#[derive(Clone, Copy, Debug)]
pub struct OptimizedNode<'m> {
    /// Its name.
    pub name: &'m str,
    /// The graph or function that it stands in: names of values mean the same inside one.
    pub body: usize,
    /// The names of the values it reads.
    pub inputs: &'m [String],
    /// The names of its results.
    pub outputs: &'m [String],
}

/// All nodes of an optimised model, beside the map of the exported one.
#[derive(Debug)]
pub struct Fused<'m> {
    map: &'m SourceMap,
    nodes: Vec<OptimizedNode<'m>>,
    /// The nodes that share made-up values with others, each with its group.
    groups: FxHashMap<usize, Vec<usize>>,
    spent: Cell<usize>,
}

impl<'m> Fused<'m> {
    /// Takes all nodes of a model, in its order.
    pub fn new(map: &'m SourceMap, nodes: Vec<OptimizedNode<'m>>) -> Self {
        let groups = groups(map, &nodes);
        Self { map, nodes, groups, spent: Cell::new(0) }
    }

    /// The nodes of the source map that a node stands for, those that compute its results first.
    pub fn exported(&self, node: usize) -> Vec<usize> {
        let Some(optimized) = self.nodes.get(node) else { return Vec::new() };
        let results = optimized.outputs.iter().filter(|name| !name.is_empty());
        let own = results.filter_map(|name| self.map.find(name)).next();
        if own.is_some_and(|own| self.map.node_name(own) == Some(optimized.name)) {
            return own.into_iter().collect();
        }
        let inlined = self.map.find_inlined(optimized.name);
        let spent = self.spent.get();
        let mut found = Vec::new();
        if spent < FUEL * self.nodes.len() {
            found = self.between(node);
            self.spent.set(spent + found.len());
            found.truncate(MOST);
        }
        if let Some(inlined) = inlined {
            // Its result may be known as that of the call, whose line is not its own.
            found.retain(|node| *node != inlined && !self.map.is_call(*node));
            found.insert(0, inlined);
        }
        if found.is_empty() {
            found.extend(own.or_else(|| self.map.find(optimized.name)));
        }
        found
    }

    fn between(&self, node: usize) -> Vec<usize> {
        let alone = [node];
        let group = self.groups.get(&node).map_or(&alone[..], Vec::as_slice);
        let nodes = || group.iter().map(|node| self.nodes[*node]);
        let made: Vec<&str> =
            nodes().rev().flat_map(|node| node.outputs).map(String::as_str).collect();
        let known: FxHashSet<&str> = made.iter().copied().collect();
        let read = nodes().flat_map(|node| node.inputs).map(String::as_str);
        let read: Vec<&str> = read.filter(|name| !known.contains(name)).collect();
        self.map.between(&read, &made)
    }
}

/// Each node that belongs to a group of several, with its group.
fn groups(map: &SourceMap, nodes: &[OptimizedNode<'_>]) -> FxHashMap<usize, Vec<usize>> {
    let mut leaders: Vec<usize> = (0..nodes.len()).collect();
    let mut makers: FxHashMap<(usize, &str), usize> = FxHashMap::default();
    for (position, node) in nodes.iter().enumerate() {
        for name in node.inputs {
            if let Some(&maker) = makers.get(&(node.body, name.as_str())) {
                let (own, other) = (leader(&mut leaders, position), leader(&mut leaders, maker));
                leaders[own] = other;
            }
        }
        for name in node.outputs.iter().filter(|name| !name.is_empty()) {
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
