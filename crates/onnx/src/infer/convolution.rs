//! Convolutions.

use tensor::{DType, Dim, Shape, Type};

use super::call::Call;
use super::linear::zero_points;
use super::window::Window;
use crate::Result;
use tensor::bounds::same;
use tensor::division::exact_div;

/// Returns the input and the kernel of a convolution, which agree in rank, and the number of
/// groups.
fn operands<'a>(call: &Call<'a>) -> Result<(&'a Type, &'a Type, i64)> {
    let input = call.ranked_from(0, 3)?;
    let kernel = call.ranked(1, input.rank())?;
    if let Some(shape) = call.ints_of("kernel_shape", input.rank() - 2)? {
        let spatial = kernel.shape[2..].iter().zip(shape);
        if spatial.into_iter().any(|(dim, n)| *dim != Dim::Known(*n)) {
            return Err(call.error(format!("`kernel_shape` is {shape:?}, the kernel {kernel}")));
        }
    }
    let groups = call.int("group", 1)?;
    if groups < 1 {
        return Err(call.error(format!("`group` is {groups}")));
    }
    Ok((input, kernel, groups))
}

fn check_bias(call: &Call<'_>, channels: &Dim) -> Result<()> {
    let Some(bias) = call.optional_ty(2) else { return Ok(()) };
    call.same_dtype(0, 2)?;
    match bias.shape.as_slice() {
        [size] if same(size, channels) => Ok(()),
        _ => Err(call.error(format!("input 2 is {bias}, there are {channels} channels"))),
    }
}

/// Returns the shape of a convolution. The axes of the kernel are output channels, input channels
/// of a group, and space.
fn convolved(call: &Call<'_>) -> Result<Shape> {
    let (input, kernel, groups) = operands(call)?;
    if !same(&input.shape[1], &(kernel.shape[1].clone() * Dim::Known(groups))) {
        let reason = format!("{input} and {kernel} do not fit with {groups} groups");
        return Err(call.error(reason));
    }
    let channels = &kernel.shape[0];
    if channels.as_known().is_some_and(|n| n % groups != 0) {
        return Err(call.error(format!("{channels} channels in {groups} groups")));
    }
    let window = Window::read(call, input.rank() - 2)?;
    let mut shape = vec![input.shape[0].clone(), channels.clone()];
    for (i, size) in input.shape[2..].iter().enumerate() {
        shape.push(window.places(call, i, size, &kernel.shape[i + 2])?);
    }
    Ok(shape)
}

pub(crate) fn conv(call: &Call<'_>) -> Result<Vec<Type>> {
    call.same_dtype(0, 1)?;
    let shape = convolved(call)?;
    check_bias(call, &shape[1])?;
    Ok(vec![Type::new(call.ty(0)?.dtype, shape)])
}

pub(crate) fn conv_integer(call: &Call<'_>) -> Result<Vec<Type>> {
    zero_points(call)?;
    Ok(vec![Type::new(DType::I32, convolved(call)?)])
}

/// Infers the type of a transposed convolution. The axes of the kernel are input channels, output
/// channels of a group, and space.
pub(crate) fn conv_transpose(call: &Call<'_>) -> Result<Vec<Type>> {
    call.same_dtype(0, 1)?;
    let (input, kernel, groups) = operands(call)?;
    let space = input.rank() - 2;
    if !same(&input.shape[1], &kernel.shape[0])
        || (input.shape[1].as_known().is_some()
            && exact_div(&input.shape[1], &Dim::Known(groups)).is_none())
    {
        let reason = format!("{input} and {kernel} do not fit with {groups} groups");
        return Err(call.error(reason));
    }
    let window = Window::read(call, space)?;
    let extra = call.ints_of("output_padding", space)?;
    let wanted = call.ints_of("output_shape", space)?;
    let mut shape = vec![input.shape[0].clone(), kernel.shape[1].clone() * Dim::Known(groups)];
    for (i, places) in input.shape[2..].iter().enumerate() {
        shape.push(match wanted {
            Some(sizes) => Dim::Known(sizes[i]),
            None => {
                let extra = extra.map_or(0, |extra| extra[i]);
                window.spread(call, i, places, &kernel.shape[i + 2], extra)?
            }
        });
    }
    check_bias(call, &shape[1])?;
    Ok(vec![Type::new(input.dtype, shape)])
}
