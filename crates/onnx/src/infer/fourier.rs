//! `DFT`. The last axis contains real and imaginary parts, or only real parts for a real signal.

use tensor::{Dim, DimOp, Type};

use super::call::Call;
use crate::Result;

pub(crate) fn dft(call: &Call<'_>) -> Result<Vec<Type>> {
    let mut ty = call.ranked_from(0, 2)?.clone();
    call.required(0, "must be floating point", |ty| ty.dtype.is_float())?;
    call.not_an_attr("axis")?;
    let last = ty.rank() - 1;
    let axis = match call.optional(2) {
        Some(_) => {
            let axis = call.single(2)?;
            let number = axis.as_known();
            number.ok_or_else(|| call.error(format!("the axis is {axis}")))?
        }
        None => -2,
    };
    let axis = call.axis(axis, ty.rank())?;
    if axis == last {
        return Err(call.error("the last axis holds the parts of complex numbers"));
    }
    let (inverse, one_sided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let parts = match (&ty.shape[last], one_sided, inverse) {
        (Dim::Known(1), true, false) | (Dim::Known(1 | 2), false, _) => Dim::Known(2),
        (Dim::Known(2), true, true) => Dim::Known(1),
        (Dim::Known(2), true, false) => {
            return Err(call.error("`onesided` needs a real signal"));
        }
        (Dim::Known(1), true, true) => {
            return Err(call.error("the inverse with `onesided` needs a complex signal"));
        }
        (other, ..) => return Err(call.error(format!("the last size is {other}, not 1 or 2"))),
    };
    let two = Dim::Known(2);
    let length = match call.optional(1) {
        Some(_) => call.single(1)?,
        None if inverse && one_sided => two.clone() * (ty.shape[axis].clone() - Dim::Known(1)),
        None => ty.shape[axis].clone(),
    };
    ty.shape[axis] = match one_sided && !inverse {
        true => Dim::op(DimOp::FloorDiv, &length, &two) + Dim::Known(1),
        false => length,
    };
    ty.shape[last] = parts;
    Ok(vec![ty])
}
