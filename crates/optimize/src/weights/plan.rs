//! The ways to store a weight, chosen by its consumers.

use onnx::{Graph, NodeId, ValueId};
use tensor::{BlockLayout, Blocks, DType, Tensor};

use super::readers::{Reader, other_than_product, readers};
use super::{Format, contributed, widened};
use crate::recognize::Forms;

/// A way to store a weight.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Unchanged, or as smaller floats.
    Cast,
    /// Blocks along an axis. All of the weight is widened.
    Whole {
        /// The axis.
        axis: usize,
        /// The element type of scales.
        scale: DType,
    },
    /// Blocks of contributed operators, which read the integers themselves.
    Contributed {
        /// The products and lookups.
        readers: contributed::Readers,
        /// The element type of scales.
        scale: DType,
    },
    /// Blocks along the last axis. Only what is looked up is widened.
    Rows {
        /// The lookups.
        lookups: Vec<NodeId>,
        /// The transposed matrices that products read.
        transposed: Vec<ValueId>,
        /// The element type of scales.
        scale: DType,
    },
}

const BOTH: &str = "looked up, and read by a product";

impl Plan {
    /// Returns a remark for the report.
    pub(super) fn note(&self) -> &'static str {
        match self {
            Plan::Rows { transposed, .. } if !transposed.is_empty() => BOTH,
            Plan::Contributed { readers, .. } if readers.are_both() => BOTH,
            Plan::Contributed { readers, .. } if !readers.are_lookups() => "",
            Plan::Rows { .. } | Plan::Contributed { .. } => "looked up",
            Plan::Whole { .. } | Plan::Cast => "",
        }
    }

    /// Returns `true` if the last block would be incomplete, and one of the less preferred formats
    /// has whole blocks.
    pub(super) fn leaves_part(&self, format: Format, others: &[Format], shape: &[usize]) -> bool {
        let Plan::Whole { axis, .. } = self else { return false };
        let Some(length) = shape.get(*axis) else { return false };
        let Format::Blocks { dtype, size } = format else { return false };
        let is_whole = |other: &Format| match other {
            Format::Blocks { dtype: same, size } => *same == dtype && length.is_multiple_of(*size),
            _ => false,
        };
        !length.is_multiple_of(size) && others.iter().any(is_whole)
    }
}

/// Returns the plan for blocks of integers, or the reason why there is none. If `by_itself` is set,
/// products must read the weight.
pub(super) fn blocks(
    graph: &Graph,
    value: ValueId,
    (dtype, size): (DType, usize),
    by_itself: bool,
    forms: &Forms,
) -> Result<Plan, String> {
    let shape = graph.tensor(value).map(|tensor| tensor.shape().to_vec()).unwrap_or_default();
    let rank = shape.len();
    let &[.., last] = &*shape else { return Err("it is a scalar".to_owned()) };
    if rank < 2 {
        return Err("its rank is 1, and only matrices and stacks of them are quantised".to_owned());
    }
    let (mut lookups, mut matrices, mut transposed) = (Vec::new(), Vec::new(), Vec::new());
    let mut has_product = false;
    for reader in readers(graph, value) {
        match reader {
            Reader::Lookup(node) => lookups.push(node),
            Reader::Matrix(node) => matrices.push(node),
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
        let scale = scale_of(graph, value, dtype)?;
        if let Some(readers) = contributed::Readers::of(graph, value, (dtype, size), forms) {
            return Ok(Plan::Contributed { readers, scale });
        }
        return Ok(Plan::Whole { axis: whole(&shape, size)?, scale });
    }
    // A stack that is not widened as a whole is widened where each matrix is looked up.
    lookups.extend(matrices);
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
            // Only the chosen matrices are widened, whichever side of a product they are on.
            match other_than_product(graph, graph.node(*node).outputs[0]) {
                None | Some("MatMul") => {}
                Some(op) => return Err(not_a_product(op)),
            }
        }
    }
    let scale = scale_of(graph, value, dtype)?;
    match contributed::Readers::of(graph, value, (dtype, size), forms) {
        Some(readers) => Ok(Plan::Contributed { readers, scale }),
        None => Ok(Plan::Rows { lookups, transposed, scale }),
    }
}

/// Returns the element type of scales that suits the magnitude of a weight. Scales are half floats
/// if possible, which runtimes widen once when they load the model.
fn scale_of(graph: &Graph, value: ValueId, dtype: DType) -> Result<DType, String> {
    let largest = graph.tensor(value).and_then(Tensor::largest_magnitude);
    let fits = |scale: &DType| {
        let blocks = Blocks { dtype, size: 1, scale: *scale, layout: BlockLayout::Columns };
        largest.is_none_or(|largest| blocks.has_scales_for(largest))
    };
    let types: &[DType] = match graph.ty(value).dtype {
        DType::F16 => &[DType::F16],
        _ => &[DType::F16, DType::F32],
    };
    types.iter().copied().find(fits).ok_or_else(|| match largest {
        Some(f32::INFINITY) => "it holds NaN or infinity".to_owned(),
        _ => "its scales are too small or too large for their type".to_owned(),
    })
}

/// Returns the axis of the blocks of a weight that is widened as a whole.
fn whole(shape: &[usize], size: usize) -> Result<usize, String> {
    let axis = match *shape {
        [_, _] => Some(0),
        // The axis of the rows, or another one that consists of whole blocks.
        _ => (1..shape.len() - 1).rev().find(|axis| shape[*axis].is_multiple_of(size)),
    };
    match (axis, shape) {
        (Some(axis), _) => Ok(axis),
        (None, [.., rows, _]) => Err(format!(
            "it is a stack of matrices whose {rows} rows are not a multiple of the block size"
        )),
        (None, _) => Err("it is no matrix".to_owned()),
    }
}

fn not_a_product(op: &str) -> String {
    format!("`{op}` reads it, which is not a product with a matrix")
}
