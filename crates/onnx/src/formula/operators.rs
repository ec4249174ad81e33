//! Rust's operators: `+`, `-`, `*`, `/` on numbers; `&`, `|`, `^` on conditions and on words of
//! bits; `!` on conditions; `<<`, `>>` on words.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Shl, Shr, Sub};

use tensor::DType;

use super::{Num, Term};
use crate::{Attrs, attrs};

macro_rules! binary {
    ($($trait:ident, $method:ident => $op:literal;)*) => {
        $(impl<'f, T: Into<Term<'f>>> $trait<T> for Num<'f> {
            type Output = Num<'f>;

            #[track_caller]
            fn $method(self, other: T) -> Num<'f> {
                self.emit($op, &[self.into(), other.into()], Attrs::new())
            }
        }

        impl<'f> $trait<Num<'f>> for f64 {
            type Output = Num<'f>;

            #[track_caller]
            fn $method(self, other: Num<'f>) -> Num<'f> {
                other.emit($op, &[self.into(), other.into()], Attrs::new())
            }
        })*
    };
}

binary! {
    Add, add => "Add";
    Sub, sub => "Sub";
    Mul, mul => "Mul";
    Div, div => "Div";
}

/// Implements a Rust operator by the first ONNX operator for conditions, and by the second for
/// words of bits.
macro_rules! logical {
    ($($trait:ident, $method:ident => $logical:literal, $bitwise:literal;)*) => {
        $(impl<'f, T: Into<Term<'f>>> $trait<T> for Num<'f> {
            type Output = Num<'f>;

            #[track_caller]
            fn $method(self, other: T) -> Num<'f> {
                let op = if self.dtype() == DType::Bool { $logical } else { $bitwise };
                self.emit(op, &[self.into(), other.into()], Attrs::new())
            }
        })*
    };
}

logical! {
    BitAnd, bitand => "And", "BitwiseAnd";
    BitOr, bitor => "Or", "BitwiseOr";
    BitXor, bitxor => "Xor", "BitwiseXor";
}

macro_rules! shift {
    ($($trait:ident, $method:ident => $direction:literal;)*) => {
        $(impl<'f, T: Into<Term<'f>>> $trait<T> for Num<'f> {
            type Output = Num<'f>;

            #[track_caller]
            fn $method(self, amount: T) -> Num<'f> {
                let operands = [self.into(), amount.into()];
                let attrs = attrs! { direction: $direction };
                self.emit("BitShift", &operands, attrs)
            }
        })*
    };
}

// The amount must be less than the number of bits. ONNX does not define other shifts.
shift! {
    Shl, shl => "LEFT";
    Shr, shr => "RIGHT";
}

impl<'f> Neg for Num<'f> {
    type Output = Num<'f>;

    #[track_caller]
    fn neg(self) -> Num<'f> {
        self.emit("Neg", &[self.into()], Attrs::new())
    }
}

impl<'f> Not for Num<'f> {
    type Output = Num<'f>;

    #[track_caller]
    fn not(self) -> Num<'f> {
        self.emit("Not", &[self.into()], Attrs::new())
    }
}
