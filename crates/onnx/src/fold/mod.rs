//! Evaluation of operators on constants. What a runtime may compute otherwise is not evaluated: overflow
//! and NaN; and, unless last bits are given away, sums of floats and transcendental functions.

mod cast;
mod elementwise;
mod fill;
mod functions;
mod gather;
mod layout;
mod numbers;
mod product;
mod reduce;
mod scatter;

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
    /// Which of the operator's results it is.
    pub result: usize,
    /// How close to what runtimes compute it has to be.
    pub exactness: Exactness,
}

/// How close the evaluation of an operator is to what runtimes compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// It is the same.
    EachBit,
    /// Last bits may differ, as they do between runtimes: the result is computed in wide numbers and
    /// rounded once.
    Rounded,
}

impl<'a> Operation<'a> {
    fn input(&self, index: usize) -> Result<&'a Tensor, Reason> {
        self.inputs.get(index).copied().flatten().ok_or("an operand is left out")
    }

    fn ints(&self, index: usize) -> Result<Vec<i64>, Reason> {
        self.input(index)?.to_i64s().ok_or("an operand is not integer")
    }

    fn may_round(&self) -> bool {
        self.exactness == Exactness::Rounded
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
    "Acos" => functions::function,
    "Acosh" => functions::function,
    "Add" => elementwise::binary,
    "And" => elementwise::binary,
    "ArgMax" => reduce::arg,
    "ArgMin" => reduce::arg,
    "Asin" => functions::function,
    "Asinh" => functions::function,
    "Atan" => functions::function,
    "Atanh" => functions::function,
    "BitShift" => elementwise::binary,
    "BitwiseAnd" => elementwise::binary,
    "BitwiseNot" => elementwise::unary,
    "BitwiseOr" => elementwise::binary,
    "BitwiseXor" => elementwise::binary,
    "Cast" => cast::cast,
    "Ceil" => elementwise::unary,
    "Clip" => elementwise::clip,
    "Concat" => layout::concat,
    "ConstantOfShape" => fill::constant_of_shape,
    "Conv" => product::conv,
    "Cos" => functions::function,
    "Cosh" => functions::function,
    "CumSum" => reduce::cumulative_sum,
    "Div" => elementwise::binary,
    "Equal" => elementwise::compare,
    "Exp" => functions::function,
    "Expand" => layout::expand,
    "Flatten" => layout::reshape,
    "Floor" => elementwise::unary,
    "Gather" => gather::gather,
    "GatherElements" => gather::gather_elements,
    "GatherND" => gather::gather_nd,
    "Greater" => elementwise::compare,
    "GreaterOrEqual" => elementwise::compare,
    "IsInf" => elementwise::is_inf,
    "IsNaN" => elementwise::is_nan,
    "Less" => elementwise::compare,
    "LessOrEqual" => elementwise::compare,
    "Log" => functions::function,
    "MatMul" => product::matmul,
    "Max" => elementwise::binary,
    "Min" => elementwise::binary,
    "Mod" => elementwise::binary,
    "Mul" => elementwise::binary,
    "Neg" => elementwise::unary,
    "Not" => elementwise::unary,
    "Or" => elementwise::binary,
    "Pad" => layout::pad,
    "Pow" => functions::function,
    "Range" => fill::range,
    "Reciprocal" => elementwise::unary,
    "ReduceL1" => reduce::reduce,
    "ReduceL2" => reduce::reduce,
    "ReduceMax" => reduce::reduce,
    "ReduceMean" => reduce::reduce,
    "ReduceMin" => reduce::reduce,
    "ReduceProd" => reduce::reduce,
    "ReduceSum" => reduce::reduce,
    "ReduceSumSquare" => reduce::reduce,
    "Relu" => elementwise::relu,
    "Reshape" => layout::reshape,
    "Round" => elementwise::unary,
    "ScatterElements" => scatter::scatter_elements,
    "ScatterND" => scatter::scatter_nd,
    "Shape" => fill::not_here,
    "Sigmoid" => functions::function,
    "Sign" => elementwise::unary,
    "Sin" => functions::function,
    "Sinh" => functions::function,
    "Size" => fill::not_here,
    "Slice" => layout::slice,
    "Split" => layout::split,
    "Sqrt" => elementwise::unary,
    "Squeeze" => layout::reshape,
    "Sub" => elementwise::binary,
    "Sum" => elementwise::sum,
    "Tan" => functions::function,
    "Tanh" => functions::function,
    "Tile" => layout::tile,
    "TopK" => reduce::top_k,
    "Transpose" => layout::transpose,
    "Trilu" => layout::trilu,
    "Unsqueeze" => layout::reshape,
    "Where" => elementwise::where_,
    "Xor" => elementwise::binary,
}

/// Returns `true` if the operator `op` is evaluated.
pub fn is_evaluated(op: &str) -> bool {
    evaluator(op).is_some()
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
