//! Operators in terms of other operators, for types that no cast can replace and for opsets that
//! lack them.
//!
//! Results in double precision are accurate to a few units in the last place, even near zero.

mod activations;
mod bits;
mod bitwise;
mod comparisons;
mod conv;
mod conv_transpose;
mod erf;
pub(super) mod float_order;
mod hyperbolic;
mod integer_arithmetic;
pub(super) mod integer_order;
mod integer_sum;
mod inverse_hyperbolic;
mod inverse_trigonometric;
mod nan_order;
mod norms;
mod pooling;
mod range;
mod scatter;
mod triangle;
mod windows;

use onnx::formula::{Num, formulas};
use onnx::{Attrs, Builder, Node, Result, ValueId, attrs};
use tensor::{DType, Tensor};

/// The reason why an equivalent does not apply to a node.
pub(super) enum Lack {
    /// A property of the node.
    Because(&'static str),
    /// The nodes cannot be built, which is a bug.
    Graph(onnx::Error),
}

impl From<onnx::Error> for Lack {
    fn from(error: onnx::Error) -> Self {
        Lack::Graph(error)
    }
}

/// The values that replace the results of a node.
pub(super) type Results = std::result::Result<Vec<ValueId>, Lack>;

/// A function that emits the equivalent of a node.
pub(super) type Equivalent = fn(&mut Builder<'_>, &Node) -> Results;

/// A reason for which a target cannot run an operator, so that it needs an equivalent.
#[derive(Clone, Copy)]
enum Gap {
    /// The opset is older than the operator.
    Opset,
    /// The runtime has no kernel for floats.
    Float,
    /// It has none for double precision.
    Double,
    /// It has none for integers.
    Integer,
    /// It has none for integers, nor double precision to compute them in.
    IntegerWithoutDouble,
    /// The device has none for integers, and has those of the equivalent.
    IntegerOnDevice,
    /// It has none for signed integers of 64 bits.
    Int64,
    /// It has none for unsigned integers of 64 bits.
    Uint64,
}

impl Gap {
    /// Returns `true` if a missing kernel for `dtype` is this gap.
    fn has(self, dtype: DType, has_double: bool) -> bool {
        match self {
            Gap::Opset | Gap::IntegerOnDevice => false,
            Gap::Float => dtype.is_float(),
            Gap::Double => dtype == DType::F64,
            Gap::Integer => dtype.is_integer(),
            Gap::IntegerWithoutDouble => dtype.is_integer() && !has_double,
            Gap::Int64 => dtype == DType::I64,
            Gap::Uint64 => dtype == DType::U64,
        }
    }
}

/// All equivalents, by operator. The first one whose gap applies is taken.
static EQUIVALENTS: &[(&str, &[Gap], Equivalent)] = &[
    ("Acos", &[Gap::Double], inverse_trigonometric::acos),
    ("Acosh", &[Gap::Double], inverse_hyperbolic::acosh),
    ("ArgMax", &[Gap::Uint64], integer_order::through_signed),
    ("ArgMin", &[Gap::Uint64], integer_order::through_signed),
    ("Asin", &[Gap::Double], inverse_trigonometric::asin),
    ("Asinh", &[Gap::Double], inverse_hyperbolic::asinh),
    ("Atan", &[Gap::Double], inverse_trigonometric::atan),
    ("Atanh", &[Gap::Double], inverse_hyperbolic::atanh),
    ("AveragePool", &[Gap::Double], pooling::average),
    ("BitCast", &[Gap::Opset], bits::bit_cast),
    ("BitwiseAnd", &[Gap::Opset], bitwise::and),
    ("BitwiseNot", &[Gap::Opset], bitwise::not),
    ("BitwiseOr", &[Gap::Opset], bitwise::or),
    ("BitwiseXor", &[Gap::Opset], bitwise::xor),
    ("Clip", &[Gap::Int64], integer_order::clip),
    ("Clip", &[Gap::Integer, Gap::IntegerOnDevice, Gap::Double], integer_order::limits),
    ("Conv", &[Gap::Double, Gap::Integer], conv::by_windows),
    ("ConvTranspose", &[Gap::Double], conv_transpose::by_conv),
    ("Cosh", &[Gap::Double], hyperbolic::cosh),
    ("Equal", &[Gap::Float], comparisons::equal),
    ("Erf", &[Gap::Double], erf::erf),
    ("GreaterOrEqual", &[Gap::Opset], comparisons::greater_or_equal),
    ("IsInf", &[Gap::Opset], comparisons::is_inf),
    ("LessOrEqual", &[Gap::Opset], comparisons::less_or_equal),
    ("Max", &[Gap::Int64], integer_order::max),
    ("Min", &[Gap::Int64], integer_order::min),
    ("Mod", &[Gap::Opset, Gap::Integer], integer_arithmetic::remainder),
    ("Pow", &[Gap::Integer], integer_arithmetic::power),
    ("RMSNormalization", &[Gap::Opset], norms::root_mean_square),
    ("Range", &[Gap::Opset], range::of_positions),
    ("ReduceL1", &[Gap::Integer], integer_sum::of_sizes),
    ("ReduceMax", &[Gap::Float], nan_order::reduce),
    ("ReduceMax", &[Gap::Uint64], integer_order::through_signed),
    ("ReduceMax", &[Gap::Int64], integer_order::reduce_by_halves),
    ("ReduceMin", &[Gap::Float], nan_order::reduce),
    ("ReduceMin", &[Gap::Uint64], integer_order::through_signed),
    ("ReduceMin", &[Gap::Int64], integer_order::reduce_by_halves),
    ("ReduceProd", &[Gap::Integer], integer_arithmetic::product),
    ("ReduceSum", &[Gap::IntegerWithoutDouble], integer_sum::running),
    ("ReduceSum", &[Gap::Integer], integer_sum::sum),
    ("ReduceSumSquare", &[Gap::Integer], integer_sum::of_squares),
    ("Relu", &[Gap::Int64], integer_order::relu),
    ("ScatterElements", &[Gap::Opset], scatter::renamed),
    ("ScatterElements", &[Gap::Float], nan_order::scatter),
    ("ScatterND", &[Gap::Float], nan_order::scatter),
    ("Sign", &[Gap::Int64], integer_order::sign),
    ("Sinh", &[Gap::Double], hyperbolic::sinh),
    ("Softplus", &[Gap::Double], activations::softplus),
    ("Swish", &[Gap::Opset, Gap::Float], activations::swish),
    ("Tan", &[Gap::Double], inverse_trigonometric::tan),
    ("TopK", &[Gap::Uint64], integer_order::through_signed),
    ("Trilu", &[Gap::Opset], triangle::trilu),
];

/// Returns the equivalent of `op` for a target without a kernel for `dtype`. Integers may be computed in
/// double precision if the target has it.
pub(super) fn for_type(op: &str, dtype: DType, has_double: bool) -> Option<Equivalent> {
    find(op, |gap| gap.has(dtype, has_double))
}

/// Returns the equivalent of `op` for opsets that do not have it.
pub(super) fn for_opset(op: &str) -> Option<Equivalent> {
    find(op, |gap| matches!(gap, Gap::Opset))
}

/// Returns the equivalent of `op` for a device without a kernel for `dtype`.
pub(super) fn for_device(op: &str, dtype: DType) -> Option<Equivalent> {
    find(op, |gap| matches!(gap, Gap::IntegerOnDevice) && dtype.is_integer())
}

fn find(op: &str, is_met: impl Fn(Gap) -> bool) -> Option<Equivalent> {
    let rows = EQUIVALENTS.iter().filter(|(name, ..)| *name == op);
    let mut found = rows.filter(|(_, gaps, _)| gaps.iter().any(|gap| is_met(*gap)));
    found.next().map(|(.., equivalent)| *equivalent)
}

/// Returns the operand at `index`, which must be present.
pub(super) fn operand(node: &Node, index: usize) -> Result<ValueId> {
    let missing = || onnx::Error::invalid(node.op.name, format!("operand {index} is missing"));
    node.input(index).ok_or_else(missing)
}

/// Returns `result`, or a copy if it is just the operand `x`, because a result inherits a name.
#[track_caller]
fn fresh(b: &mut Builder<'_>, x: ValueId, result: ValueId) -> Result<ValueId> {
    if result == x { b.op("Identity", &[x], Attrs::new()) } else { Ok(result) }
}

/// Emits the reduction of `x` by `op` over the axes of the reduction `node`.
#[track_caller]
fn reduce(b: &mut Builder<'_>, op: &'static str, node: &Node, x: ValueId) -> Result<ValueId> {
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(x);
    b.op_optional(op, &inputs, node.attrs.clone())
}

/// Removes the axes of size one that a reduction kept, unless `node` keeps them, too.
#[track_caller]
fn drop_reduced(b: &mut Builder<'_>, node: &Node, x: ValueId, axes: &[usize]) -> Result<ValueId> {
    if node.int("keepdims", 1) != 0 {
        return Ok(x);
    }
    let axes: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
    b.squeeze(x, &axes)
}

/// Emits ones in the given shape.
#[track_caller]
fn ones(b: &mut Builder<'_>, shape: ValueId, dtype: DType) -> Result<ValueId> {
    let one = Tensor::scalar(dtype, 1.0).and_then(|one| one.reshaped(&[1]).ok());
    let one = one.ok_or_else(|| onnx::Error::Graph(format!("no constant for 1 in {dtype}")))?;
    b.op("ConstantOfShape", &[shape], attrs! { value: one })
}

/// Reshapes `x` to known sizes.
#[track_caller]
fn reshape(b: &mut Builder<'_>, x: ValueId, shape: &[i64]) -> Result<ValueId> {
    let shape = b.i64s(shape);
    b.op("Reshape", &[x, shape], Attrs::new())
}

/// Emits a formula of the node's first operands.
fn formula<const N: usize>(
    b: &mut Builder<'_>,
    node: &Node,
    body: impl for<'f> FnOnce([Num<'f>; N]) -> Num<'f>,
) -> Results {
    let mut operands = [operand(node, 0)?; N];
    for (index, value) in operands.iter_mut().enumerate() {
        *value = operand(node, index)?;
    }
    Ok(formulas(b, operands, |x| [body(x)])?.to_vec())
}
