//! Formulas, written as in mathematics.
//!
//! A [`Num`] is a tensor on its way through a formula: `(x - 1.0).exp() * y` emits a node for each
//! operation. The first error is kept until the end of the formula, so that formulas are not full of
//! question marks.

mod angle;
mod functions;
mod operators;
mod repeat;
mod sheet;

pub(crate) use repeat::repeat;

use std::panic::Location;

use onnx::{Attrs, ValueId, attrs};
use tensor::DType;

use crate::{Context, RuleError};
use sheet::{Page, Sheet};

/// A tensor in a formula.
#[derive(Clone, Copy)]
pub(crate) struct Num<'f> {
    sheet: &'f dyn Sheet,
    id: ValueId,
}

/// An operand: a tensor, or a constant with the type of the others.
#[derive(Clone, Copy)]
pub(crate) enum Term<'f> {
    Num(Num<'f>),
    Constant(f64),
}

impl<'f> From<Num<'f>> for Term<'f> {
    fn from(num: Num<'f>) -> Self {
        Term::Num(num)
    }
}

impl From<f64> for Term<'_> {
    fn from(number: f64) -> Self {
        Term::Constant(number)
    }
}

/// The result of a formula with `operands`. Floats below 32 bits are computed in 32 bits and rounded
/// once at the end, as in JAX.
pub(crate) fn formula<const N: usize>(
    cx: &mut Context<'_>,
    operands: &[ValueId],
    body: impl for<'f> FnOnce([Num<'f>; N]) -> Num<'f>,
) -> Result<Vec<ValueId>, RuleError> {
    let dtype = cx.out(0).dtype;
    let wrong = |_| RuleError::Internal(format!("{} operands, not {N}", operands.len()));
    let operands: [ValueId; N] = operands.try_into().map_err(wrong)?;
    let page = Page::new(cx);
    let result = body(operands.map(|id| Num { sheet: &page, id }.widened())).cast(dtype).id;
    page.finish()?;
    Ok(vec![result])
}

/// Several results of one formula, of the type that it computes in.
pub(crate) fn formulas<const N: usize, const M: usize>(
    cx: &mut Context<'_>,
    operands: [ValueId; N],
    body: impl for<'f> FnOnce([Num<'f>; N]) -> [Num<'f>; M],
) -> Result<[ValueId; M], RuleError> {
    let page = Page::new(cx);
    let results = body(operands.map(|id| Num { sheet: &page, id })).map(|num| num.id);
    page.finish()?;
    Ok(results)
}

impl<'f> Num<'f> {
    fn emit(
        self,
        op: &'static str,
        operands: &[Term<'f>],
        attrs: Attrs,
        at: &'static Location<'static>,
    ) -> Self {
        // A constant has the type of the other operands, not counting the condition.
        let is_number = |num: &Num<'f>| op != "Where" || num.dtype() != DType::Bool;
        let numbers = operands.iter().filter_map(|term| match term {
            Term::Num(num) => Some(*num),
            Term::Constant(_) => None,
        });
        let fellow = numbers.clone().find(is_number).unwrap_or(self);
        let ids = operands.iter().map(|term| match term {
            Term::Num(num) => num.id,
            Term::Constant(number) => fellow.constant(*number).id,
        });
        let ids: Vec<_> = ids.collect();
        let results = self.sheet.emit(op, &ids, attrs, 1, at);
        Num { id: results.first().copied().unwrap_or(self.id), ..self }
    }

    /// A constant of the same element type.
    pub(crate) fn constant(self, number: f64) -> Self {
        Num { id: self.sheet.constant(self.id, number), ..self }
    }

    /// The element type.
    pub(crate) fn dtype(self) -> DType {
        self.sheet.ty(self.id).dtype
    }

    /// The elements converted to another type.
    #[track_caller]
    pub(crate) fn cast(self, dtype: DType) -> Self {
        if self.dtype() == dtype {
            return self;
        }
        self.emit("Cast", &[self.into()], attrs! { to: dtype }, Location::caller())
    }

    fn widened(self) -> Self {
        let dtype = self.dtype();
        if dtype.is_float() && dtype.bits() < 32 { self.cast(DType::F32) } else { self }
    }
}

/// The operands, each in the shape of the result: the shapes that a loop carries cannot change.
#[track_caller]
pub(crate) fn spread(
    cx: &mut Context<'_>,
    operands: &[ValueId],
) -> Result<Vec<ValueId>, RuleError> {
    let shape = cx.out(0).shape.clone();
    operands.iter().map(|operand| cx.expand(*operand, &shape)).collect()
}
