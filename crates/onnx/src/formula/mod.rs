//! Formulas in mathematical notation.
//!
//! A [`Num`] is a tensor in a formula: `(x - 1.0).exp() * y` emits a node for each operation. The
//! first error is kept until the end of the formula, so that formulas are not full of question
//! marks.

mod angle;
mod functions;
mod operators;
mod repeat;
mod sheet;

pub use repeat::repeat;

use std::fmt;
use std::panic::Location;

use tensor::{DType, Tensor};

use crate::{Attrs, Builder, Result, ValueId, attrs};
use sheet::Sheet;

/// A tensor in a formula.
#[derive(Clone, Copy)]
pub struct Num<'f> {
    sheet: &'f Sheet<'f>,
    id: ValueId,
}

/// An operand: a tensor, or a constant of the same type as the tensors.
#[derive(Clone, Copy, Debug)]
pub enum Term<'f> {
    /// A tensor.
    Num(Num<'f>),
    /// A number.
    Constant(f64),
    /// An integer, which may have more digits than a float.
    Integer(i128),
}

impl fmt::Debug for Num<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl<'f> From<Num<'f>> for Term<'f> {
    fn from(num: Num<'f>) -> Self {
        Term::Num(num)
    }
}

impl From<u64> for Term<'_> {
    fn from(word: u64) -> Self {
        Term::Integer(i128::from(word))
    }
}

impl From<f64> for Term<'_> {
    fn from(number: f64) -> Self {
        Term::Constant(number)
    }
}

/// Emits the formula `body` of `operands`. Returns the results in the types that it computes in.
pub fn formulas<const N: usize, const M: usize>(
    builder: &mut Builder<'_>,
    operands: [ValueId; N],
    body: impl for<'f> FnOnce([Num<'f>; N]) -> [Num<'f>; M],
) -> Result<[ValueId; M]> {
    formulas_at(builder, None, operands, body)
}

/// Emits a formula like [`formulas`]. If `at` is given, all nodes record that line as their emitter
/// instead of the lines of the formula.
pub fn formulas_at<const N: usize, const M: usize>(
    builder: &mut Builder<'_>,
    at: Option<&'static Location<'static>>,
    operands: [ValueId; N],
    body: impl for<'f> FnOnce([Num<'f>; N]) -> [Num<'f>; M],
) -> Result<[ValueId; M]> {
    let sheet = Sheet::new(builder, at);
    let results = body(operands.map(|id| Num { sheet: &sheet, id })).map(|num| num.id);
    sheet.finish()?;
    Ok(results)
}

impl<'f> Num<'f> {
    #[track_caller]
    fn emit(self, op: &'static str, operands: &[Term<'f>], attrs: Attrs) -> Self {
        // A constant has the type of the other operands, except the condition.
        let is_number = |num: &Num<'f>| op != "Where" || num.dtype() != DType::Bool;
        let numbers = operands.iter().filter_map(|term| match term {
            Term::Num(num) => Some(*num),
            Term::Constant(_) | Term::Integer(_) => None,
        });
        let fellow = numbers.clone().find(is_number).unwrap_or(self);
        let ids = operands.iter().map(|term| match term {
            Term::Num(num) => num.id,
            Term::Constant(number) => fellow.constant(*number).id,
            Term::Integer(number) => fellow.integer(*number).id,
        });
        let ids: Vec<_> = ids.collect();
        let results = self.sheet.emit(op, &ids, attrs, 1, Location::caller());
        Num { id: results.first().copied().unwrap_or(self.id), ..self }
    }

    /// Returns the value in the graph.
    pub fn id(self) -> ValueId {
        self.id
    }

    /// Returns another value of the same graph, for use in the same formula.
    pub fn beside(self, id: ValueId) -> Self {
        Num { id, ..self }
    }

    /// Returns a constant of the same element type.
    pub fn constant(self, number: f64) -> Self {
        Num { id: self.sheet.constant(self.id, Tensor::scalar(self.dtype(), number)), ..self }
    }

    /// Returns an integer constant of the same element type, which may have more digits than a
    /// float.
    pub fn integer(self, number: i128) -> Self {
        Num { id: self.sheet.constant(self.id, Tensor::int_scalar(self.dtype(), number)), ..self }
    }

    /// Returns the element type.
    pub fn dtype(self) -> DType {
        self.sheet.dtype(self.id)
    }

    /// Casts the elements to another type.
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Self {
        if self.dtype() == dtype {
            return self;
        }
        self.emit("Cast", &[self.into()], attrs! { to: dtype })
    }

    /// Applies an operator of one operand in single precision, and casts the result back to this
    /// type.
    #[track_caller]
    pub fn in_single(self, op: &'static str) -> Self {
        let single = self.cast(DType::F32);
        let result = single.emit(op, &[single.into()], Attrs::new());
        result.cast(self.dtype())
    }

    /// Casts a float of fewer than 32 bits to 32 bits.
    #[track_caller]
    pub fn widened(self) -> Self {
        let dtype = self.dtype();
        if dtype.is_float() && dtype.bits() < 32 { self.cast(DType::F32) } else { self }
    }
}

#[cfg(test)]
mod tests;
