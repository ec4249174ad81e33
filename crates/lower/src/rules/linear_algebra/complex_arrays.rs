//! Arrays of numbers that may be complex, so that an algorithm is written once for both.
//!
//! Half-precision numbers are computed with in single precision: the algorithms need it, and
//! LAPACK, which JAX calls, has nothing narrower.

use std::panic::Location;

use onnx::{Attrs, Op, ValueId, attrs};
use tensor::{DType, Dim};

use crate::rules::Result;
use crate::{Context, Parts, RuleError};

/// An array of numbers: a complex one is two real arrays of one shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries {
    pub(crate) re: ValueId,
    pub(crate) im: Option<ValueId>,
}

impl From<Parts> for Entries {
    fn from(parts: Parts) -> Self {
        match parts {
            Parts::Real(re) => Self { re, im: None },
            Parts::Complex(re, im) => Self { re, im: Some(im) },
        }
    }
}

impl From<Entries> for Parts {
    fn from(numbers: Entries) -> Self {
        match numbers.im {
            None => Parts::Real(numbers.re),
            Some(im) => Parts::Complex(numbers.re, im),
        }
    }
}

impl Entries {
    /// The numbers of an operand, to compute with.
    pub(crate) fn read(cx: &mut Context<'_>, operand: Parts) -> Result<Self> {
        let numbers = Self::from(operand);
        let dtype = match cx.dtype(numbers.re) {
            DType::F16 | DType::BF16 => DType::F32,
            dtype => dtype,
        };
        numbers.each(cx, |cx, part| Ok(cx.cast(part, dtype)?))
    }

    /// The numbers as the equation's result at `index`.
    pub(crate) fn write(self, cx: &mut Context<'_>, index: usize) -> Result<Parts> {
        let dtype = cx.out(index).dtype;
        Ok(self.each(cx, |cx, part| Ok(cx.cast(part, dtype)?))?.into())
    }

    /// Zeros, of the kind of `like`, as the equation's result at `index`.
    pub(crate) fn zeros(cx: &mut Context<'_>, index: usize, like: Self) -> Result<Parts> {
        let ty = cx.out(index);
        let zeros = Self::real(cx.full(ty.dtype, 0.0, &ty.shape)?);
        zeros.in_kind_of(cx, like)?.write(cx, index)
    }

    /// An array without imaginary parts. It need not hold numbers: loops carry masks, too.
    pub(crate) fn real(re: ValueId) -> Self {
        Self { re, im: None }
    }

    pub(crate) fn parts(self) -> impl Iterator<Item = ValueId> {
        std::iter::once(self.re).chain(self.im)
    }

    /// Every part changed by `f`.
    pub(crate) fn each(
        self,
        cx: &mut Context<'_>,
        mut f: impl FnMut(&mut Context<'_>, ValueId) -> Result<ValueId>,
    ) -> Result<Self> {
        let re = f(cx, self.re)?;
        let im = self.im.map(|im| f(cx, im)).transpose()?;
        Ok(Self { re, im })
    }

    /// The parts of two arrays of one kind, combined by `f`.
    pub(crate) fn zip_with(
        self,
        cx: &mut Context<'_>,
        other: Self,
        mut f: impl FnMut(&mut Context<'_>, ValueId, ValueId) -> Result<ValueId>,
    ) -> Result<Self> {
        let re = f(cx, self.re, other.re)?;
        let im = match (self.im, other.im) {
            (None, None) => None,
            (Some(a), Some(b)) => Some(f(cx, a, b)?),
            _ => return Err(RuleError::Internal("a real and a complex array".to_owned())),
        };
        Ok(Self { re, im })
    }

    /// The parts of two arrays of one kind, combined by an operator.
    #[track_caller]
    fn zip(self, cx: &mut Context<'_>, op: &'static str, other: Self) -> Result<Self> {
        let at = Location::caller();
        self.zip_with(cx, other, |cx, a, b| {
            let results = cx.emit(Op::onnx(op), vec![Some(a), Some(b)], Attrs::new(), 1, at)?;
            Ok(results[0])
        })
    }

    #[track_caller]
    pub(crate) fn add(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        self.zip(cx, "Add", other)
    }

    #[track_caller]
    pub(crate) fn sub(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        self.zip(cx, "Sub", other)
    }

    #[track_caller]
    pub(crate) fn mul(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        self.product(cx, "Mul", other)
    }

    #[track_caller]
    pub(crate) fn matmul(self, cx: &mut Context<'_>, other: Self) -> Result<Self> {
        self.product(cx, "MatMul", other)
    }

    /// A bilinear operation; either side may be real.
    #[track_caller]
    fn product(self, cx: &mut Context<'_>, op: &'static str, other: Self) -> Result<Self> {
        let re = cx.op(op, &[self.re, other.re], Attrs::new())?;
        let im = match (self.im, other.im) {
            (None, None) => return Ok(Self::real(re)),
            (Some(a), None) => cx.op(op, &[a, other.re], Attrs::new())?,
            (None, Some(b)) => cx.op(op, &[self.re, b], Attrs::new())?,
            (Some(a), Some(b)) => {
                let both = cx.op(op, &[a, b], Attrs::new())?;
                let re = cx.op("Sub", &[re, both], Attrs::new())?;
                let left = cx.op(op, &[self.re, b], Attrs::new())?;
                let right = cx.op(op, &[a, other.re], Attrs::new())?;
                let im = cx.op("Add", &[left, right], Attrs::new())?;
                return Ok(Self { re, im: Some(im) });
            }
        };
        Ok(Self { re, im: Some(im) })
    }

    /// Divided by real numbers.
    #[track_caller]
    pub(crate) fn over(self, cx: &mut Context<'_>, divisor: ValueId) -> Result<Self> {
        self.each(cx, |cx, part| Ok(cx.op("Div", &[part, divisor], Attrs::new())?))
    }

    /// Divided by numbers of any kind.
    #[track_caller]
    pub(crate) fn div(self, cx: &mut Context<'_>, divisor: Self) -> Result<Self> {
        let Some(im) = divisor.im else { return self.over(cx, divisor.re) };
        // Dividing by the larger part first keeps the square of the modulus from overflowing.
        let (a, b) =
            (cx.op("Abs", &[divisor.re], Attrs::new())?, cx.op("Abs", &[im], Attrs::new())?);
        let larger = cx.op("Max", &[a, b], Attrs::new())?;
        let unit = divisor.over(cx, larger)?;
        let square = unit.square(cx)?;
        let inverse = unit.conj(cx)?.over(cx, square)?;
        self.mul(cx, inverse)?.over(cx, larger)
    }

    #[track_caller]
    pub(crate) fn conj(self, cx: &mut Context<'_>) -> Result<Self> {
        let im = self.im.map(|im| cx.op("Neg", &[im], Attrs::new())).transpose()?;
        Ok(Self { re: self.re, im })
    }

    #[track_caller]
    pub(crate) fn neg(self, cx: &mut Context<'_>) -> Result<Self> {
        self.each(cx, |cx, part| Ok(cx.op("Neg", &[part], Attrs::new())?))
    }

    /// The squares of the moduli: real numbers.
    #[track_caller]
    pub(crate) fn square(self, cx: &mut Context<'_>) -> Result<ValueId> {
        let re = cx.op("Mul", &[self.re, self.re], Attrs::new())?;
        let Some(im) = self.im else { return Ok(re) };
        let im = cx.op("Mul", &[im, im], Attrs::new())?;
        Ok(cx.op("Add", &[re, im], Attrs::new())?)
    }

    /// The sizes of the numbers, as LAPACK compares them: |re| + |im|.
    #[track_caller]
    pub(crate) fn size(self, cx: &mut Context<'_>) -> Result<ValueId> {
        let re = cx.op("Abs", &[self.re], Attrs::new())?;
        let Some(im) = self.im else { return Ok(re) };
        let im = cx.op("Abs", &[im], Attrs::new())?;
        Ok(cx.op("Add", &[re, im], Attrs::new())?)
    }

    /// These numbers where `mask` holds, zero elsewhere.
    #[track_caller]
    pub(crate) fn keep(self, cx: &mut Context<'_>, mask: ValueId) -> Result<Self> {
        let zero = cx.scalar_like(self.re, 0.0)?;
        self.each(cx, |cx, part| Ok(cx.op("Where", &[mask, part, zero], Attrs::new())?))
    }

    /// These numbers where `mask` holds, real ones elsewhere.
    #[track_caller]
    pub(crate) fn or_real(
        self,
        cx: &mut Context<'_>,
        mask: ValueId,
        other: ValueId,
    ) -> Result<Self> {
        let re = cx.op("Where", &[mask, self.re, other], Attrs::new())?;
        let zero = cx.scalar_like(self.re, 0.0)?;
        let im = self.im.map(|im| cx.op("Where", &[mask, im, zero], Attrs::new()));
        Ok(Self { re, im: im.transpose()? })
    }

    /// These numbers where `mask` holds, `other` ones elsewhere.
    #[track_caller]
    pub(crate) fn or(self, cx: &mut Context<'_>, mask: ValueId, other: Self) -> Result<Self> {
        self.zip_with(cx, other, |cx, a, b| Ok(cx.op("Where", &[mask, a, b], Attrs::new())?))
    }

    /// The slices at `index`, a vector, along an axis.
    #[track_caller]
    pub(crate) fn take(self, cx: &mut Context<'_>, axis: i64, index: ValueId) -> Result<Self> {
        self.each(cx, |cx, part| Ok(cx.op("Gather", &[part, index], attrs! { axis: axis })?))
    }

    /// The elements at `index`, of which there is one per element of the result, along an axis.
    #[track_caller]
    pub(crate) fn pick(self, cx: &mut Context<'_>, axis: i64, index: ValueId) -> Result<Self> {
        self.each(cx, |cx, part| {
            Ok(cx.op("GatherElements", &[part, index], attrs! { axis: axis })?)
        })
    }

    /// The rows (…, 1, n) at the places (…, 1, 1).
    #[track_caller]
    pub(crate) fn row(self, cx: &mut Context<'_>, at: ValueId) -> Result<Self> {
        let mut shape = cx.shape(self.re).to_vec();
        let rank = shape.len();
        shape[rank - 2] = Dim::Known(1);
        let at = cx.expand(at, &shape)?;
        self.pick(cx, -2, at)
    }

    /// The matrices with rows and columns exchanged.
    #[track_caller]
    pub(crate) fn transpose(self, cx: &mut Context<'_>) -> Result<Self> {
        let rank = cx.rank(self.re);
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
        let re = cx.op("Concat", &[self.re, other.re], attrs! { axis: axis })?;
        if self.im.is_none() && other.im.is_none() {
            return Ok(Self::real(re));
        }
        let (a, b) = (self.imaginary(cx)?, other.imaginary(cx)?);
        let im = cx.op("Concat", &[a, b], attrs! { axis: axis })?;
        Ok(Self { re, im: Some(im) })
    }

    /// The imaginary parts, which may all be zero.
    fn imaginary(self, cx: &mut Context<'_>) -> Result<ValueId> {
        if let Some(im) = self.im {
            return Ok(im);
        }
        let shape = cx.shape(self.re).to_vec();
        cx.full(cx.dtype(self.re), 0.0, &shape)
    }

    /// These real numbers as numbers of the kind of `like`.
    pub(crate) fn in_kind_of(self, cx: &mut Context<'_>, like: Self) -> Result<Self> {
        match (self.im, like.im) {
            (None, Some(_)) => Ok(Self { re: self.re, im: Some(self.imaginary(cx)?) }),
            _ => Ok(self),
        }
    }
}
