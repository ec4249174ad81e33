//! Evaluation of single operators on constants. What a runtime may compute otherwise is not
//! evaluated: transcendental functions, overflow, NaN.

mod cast;
mod elementwise;
mod fill;
mod layout;
mod numbers;

use onnx::Node;
use tensor::{DType, Tensor};

use crate::Skip;

/// An operator on constants. The type of its result is known.
pub(crate) struct Operation<'a> {
    pub(crate) node: &'a Node,
    pub(crate) inputs: &'a [Option<&'a Tensor>],
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
}

impl<'a> Operation<'a> {
    fn input(&self, index: usize) -> Result<&'a Tensor, Skip> {
        self.inputs.get(index).copied().flatten().ok_or(Skip::Because("an operand is left out"))
    }

    fn ints(&self, index: usize) -> Result<Vec<i64>, Skip> {
        self.input(index)?.to_i64s().ok_or(Skip::Because("an operand is not integer"))
    }

    /// The attribute `axis`, counted from the front.
    fn axis(&self, default: i64, rank: usize) -> Result<usize, Skip> {
        axis(self.node.int("axis", default), rank)
    }
}

fn axis(axis: i64, rank: usize) -> Result<usize, Skip> {
    let from_front = if axis < 0 { axis + i64::try_from(rank).unwrap_or(0) } else { axis };
    let axis = usize::try_from(from_front).ok().filter(|axis| *axis < rank);
    axis.ok_or(Skip::Because("an axis is out of range"))
}

type Evaluate = fn(&Operation<'_>) -> Result<Tensor, Skip>;

/// Declares the operators that are evaluated, and what does it.
macro_rules! table {
    ($($op:literal => $evaluate:path,)*) => {
        /// The operators that are evaluated.
        pub(crate) const OPERATORS: &[&str] = &[$($op),*];

        fn evaluator(op: &str) -> Option<Evaluate> {
            match op {
                $($op => Some($evaluate),)*
                _ => None,
            }
        }
    };
}

table! {
    "Abs" => elementwise::unary,
    "Add" => elementwise::binary,
    "And" => elementwise::binary,
    "Cast" => cast::cast,
    "Clip" => elementwise::clip,
    "Concat" => layout::concat,
    "ConstantOfShape" => fill::constant_of_shape,
    "Div" => elementwise::binary,
    "Equal" => elementwise::compare,
    "Expand" => layout::expand,
    "Flatten" => layout::view,
    "Gather" => layout::gather,
    "Greater" => elementwise::compare,
    "GreaterOrEqual" => elementwise::compare,
    "Less" => elementwise::compare,
    "LessOrEqual" => elementwise::compare,
    "Max" => elementwise::binary,
    "Min" => elementwise::binary,
    "Mul" => elementwise::binary,
    "Neg" => elementwise::unary,
    "Not" => elementwise::unary,
    "Or" => elementwise::binary,
    "Range" => fill::range,
    "Reciprocal" => elementwise::unary,
    "Reshape" => layout::view,
    "Shape" => fill::not_here,
    "Sign" => elementwise::unary,
    "Size" => fill::not_here,
    "Slice" => layout::slice,
    "Sqrt" => elementwise::unary,
    "Squeeze" => layout::view,
    "Sub" => elementwise::binary,
    "Transpose" => layout::transpose,
    "Unsqueeze" => layout::view,
    "Where" => elementwise::where_,
    "Xor" => elementwise::binary,
}

/// Whether the result has the elements of the first operand in their order.
pub(crate) fn is_view(op: &str) -> bool {
    matches!(op, "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze")
}

/// The result of an operator.
pub(crate) fn evaluate(operation: &Operation<'_>) -> Result<Tensor, Skip> {
    let evaluate = evaluator(operation.node.op.name).ok_or("the operator is not evaluated")?;
    evaluate(operation)
}
