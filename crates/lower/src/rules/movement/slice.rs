//! slice[start_indices, limit_indices, strides](x) → Slice(x), on the axes that change

use onnx::ValueId;
use tensor::Dim;

use crate::{Context, Result};

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let starts: Vec<Dim> = cx.param("start_indices")?;
    let limits: Vec<Dim> = cx.param("limit_indices")?;
    let strides: Option<Vec<i64>> = cx.param("strides")?;
    let strides = strides.unwrap_or_else(|| vec![1; starts.len()]);
    let shape = cx.shape(x[0]);
    let changed: Vec<usize> = (0..starts.len())
        .filter(|&i| (&starts[i], &limits[i], strides[i]) != (&Dim::Known(0), &shape[i], 1))
        .collect();
    let pick = |from: &[Dim]| changed.iter().map(|&i| from[i].clone()).collect::<Vec<_>>();
    let axes: Vec<i64> = changed.iter().map(|&i| i as i64).collect();
    let steps: Vec<i64> = changed.iter().map(|&i| strides[i]).collect();
    Ok(vec![cx.slice(x[0], &axes, &pick(&starts), &pick(&limits), &steps)?])
}
