//! `Resize`.

use tensor::{DType, Dim, DimOp, Type};

use super::call::Call;
use super::movement::sizes;
use crate::Result;

pub(crate) fn resize(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    let axes = match call.ints("axes")? {
        Some(axes) => call.axes(axes, ty.rank())?,
        None => (0..ty.rank()).collect(),
    };
    let given = |count: usize, what: &str| {
        let reason = || call.error(format!("there are {count} {what} for {} axes", axes.len()));
        if count == axes.len() { Ok(()) } else { Err(reason()) }
    };
    let mut shape = ty.shape.clone();
    match (call.optional(2), call.optional(3)) {
        (None, Some(_)) => {
            if call.string("keep_aspect_ratio_policy", "stretch")? != "stretch" {
                return Err(call.error("only the aspect ratio policy `stretch` is supported"));
            }
            let wanted = sizes(call, 3)?;
            given(wanted.len(), "sizes")?;
            for (&axis, size) in axes.iter().zip(wanted) {
                shape[axis] = size;
            }
        }
        (Some(_), None) => {
            if call.string("coordinate_transformation_mode", "")? == "tf_crop_and_resize" {
                return Err(call.error("`tf_crop_and_resize` needs sizes"));
            }
            let scales = scales(call)?;
            given(scales.len(), "scales")?;
            for (&axis, scale) in axes.iter().zip(scales) {
                shape[axis] = scaled(call, &ty.shape[axis], scale)?;
            }
        }
        _ => return Err(call.error("there must be either scales or sizes")),
    }
    Ok(vec![Type::new(ty.dtype, shape)])
}

fn scales(call: &Call<'_>) -> Result<Vec<f64>> {
    call.dtype_is(2, DType::F32)?;
    let constant = call.graph.tensor(call.value(2)?);
    let scales = constant.and_then(tensor::Tensor::to_f64s);
    let scales = scales.ok_or_else(|| call.error("input 2 must be known here"))?;
    match scales.iter().find(|scale| !scale.is_finite() || **scale <= 0.0) {
        Some(scale) => Err(call.error(format!("{scale} is not a valid scale"))),
        None => Ok(scales),
    }
}

/// Returns `size * scale`, multiplied in 32-bit floats and rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the specification multiplies in 32-bit floats"
)]
fn scaled(call: &Call<'_>, size: &Dim, scale: f64) -> Result<Dim> {
    if let Dim::Known(size) = size {
        return Ok(Dim::Known((*size as f32 * scale as f32).floor() as i64));
    }
    // A scale whose denominator is a small power of two is exact for every size.
    for below in [1, 2, 4, 8, 16] {
        let above = scale * f64::from(below);
        if above.fract() == 0.0 && above < 65536.0 {
            let product = size.clone() * Dim::Known(above as i64);
            return Ok(Dim::op(DimOp::FloorDiv, &product, &Dim::Known(i64::from(below))));
        }
    }
    Err(call.error(format!("the size {size} times {scale} is not exact")))
}
