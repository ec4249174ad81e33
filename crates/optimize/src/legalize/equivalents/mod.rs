//! Operators in terms of other operators, for types that no cast can replace.
//!
//! Results in double precision are accurate to a few units in the last place, even near zero.

pub(super) mod activations;
pub(super) mod bits;
mod conv;
mod conv_transpose;
mod erf;
pub(super) mod float_order;
mod hyperbolic;
mod integer_arithmetic;
mod integer_order;
mod integer_sum;
mod inverse_hyperbolic;
mod inverse_trigonometric;
mod nan_order;
mod pooling;
mod windows;

use onnx::formula::{Num, formulas};
use onnx::{Attrs, Builder, Node, Result, ValueId};
use tensor::DType;

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

/// Returns the equivalent of `op` on elements of type `dtype`. Integers may be computed in double
/// precision if the target has it.
pub(super) fn find(op: &str, dtype: DType, has_double: bool) -> Option<Equivalent> {
    let equivalent: Equivalent = match (op, dtype) {
        ("Conv", d) if d == DType::F64 || d.is_integer() => conv::by_windows,
        ("ReduceMax" | "ReduceMin", d) if d.is_float() => nan_order::reduce,
        ("ScatterElements" | "ScatterND", d) if d.is_float() => nan_order::scatter,
        ("Swish", d) if d.is_float() => activations::swish,
        ("ReduceSum", d) if d.is_integer() && !has_double => integer_sum::running,
        (_, DType::F64) => return find_f64(op),
        (_, d) if d.is_integer() => return find_integer(op, d),
        _ => return None,
    };
    Some(equivalent)
}

fn find_integer(op: &str, dtype: DType) -> Option<Equivalent> {
    Some(match (op, dtype) {
        ("ArgMax" | "ArgMin" | "ReduceMax" | "ReduceMin" | "TopK", DType::U64) => {
            integer_order::through_signed
        }
        ("Clip", DType::I64) => integer_order::clip,
        ("Max", DType::I64) => integer_order::max,
        ("Min", DType::I64) => integer_order::min,
        ("Mod", _) => integer_arithmetic::remainder,
        ("Pow", _) => integer_arithmetic::power,
        ("ReduceL1", _) => integer_sum::of_sizes,
        ("ReduceMax" | "ReduceMin", DType::I64) => integer_order::reduce_by_halves,
        ("ReduceProd", _) => integer_arithmetic::product,
        ("ReduceSum", _) => integer_sum::sum,
        ("ReduceSumSquare", _) => integer_sum::of_squares,
        ("Relu", DType::I64) => integer_order::relu,
        ("Sign", DType::I64) => integer_order::sign,
        _ => return None,
    })
}

fn find_f64(op: &str) -> Option<Equivalent> {
    Some(match op {
        "Acos" => inverse_trigonometric::acos,
        "Acosh" => inverse_hyperbolic::acosh,
        "Asin" => inverse_trigonometric::asin,
        "Asinh" => inverse_hyperbolic::asinh,
        "Atan" => inverse_trigonometric::atan,
        "Atanh" => inverse_hyperbolic::atanh,
        "AveragePool" => pooling::average,
        "ConvTranspose" => conv_transpose::by_conv,
        "Cosh" => hyperbolic::cosh,
        "Elu" => activations::elu,
        "Erf" => erf::erf,
        "Gelu" => erf::gelu,
        "GlobalAveragePool" => pooling::global_average,
        "GlobalMaxPool" => pooling::global_max,
        "HardSigmoid" => activations::hard_sigmoid,
        "HardSwish" => activations::hard_swish,
        "LeakyRelu" => activations::leaky_relu,
        "Mean" => activations::mean,
        "Mish" => activations::mish,
        "PRelu" => activations::prelu,
        "Selu" => activations::selu,
        "Sinh" => hyperbolic::sinh,
        "Softplus" => activations::softplus,
        "Softsign" => activations::softsign,
        "Tan" => inverse_trigonometric::tan,
        "ThresholdedRelu" => activations::thresholded_relu,
        _ => return None,
    })
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
