//! The errors of legalisation.

use provenance::OriginId;
use tensor::DType;

use super::Target;

/// The reason why a model cannot be adapted to a target.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target lacks an operator for an element type, and no equivalent is known.
    #[error("{target} cannot compute `{op}` on {dtype}: {reason}")]
    Unsupported {
        /// The operator.
        op: &'static str,
        /// The element type.
        dtype: DType,
        /// The target.
        target: Target,
        /// The reason why no alternative applies.
        reason: String,
        /// The origin of the node.
        origin: OriginId,
    },
    /// The target does not load models of the opset.
    #[error("{target} loads opsets up to {newest}, not {opset}")]
    OpsetTooNew {
        /// The target.
        target: Target,
        /// The opset that was requested, or that the model needs.
        opset: i64,
        /// The newest opset that the target loads.
        newest: i64,
    },
    /// The graph or an emitted node is invalid, which is a bug in this project.
    #[error(transparent)]
    Graph(#[from] onnx::Error),
}
