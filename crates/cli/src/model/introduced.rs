//! Values that a runtime introduced, and the exported values that they equal up to layout.
//!
//! onnxruntime computes convolutions and the nodes between them in a blocked layout (NCHWc). All
//! values of such a region have new names, but most nodes are still named after the original node
//! or its result.

use std::collections::hash_map::Entry;

use provenance::SourceMap;
use rustc_hash::{FxHashMap, FxHashSet};

use super::fused::OptimizedNode;
use super::lookup::Lookup;
use super::renamed::originals;

/// The maximum number of exported nodes visited per value.
const MOST: usize = 64;

/// A value: the body that contains it, and its name.
pub(crate) type Value<'m> = (usize, &'m str);

/// The operators that only change a layout.
pub(crate) const LAYOUTS: [&str; 2] = ["ReorderInput", "ReorderOutput"];

/// The names of the nodes that onnxruntime adds before and after a product with a bias, if an operand
/// has more than two axes.
pub(crate) const RESHAPES: [&str; 2] = ["gemm_input_reshape", "gemm_output_reshape"];

/// The end of the name of a `Reshape` that replaced two of them. It starts with the name of the first.
pub(crate) const MERGED: &str = "_new_reshape";

/// The end of the name of a `Gemm` that replaced a product and the addition of a bias.
pub(crate) const BIASED: &str = "/MatMulAddFusion";

/// Fused operators that always replace the same operators, with the operators they replace.
const PARTS: [(&str, &[&str]); 1] = [("QuickGelu", &["Mul", "Sigmoid"])];

/// Returns the operator of an exported node: `Conv` for `/stem/Conv_3`.
pub(crate) fn operator(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.rsplit_once('_') {
        Some((op, number)) if number.bytes().all(|b| b.is_ascii_digit()) => op,
        _ => last,
    }
}

/// Strips the prefixes of a runtime's own versions of an operator.
pub(crate) fn plain_operator(op: &str) -> &str {
    let op = op.strip_prefix("Nhwc").unwrap_or(op);
    op.strip_prefix("Fused").unwrap_or(op)
}

/// Returns the operator that a node had in the exported model. onnxruntime may compute it as a
/// convolution or a `Gemm`.
fn exported_operator<'m>(node: &OptimizedNode<'m>) -> &'m str {
    let replaced = [("_bn_nchwc", "BatchNormalization"), ("_mul_nchwc", "Mul"), (BIASED, "MatMul")];
    let replaced = replaced.iter().find(|(end, _)| node.name.ends_with(end));
    replaced.map_or_else(|| plain_operator(node.op), |(_, op)| op)
}

/// Returns the operators that a runtime fuses into `op`, if they are always the same.
pub(crate) fn fused_operators(op: &str) -> Option<&'static [&'static str]> {
    PARTS.iter().find(|(fused, _)| *fused == op).map(|(_, parts)| *parts)
}

/// Returns `true` if a node only changes the layout of its operand.
pub(crate) fn is_layout(node: &OptimizedNode<'_>) -> bool {
    LAYOUTS.contains(&node.op) || is_product_reshape(node)
}

/// Returns `true` if a node was added because a product is computed on two axes.
fn is_product_reshape(node: &OptimizedNode<'_>) -> bool {
    node.op == "Reshape" && RESHAPES.iter().any(|name| node.name.starts_with(name))
}

/// Returns the nodes that only reshape an operand or the result of a product, each with the product.
pub(crate) fn reshaped_products(
    map: &SourceMap,
    nodes: &[OptimizedNode<'_>],
) -> FxHashMap<usize, usize> {
    let mut products: FxHashMap<Value<'_>, usize> = FxHashMap::default();
    for (at, node) in nodes.iter().enumerate().filter(|(_, node)| node.name.ends_with(BIASED)) {
        let values = node.inputs.first().into_iter().chain(node.outputs.first());
        products.extend(values.map(|name| ((node.body, name.as_str()), at)));
    }
    let product = |(at, node): (usize, &OptimizedNode<'_>)| {
        let is_before = node.name.starts_with(RESHAPES[0]);
        let value = if is_before { node.outputs.first() } else { node.inputs.first() };
        Some((at, *products.get(&(node.body, value?.as_str()))?))
    };
    // One that was merged with a reshape of the model computes the value of that reshape.
    let is_merged = |node: &OptimizedNode<'_>| {
        node.name.ends_with(MERGED) && node.outputs.iter().any(|name| map.has_value(name))
    };
    let reshapes = nodes.iter().enumerate();
    let reshapes = reshapes.filter(|(_, node)| is_product_reshape(node) && !is_merged(node));
    reshapes.filter_map(product).collect()
}

/// Finds the nodes of the source map that compute introduced values. A value is missing if the name
/// and operator of its producer do not identify its part of the exported model.
pub(crate) fn introduced<'m>(
    map: &SourceMap,
    nodes: &[OptimizedNode<'m>],
) -> FxHashMap<Value<'m>, usize> {
    let mut producers: FxHashMap<Value<'m>, usize> = FxHashMap::default();
    for (position, node) in nodes.iter().enumerate() {
        for result in node.results().filter(|(_, name)| !map.has_value(name)) {
            producers.insert(result, position);
        }
    }
    if producers.is_empty() {
        return FxHashMap::default();
    }
    let mut consumers: FxHashMap<Value<'m>, Vec<usize>> = FxHashMap::default();
    for (position, node) in nodes.iter().enumerate() {
        for operand in node.operands().filter(|operand| producers.contains_key(operand)) {
            consumers.entry(operand).or_default().push(position);
        }
    }
    let named: Vec<Option<usize>> = nodes.iter().map(|node| named(map, node)).collect();
    let resolver = Resolver { map, nodes, claimed: named.iter().flatten().copied().collect() };
    let mut starts: Vec<Option<Vec<usize>>> = vec![None; nodes.len()];
    for (position, node) in nodes.iter().enumerate().rev() {
        starts[position] = resolver.reads(position, named[position]);
        if starts[position].is_none() && is_layout(node) {
            // Its consumers read the same value.
            let readers = node.results().filter_map(|result| consumers.get(&result)).flatten();
            let read = readers.flat_map(|reader| starts[*reader].iter().flatten().copied());
            starts[position] = Some(set(read)).filter(|read| !read.is_empty());
        }
    }
    let mut found: FxHashMap<Value<'m>, usize> = FxHashMap::default();
    for (position, node) in nodes.iter().enumerate() {
        for value in node.results().filter(|value| producers.get(value) == Some(&position)) {
            let at_least = match is_layout(node) {
                true => node.inputs.first().and_then(|operand| {
                    map.find(operand).or_else(|| found.get(&(node.body, operand)).copied())
                }),
                false => named[position].filter(|_| starts[position].is_some()),
            };
            let Some(at_least) = at_least else { continue };
            let read = consumers.get(&value).into_iter().flatten();
            let read = read.flat_map(|consumer| starts[*consumer].iter().flatten().copied());
            let read = set(read.filter(|read| resolver.leads_to(*read, at_least)));
            found.insert(value, if let [only] = read[..] { only } else { at_least });
        }
    }
    if let Some(structure) = Structure::new(map, nodes, &named, &producers) {
        // Of equal computations with other constants, the first comes first in both models. That is
        // assumed only if every node has a counterpart.
        let all = structure.resolve(&found, true).filter(|all| all.is_complete);
        found = all.or_else(|| structure.resolve(&found, false)).map_or(found, |all| all.values);
    }
    found
}

/// The nodes that have no known names, as in a model whose names a tool has replaced, and changes
/// of layout.
struct Structure<'r, 'm> {
    map: &'r SourceMap,
    nodes: &'r [OptimizedNode<'m>],
    producers: &'r FxHashMap<Value<'m>, usize>,
    /// The positions of these nodes.
    nameless: Vec<usize>,
    /// The exported nodes whose results are missing, by operator and operands.
    missing: FxHashMap<(&'r str, Vec<usize>), Vec<usize>>,
}

/// The values of nodes without known names, and those that were known before.
struct Resolved<'m> {
    values: FxHashMap<Value<'m>, usize>,
    /// `true` if every node was resolved.
    is_complete: bool,
}

impl<'r, 'm> Structure<'r, 'm> {
    fn new(
        map: &'r SourceMap,
        nodes: &'r [OptimizedNode<'m>],
        named: &[Option<usize>],
        producers: &'r FxHashMap<Value<'m>, usize>,
    ) -> Option<Self> {
        let is_nameless = |at: &usize| {
            let node = &nodes[*at];
            let is_new = node.results().any(|result| producers.get(&result) == Some(at));
            is_new && named[*at].is_none()
        };
        let nameless: Vec<usize> = (0..nodes.len()).filter(is_nameless).collect();
        if nameless.is_empty() {
            return None;
        }
        let results = nodes.iter().flat_map(|node| node.outputs.iter());
        let mut there: FxHashSet<usize> = results.filter_map(|name| map.find(name)).collect();
        there.extend(named.iter().flatten());
        let mut missing: FxHashMap<(&str, Vec<usize>), Vec<usize>> = FxHashMap::default();
        for exported in (0..map.len()).filter(|exported| !there.contains(exported)) {
            let Some(name) = map.node_name(exported) else { continue };
            let key = (operator(name), set(map.reads(exported)));
            missing.entry(key).or_default().push(exported);
        }
        Some(Self { map, nodes, producers, nameless, missing })
    }

    /// Resolves the results of nodes that compute a missing value from the same operands. If there
    /// are several such values, the next one is taken, or none unless `in_order` is set.
    fn resolve(&self, known: &FxHashMap<Value<'m>, usize>, in_order: bool) -> Option<Resolved<'m>> {
        let mut values = known.clone();
        let mut taken: FxHashSet<usize> = FxHashSet::default();
        let mut is_complete = true;
        let mut layouts: Vec<Value<'m>> = Vec::new();
        for node in self.nameless.iter().map(|at| &self.nodes[*at]) {
            if is_layout(node) {
                let operand = self.reads(node, &values).and_then(|reads| reads.first().copied());
                for (result, operand) in node.results().zip(operand) {
                    if let Entry::Vacant(entry) = values.entry(result) {
                        entry.insert(operand);
                        layouts.push(result);
                    }
                }
                continue;
            }
            let candidates = self.reads(node, &values).and_then(|reads| {
                self.missing.get(&(plain_operator(node.op), reads)).map(Vec::as_slice)
            });
            let mut free = candidates.unwrap_or_default().iter().filter(|c| !taken.contains(*c));
            let is_only = candidates.is_some_and(|candidates| candidates.len() == 1);
            match free.next().filter(|_| is_only || in_order) {
                Some(&exported) => {
                    taken.insert(exported);
                    values.extend(node.results().map(|result| (result, exported)));
                }
                None => is_complete = false,
            }
        }
        // Missing nodes were removed or absorbed by others: which of several alike remain, and what
        // a changed layout holds, is unknown.
        let is_taken = |exported: &usize| taken.contains(exported);
        is_complete &=
            self.missing.values().all(|alike| alike.len() == 1 || alike.iter().all(is_taken));
        if !is_complete || !self.missing.values().flatten().all(is_taken) {
            for result in &layouts {
                values.remove(result);
            }
        }
        (!taken.is_empty()).then_some(Resolved { values, is_complete })
    }

    /// Returns the exported nodes whose results a node reads, or `None` if one is unknown.
    fn reads(
        &self,
        node: &OptimizedNode<'m>,
        values: &FxHashMap<Value<'m>, usize>,
    ) -> Option<Vec<usize>> {
        let mut found = Vec::new();
        for value in node.operands() {
            match self.map.find(value.1).or_else(|| values.get(&value).copied()) {
                Some(exported) => found.push(exported),
                None if self.producers.contains_key(&value) => return None,
                // An input or a constant.
                None => {}
            }
        }
        Some(set(found))
    }
}

/// Returns distinct positions in order.
fn set(positions: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut positions: Vec<usize> = positions.into_iter().collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// Returns the exported node that a node's name refers to.
pub(crate) fn named(map: &SourceMap, node: &OptimizedNode<'_>) -> Option<usize> {
    let name = node.name;
    if is_layout(node) || name.is_empty() {
        return None;
    }
    let renamed = originals(name, &[]).into_iter();
    map.find(name).or_else(|| renamed.filter_map(|name| map.find(&name)).next())
}

struct Resolver<'r, 'm> {
    map: &'r SourceMap,
    nodes: &'r [OptimizedNode<'m>],
    /// The exported nodes that optimised nodes are named after.
    claimed: FxHashSet<usize>,
}

impl Resolver<'_, '_> {
    fn operator(&self, exported: usize) -> &str {
        self.map.node_name(exported).map_or("", operator)
    }

    /// Returns the exported nodes whose results a node reads, if its operator identifies where its
    /// part of the exported model begins.
    fn reads(&self, node: usize, named: Option<usize>) -> Option<Vec<usize>> {
        let optimized = &self.nodes[node];
        if is_layout(optimized) {
            let result = optimized.outputs.first().and_then(|name| self.map.find(name))?;
            // A layout change that also reorders axes has replaced a transpose. A reshape of a product
            // may have replaced one of the model.
            return Some(match self.operator(result) {
                "Transpose" | "Reshape" => self.map.reads(result).collect(),
                _ => vec![result],
            });
        }
        let (named, op) = (named?, exported_operator(optimized));
        if let Some(parts) = fused_operators(op) {
            let is_part =
                |other| parts.contains(&self.operator(other)) && !self.claimed.contains(&other);
            let inside = self.upstream(named, is_part);
            let read = inside.iter().flat_map(|inside| self.map.reads(*inside));
            return Some(read.filter(|read| !inside.contains(read)).collect());
        }
        if self.operator(named) == op {
            return Some(self.map.reads(named).collect());
        }
        // The node may be named after its result: a convolution after the activation that follows
        // it.
        let mut first = self.upstream(named, |other| !self.claimed.contains(&other));
        first.retain(|other| self.operator(*other) == op);
        match first[..] {
            [first] => Some(self.map.reads(first).collect()),
            _ => None,
        }
    }

    /// Returns `start` and the upstream nodes that are reached through nodes for which `is_inside`
    /// holds.
    fn upstream(&self, start: usize, is_inside: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut found = vec![start];
        let mut at = 0;
        while at < found.len() && found.len() < MOST {
            for read in self.map.reads(found[at]) {
                if is_inside(read) && !found.contains(&read) {
                    found.push(read);
                }
            }
            at += 1;
        }
        found
    }

    /// Returns `true` if `from` is `to`, or is downstream of it without a claimed node in between.
    fn leads_to(&self, from: usize, to: usize) -> bool {
        if from == to {
            return true;
        }
        let is_between = |other: usize| !self.claimed.contains(&other);
        is_between(from)
            && self
                .upstream(from, is_between)
                .iter()
                .any(|between| self.map.reads(*between).any(|read| read == to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_contain_their_operators() {
        for (name, op) in [
            ("/stem/Conv_3", "Conv"),
            ("/Conv", "Conv"),
            ("/a/com.microsoft.Gelu_12", "com.microsoft.Gelu"),
            ("/a/my_op", "my_op"),
            ("", ""),
        ] {
            assert_eq!(operator(name), op, "{name}");
        }
        assert_eq!(
            ["FusedConv", "NhwcFusedConv", "Add"].map(plain_operator),
            ["Conv", "Conv", "Add"]
        );
    }
}
