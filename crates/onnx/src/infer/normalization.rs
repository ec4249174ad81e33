//! Normalisations.

use tensor::{DType, Dim, Type};

use super::broadcast::broadcasts_to;
use super::call::Call;
use crate::Result;
use tensor::bounds::same;

/// Checks that the operand at `index` is a vector of one number per channel of `ty`.
fn per_channel(call: &Call<'_>, index: usize, ty: &Type) -> Result<()> {
    let vector = call.ranked(index, 1)?;
    let channels = ty.shape.get(1).unwrap_or(&Dim::Known(1));
    if !same(&vector.shape[0], channels) {
        return Err(call.error(format!("input {index} is {vector}, input 0 is {ty}")));
    }
    Ok(())
}

/// Infers the types of `BatchNormalization`. Statistics may have another element type, and are
/// results in training.
pub(crate) fn batch(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ranked_from(0, 1)?;
    for i in 1..5 {
        per_channel(call, i, ty)?;
    }
    call.same_dtype(1, 2)?;
    call.same_dtype(3, 4)?;
    if call.flag("training_mode", false)? != (call.count > 1) {
        return Err(call.error("`training_mode` has three results, inference has one"));
    }
    Ok(vec![ty.clone(), call.ty(3)?.clone(), call.ty(4)?.clone()])
}

/// Infers the type of `InstanceNormalization` and `GroupNormalization`, with a scale and a bias per
/// channel.
pub(crate) fn per_channel_affine(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ranked_from(0, 2)?;
    for i in 1..3 {
        call.same_dtype(0, i)?;
        per_channel(call, i, ty)?;
    }
    Ok(vec![ty.clone()])
}

pub(crate) fn group(call: &Call<'_>) -> Result<Vec<Type>> {
    let groups = call.required_int("num_groups")?;
    let types = per_channel_affine(call)?;
    let channels = &types[0].shape[1];
    if groups < 1 || channels.as_known().is_some_and(|n| n % groups != 0) {
        return Err(call.error(format!("{channels} channels in {groups} groups")));
    }
    Ok(types)
}

pub(crate) fn layer(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ranked_from(0, 1)?;
    let axis = call.axis_attr(-1, ty.rank())?;
    for i in 1..call.inputs.len() {
        if call.optional(i).is_some() {
            call.same_dtype(0, i)?;
            broadcasts_to(call, i, &ty.shape)?;
        }
    }
    let mut types = vec![ty.clone()];
    if call.count > 1 {
        let mut statistic = ty.clone();
        statistic.dtype = call.dtype("stash_type")?.unwrap_or(DType::F32);
        statistic.shape[axis..].fill(Dim::Known(1));
        types.extend([statistic.clone(), statistic]);
    }
    Ok(types)
}

/// Infers the type of `RMSNormalization`, which has the element type of the scale.
pub(crate) fn rms(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ranked_from(0, 1)?;
    call.axis_attr(-1, ty.rank())?;
    broadcasts_to(call, 1, &ty.shape)?;
    Ok(vec![Type::new(call.ty(1)?.dtype, ty.shape.clone())])
}

pub(crate) fn mean_variance(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    call.axes(call.ints("axes")?.unwrap_or(&[0, 2, 3]), ty.rank())?;
    Ok(vec![ty.clone()])
}
