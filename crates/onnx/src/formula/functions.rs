//! Functions of numbers, comparisons, and selection.

use tensor::DType;

use super::{Num, Term};
use crate::{Attrs, attrs};

macro_rules! functions {
    ($($name:ident($($other:ident)?) => $op:literal;)*) => {
        $(#[doc = concat!("Applies `", $op, "` elementwise.")]
        #[track_caller]
        pub fn $name(self $(, $other: impl Into<Term<'f>>)?) -> Self {
            self.emit($op, &[self.into() $(, $other.into())?], Attrs::new())
        })*
    };
}

impl<'f> Num<'f> {
    functions! {
        abs() => "Abs";
        asinh() => "Asinh";
        at_least(other) => "GreaterOrEqual";
        at_most(other) => "LessOrEqual";
        atan() => "Atan";
        cos() => "Cos";
        cosh() => "Cosh";
        equals(other) => "Equal";
        exp() => "Exp";
        floor() => "Floor";
        greater(other) => "Greater";
        is_inf() => "IsInf";
        is_nan() => "IsNaN";
        less(other) => "Less";
        ln() => "Log";
        max(other) => "Max";
        min(other) => "Min";
        pow(other) => "Pow";
        reciprocal() => "Reciprocal";
        round() => "Round";
        sigmoid() => "Sigmoid";
        sign() => "Sign";
        sin() => "Sin";
        sinh() => "Sinh";
        sqrt() => "Sqrt";
        tanh() => "Tanh";
    }

    /// Returns the matrix product.
    #[track_caller]
    pub fn matmul(self, other: Self) -> Self {
        self.emit("MatMul", &[self.into(), other.into()], Attrs::new())
    }

    /// Returns `yes` where this condition holds, and `no` elsewhere. One of them must be a tensor.
    ///
    /// A value that may be -0 should be `no`, because not every runtime preserves the sign of a
    /// zero in `yes`. Negating the condition does not help, because optimisers swap both back.
    #[track_caller]
    pub fn select(self, yes: impl Into<Term<'f>>, no: impl Into<Term<'f>>) -> Self {
        self.emit("Where", &[self.into(), yes.into(), no.into()], Attrs::new())
    }

    /// Clamps the number to the interval from `low` to `high`.
    #[track_caller]
    pub fn clip(self, low: f64, high: f64) -> Self {
        self.emit("Clip", &[self.into(), low.into(), high.into()], Attrs::new())
    }

    /// Returns the condition that this one holds for at least one element. It is false for an empty
    /// tensor.
    #[track_caller]
    pub fn any(self) -> Self {
        let count = self.cast(DType::F32);
        let count = count.emit("ReduceSum", &[count.into()], attrs! { keepdims: 0 });
        count.greater(0.0)
    }

    /// Returns a tensor of the same shape, filled with a number.
    #[track_caller]
    pub fn filled(self, number: f64) -> Self {
        let shape = self.emit("Shape", &[self.into()], Attrs::new());
        let operands = [self.constant(number).into(), shape.into()];
        self.emit("Expand", &operands, Attrs::new())
    }

    /// Returns the square.
    #[track_caller]
    pub fn squared(self) -> Self {
        self * self
    }

    /// Returns the polynomial with these coefficients, highest power first.
    #[track_caller]
    pub fn polynomial(self, coefficients: &[f64]) -> Self {
        let mut sum: Option<Num<'f>> = None;
        let mut first = 0.0;
        for (i, coefficient) in coefficients.iter().enumerate() {
            match sum {
                None if i == 0 => first = *coefficient,
                None => sum = Some(self * first + *coefficient),
                Some(so_far) => sum = Some(so_far * self + *coefficient),
            }
        }
        sum.unwrap_or_else(|| self.constant(first))
    }

    /// Returns the distance from 1 to the next number of this type.
    pub fn epsilon(self) -> f64 {
        if self.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
    }

    /// Returns `ln(1 + x)`.
    ///
    /// Adding one to a small number rounds it, but the rounded number is known: it is the sum minus
    /// one. The function is nearly linear there, so scaling the result by the ratio corrects it.
    #[track_caller]
    pub fn ln_1p(self) -> Self {
        let sum = self + 1.0;
        let plain = sum.ln();
        let rounded = sum - 1.0;
        let repaired = plain * (self / rounded);
        let small = rounded.abs().greater(0.0).select(repaired, self);
        self.abs().at_least(0.5).select(plain, small)
    }

    /// Returns `exp(x) - 1`, corrected where it is nearly linear, as in [`Num::ln_1p`].
    #[track_caller]
    pub fn exp_m1(self) -> Self {
        let exp = self.exp();
        let plain = exp - 1.0;
        let repaired = plain * self / exp.ln();
        let small = plain.abs().greater(0.0).select(repaired, self);
        self.abs().at_least(0.5).select(plain, small)
    }
}
