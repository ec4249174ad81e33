//! Checks subgraphs and functions against the nodes that run them.

use super::label;
use crate::{BlockId, Error, Graph, Node, NodeId, Result, ValueId};
use tensor::DType;

/// Checks the subgraphs of a control-flow node.
pub(super) fn check(graph: &Graph, id: NodeId) -> Result<()> {
    let node = graph.node(id);
    let check = match (node.op.domain, node.op.name) {
        ("", "If") => if_,
        ("", "Loop") => loop_,
        ("", "Scan") => scan,
        _ => return Ok(()),
    };
    check(graph, node).map_err(|reason| Error::invalid(&label(id, node), reason))
}

/// Checks a call of the function with the given body.
pub(super) fn check_call(graph: &Graph, id: NodeId, body: BlockId) -> Result<()> {
    let node = graph.node(id);
    let complain = |reason| Error::invalid(&label(id, node), reason);
    let Some(inputs) = node.inputs.iter().copied().collect::<Option<Vec<_>>>() else {
        return Err(complain("an operand of a function call is missing".to_owned()));
    };
    let body = graph.block(body);
    same_types(graph, "operand", &inputs, &body.inputs).map_err(complain)?;
    same_types(graph, "result", &node.outputs, body.outputs()).map_err(complain)
}

type Check = std::result::Result<(), String>;

fn if_(graph: &Graph, node: &Node) -> Check {
    for name in ["then_branch", "else_branch"] {
        let block = graph.block(subgraph(node, name)?);
        if !block.inputs.is_empty() {
            return Err(format!("`{name}` must have no inputs, but has {}", block.inputs.len()));
        }
        same_types(graph, "result", &node.outputs, block.outputs())
            .map_err(|reason| format!("`{name}`: {reason}"))?;
    }
    Ok(())
}

fn loop_(graph: &Graph, node: &Node) -> Check {
    let body = graph.block(subgraph(node, "body")?);
    let ([iteration, condition, state @ ..], [again, results @ ..]) =
        (body.inputs.as_slice(), body.outputs())
    else {
        return Err(
            "the body must take an iteration number and a condition, and return a condition"
                .to_owned(),
        );
    };
    let is_scalar = |value: ValueId, dtype: DType| {
        let ty = graph.ty(value);
        ty.dtype == dtype && ty.rank() == 0
    };
    if !is_scalar(*iteration, DType::I64) {
        return Err(format!("the iteration number must be i64[], but is {}", graph.ty(*iteration)));
    }
    for value in [condition, again] {
        if !is_scalar(*value, DType::Bool) {
            return Err(format!(
                "a condition of the body must be bool[], but is {}",
                graph.ty(*value)
            ));
        }
    }
    let initial: Vec<_> = node.inputs.iter().skip(2).flatten().copied().collect();
    same_types(graph, "state", &initial, state)?;
    let kept = results.get(..state.len()).ok_or("the body returns too few state values")?;
    same_types(graph, "state", state, kept)?;
    same_types(graph, "result", &node.outputs, results)
}

fn scan(graph: &Graph, node: &Node) -> Check {
    let body = graph.block(subgraph(node, "body")?);
    let inputs: Vec<_> = node.inputs.iter().flatten().copied().collect();
    same_types(graph, "operand", &inputs, &body.inputs)?;
    same_types(graph, "result", &node.outputs, body.outputs())?;
    let scanned = usize::try_from(node.int("num_scan_inputs", 0)).unwrap_or(usize::MAX);
    let Some(states) = inputs.len().checked_sub(scanned).filter(|n| *n <= node.outputs.len())
    else {
        return Err(format!("{scanned} of {} operands cannot be scanned", inputs.len()));
    };
    same_types(graph, "state", &inputs[..states], &body.outputs()[..states])
}

fn subgraph(node: &Node, name: &str) -> std::result::Result<BlockId, String> {
    node.subgraph(name).ok_or_else(|| format!("attribute `{name}` is missing"))
}

/// Fails unless two lists have the same length and element types.
fn same_types(graph: &Graph, what: &str, outer: &[ValueId], inner: &[ValueId]) -> Check {
    if outer.len() != inner.len() {
        return Err(format!(
            "there are {} {what}s outside, but {} inside",
            outer.len(),
            inner.len()
        ));
    }
    let dtype = |value: &ValueId| graph.ty(*value).dtype;
    for (i, (a, b)) in outer.iter().zip(inner).enumerate() {
        if dtype(a) != dtype(b) {
            return Err(format!("{what} {i} is {} outside, but {} inside", dtype(a), dtype(b)));
        }
    }
    Ok(())
}
