//! Recurrent layers.

use tensor::{DType, Dim, Type};

use super::call::{Call, text};
use crate::Result;
use tensor::bounds::{same, same_shape};

pub(crate) fn rnn(call: &Call<'_>) -> Result<Vec<Type>> {
    layer(call, 1)
}

pub(crate) fn gru(call: &Call<'_>) -> Result<Vec<Type>> {
    layer(call, 3)
}

pub(crate) fn lstm(call: &Call<'_>) -> Result<Vec<Type>> {
    layer(call, 4)
}

/// Infers the types of a layer whose cells have `gates` gates.
fn layer(call: &Call<'_>, gates: i64) -> Result<Vec<Type>> {
    let (x, w, r) = (call.ranked(0, 3)?, call.ranked(1, 3)?, call.ranked(2, 3)?);
    let batch_first = match call.int("layout", 0)? {
        0 => false,
        1 => true,
        other => return Err(call.error(format!("`layout` is {other}"))),
    };
    let directions = match call.string("direction", "forward")? {
        "forward" | "reverse" => Dim::Known(1),
        "bidirectional" => Dim::Known(2),
        other => return Err(call.error(format!("`direction` is `{other}`"))),
    };
    let [first, second, features] = x.shape.as_slice() else { return Ok(Vec::new()) };
    let (batch, length) = if batch_first { (first, second) } else { (second, first) };
    let hidden = &r.shape[2];
    if call.attr("hidden_size").is_some()
        && *hidden != Dim::Known(call.required_int("hidden_size")?)
    {
        return Err(call.error(format!("`hidden_size` does not fit input 2, {r}")));
    }
    let rows = |times: i64| hidden.clone() * Dim::Known(times);
    let expect = |index: usize, shape: &[Dim]| match call.optional_ty(index) {
        Some(ty) if !same_shape(&ty.shape, shape) => {
            Err(call.error(format!("input {index} is {ty}, but its shape must be {}", text(shape))))
        }
        Some(_) if index != 4 => call.same_dtype(0, index),
        _ => Ok(()),
    };
    if !same(&w.shape[1], &r.shape[1]) {
        return Err(call.error(format!("inputs 1 and 2 are {w} and {r}")));
    }
    expect(1, &[directions.clone(), rows(gates), features.clone()])?;
    expect(2, &[directions.clone(), rows(gates), hidden.clone()])?;
    expect(3, &[directions.clone(), rows(2 * gates)])?;
    if call.optional(4).is_some() {
        call.dtype_is(4, DType::I32)?;
        expect(4, std::slice::from_ref(batch))?;
    }
    let state = match batch_first {
        false => vec![directions.clone(), batch.clone(), hidden.clone()],
        true => vec![batch.clone(), directions.clone(), hidden.clone()],
    };
    expect(5, &state)?;
    expect(6, &state)?;
    expect(7, &[directions.clone(), rows(3)])?;
    let all = match batch_first {
        false => [length.clone(), directions, batch.clone(), hidden.clone()],
        true => [batch.clone(), length.clone(), directions, hidden.clone()],
    };
    let state = Type::new(x.dtype, state);
    let mut types = vec![Type::new(x.dtype, all)];
    types.resize(call.count.max(1), state);
    Ok(types)
}
