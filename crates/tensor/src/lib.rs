//! Tensors, shared by all stages before and after lowering: element types, dimensions (known or
//! symbolic) and immutable element storage that may live outside Rust.

pub mod bounds;
mod constraints;
mod dim;
pub mod division;
mod dtype;
mod moved;
mod norms;
mod numbers;
mod reduced;
mod registers;
mod storage;
mod tensor;

pub use constraints::Constraints;
pub use dim::{Atom, Dim, DimError, DimOp, Variable};
pub use dtype::{DType, DTypeKind};
pub use norms::Norms;
pub use reduced::{BlockLayout, Blocks, Quantized, ReduceError};
pub use storage::{MemoryLocation, Source, Storage};
pub use tensor::{Tensor, TensorError};

/// The shape of a value: one [`Dim`] per axis.
pub type Shape = Vec<Dim>;

/// The element type and shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// The element type.
    pub dtype: DType,
    /// One dimension per axis.
    pub shape: Shape,
}

impl Type {
    /// Creates a type from its parts.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into() }
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the shape as plain numbers, if every dimension is known.
    pub fn static_shape(&self) -> Option<Vec<i64>> {
        Dim::all_known(&self.shape)
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, dim) in self.shape.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}
