//! Classifies the arithmetic of operators, to decide which element types give the same results.

use tensor::{DType, DTypeKind};

/// The operations that an operator applies to elements.
///
/// Floats can be computed in a wider type and rounded once, except for [`Algebra::Reads`] and
/// [`Algebra::Fixed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algebra {
    /// Elements are copied.
    Movement,
    /// Sums, products and bitwise operations, which wrap around: the low bits of a result depend
    /// only on the low bits of the operands.
    Ring,
    /// Elements are compared.
    Order,
    /// Integers are divided, shifted to the right, or raised to a power.
    Integer,
    /// Functions of real numbers.
    Real,
    /// Operands are read by value, and the results have a type of their own.
    Reads,
    /// No other type is known to give the same results.
    Fixed,
}

use Algebra::{Fixed, Integer, Movement, Order, Reads, Real, Ring};

impl Algebra {
    /// Returns `true` if casting to `to`, computing there and casting back gives the results of
    /// `from`.
    pub fn carries(self, from: DType, to: DType) -> bool {
        match (self, from.kind()) {
            (Reads | Fixed, _)
            | (Real | Integer | Ring, DTypeKind::Bool)
            | (_, DTypeKind::Complex) => false,
            (_, DTypeKind::Float) => holds(from, to),
            (Movement | Order, DTypeKind::Bool) => holds(from, to),
            // Casts between integers of the same width preserve the bits.
            (Movement, _) => (to.is_integer() && to.bits() >= from.bits()) || holds(from, to),
            (Ring, _) => to.is_integer() && to.bits() >= from.bits(),
            (Order, _) => holds(from, to),
            (Integer, _) => to.is_integer() && holds(from, to),
            (Real, _) => false,
        }
    }
}

/// Returns `true` if `to` is another type that can represent every value of `from`. Floats below 32
/// bits and integers below 8 bits are excluded, because nothing is computed in them.
pub fn holds(from: DType, to: DType) -> bool {
    let mantissa = match to {
        DType::F32 => 24,
        DType::F64 => 53,
        _ => 0,
    };
    match (from.kind(), to.kind()) {
        (DTypeKind::Complex, _) | (_, DTypeKind::Bool | DTypeKind::Complex) => false,
        (DTypeKind::Float, DTypeKind::Float) => mantissa > 0 && to.bits() > from.bits(),
        (DTypeKind::Float, _) => false,
        (DTypeKind::Bool, DTypeKind::Float) => mantissa > 0,
        (DTypeKind::Bool, _) => to.bits() >= 8,
        (_, DTypeKind::Float) => from.bits() <= mantissa,
        _ => match (from.int_range(), to.int_range()) {
            (Some((low, high)), Some((least, most))) => {
                to.bits() >= 8 && from != to && least <= low && high <= most
            }
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::DType::{
        BF16, Bool, F8E5M2, F16, F32, F64, I4, I8, I16, I32, I64, U2, U4, U8, U16, U32, U64,
    };

    #[test]
    fn floats_widen_and_never_narrow() {
        for algebra in [Movement, Ring, Order, Integer, Real] {
            for small in [F8E5M2, F16, BF16] {
                assert!(algebra.carries(small, F32), "{algebra:?} {small}");
                assert!(!algebra.carries(F32, small), "{algebra:?} {small}");
            }
            assert!(algebra.carries(F32, F64));
            assert!(!algebra.carries(F64, F32));
            assert!(!algebra.carries(F16, BF16), "not a type to compute in");
            assert!(!algebra.carries(F32, I64));
        }
    }

    #[test]
    fn wrap_around_needs_width_only() {
        assert!(Ring.carries(U64, I64));
        assert!(Ring.carries(I8, U32));
        assert!(Ring.carries(I4, I8));
        assert!(!Ring.carries(I64, I32));
        assert!(!Ring.carries(I8, F64), "a product may not fit");
        assert!(!Ring.carries(Bool, U8), "1 + 1 is not a boolean");
    }

    #[test]
    fn comparing_needs_the_values() {
        assert!(!Order.carries(U64, I64));
        assert!(!Order.carries(I8, U32));
        assert!(Order.carries(U32, I64));
        assert!(Order.carries(I32, F64));
        assert!(!Order.carries(I32, F32));
        assert!(Order.carries(Bool, U8));
    }

    #[test]
    fn a_type_holds_the_values_of_others_that_are_computed_in() {
        for (from, to, expected) in [
            (U8, U16, true),
            (U4, I8, true),
            (I8, I16, true),
            (I8, I8, false),
            (U8, I8, false),
            (I8, U16, false),
            (U2, U4, false),
            (I16, F32, true),
            (I32, F32, false),
            (I8, F16, false),
            (Bool, F32, true),
            (Bool, F16, false),
            (Bool, I4, false),
            (F8E5M2, F16, false),
            (F16, F32, true),
            (F32, F32, false),
        ] {
            assert_eq!(holds(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn moving_needs_the_bits() {
        assert!(Movement.carries(U64, I64));
        assert!(Movement.carries(I64, U64));
        assert!(Movement.carries(Bool, U8));
        assert!(Movement.carries(I16, F32));
        assert!(!Movement.carries(I64, F64));
    }

    #[test]
    fn dividing_needs_the_values_as_integers() {
        assert!(Integer.carries(I8, I32));
        assert!(Integer.carries(U8, I16));
        assert!(!Integer.carries(U32, I32));
        assert!(!Integer.carries(I8, F32));
        assert!(!Real.carries(I8, F32));
        assert!(!Reads.carries(BF16, F32), "the type of the results is the point");
    }
}
