//! Matching of the nodes of two models.
//!
//! Names are renumbered and lines move, so neither identifies a node. Nodes are matched in three
//! steps: first, nodes that compute the same function of the same operands, anywhere; then similar
//! nodes in the same module, preserving their order where possible; finally, nodes that perform the
//! same computation in another function, and nodes with the same operator in the same function.

use std::collections::VecDeque;

use onnx_file::proto::{AttributeProto, NodeProto};
use prost::Message;
use rustc_hash::FxHashMap;

use super::sequence::pairs;
use super::side::{Operand, Side};
use crate::FxIndexMap;
use crate::model::{BodyKind, tensor_text};

/// The matched counterpart of each node, in both directions.
#[derive(Debug)]
pub(super) struct Matching {
    pub(super) of_a: Vec<Option<usize>>,
    pub(super) of_b: Vec<Option<usize>>,
    pub(super) bodies: Vec<(usize, usize)>,
    by_body: FxHashMap<usize, usize>,
}

/// The number of matching passes, each with a looser criterion.
const PASSES: usize = 3;

/// Matches the nodes of two models.
pub(super) fn matching(a: &Side<'_>, b: &Side<'_>) -> Matching {
    let mut tokens = Tokens::default();
    let describe = |side: &Side<'_>, tokens: &mut Tokens| {
        let nodes = 0..side.index.nodes.len();
        nodes.map(|node| tokens.of(side, node)).collect::<Vec<_>>()
    };
    let (same_a, same_b) = (tokens.structure(a), tokens.structure(b));
    let (described_a, described_b) = (describe(a, &mut tokens), describe(b, &mut tokens));
    let mut matching = Matching {
        of_a: vec![None; described_a.len()],
        of_b: vec![None; described_b.len()],
        bodies: roots(a, b),
        by_body: FxHashMap::default(),
    };
    let mut at = 0;
    while at < matching.bodies.len() {
        let (body_a, body_b) = matching.bodies[at];
        at += 1;
        let mut found = Vec::new();
        for which in 0..2 {
            let of = |tokens: &[[u32; 2]], nodes: &[usize], partners: &[Option<usize>]| {
                let left = nodes.iter().copied().filter(|node| partners[*node].is_none());
                left.map(|node| (tokens[node][which], node)).collect::<Vec<_>>()
            };
            let mut left: FxHashMap<u32, VecDeque<usize>> = FxHashMap::default();
            for (token, node) in of(&same_b, &b.nesting.members[body_b], &matching.of_b) {
                left.entry(token).or_default().push_back(node);
            }
            for (token, x) in of(&same_a, &a.nesting.members[body_a], &matching.of_a) {
                if let Some(y) = left.get_mut(&token).and_then(VecDeque::pop_front) {
                    matching.of_a[x] = Some(y);
                    matching.of_b[y] = Some(x);
                    found.push((x, y));
                }
            }
        }
        for (mut left_a, mut left_b) in modules(a, body_a, b, body_b) {
            left_a.retain(|node| matching.of_a[*node].is_none());
            left_b.retain(|node| matching.of_b[*node].is_none());
            for pass in 0..PASSES {
                let of = |tokens: &[[u32; PASSES]], nodes: &[usize]| {
                    nodes.iter().map(|node| tokens[*node][pass]).collect::<Vec<u32>>()
                };
                for (x, y) in pairs(&of(&described_a, &left_a), &of(&described_b, &left_b)) {
                    matching.of_a[left_a[x]] = Some(left_b[y]);
                    matching.of_b[left_b[y]] = Some(left_a[x]);
                    found.push((left_a[x], left_b[y]));
                }
                left_a.retain(|node| matching.of_a[*node].is_none());
                left_b.retain(|node| matching.of_b[*node].is_none());
            }
        }
        for (x, y) in found {
            let inner = matching.inner(a, x, b, y);
            matching.bodies.extend(inner);
        }
    }
    matching.by_body = matching.bodies.iter().copied().collect();
    matching
}

impl Matching {
    /// Returns the matched bodies of two nodes: those of attributes with the same name.
    pub(super) fn inner(
        &self,
        a: &Side<'_>,
        x: usize,
        b: &Side<'_>,
        y: usize,
    ) -> Vec<(usize, usize)> {
        let both = a.nesting.inside(x).iter().zip(b.nesting.inside(y));
        let both = both.filter(|(x, y)| x.0 == y.0);
        both.map(|(x, y)| (x.1, y.1)).collect()
    }

    /// Returns the counterpart of a body of the first model.
    pub(super) fn body_of_a(&self, body: usize) -> Option<usize> {
        self.by_body.get(&body).copied()
    }
}

/// Returns the matched root bodies: the main graphs, and functions with the same name.
fn roots(a: &Side<'_>, b: &Side<'_>) -> Vec<(usize, usize)> {
    let functions = |side: &Side<'_>| {
        let bodies = side.index.bodies.iter().enumerate();
        let named = bodies.filter_map(|(at, body)| match body.kind {
            BodyKind::Main => Some(((String::new(), String::new(), String::new()), at)),
            BodyKind::Function(f) => {
                Some(((f.domain.clone(), f.name.clone(), f.overload.clone()), at))
            }
            BodyKind::Inner(..) => None,
        });
        named.collect::<FxHashMap<_, _>>()
    };
    let of_b = functions(b);
    let mut roots: Vec<(usize, usize)> = functions(a)
        .into_iter()
        .filter_map(|(name, body)| of_b.get(&name).map(|other| (body, *other)))
        .collect();
    roots.sort_unstable();
    roots
}

/// Returns the nodes of two bodies by module, in the order of each module's first node.
fn modules(
    a: &Side<'_>,
    body_a: usize,
    b: &Side<'_>,
    body_b: usize,
) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut modules: FxIndexMap<&str, (Vec<usize>, Vec<usize>)> = FxIndexMap::default();
    for &node in &a.nesting.members[body_a] {
        modules.entry(&a.scopes[node]).or_default().0.push(node);
    }
    for &node in &b.nesting.members[body_b] {
        modules.entry(&b.scopes[node]).or_default().1.push(node);
    }
    modules.into_values().collect()
}

/// Interned descriptions of nodes, shared by both models.
#[derive(Default)]
struct Tokens {
    known: FxHashMap<String, u32>,
}

impl Tokens {
    /// Returns two tokens per node for its computation and operands: one that includes the module,
    /// and one that does not. Operands precede the nodes that read them.
    fn structure(&mut self, side: &Side<'_>) -> Vec<[u32; 2]> {
        let mut found: Vec<[u32; 2]> = Vec::with_capacity(side.index.nodes.len());
        for (position, node) in side.index.nodes.iter().enumerate() {
            let mut key = format!("{}\0{}", node.op(), attributes(node.proto));
            for attribute in &node.proto.attribute {
                // Small constants are compared by value, large ones by type.
                if let Some(text) = attribute.t.as_deref().and_then(onnx_file::elements) {
                    key.push_str(&format!("\0={text}"));
                }
            }
            for name in &node.proto.input {
                key.push_str(&match side.operand(node.body, name) {
                    Operand::Result(maker, at) => {
                        let maker = found.get(maker).map_or(0, |numbers| numbers[1]);
                        format!("\0r{maker}.{at:?}")
                    }
                    Operand::Input(_, at) => format!("\0i{at}"),
                    Operand::Tensor(tensor) => match onnx_file::elements(tensor) {
                        Some(text) => format!("\0t{}={text}", tensor_text(tensor)),
                        None => format!("\0t{}{}", tensor_text(tensor), tensor.name),
                    },
                    Operand::Other(name) => format!("\0{name}"),
                });
            }
            let anywhere = self.intern(format!("{key}\0{}", side.index.results(node)));
            let here = self.intern(format!("{anywhere} in {}", side.scopes[position]));
            found.push([here, anywhere]);
        }
        found
    }

    /// Returns descriptions of a node, from the strictest to the loosest.
    fn of(&mut self, side: &Side<'_>, node: usize) -> [u32; PASSES] {
        let entry = &side.index.nodes[node];
        let origin = side.origins[node].as_ref();
        let function = origin.and_then(|o| o.site.as_ref()).map_or("", |site| site.function);
        let rule = origin.map_or("", |origin| origin.rule.as_str());
        let rule = rule.split(':').next().unwrap_or_default();
        let (op, results) = (entry.op(), side.index.results(entry));
        let computes = format!("{op}\0{results}\0{}", attributes(entry.proto));
        let strictest = format!("{computes}\0{function}\0{rule}");
        [self.intern(strictest), self.intern(computes), self.intern(format!("{op}\0{function}"))]
    }

    /// Returns the token of a description.
    fn intern(&mut self, text: String) -> u32 {
        let next = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        *self.known.entry(text).or_insert(next)
    }
}

/// Formats all attributes except graphs, sorted by name. Large tensors are represented by their
/// types.
pub(super) fn attributes(node: &NodeProto) -> String {
    let mut texts: Vec<String> = node.attribute.iter().filter_map(attribute).collect();
    texts.sort_unstable();
    texts.join(", ")
}

fn attribute(attribute: &AttributeProto) -> Option<String> {
    if attribute.g.is_some() || !attribute.graphs.is_empty() {
        return None;
    }
    let name = &attribute.name;
    if let Some(tensor) = &attribute.t {
        return Some(format!("{name}={}", tensor_text(tensor)));
    }
    let value =
        AttributeProto { name: String::new(), doc_string: String::new(), ..attribute.clone() };
    let short = crate::view::attribute_text(attribute).unwrap_or_default();
    if short.len() < 60 && !short.contains('…') {
        return Some(format!("{name}={short}"));
    }
    // Too long to show, but still compared.
    let digest = provenance::digest(&value.encode_to_vec());
    Some(format!("{name}={}…", &digest["sha256:".len()..][..12]))
}
