//! The associative operations of JAX's reductions, scans and scatters.

use jaxpr::{Atom, Jaxpr, JaxprId};
use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, DTypeKind, Dim, Tensor};

use crate::rules::Equation;
use crate::rules::complex;
use crate::{Context, Parts, Result, RuleError};

/// An associative operation with an identity. For booleans, `Max` is "or" and `Min` is "and".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Monoid {
    Add,
    Mul,
    Max,
    Min,
}

/// Returns `true` if an equation reduces with another function, which JAX has to apply.
pub(crate) fn reduces_otherwise(eqn: &Equation<'_>) -> bool {
    let function = eqn.params.get::<JaxprId>("jaxpr");
    function.map_or(true, |id| Monoid::of(eqn.program.jaxpr(id)).is_none())
}

impl Monoid {
    /// Returns the operation of a function of two scalars, if it is one of these.
    pub(crate) fn of(jaxpr: &Jaxpr) -> Option<Self> {
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

    /// Combines `a` and `b` elementwise. Both are real, or both are complex.
    #[track_caller]
    pub(crate) fn combine(self, cx: &mut Context<'_>, a: Parts, b: Parts) -> Result<Parts> {
        if a.im().is_some() {
            return match self {
                Monoid::Add => a.add(cx, b),
                Monoid::Mul => a.mul(cx, b),
                Monoid::Max => complex::larger(cx, a, b),
                Monoid::Min => complex::smaller(cx, a, b),
            };
        }
        let op = match (self, cx.dtype(a.re()) == DType::Bool) {
            (Monoid::Add, _) => "Add",
            (Monoid::Mul, _) => "Mul",
            (Monoid::Max, false) => "Max",
            (Monoid::Min, false) => "Min",
            (Monoid::Max, true) => "Or",
            (Monoid::Min, true) => "And",
        };
        Ok(Parts::Real(cx.op(op, &[a.re(), b.re()], Attrs::new())?))
    }

    /// Reduces `value` over `axes`, which are kept with size one.
    #[track_caller]
    pub(crate) fn reduce(
        self,
        cx: &mut Context<'_>,
        value: Parts,
        axes: &[usize],
    ) -> Result<Parts> {
        if axes.is_empty() {
            return Ok(value);
        }
        let mut shape = cx.shape(value.re()).to_vec();
        if axes.iter().any(|&axis| shape[axis] == Dim::Known(0)) {
            axes.iter().for_each(|&axis| shape[axis] = Dim::Known(1));
            let identity = self.identity_like(cx, value)?;
            return identity.each(cx, |cx, part| cx.expand(part, &shape));
        }
        let op = match self {
            Monoid::Add => "ReduceSum",
            Monoid::Mul if value.im().is_some() => return complex::product(cx, value, axes),
            Monoid::Mul => "ReduceProd",
            Monoid::Max | Monoid::Min if value.im().is_some() => {
                return complex::extremum(cx, value, axes, self == Monoid::Max);
            }
            Monoid::Max => "ReduceMax",
            Monoid::Min => "ReduceMin",
        };
        let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        let axes = cx.i64s(&axes);
        value.each(cx, |cx, part| cx.op(op, &[part, axes], attrs! { keepdims: true }))
    }

    /// Returns the identity: the constant `e` for which `e` combined with any `x` is `x`.
    pub(crate) fn identity(self, cx: &mut Context<'_>, dtype: DType) -> Result<ValueId> {
        let float = dtype.kind() == DTypeKind::Float;
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
        let none = || RuleError::unsupported(format!("{self:?} has no identity in {dtype}"));
        Ok(cx.constant(tensor.ok_or_else(none)?))
    }

    /// Returns the identity, complex if `like` is.
    pub(crate) fn identity_like(self, cx: &mut Context<'_>, like: Parts) -> Result<Parts> {
        let dtype = cx.dtype(like.re());
        let im = like.im().map(|_| cx.scalar(dtype, 0.0)).transpose()?;
        Ok(Parts::new(self.identity(cx, dtype)?, im))
    }
}
