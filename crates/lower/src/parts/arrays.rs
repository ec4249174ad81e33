//! Arrays of real or complex numbers, so that an algorithm is written once for both.
//!
//! Half-precision numbers are computed in single precision: the algorithms need it, and LAPACK,
//! which JAX calls, has nothing narrower.

use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, Dim};

use crate::formula::Num;
use crate::formula::number::number;
use crate::{Context, Parts, Result, RuleError};

impl Parts {
    /// Converts an operand to the precision of computations.
    pub(crate) fn read(cx: &mut Context<'_>, operand: Parts) -> Result<Self> {
        let dtype = match cx.dtype(operand.re()) {
            DType::F16 | DType::BF16 => DType::F32,
            dtype => dtype,
        };
        operand.each(cx, |cx, part| cx.cast(part, dtype))
    }

    /// Converts the numbers to the type of the equation's result at `index`.
    pub(crate) fn write(self, cx: &mut Context<'_>, index: usize) -> Result<Parts> {
        let dtype = cx.out(index).dtype;
        self.each(cx, |cx, part| cx.cast(part, dtype))
    }

    /// Returns zeros as the equation's result at `index`, complex if `like` is.
    pub(crate) fn zeros(cx: &mut Context<'_>, index: usize, like: Self) -> Result<Parts> {
        let ty = cx.out(index);
        let zeros = Parts::Real(cx.full(ty.dtype, 0.0, &ty.shape)?);
        zeros.in_kind_of(cx, like)?.write(cx, index)
    }

    /// Applies `f` to every part.
    pub(crate) fn each<E: Into<RuleError>>(
        self,
        cx: &mut Context<'_>,
        mut f: impl FnMut(&mut Context<'_>, ValueId) -> Result<ValueId, E>,
    ) -> Result<Self> {
        let mut f = |part| f(cx, part).map_err(Into::into);
        Ok(Self::new(f(self.re())?, self.im().map(f).transpose()?))
    }

    /// Combines the parts of two arrays with `f`. Both are real, or both are complex.
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
        number(cx, [self, other], |[a, b]| a + b)
    }

    #[track_caller]
    pub(crate) fn sub(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        number(cx, [self, other], |[a, b]| a - b)
    }

    #[track_caller]
    pub(crate) fn mul(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        number(cx, [self, other], |[a, b]| a * b)
    }

    #[track_caller]
    pub(crate) fn matmul(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        number(cx, [self, other], |[a, b]| a.bilinear(b, Num::matmul))
    }

    /// Divides by a real operand.
    #[track_caller]
    pub(crate) fn over(self, cx: &mut Context<'_>, divisor: ValueId) -> Result<Self> {
        number(cx, [self, Parts::Real(divisor)], |[a, b]| a / b.re)
    }

    /// Divides by finite numbers, real or complex.
    #[track_caller]
    pub(crate) fn div(self, cx: &mut Context<'_>, divisor: Self) -> Result<Self> {
        number(cx, [self, divisor], |[a, b]| a / b)
    }

    #[track_caller]
    pub(crate) fn conj(self, cx: &mut Context<'_>) -> Result<Self> {
        number(cx, [self], |[a]| a.conj())
    }

    #[track_caller]
    pub(crate) fn neg(self, cx: &mut Context<'_>) -> Result<Self> {
        number(cx, [self], |[a]| -a)
    }

    /// Returns the squares of the moduli, which are real.
    #[track_caller]
    pub(crate) fn squared_modulus(self, cx: &mut Context<'_>) -> Result<ValueId> {
        Ok(number(cx, [self], |[a]| a.norm().into())?.re())
    }

    /// Returns the moduli, which are real.
    #[track_caller]
    pub(crate) fn modulus(self, cx: &mut Context<'_>) -> Result<ValueId> {
        if self.im().is_none() {
            return self.size(cx);
        }
        let square = self.squared_modulus(cx)?;
        Ok(cx.op("Sqrt", &[square], Attrs::new())?)
    }

    /// Returns the magnitudes that LAPACK compares numbers by: |re| + |im|.
    #[track_caller]
    pub(crate) fn size(self, cx: &mut Context<'_>) -> Result<ValueId> {
        Ok(number(cx, [self], |[a]| a.size().into())?.re())
    }

    /// Keeps these numbers where `mask` holds, and replaces them with zero elsewhere.
    #[track_caller]
    pub(crate) fn keep(self, cx: &mut Context<'_>, mask: ValueId) -> Result<Self> {
        number(cx, [self, Parts::Real(mask)], |[a, mask]| a.each(|part| mask.re.select(part, 0.0)))
    }

    /// Selects these numbers where `mask` holds, and those of `other` elsewhere.
    #[track_caller]
    pub(crate) fn or(self, cx: &mut Context<'_>, mask: ValueId, other: Self) -> Result<Self> {
        let operands = [self, Parts::Real(mask), other];
        number(cx, operands, |[a, mask, b]| a.or(mask.re, b))
    }

    /// Gathers the slices at `index`, a vector, along an axis.
    #[track_caller]
    pub(crate) fn take(self, cx: &mut Context<'_>, axis: i64, index: ValueId) -> Result<Self> {
        self.each(cx, |cx, part| cx.op("Gather", &[part, index], attrs! { axis: axis }))
    }

    /// Gathers the elements at `index` along an axis, with one index for each element of the
    /// result.
    #[track_caller]
    pub(crate) fn pick(self, cx: &mut Context<'_>, axis: i64, index: ValueId) -> Result<Self> {
        self.each(cx, |cx, part| cx.op("GatherElements", &[part, index], attrs! { axis: axis }))
    }

    /// Gathers the rows (…, 1, n) at the positions (…, 1, 1).
    #[track_caller]
    pub(crate) fn row(self, cx: &mut Context<'_>, at: ValueId) -> Result<Self> {
        let mut shape = cx.shape(self.re()).to_vec();
        let rank = shape.len();
        shape[rank - 2] = Dim::Known(1);
        let at = cx.expand(at, &shape)?;
        self.pick(cx, -2, at)
    }

    /// Transposes the matrices.
    #[track_caller]
    pub(crate) fn transpose(self, cx: &mut Context<'_>) -> Result<Self> {
        let rank = cx.rank(self.re());
        let mut perm: Vec<usize> = (0..rank).collect();
        perm.swap(rank - 1, rank - 2);
        self.each(cx, |cx, part| cx.transpose(part, &perm))
    }

    /// Returns the conjugate transposes of the matrices.
    #[track_caller]
    pub(crate) fn adjoint(self, cx: &mut Context<'_>) -> Result<Self> {
        self.transpose(cx)?.conj(cx)
    }

    /// Sums along an axis, which is kept with size one.
    #[track_caller]
    pub(crate) fn sum(self, cx: &mut Context<'_>, axis: i64) -> Result<Self> {
        let axes = cx.i64s(&[axis]);
        self.each(cx, |cx, part| cx.op("ReduceSum", &[part, axes], attrs! { keepdims: true }))
    }

    /// Slices an axis from `start` to `end`.
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

    /// Concatenates both arrays along an axis. The result is complex if one of them is.
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

    /// Returns the imaginary parts, which are zeros for real numbers.
    #[track_caller]
    pub(crate) fn imaginary(self, cx: &mut Context<'_>) -> Result<ValueId> {
        if let Some(im) = self.im() {
            return Ok(im);
        }
        let shape = cx.shape(self.re()).to_vec();
        cx.full(cx.dtype(self.re()), 0.0, &shape)
    }

    /// Converts real numbers to complex ones if `like` is complex.
    pub(crate) fn in_kind_of(self, cx: &mut Context<'_>, like: Self) -> Result<Self> {
        match (self.im(), like.im()) {
            (None, Some(_)) => Ok(Parts::Complex(self.re(), self.imaginary(cx)?)),
            _ => Ok(self),
        }
    }
}
