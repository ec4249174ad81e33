//! Functions that no standard rounds for us: every runtime computes their last bits in its own way.

use tensor::{DType, Tensor};

use super::numbers::Numbers;
use super::{Operation, Reason};

/// The functions that are evaluated.
pub const FUNCTIONS: &[&str] =
    &["Atan", "Cos", "Cosh", "Exp", "Log", "Pow", "Sin", "Sinh", "Tan", "Tanh"];

/// Evaluates a function of constants in double precision and rounds once, so that the result is as
/// close to the true one as its type allows. That has to be `float32`: nothing is wider than `float64`.
pub fn function(operation: &Operation<'_>) -> Result<Tensor, Reason> {
    if operation.dtype != DType::F32 {
        return Err("the type is not computed with");
    }
    let Numbers::Floats(x) = Numbers::new(operation.input(0)?)? else {
        return Err("the type is not computed with");
    };
    let one: fn(f64) -> f64 = match operation.node.op.name {
        "Atan" => f64::atan,
        "Cos" => f64::cos,
        "Cosh" => f64::cosh,
        "Exp" => f64::exp,
        "Log" => f64::ln,
        "Sin" => f64::sin,
        "Sinh" => f64::sinh,
        "Tan" => f64::tan,
        "Tanh" => f64::tanh,
        "Pow" => return power(operation, &x),
        _ => return Err("the function is not known"),
    };
    let values = x.into_iter().map(one).collect();
    Numbers::Floats(values).into_tensor(operation.dtype, operation.shape)
}

/// Powers of one number, or by one number.
fn power(operation: &Operation<'_>, x: &[f64]) -> Result<Tensor, Reason> {
    let Numbers::Floats(y) = Numbers::new(operation.input(1)?)? else {
        return Err("the type is not computed with");
    };
    let values = match (x, y.as_slice()) {
        ([x], y) => y.iter().map(|y| x.powf(*y)).collect(),
        (x, [y]) => x.iter().map(|x| x.powf(*y)).collect(),
        _ if x.len() == y.len() && operation.input(0)?.shape() == operation.input(1)?.shape() => {
            x.iter().zip(&y).map(|(x, y)| x.powf(*y)).collect()
        }
        _ => return Err("the operands are broadcast"),
    };
    Numbers::Floats(values).into_tensor(operation.dtype, operation.shape)
}
