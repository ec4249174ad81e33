//! Arrays of numbers that may be complex, so that an algorithm is written once for both.
//!
//! Half-precision numbers are computed with in single precision: the algorithms need it, and
//! LAPACK, which JAX calls, has nothing narrower.

use std::panic::Location;

use onnx::{ValueId, attrs};
use tensor::{DType, Dim};

use super::Result;
use crate::formula::Num;
use crate::formula::number::number_at;
use crate::{Context, Parts, RuleError};

impl Parts {
    /// The numbers of an operand, to compute with.
    pub(crate) fn read(cx: &mut Context<'_>, operand: Parts) -> Result<Self> {
        let dtype = match cx.dtype(operand.re()) {
            DType::F16 | DType::BF16 => DType::F32,
            dtype => dtype,
        };
        operand.each(cx, |cx, part| Ok(cx.cast(part, dtype)?))
    }

    /// The numbers as the equation's result at `index`.
    pub(crate) fn write(self, cx: &mut Context<'_>, index: usize) -> Result<Parts> {
        let dtype = cx.out(index).dtype;
        self.each(cx, |cx, part| Ok(cx.cast(part, dtype)?))
    }

    /// Zeros, of the kind of `like`, as the equation's result at `index`.
    pub(crate) fn zeros(cx: &mut Context<'_>, index: usize, like: Self) -> Result<Parts> {
        let ty = cx.out(index);
        let zeros = Parts::Real(cx.full(ty.dtype, 0.0, &ty.shape)?);
        zeros.in_kind_of(cx, like)?.write(cx, index)
    }

    /// Every part changed by `f`.
    pub(crate) fn each(
        self,
        cx: &mut Context<'_>,
        mut f: impl FnMut(&mut Context<'_>, ValueId) -> Result<ValueId>,
    ) -> Result<Self> {
        let re = f(cx, self.re())?;
        let im = self.im().map(|im| f(cx, im)).transpose()?;
        Ok(Self::new(re, im))
    }

    /// The parts of two arrays of one kind, combined by `f`.
    pub(crate) fn zip_with(
        self,
        cx: &mut Context<'_>,
        other: Self,
        mut f: impl FnMut(&mut Context<'_>, ValueId, ValueId) -> Result<ValueId>,
    ) -> Result<Self> {
        let re = f(cx, self.re(), other.re())?;
        let im = match (self.im(), other.im()) {
            (None, None) => None,
            (Some(a), Some(b)) => Some(f(cx, a, b)?),
            _ => return Err(RuleError::Internal("a real and a complex array".to_owned())),
        };
        Ok(Self::new(re, im))
    }

    #[track_caller]
    pub(crate) fn add(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        number_at(cx, Location::caller(), [self, other], |[a, b]| a + b)
    }

    #[track_caller]
    pub(crate) fn sub(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        number_at(cx, Location::caller(), [self, other], |[a, b]| a - b)
    }

    #[track_caller]
    pub(crate) fn mul(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        number_at(cx, Location::caller(), [self, other], |[a, b]| a * b)
    }

    #[track_caller]
    pub(crate) fn matmul(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        number_at(cx, Location::caller(), [self, other], |[a, b]| a.bilinear(b, Num::matmul))
    }

    /// Divided by real operand.
    #[track_caller]
    pub(crate) fn over(self, cx: &mut Context<'_>, divisor: ValueId) -> Result<Self> {
        number_at(cx, Location::caller(), [self, Parts::Real(divisor)], |[a, b]| a / b.re)
    }

    /// Divided by finite numbers of any kind.
    #[track_caller]
    pub(crate) fn div(self, cx: &mut Context<'_>, divisor: Self) -> Result<Self> {
        number_at(cx, Location::caller(), [self, divisor], |[a, b]| a / b)
    }

    #[track_caller]
    pub(crate) fn conj(self, cx: &mut Context<'_>) -> Result<Self> {
        number_at(cx, Location::caller(), [self], |[a]| a.conj())
    }

    #[track_caller]
    pub(crate) fn neg(self, cx: &mut Context<'_>) -> Result<Self> {
        number_at(cx, Location::caller(), [self], |[a]| -a)
    }

    /// The squares of the moduli: real operand.
    #[track_caller]
    pub(crate) fn square(self, cx: &mut Context<'_>) -> Result<ValueId> {
        Ok(number_at(cx, Location::caller(), [self], |[a]| a.norm().into())?.re())
    }

    /// The sizes of the numbers, as LAPACK compares them: |re| + |im|.
    #[track_caller]
    pub(crate) fn size(self, cx: &mut Context<'_>) -> Result<ValueId> {
        Ok(number_at(cx, Location::caller(), [self], |[a]| a.size().into())?.re())
    }

    /// These numbers where `mask` holds, zero elsewhere.
    #[track_caller]
    pub(crate) fn keep(self, cx: &mut Context<'_>, mask: ValueId) -> Result<Self> {
        number_at(cx, Location::caller(), [self, Parts::Real(mask)], |[a, mask]| {
            a.each(|part| mask.re.select(part, 0.0))
        })
    }

    /// These numbers where `mask` holds, `other` ones elsewhere.
    #[track_caller]
    pub(crate) fn or(self, cx: &mut Context<'_>, mask: ValueId, other: Self) -> Result<Self> {
        let operands = [self, Parts::Real(mask), other];
        number_at(cx, Location::caller(), operands, |[a, mask, b]| a.or(mask.re, b))
    }

    /// The slices at `index`, a vector, along an axis.
    #[track_caller]
    pub(crate) fn take(self, cx: &mut Context<'_>, axis: i64, index: ValueId) -> Result<Self> {
        self.each(cx, |cx, part| Ok(cx.op("Gather", &[part, index], attrs! { axis: axis })?))
    }

    /// The elements at `index` along an axis. There is one index for each element of the result.
    #[track_caller]
    pub(crate) fn pick(self, cx: &mut Context<'_>, axis: i64, index: ValueId) -> Result<Self> {
        self.each(cx, |cx, part| {
            Ok(cx.op("GatherElements", &[part, index], attrs! { axis: axis })?)
        })
    }

    /// The rows (…, 1, n) at the places (…, 1, 1).
    #[track_caller]
    pub(crate) fn row(self, cx: &mut Context<'_>, at: ValueId) -> Result<Self> {
        let mut shape = cx.shape(self.re()).to_vec();
        let rank = shape.len();
        shape[rank - 2] = Dim::Known(1);
        let at = cx.expand(at, &shape)?;
        self.pick(cx, -2, at)
    }

    /// The matrices with rows and columns exchanged.
    #[track_caller]
    pub(crate) fn transpose(self, cx: &mut Context<'_>) -> Result<Self> {
        let rank = cx.rank(self.re());
        let mut perm: Vec<usize> = (0..rank).collect();
        perm.swap(rank - 1, rank - 2);
        self.each(cx, |cx, part| Ok(cx.transpose(part, &perm)?))
    }

    /// The conjugate transposes of the matrices.
    #[track_caller]
    pub(crate) fn adjoint(self, cx: &mut Context<'_>) -> Result<Self> {
        self.transpose(cx)?.conj(cx)
    }

    /// The sums along an axis, which stays.
    #[track_caller]
    pub(crate) fn sum(self, cx: &mut Context<'_>, axis: i64) -> Result<Self> {
        let axes = cx.i64s(&[axis]);
        self.each(cx, |cx, part| {
            Ok(cx.op("ReduceSum", &[part, axes], attrs! { keepdims: true })?)
        })
    }

    /// Elements from `start` to `end` of an axis.
    #[track_caller]
    pub(crate) fn slice(
        self,
        cx: &mut Context<'_>,
        axis: i64,
        start: &Dim,
        end: &Dim,
    ) -> Result<Self> {
        self.each(cx, |cx, part| {
            cx.slice(part, &[axis], std::slice::from_ref(start), std::slice::from_ref(end), &[1])
        })
    }

    /// Both arrays, one after the other along an axis; if one is complex, the result is.
    #[track_caller]
    pub(crate) fn concat(self, cx: &mut Context<'_>, axis: i64, other: Self) -> Result<Self> {
        let re = cx.op("Concat", &[self.re(), other.re()], attrs! { axis: axis })?;
        if self.im().is_none() && other.im().is_none() {
            return Ok(Parts::Real(re));
        }
        let (a, b) = (self.imaginary(cx)?, other.imaginary(cx)?);
        let im = cx.op("Concat", &[a, b], attrs! { axis: axis })?;
        Ok(Parts::Complex(re, im))
    }

    /// The imaginary parts: zeros for real numbers.
    #[track_caller]
    pub(crate) fn imaginary(self, cx: &mut Context<'_>) -> Result<ValueId> {
        if let Some(im) = self.im() {
            return Ok(im);
        }
        let shape = cx.shape(self.re()).to_vec();
        cx.full(cx.dtype(self.re()), 0.0, &shape)
    }

    /// These real numbers as numbers of the kind of `like`.
    pub(crate) fn in_kind_of(self, cx: &mut Context<'_>, like: Self) -> Result<Self> {
        match (self.im(), like.im()) {
            (None, Some(_)) => Ok(Parts::Complex(self.re(), self.imaginary(cx)?)),
            _ => Ok(self),
        }
    }
}
