//! Checks a node against the schema of its operator.

use std::ops::RangeInclusive;

use super::label;
use crate::schema::{self, Arity, AttrKind, Binding, Param, Schema};
use crate::{Attr, Error, Graph, Node, NodeId, Result};

/// Checks a node against the schema of `opset`, or else against any schema of its operator.
pub(super) fn check(graph: &Graph, id: NodeId, opset: Option<i64>) -> Result<()> {
    let node = graph.node(id);
    let versions = node.versions();
    if !node.op.domain.is_empty() && versions.is_empty() {
        return Ok(());
    }
    let complain = |reason: String| Error::invalid(&label(id, node), reason);
    let schema = match opset {
        Some(opset) => node.schema(opset),
        None => versions.iter().rev().find(|s| structure(s, node).is_ok()).or(versions.last()),
    };
    let Some(schema) = schema else {
        let when = opset.map(|o| format!(" at opset {o}")).unwrap_or_default();
        return Err(complain(format!("ONNX has no such operator{when}")));
    };
    structure(schema, node).map_err(complain)?;
    let binding = Binding::new(schema, graph, node).map_err(complain)?;
    let Some(opset) = opset else { return Ok(()) };
    let bad = binding.types().zip(schema.types).find(|(have, c)| !have.is_subset(c.allowed));
    if let Some((have, constraint)) = bad {
        let (name, allowed) = (constraint.name, constraint.allowed);
        return Err(complain(format!("{name} cannot be {have}; it can be {allowed}")));
    }
    values(node, opset).map_err(complain)
}

/// Checks the numbers of operands and results and the attributes. Fails with a reason if `schema`
/// does not allow them.
pub(super) fn structure(schema: &Schema, node: &Node) -> std::result::Result<(), String> {
    params("operand", schema.inputs, node.inputs.len(), |i| node.inputs[i].is_some())?;
    params("result", schema.outputs, node.outputs.len(), |_| true)?;
    for (name, attr) in &node.attrs {
        let Some(spec) = schema.attr(name) else {
            return Err(format!("unknown attribute `{name}`"));
        };
        let kind = AttrKind::of(attr);
        if spec.kind != kind {
            return Err(format!("attribute `{name}` is {kind:?}, but must be {:?}", spec.kind));
        }
    }
    for spec in schema.attrs.iter().filter(|spec| spec.required) {
        if node.attr(spec.name).is_none() {
            return Err(format!("attribute `{}` is missing", spec.name));
        }
    }
    Ok(())
}

/// Checks that `count` operands or results, some of them omitted, fit the parameters.
fn params(
    what: &str,
    params: &[Param],
    count: usize,
    is_there: impl Fn(usize) -> bool,
) -> std::result::Result<(), String> {
    for (i, param) in params.iter().enumerate() {
        let name = param.name;
        match param.arity {
            Arity::Optional => {}
            Arity::One if i < count && is_there(i) => {}
            Arity::One => return Err(format!("{what} `{name}` is missing")),
            Arity::Many(least) | Arity::Mixed(least) => {
                if count < i + least {
                    return Err(format!("`{name}` takes at least {least} {what}s"));
                }
                return match (i..count).find(|i| !is_there(*i)) {
                    Some(i) => Err(format!("{what} {i} is missing")),
                    None => Ok(()),
                };
            }
        }
    }
    if count > params.len() {
        return Err(format!("it has {count} {what}s, but takes at most {}", params.len()));
    }
    Ok(())
}

/// Checks that the values of string attributes exist at `opset`. Fails with a reason.
pub(super) fn values(node: &Node, opset: i64) -> std::result::Result<(), String> {
    match string_values(node).find(|(_, _, opsets)| !opsets.contains(&opset)) {
        Some((name, value, _)) => {
            Err(format!("attribute `{name}` has no value `{value}` at opset {opset}"))
        }
        None => Ok(()),
    }
}

/// Returns the first and the last opset at which the values of all string attributes exist.
pub(super) fn opsets_of_values(node: &Node) -> (i64, i64) {
    string_values(node).fold((0, i64::MAX), |(first, last), (_, _, opsets)| {
        (first.max(*opsets.start()), last.min(*opsets.end()))
    })
}

/// Returns the string attributes of a node, each with its value and the opsets that allow the value.
fn string_values(node: &Node) -> impl Iterator<Item = (&str, &str, RangeInclusive<i64>)> {
    node.attrs.iter().filter_map(|(name, attr)| match attr {
        Attr::String(value) => {
            Some((*name, &**value, schema::value_range(node.op.name, name, value)))
        }
        _ => None,
    })
}
