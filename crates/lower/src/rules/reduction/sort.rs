//! sort[dimension, num_keys](x…) → TopK of the smallest, and GatherElements for the other operands;
//! ONNX orders equal elements by their index, so every sort is stable

use onnx::{Assumption, Attrs, ValueId, attrs};
use tensor::{DType, Dim};

use crate::rules::indexing::indices;
use crate::{Context, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let axis: usize = cx.param("dimension")?;
    // A complex key counts as two: its real part, then its imaginary part.
    let count = cx.in_count(cx.param("num_keys")?);
    let extent = cx.shape(x[0])[axis].clone();
    if cx.shape(x[0]).contains(&Dim::Known(0)) || extent == Dim::Known(1) {
        return Ok(x.to_vec());
    }
    for key in &x[..count] {
        let dtype = cx.dtype(*key);
        if !(dtype.is_float() || dtype.is_integer() || dtype == DType::Bool) {
            return Err(RuleError::unsupported(format!("sorting {dtype} is not supported")));
        }
    }
    let sort = Sort { axis: axis as i64, extent };
    if let ([only], false) = (x, cx.dtype(x[0]) == DType::Bool) {
        return Ok(vec![sort.values(cx, *only)?]);
    }
    let order = sort.order(cx, &x[..count])?;
    x.iter().map(|value| sort.pick(cx, *value, order)).collect()
}

struct Sort {
    axis: i64,
    extent: Dim,
}

impl Sort {
    /// Returns the elements and their positions, from the smallest to the largest.
    #[track_caller]
    fn smallest(&self, cx: &mut Context<'_>, x: ValueId) -> Result<(ValueId, ValueId)> {
        let count = cx.dims(std::slice::from_ref(&self.extent))?;
        let found = cx.op_many("TopK", &[x, count], attrs! { axis: self.axis, largest: 0 }, 2)?;
        Ok((found[0], found[1]))
    }

    #[track_caller]
    fn pick(&self, cx: &mut Context<'_>, x: ValueId, order: ValueId) -> Result<ValueId> {
        Ok(cx.op("GatherElements", &[x, order], attrs! { axis: self.axis })?)
    }

    /// Sorts `x` by itself, with all NaN last.
    fn values(&self, cx: &mut Context<'_>, x: ValueId) -> Result<ValueId> {
        let dtype = cx.dtype(x);
        if !dtype.is_float() || cx.assumes(Assumption::NoNan) {
            return Ok(self.smallest(cx, x)?.0);
        }
        let (nan, numbers) = without_nan(cx, x)?;
        let (sorted, _) = self.smallest(cx, numbers)?;
        let (nan, axes) = (cx.cast(nan, DType::I64)?, cx.i64s(&[self.axis]));
        let count = cx.op("ReduceSum", &[nan, axes], attrs! { keepdims: true })?;
        let extent = cx.dims(std::slice::from_ref(&self.extent))?;
        let first = cx.op("Sub", &[extent, count], Attrs::new())?;
        let places = indices::count(cx, &self.extent)?;
        let behind: Vec<i64> = (1..cx.rank(x) as i64 - self.axis).collect();
        let places = cx.unsqueeze(places, &behind)?;
        let number = cx.op("Less", &[places, first], Attrs::new())?;
        let nan = cx.scalar(dtype, f64::NAN)?;
        Ok(cx.op("Where", &[number, sorted, nan], Attrs::new())?)
    }

    /// Returns the positions of the elements in sorted order. It sorts by the last key first, then
    /// by the one before, and so on. NaN come after all numbers, so being NaN is a separate key.
    fn order(&self, cx: &mut Context<'_>, keys: &[ValueId]) -> Result<ValueId> {
        let mut parts = Vec::new();
        for &key in keys.iter().rev() {
            if cx.dtype(key).is_float() && !cx.assumes(Assumption::NoNan) {
                let (nan, numbers) = without_nan(cx, key)?;
                parts.extend([numbers, nan]);
            } else {
                parts.push(key);
            }
        }
        let mut order = None;
        for part in parts {
            let part = match order {
                Some(order) => self.pick(cx, part, order)?,
                None => part,
            };
            let part = if cx.dtype(part) == DType::Bool { self.behind(cx, part)? } else { part };
            let (_, next) = self.smallest(cx, part)?;
            order = Some(match order {
                Some(order) => self.pick(cx, order, next)?,
                None => next,
            });
        }
        order.ok_or_else(|| RuleError::Internal("a sort without keys".to_owned()))
    }

    /// Returns the positions of the elements, with those of `flags` behind all others. All keys are distinct, for
    /// runtimes whose `TopK` may change the order of equal elements.
    fn behind(&self, cx: &mut Context<'_>, flags: ValueId) -> Result<ValueId> {
        let places = indices::count(cx, &self.extent)?;
        let places = cx.cast(places, DType::I32)?;
        let others: Vec<i64> = (1..cx.rank(flags) as i64 - self.axis).collect();
        let places = cx.unsqueeze(places, &others)?;
        let extent = cx.dims(std::slice::from_ref(&self.extent))?;
        let extent = cx.cast(extent, DType::I32)?;
        let last = cx.op("Add", &[places, extent], Attrs::new())?;
        Ok(cx.op("Where", &[flags, last, places], Attrs::new())?)
    }
}

/// Returns the mask of NaN, and `x` with infinity there.
fn without_nan(cx: &mut Context<'_>, x: ValueId) -> Result<(ValueId, ValueId)> {
    let nan = cx.op("IsNaN", &[x], Attrs::new())?;
    let infinity = cx.scalar_like(x, f64::INFINITY)?;
    let numbers = cx.op("Where", &[nan, infinity, x], Attrs::new())?;
    Ok((nan, numbers))
}
