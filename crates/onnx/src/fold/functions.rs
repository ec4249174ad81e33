//! Functions that no standard rounds for us: every runtime computes their last bits in its own way.

use tensor::Tensor;

use super::elementwise::broadcast;
use super::numbers::Numbers;
use super::{Operation, Reason};

/// Evaluates a function of constants in double precision and rounds once, so that the result is as
/// close to the true one as its type allows.
pub(super) fn function(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    if !operation.may_round() {
        return Err("last bits are up to the runtime");
    }
    let Numbers::Floats(x) = Numbers::new(operation.input(0)?)? else {
        return Err("the type is not computed with");
    };
    let one: fn(f64) -> f64 = match operation.node.op.name {
        "Acos" => f64::acos,
        "Acosh" => f64::acosh,
        "Asin" => f64::asin,
        "Asinh" => f64::asinh,
        "Atan" => f64::atan,
        "Atanh" => f64::atanh,
        "Cos" => f64::cos,
        "Cosh" => f64::cosh,
        "Exp" => f64::exp,
        "Log" => f64::ln,
        "Sigmoid" => |x| (1.0 + (-x).exp()).recip(),
        "Sin" => f64::sin,
        "Sinh" => f64::sinh,
        "Tan" => f64::tan,
        "Tanh" => f64::tanh,
        "Pow" => return power(operation),
        _ => return Err("the function is not known"),
    };
    let values = x.into_iter().map(one).collect();
    Numbers::Floats(values).into_tensor(operation.dtype, operation.shape)
}

fn power(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    let numbers = |i| broadcast(operation, i).and_then(|tensor| Numbers::new(&tensor));
    let (Numbers::Floats(x), Numbers::Floats(y)) = (numbers(0)?, numbers(1)?) else {
        return Err("the type is not computed with");
    };
    let values = x.iter().zip(&y).map(|(x, y)| x.powf(*y)).collect();
    Numbers::Floats(values).into_tensor(operation.dtype, operation.shape)
}
