//! The ways to store a weight, chosen by its consumers.

use onnx::{Graph, NodeId, ValueId};

use super::readers::{Reader, other_than_product, readers};
use super::widened;

/// A way to store a weight.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Unchanged, or as smaller floats.
    Cast,
    /// Blocks along an axis. All of the weight is widened.
    Whole {
        /// The axis.
        axis: usize,
    },
    /// Blocks along the last axis. Only what is looked up is widened.
    Rows {
        /// The lookups.
        lookups: Vec<NodeId>,
        /// The transposed matrices that products read.
        transposed: Vec<ValueId>,
    },
}

impl Plan {
    /// Returns a remark for the report.
    pub(super) fn note(&self) -> &'static str {
        match self {
            Plan::Rows { transposed, .. } if !transposed.is_empty() => {
                "looked up, and read by a product"
            }
            Plan::Rows { .. } => "looked up",
            Plan::Whole { .. } | Plan::Cast => "",
        }
    }
}

/// Returns the plan for blocks of integers, or the reason why there is none. If `by_itself` is set,
/// products must read the weight.
pub(super) fn blocks(
    graph: &Graph,
    value: ValueId,
    size: usize,
    by_itself: bool,
) -> Result<Plan, String> {
    let shape = graph.tensor(value).map(|tensor| tensor.shape().to_vec()).unwrap_or_default();
    let rank = shape.len();
    let &[.., last] = &*shape else { return Err("it is a scalar".to_owned()) };
    if rank < 2 {
        return Err("its rank is 1, and only matrices and stacks of them are quantised".to_owned());
    }
    let (mut lookups, mut transposed) = (Vec::new(), Vec::new());
    let mut has_product = false;
    for reader in readers(graph, value) {
        match reader {
            Reader::Lookup(node) => lookups.push(node),
            Reader::Transposed(value) => transposed.push(value),
            Reader::Product => has_product = true,
            // Casts are part of the weight if all consumers are casts.
            Reader::Other("Cast") => has_product = true,
            Reader::Other(op) => return Err(not_a_product(op)),
        }
    }
    if lookups.is_empty() {
        let (_, read) = widened(graph, value)?;
        for value in read {
            if let Some(op) = other_than_product(graph, value) {
                return Err(not_a_product(op));
            }
        }
        return whole(&shape, size);
    }
    if has_product {
        return Err("its rows are looked up, and a product reads its columns".to_owned());
    }
    if last % size != 0 {
        return Err(format!("its rows of {last} elements are not a multiple of the block size"));
    }
    if by_itself && transposed.is_empty() {
        if rank == 2 {
            return Err("its rows are looked up; name it to store it like that".to_owned());
        }
        for node in &lookups {
            if let Some(op) = other_than_product(graph, graph.node(*node).outputs[0]) {
                return Err(not_a_product(op));
            }
        }
    }
    Ok(Plan::Rows { lookups, transposed })
}

/// Returns the plan for a weight that is widened as a whole.
fn whole(shape: &[usize], size: usize) -> Result<Plan, String> {
    let axis = match *shape {
        [_, _] => Some(0),
        // The axis of the rows, or another one that consists of whole blocks.
        _ => (1..shape.len() - 1).rev().find(|axis| shape[*axis].is_multiple_of(size)),
    };
    match (axis, shape) {
        (Some(axis), _) => Ok(Plan::Whole { axis }),
        (None, [.., rows, _]) => Err(format!(
            "it is a stack of matrices whose {rows} rows are not a multiple of the block size"
        )),
        (None, _) => Err("it is no matrix".to_owned()),
    }
}

fn not_a_product(op: &str) -> String {
    format!("`{op}` reads it, which is not a product with a matrix")
}
