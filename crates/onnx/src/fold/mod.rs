//! Evaluation of operators on constants. What a runtime may compute otherwise is not evaluated:
//! overflow, NaN, and transcendental functions, which are apart (`functions`).

mod cast;
mod elementwise;
mod fill;
mod functions;
mod known;
mod layout;
mod numbers;

pub use functions::{FUNCTIONS, function};
pub use known::{elements, known};

use tensor::{DType, Tensor};

use crate::Node;

/// Why an operator is not evaluated.
pub type Reason = &'static str;

/// Why an operator on a tensor is not evaluated whose elements are fetched later.
const UNKNOWN: Reason = "an operand is not known yet";

/// An operator on constants. The type of its result is known.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The operator, with its attributes.
    pub node: &'a Node,
    /// What its operands are.
    pub inputs: &'a [Option<&'a Tensor>],
    /// The element type of the result.
    pub dtype: DType,
    /// The shape of the result.
    pub shape: &'a [usize],
}

impl<'a> Operation<'a> {
    fn input(&self, index: usize) -> Result<&'a Tensor, Reason> {
        self.inputs.get(index).copied().flatten().ok_or("an operand is left out")
    }

    fn ints(&self, index: usize) -> Result<Vec<i64>, Reason> {
        self.input(index)?.to_i64s().ok_or("an operand is not integer")
    }

    /// The attribute `axis`, counted from the front.
    fn axis(&self, default: i64, rank: usize) -> Result<usize, Reason> {
        axis(self.node.int("axis", default), rank)
    }
}

/// An axis counted from the front.
pub fn axis(axis: i64, rank: usize) -> Result<usize, Reason> {
    let from_front = if axis < 0 { axis + i64::try_from(rank).unwrap_or(0) } else { axis };
    let axis = usize::try_from(from_front).ok().filter(|axis| *axis < rank);
    axis.ok_or("an axis is out of range")
}

type Evaluate = fn(&Operation<'_>) -> Result<Tensor, Reason>;

/// Declares the operators that are evaluated, and their functions.
macro_rules! table {
    ($($op:literal => $evaluate:path,)*) => {
        /// The operators that are evaluated.
        pub const OPERATORS: &[&str] = &[$($op),*];

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
    "Ceil" => elementwise::unary,
    "Clip" => elementwise::clip,
    "Concat" => layout::concat,
    "ConstantOfShape" => fill::constant_of_shape,
    "Div" => elementwise::binary,
    "Equal" => elementwise::compare,
    "Expand" => layout::expand,
    "Flatten" => layout::reshape,
    "Floor" => elementwise::unary,
    "Gather" => layout::gather,
    "Greater" => elementwise::compare,
    "GreaterOrEqual" => elementwise::compare,
    "IsInf" => elementwise::is_inf,
    "IsNaN" => elementwise::is_nan,
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
    "Reshape" => layout::reshape,
    "Shape" => fill::not_here,
    "Sign" => elementwise::unary,
    "Size" => fill::not_here,
    "Slice" => layout::slice,
    "Sqrt" => elementwise::unary,
    "Squeeze" => layout::reshape,
    "Sub" => elementwise::binary,
    "Transpose" => layout::transpose,
    "Unsqueeze" => layout::reshape,
    "Where" => elementwise::where_,
    "Xor" => elementwise::binary,
}

/// All elements of the first operand in another order, another shape or as other floats, if that is what an
/// operator gives. They are read where they are, so that the result need not be a copy.
pub fn view(operation: &Operation<'_>) -> Result<Option<Tensor>, Reason> {
    layout::view(operation)
}

/// Where each axis of the result of a `Transpose` of `rank` axes comes from.
pub fn permutation(node: &Node, rank: usize) -> Result<Vec<usize>, Reason> {
    match node.ints("perm") {
        None => Ok((0..rank).rev().collect()),
        Some(perm) => perm.iter().map(|p| axis(*p, rank)).collect(),
    }
}

/// The result of an operator.
pub fn evaluate(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let evaluate = evaluator(operation.node.op.name).ok_or("the operator is not evaluated")?;
    evaluate(operation)
}
