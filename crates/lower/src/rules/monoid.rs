//! The associative operations that JAX reduces, scans and scatters with.

use jaxpr::{Atom, Jaxpr};
use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Kind, Tensor};

use super::Result;
use crate::{Context, RuleError};

/// An associative operation with an identity. On booleans `Max` is "or" and `Min` is "and".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Monoid {
    Add,
    Mul,
    Max,
    Min,
}

impl Monoid {
    /// The operation that a function of two scalars is, if it is one of these.
    pub(super) fn of(jaxpr: &Jaxpr) -> Option<Self> {
        let [eqn] = jaxpr.eqns.as_slice() else { return None };
        let ([a, b], [Atom::Var(x), Atom::Var(y)]) =
            (jaxpr.inputs.as_slice(), eqn.inputs.as_slice())
        else {
            return None;
        };
        let ([result], [Atom::Var(returned)]) = (eqn.outputs.as_slice(), jaxpr.outputs.as_slice())
        else {
            return None;
        };
        let operands = [[a, b], [b, a]].contains(&[x, y]);
        if !operands || result != returned {
            return None;
        }
        let logical = jaxpr.ty(*a).dtype == DType::Bool;
        match &*eqn.primitive {
            "add" | "add_any" => Some(Monoid::Add),
            "mul" => Some(Monoid::Mul),
            "max" => Some(Monoid::Max),
            "min" => Some(Monoid::Min),
            "or" if logical => Some(Monoid::Max),
            "and" if logical => Some(Monoid::Min),
            _ => None,
        }
    }

    /// `a` and `b` combined, element by element.
    #[track_caller]
    pub(super) fn combine(self, cx: &mut Context<'_>, a: ValueId, b: ValueId) -> Result<ValueId> {
        let op = match (self, cx.dtype(a) == DType::Bool) {
            (Monoid::Add, _) => "Add",
            (Monoid::Mul, _) => "Mul",
            (Monoid::Max, false) => "Max",
            (Monoid::Min, false) => "Min",
            (Monoid::Max, true) => "Or",
            (Monoid::Min, true) => "And",
        };
        Ok(cx.op(op, &[a, b], Attrs::new())?)
    }

    /// `value` reduced over `axes`, which stay as axes of size one.
    #[track_caller]
    pub(super) fn reduce(
        self,
        cx: &mut Context<'_>,
        value: ValueId,
        axes: &[i64],
    ) -> Result<ValueId> {
        if axes.is_empty() {
            return Ok(value);
        }
        let op = match self {
            Monoid::Add => "ReduceSum",
            Monoid::Mul => "ReduceProd",
            Monoid::Max => "ReduceMax",
            Monoid::Min => "ReduceMin",
        };
        let axes = cx.i64s(axes);
        Ok(cx.op(op, &[value, axes], attrs! { keepdims: true })?)
    }

    /// What changes nothing: the constant `e` for which `e` combined with any `x` is `x`.
    pub(super) fn identity(self, cx: &mut Context<'_>, dtype: DType) -> Result<ValueId> {
        let float = dtype.kind() == Kind::Float;
        let tensor = match (self, dtype.int_range()) {
            (Monoid::Add, _) => Tensor::scalar(dtype, 0.0),
            (Monoid::Mul, _) => Tensor::scalar(dtype, 1.0),
            (Monoid::Max, Some((low, _))) => Tensor::int_scalar(dtype, low),
            (Monoid::Min, Some((_, high))) => Tensor::int_scalar(dtype, high),
            (Monoid::Max, None) if float => Tensor::scalar(dtype, f64::NEG_INFINITY),
            (Monoid::Min, None) if float => Tensor::scalar(dtype, f64::INFINITY),
            (Monoid::Max, None) => Tensor::scalar(dtype, 0.0),
            (Monoid::Min, None) => Tensor::scalar(dtype, 1.0),
        };
        let none = || RuleError::unsupported(format!("the identity of {self:?} in {dtype}"));
        Ok(cx.constant(tensor.ok_or_else(none)?))
    }
}
