//! `+`, `-`, `*`, `/` on numbers; `&`, `|`, `!` on conditions.

use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};
use std::panic::Location;

use crate::Attrs;

use super::{Num, Term};

macro_rules! binary {
    ($($trait:ident, $method:ident => $op:literal;)*) => {
        $(impl<'f, T: Into<Term<'f>>> $trait<T> for Num<'f> {
            type Output = Num<'f>;

            #[track_caller]
            fn $method(self, other: T) -> Num<'f> {
                self.emit($op, &[self.into(), other.into()], Attrs::new(), Location::caller())
            }
        }

        impl<'f> $trait<Num<'f>> for f64 {
            type Output = Num<'f>;

            #[track_caller]
            fn $method(self, other: Num<'f>) -> Num<'f> {
                other.emit($op, &[self.into(), other.into()], Attrs::new(), Location::caller())
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

macro_rules! logical {
    ($($trait:ident, $method:ident => $op:literal;)*) => {
        $(impl<'f> $trait for Num<'f> {
            type Output = Num<'f>;

            #[track_caller]
            fn $method(self, other: Num<'f>) -> Num<'f> {
                self.emit($op, &[self.into(), other.into()], Attrs::new(), Location::caller())
            }
        })*
    };
}

logical! {
    BitAnd, bitand => "And";
    BitOr, bitor => "Or";
}

impl<'f> Neg for Num<'f> {
    type Output = Num<'f>;

    #[track_caller]
    fn neg(self) -> Num<'f> {
        self.emit("Neg", &[self.into()], Attrs::new(), Location::caller())
    }
}

impl<'f> Not for Num<'f> {
    type Output = Num<'f>;

    #[track_caller]
    fn not(self) -> Num<'f> {
        self.emit("Not", &[self.into()], Attrs::new(), Location::caller())
    }
}
