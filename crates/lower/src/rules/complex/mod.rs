//! The table of rules on complex numbers, for equations that read or return any.
//!
//! Primitives that move or add elements treat real and imaginary parts alike, so the real rule is
//! applied to each. Those that call other jaxprs pass both parts on. All others have their own
//! formula.

mod arithmetic;
mod conversion;
mod exponential;
mod indexing;
mod inverse;
mod linear;
mod modulus;
mod number;
mod order;
mod part;
mod power;
mod reduction;
mod trigonometric;

use onnx::ValueId;

pub(super) use exponential::log_add_exp;
pub(super) use order::{larger, smaller};
pub(super) use part::never_real;
pub(super) use reduction::{extremum, product};

use super::{Result, Rule};
use crate::{Context, Parts, RuleError};

/// How a rule is applied to complex values.
enum Body {
    /// To the real parts, then to the imaginary parts; real operands take part in both.
    Each,
    /// Once, to all parts in a row.
    Flat,
    /// By a separate function.
    Function(fn(&mut Context<'_>, &[Parts]) -> Result<Vec<Parts>>),
}

fn find(primitive: &str) -> Option<Body> {
    use Body::{Each as each, Flat as flat, Function as f};
    Some(match primitive {
        "abs" => f(modulus::abs),
        "acos" => f(inverse::acos),
        "acosh" => f(inverse::acosh),
        "add" => each,
        "add_any" => each,
        "approx_top_k" => flat,
        "asin" => f(inverse::asin),
        "asinh" => f(inverse::asinh),
        "atan" => f(inverse::atan),
        "atan2" => f(inverse::atan2),
        "atanh" => f(inverse::atanh),
        "bitcast_convert_type" => f(conversion::bitcast),
        "broadcast_in_dim" => each,
        "call_hi_primitive" => flat,
        "checkpoint" => flat,
        "closed_call" => flat,
        "complex" => f(part::complex),
        "concatenate" => each,
        "cond" => flat,
        "conj" => f(part::conj),
        "conv_general_dilated" => f(linear::conv),
        "convert_element_type" => f(conversion::convert),
        "copy" => flat,
        "copy_p" => flat,
        "core_call" => flat,
        "cos" => f(trigonometric::cos),
        "cosh" => f(trigonometric::cosh),
        "cumsum" => each,
        "custom_jvp_call" => flat,
        "custom_linear_solve" => flat,
        "custom_vjp_call" => flat,
        "custom_vjp_call_jaxpr" => flat,
        "device_put" => flat,
        "div" => f(arithmetic::div),
        "dot_general" => f(linear::dot),
        "dynamic_slice" => each,
        "dynamic_update_slice" => each,
        "eq" => f(order::eq),
        "exp" => f(exponential::exp),
        "exp2" => f(exponential::exp2),
        "expm1" => f(exponential::expm1),
        "gather" => f(indexing::gather),
        "imag" => f(part::imag),
        "integer_pow" => f(arithmetic::integer_pow),
        "iota" => f(conversion::iota),
        "jit" => flat,
        "log" => f(exponential::log),
        "log1p" => f(exponential::log1p),
        "log2" => f(exponential::log2),
        "logistic" => f(arithmetic::logistic),
        "max" => f(order::max),
        "min" => f(order::min),
        "mul" => f(arithmetic::mul),
        "ne" => f(order::ne),
        "neg" => each,
        "one_minus_square" => f(arithmetic::one_minus_square),
        "optimization_barrier" => flat,
        "pad" => each,
        "pjit" => flat,
        "pow" => f(power::pow),
        "real" => f(part::real),
        "reduce_max" => f(reduction::max),
        "reduce_min" => f(reduction::min),
        "reduce_prod" => f(reduction::prod),
        "reduce_sum" => each,
        "remat" => flat,
        "remat2" => flat,
        "reshape" => each,
        "rev" => each,
        "rsqrt" => f(power::rsqrt),
        "scan" => flat,
        "scatter" => each,
        "scatter-add" => each,
        "scatter-max" => f(indexing::scatter_max),
        "scatter-min" => f(indexing::scatter_min),
        "scatter-mul" => f(indexing::scatter_mul),
        "scatter-sub" => each,
        "select_n" => each,
        "sign" => f(modulus::sign),
        "sin" => f(trigonometric::sin),
        "sinh" => f(trigonometric::sinh),
        "slice" => each,
        "sort" => flat,
        "split" => each,
        "sqrt" => f(power::sqrt),
        "square" => f(arithmetic::square),
        "squeeze" => each,
        "stack" => each,
        "stop_gradient" => flat,
        "sub" => each,
        "tan" => f(trigonometric::tan),
        "tanh" => f(trigonometric::tanh),
        "tile" => each,
        "transpose" => each,
        "unstack" => each,
        "while" => flat,
        _ => return None,
    })
}

/// Applies a rule if any operand or result is complex.
pub(super) fn apply(rule: &Rule, cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
    match find(rule.name)
        .ok_or_else(|| RuleError::unsupported("complex numbers are not supported here"))?
    {
        Body::Function(lower) => lower(cx, x),
        Body::Flat => {
            let flat: Vec<ValueId> = x.iter().flat_map(|value| value.flat()).collect();
            let mut outputs = rule.real(cx, &flat)?.into_iter();
            cx.regroup(&mut outputs)
        }
        Body::Each => {
            let side = |pick: fn(Parts) -> ValueId| x.iter().map(|v| pick(*v)).collect::<Vec<_>>();
            let re = rule.real(cx, &side(Parts::re))?;
            let im = rule.real(cx, &side(Parts::im))?;
            Ok(re.into_iter().zip(im).map(|(re, im)| Parts::Complex(re, im)).collect())
        }
    }
}
