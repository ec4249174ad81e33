//! The table of rules on complex numbers, for equations that read or return any.
//!
//! What moves elements or adds them treats real and imaginary parts alike: the real rule is applied
//! to each. What calls other jaxprs passes both parts on. Everything else has a formula of its own.

mod multiply;
mod part;

use onnx::ValueId;

pub(super) use part::never_real;

use super::{Result, Rule};
use crate::{Context, Parts, RuleError};

/// How a rule is applied to complex values.
enum Body {
    /// To the real parts, then to the imaginary parts; real operands take part in both.
    Each,
    /// Once, to all parts in a row.
    Flat,
    /// By a function of its own.
    Function(fn(&mut Context<'_>, &[Parts]) -> Result<Vec<Parts>>),
}

fn find(primitive: &str) -> Option<Body> {
    use Body::{Each as each, Flat as flat, Function as f};
    Some(match primitive {
        "add" => each,
        "add_any" => each,
        "broadcast_in_dim" => each,
        "checkpoint" => flat,
        "closed_call" => flat,
        "complex" => f(part::complex),
        "concatenate" => each,
        "cond" => flat,
        "conj" => f(part::conj),
        "copy" => each,
        "copy_p" => each,
        "core_call" => flat,
        "cumsum" => each,
        "custom_jvp_call" => flat,
        "custom_linear_solve" => flat,
        "custom_vjp_call" => flat,
        "custom_vjp_call_jaxpr" => flat,
        "device_put" => each,
        "dynamic_slice" => each,
        "dynamic_update_slice" => each,
        "gather" => each,
        "imag" => f(part::imag),
        "jit" => flat,
        "mul" => f(multiply::mul),
        "neg" => each,
        "optimization_barrier" => each,
        "pad" => each,
        "pjit" => flat,
        "real" => f(part::real),
        "reduce_sum" => each,
        "remat" => flat,
        "remat2" => flat,
        "reshape" => each,
        "rev" => each,
        "scan" => flat,
        "scatter" => each,
        "scatter-add" => each,
        "select_n" => each,
        "slice" => each,
        "split" => each,
        "squeeze" => each,
        "stop_gradient" => each,
        "sub" => each,
        "tile" => each,
        "transpose" => each,
        "while" => flat,
        _ => return None,
    })
}

/// Applies a rule to operands of which some are complex, or for a complex result.
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
