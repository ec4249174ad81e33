//! Functions of numbers, comparisons, and the choice between numbers.

use std::panic::Location;

use onnx::Attrs;

use super::{Num, Term};

macro_rules! unary {
    ($($name:ident => $op:literal;)*) => {
        $(#[track_caller]
        pub(crate) fn $name(self) -> Self {
            self.emit($op, &[self.into()], Attrs::new(), Location::caller())
        })*
    };
}

macro_rules! binary {
    ($($name:ident => $op:literal;)*) => {
        $(#[track_caller]
        pub(crate) fn $name(self, other: impl Into<Term<'f>>) -> Self {
            self.emit($op, &[self.into(), other.into()], Attrs::new(), Location::caller())
        })*
    };
}

impl<'f> Num<'f> {
    unary! {
        abs => "Abs";
        asinh => "Asinh";
        atan => "Atan";
        cos => "Cos";
        cosh => "Cosh";
        exp => "Exp";
        floor => "Floor";
        is_inf => "IsInf";
        ln => "Log";
        sign => "Sign";
        sin => "Sin";
        sinh => "Sinh";
        sqrt => "Sqrt";
    }

    binary! {
        at_least => "GreaterOrEqual";
        at_most => "LessOrEqual";
        equals => "Equal";
        greater => "Greater";
        less => "Less";
        max => "Max";
        min => "Min";
        pow => "Pow";
    }

    /// `yes` where this condition holds, `no` elsewhere. One of them must be a tensor.
    #[track_caller]
    pub(crate) fn select(self, yes: impl Into<Term<'f>>, no: impl Into<Term<'f>>) -> Self {
        self.emit("Where", &[self.into(), yes.into(), no.into()], Attrs::new(), Location::caller())
    }

    /// `ln(1 + x)`.
    ///
    /// Adding one to a small number rounds it. What was rounded is known, though: the sum minus one.
    /// The function is nearly linear there, so that scaling by how much it is off repairs the result.
    #[track_caller]
    pub(crate) fn ln_1p(self) -> Self {
        let sum = self + 1.0;
        let plain = sum.ln();
        let repaired = plain * (self / (sum - 1.0));
        let small = sum.equals(1.0).select(self, repaired);
        self.abs().less(0.5).select(small, plain)
    }

    /// `exp(x) - 1`, repaired where it is nearly linear as in [`Num::ln_1p`].
    #[track_caller]
    pub(crate) fn exp_m1(self) -> Self {
        let exp = self.exp();
        let plain = exp - 1.0;
        let repaired = plain * self / exp.ln();
        let small = exp.equals(1.0).select(self, repaired);
        self.abs().less(0.5).select(small, plain)
    }
}
