//! Complex numbers and their representation.
//!
//! Inside the graph, a complex value is two real ones: its real and its imaginary part. At the
//! model's boundary, where a value must be one tensor, the parts are stacked along a trailing axis
//! of size two.

mod arrays;

use onnx::{Builder, ValueId, attrs};
use tensor::{DType, Dim, Type};

use crate::Result;

/// The graph values that represent a value of the traced program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// A real value.
    Real(ValueId),
    /// The real and the imaginary part of a complex value.
    Complex(ValueId, ValueId),
}

impl Parts {
    /// Creates a complex value if there is an imaginary part, and a real one otherwise.
    pub(crate) fn new(re: ValueId, im: Option<ValueId>) -> Self {
        im.map_or(Parts::Real(re), |im| Parts::Complex(re, im))
    }

    /// Returns `true` if the value is complex.
    pub fn is_complex(self) -> bool {
        matches!(self, Parts::Complex(..))
    }

    /// Returns the real part, or the value itself if it is real.
    pub fn re(self) -> ValueId {
        match self {
            Parts::Real(value) | Parts::Complex(value, _) => value,
        }
    }

    /// Returns the imaginary part, if the value is complex.
    pub fn im(self) -> Option<ValueId> {
        match self {
            Parts::Real(_) => None,
            Parts::Complex(_, im) => Some(im),
        }
    }

    /// Returns the one or two values that it consists of.
    pub fn flat(self) -> impl Iterator<Item = ValueId> {
        std::iter::once(self.re()).chain(self.im())
    }

    /// Takes the values of one program value of type `dtype` from the front of `flat`.
    pub(crate) fn next(dtype: DType, flat: &mut impl Iterator<Item = ValueId>) -> Option<Self> {
        let first = flat.next()?;
        Some(if dtype.is_complex() {
            Parts::Complex(first, flat.next()?)
        } else {
            Parts::Real(first)
        })
    }
}

/// Returns the number of graph values that represent one program value of that type.
pub(crate) fn width(dtype: DType) -> usize {
    if dtype.is_complex() { 2 } else { 1 }
}

/// Returns the type of a part.
pub(crate) fn part_type(ty: &Type) -> Type {
    Type::new(ty.dtype.component(), ty.shape.clone())
}

/// Returns the type at the model's boundary.
pub(crate) fn boundary_type(ty: &Type) -> Type {
    let mut outer = part_type(ty);
    if ty.dtype.is_complex() {
        outer.shape.push(Dim::Known(2));
    }
    outer
}

/// Splits a value at the model's boundary into its parts.
pub(crate) fn unpack(builder: &mut Builder<'_>, value: ValueId) -> Result<Parts> {
    let mut part = |index: f64| -> Result<ValueId> {
        let index = builder.scalar(DType::I64, index)?;
        Ok(builder.op("Gather", &[value, index], attrs! { axis: -1 })?)
    };
    Ok(Parts::Complex(part(0.0)?, part(1.0)?))
}

/// Stacks both parts into one tensor for the model's boundary.
pub(crate) fn pack(builder: &mut Builder<'_>, re: ValueId, im: ValueId) -> Result<ValueId> {
    let (re, im) = (builder.unsqueeze(re, &[-1])?, builder.unsqueeze(im, &[-1])?);
    Ok(builder.op("Concat", &[re, im], attrs! { axis: -1 })?)
}
