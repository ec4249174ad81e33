//! What legalisation cannot do.

use provenance::OriginId;
use tensor::DType;

use crate::Target;

/// Why a model cannot be adapted to a target.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target lacks an operator for an element type, and nothing equivalent is known.
    #[error("{target} cannot compute `{op}` on {dtype}: {reason}")]
    Unsupported {
        /// The operator.
        op: &'static str,
        /// The element type.
        dtype: DType,
        /// What it should have run on.
        target: Target,
        /// Why nothing else will do.
        reason: String,
        /// Where the node came from.
        origin: OriginId,
    },
    /// The target does not load models of the opset.
    #[error("{target} loads opsets up to {newest}, not {opset}")]
    OpsetTooNew {
        /// What it should have run on.
        target: Target,
        /// The opset that was asked for, or that the model needs.
        opset: i64,
        /// The newest one that the target loads.
        newest: i64,
    },
    /// The graph, or a node that was to be added to it, is invalid: a bug in this project.
    #[error(transparent)]
    Graph(#[from] onnx::Error),
}
