//! Determines the opsets that a graph is valid at.

use tensor::DType;

use super::{label, signature, supported};
use crate::schema::{self, NEWEST, OLDEST, Schema, Types};
use crate::{Error, Graph, Node, NodeId, Op, Result};

/// A set of opsets: bit `i` is opset `OLDEST + i`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Opsets(u32);

impl Opsets {
    /// Returns the opsets from `first` to `last`.
    fn between(first: i64, last: i64) -> Self {
        let opsets = first.max(OLDEST)..=last.min(NEWEST);
        Opsets(opsets.fold(0, |all, opset| all | 1 << (opset - OLDEST)))
    }

    fn contains(self, opset: i64) -> bool {
        self.0 & Self::between(opset, opset).0 != 0
    }

    fn first_from(self, floor: i64) -> Option<i64> {
        (floor..=NEWEST).find(|o| self.contains(*o))
    }
}

/// Returns the lowest opset from `floor` on that all needed nodes are valid at.
///
/// This depends on operators, their operand counts and attributes, and on the element types of
/// values. It does not depend on the types that an operator accepts, since legalisation inserts
/// casts.
pub fn required_opset(
    graph: &Graph,
    floor: i64,
    is_needed: impl Fn(NodeId) -> bool,
) -> Result<i64> {
    supported(floor)?;
    // For each opset from `floor` on, the first node that is not valid there.
    let mut excluded: Vec<(i64, Option<NodeId>)> = (floor..=NEWEST).map(|o| (o, None)).collect();
    for id in graph.all_nodes() {
        let node = graph.node(id);
        if !node.op.domain.is_empty() || !is_needed(id) {
            continue;
        }
        let valid = node_opsets(node);
        let Some(first) = valid.first_from(floor) else {
            return Err(never(id, node, floor));
        };
        for (opset, by) in &mut excluded {
            if !valid.contains(*opset) {
                by.get_or_insert(id);
            }
        }
        if excluded.iter().all(|(_, by)| by.is_some()) {
            let other = excluded.iter().find(|(o, _)| *o == first).and_then(|(_, by)| *by);
            let other = other.map(|id| label(id, graph.node(id))).unwrap_or_default();
            let reason = format!("no opset has both it and {other}");
            return Err(Error::invalid(&label(id, node), reason));
        }
    }
    let floor = types_opset(graph).map_or(floor, |(needs, _)| needs.max(floor));
    let possible = excluded.iter().find(|(o, by)| *o >= floor && by.is_none());
    possible.map(|(o, _)| *o).ok_or_else(|| {
        Error::Graph(format!(
            "its element types need opset {floor}, at which one of its nodes is not valid"
        ))
    })
}

/// Fails unless `opset` supports all element types of the graph.
pub fn check_types(graph: &Graph, opset: i64) -> Result<()> {
    supported(opset)?;
    if let Some((needs, dtype)) = types_opset(graph)
        && needs > opset
    {
        let op = dtype.to_string();
        let reason = Some("the element type was introduced there".to_owned());
        let origin = graph.all_nodes().into_iter().map(|id| graph.node(id)).find(|node| {
            let values = node.inputs.iter().flatten().chain(&node.outputs);
            values.into_iter().any(|value| graph.ty(*value).dtype == dtype)
        });
        let origin = origin.map(|node| node.origin);
        return Err(Error::OpsetTooOld { op, needs, given: opset, reason, origin });
    }
    Ok(())
}

/// Fails unless every node is valid at `opset`, apart from the element types that it accepts.
pub fn check_opset(graph: &Graph, opset: i64) -> Result<()> {
    check_types(graph, opset)?;
    for id in graph.all_nodes() {
        let node = graph.node(id);
        let valid = node_opsets(node);
        if !node.op.domain.is_empty() || valid.contains(opset) {
            continue;
        }
        let Some(needs) = valid.first_from(opset) else {
            return Err(never(id, node, opset));
        };
        let reason = node.schema(opset).and_then(|s| reason(s, node, opset));
        let (op, origin) = (node.op.name.to_owned(), Some(node.origin));
        return Err(Error::OpsetTooOld { op, needs, given: opset, reason, origin });
    }
    Ok(())
}

/// Returns `true` if a node's operator, operand counts and attributes are valid at `opset`.
pub fn is_valid_at(node: &Node, opset: i64) -> bool {
    let schema = node.schema(opset);
    schema.is_some_and(|s| reason(s, node, opset).is_none())
}

/// Returns the opsets that a node's operator, operand counts and attributes are valid at.
fn node_opsets(node: &Node) -> Opsets {
    let valid = |s: &&Schema| signature::structure(s, node).is_ok();
    let (since, until) = signature::opsets_of_values(node);
    node.versions().iter().filter(valid).fold(Opsets(0), |all, s| {
        Opsets(all.0 | Opsets::between(s.since.max(since), s.until.min(until)).0)
    })
}

/// Returns the reason that a node is not valid at `opset` although its operator exists.
fn reason(schema: &Schema, node: &Node, opset: i64) -> Option<String> {
    signature::structure(schema, node).and_then(|()| signature::values(node, opset)).err()
}

/// Returns the error for a node that is valid at no opset from `floor` on.
fn never(id: NodeId, node: &Node, floor: i64) -> Error {
    let latest = node.schema(NEWEST);
    let why = latest.and_then(|s| reason(s, node, NEWEST));
    let why = why.unwrap_or_else(|| "ONNX has no such operator".to_owned());
    Error::invalid(&label(id, node), format!("not valid at any opset from {floor} on: {why}"))
}

/// Returns the first opset that supports all element types of the graph's values, and the newest of
/// those types.
fn types_opset(graph: &Graph) -> Option<(i64, DType)> {
    let live = graph.live_blocks();
    let nodes = live.iter().flat_map(|b| graph.nodes_of(*b)).map(|id| graph.node(id));
    let values = nodes.flat_map(|n| n.outputs.iter().chain(n.inputs.iter().flatten()).copied());
    let ports = live.iter().map(|b| graph.block(*b));
    let ports = ports.flat_map(|b| b.inputs.iter().chain(b.outputs()).copied());
    let used: Types = values.chain(ports).map(|v| graph.ty(v).dtype).collect();
    let since = |dtype: DType| {
        let identity = schema::versions(&Op::onnx("Identity")).iter();
        identity.filter(|s| s.types[0].allowed.contains(dtype)).map(|s| s.since).min()
    };
    used.iter().filter_map(|d| Some((since(d)?, d))).max_by_key(|(since, _)| *since)
}
