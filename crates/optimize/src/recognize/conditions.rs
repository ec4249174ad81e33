//! What has to hold for an operator beyond its spelling: axes that it can have, operands of the right
//! size, attributes that follow from what was found.

use tensor::{Dim, Tensor};

use super::found::Found;
use crate::Skip;

/// Checks what was found and completes it.
pub(super) type Condition = fn(&mut Found<'_, '_>) -> Result<(), Skip>;

/// The condition of an operator.
pub(super) fn of(op: &str) -> Option<Condition> {
    Some(match op {
        "Clip" => clip,
        "LayerNormalization" | "RMSNormalization" => normalization,
        "LogSoftmax" | "Softmax" => softmax,
        "PRelu" => prelu,
        "ReduceL2" | "ReduceLogSumExp" | "ReduceMean" | "ReduceSumSquare" => reduction,
        _ => return None,
    })
}

fn missed(reason: &str) -> Skip {
    Skip::Missed(reason.to_owned())
}

/// Bounds in the wrong order mean something else in each of the spellings.
fn clip(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let (low, high) = (found.number("low").unwrap_or(0.0), found.number("high").unwrap_or(0.0));
    if low <= high { Ok(()) } else { Err("the lower bound is above the upper one".into()) }
}

fn prelu(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let slope = found.value("slope").ok_or("there is no slope")?;
    if found.m.graph().constant(slope).is_none() {
        // An infinite slope gives NaN at zero.
        return Err(missed("the slope is computed, so it may be infinite"));
    }
    Ok(())
}

/// A reduction keeps its axes if the result has as many as the operand.
fn reduction(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let x = found.value("x").ok_or("there is no operand")?;
    let keep = found.m.ty(x).rank() == found.shape()?.len();
    found.set_attr("keepdims", keep);
    Ok(())
}

fn softmax(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let rank = found.shape()?.len();
    let Some(&[axis]) = found.axes("axes") else {
        return Err(missed("it is over several axes"));
    };
    if let (Some(masked), Some(mask)) = (found.value("masked"), found.value("mask")) {
        let node = found.m.producer(masked, &["Where"]).ok_or("the operand is not masked")?;
        let is_mask = node.input(0) == Some(mask);
        let fill = node.input(2).and_then(|value| found.m.constant(value)?.splat());
        if !is_mask || fill != Some(f64::NEG_INFINITY) {
            return Err("the mask is another one".into());
        }
    }
    let x = found.placed("x").or_else(|| found.placed("masked")).ok_or("there is no operand")?;
    if !x.1.is_aligned(&found.m.ty(x.0).shape, rank) {
        return Err("the axes lie otherwise".into());
    }
    // Counted from the end, as people write the last one.
    found.set_attr("axis", axis as i64 - rank as i64);
    Ok(())
}

/// Normalises the last axes, all of them from one on, with a scale and a bias of their size.
fn normalization(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let shape = found.shape()?;
    let rank = shape.len();
    let (x, placement) = found.placed("x").ok_or("there is no operand")?;
    if found.m.ty(x).shape != shape || !placement.is_aligned(&shape, rank) {
        return Err("the axes lie otherwise".into());
    }
    let first = match (found.axes("axes"), found.int("axis")) {
        (Some(axes), _) => {
            let first = rank - axes.len();
            if !axes.iter().copied().eq(first..rank) {
                return Err(missed("the axes are not the last ones"));
            }
            first
        }
        (None, Some(axis)) => usize::try_from(axis + rank as i64).map_err(|_| "a strange axis")?,
        (None, None) => return Err("there are no axes".into()),
    };
    let normalized = shape[first..].to_vec();
    for name in ["scale", "bias"] {
        let Some((value, placement)) = found.placed(name) else { continue };
        let ty = found.m.ty(value);
        if ty.dtype != found.m.ty(x).dtype {
            return Err(missed("the scale or the bias has another type"));
        }
        let aligned = placement.is_aligned(&ty.shape, rank);
        let inner = ty.shape.len().min(normalized.len());
        let (front, back) = ty.shape.split_at(ty.shape.len() - inner);
        if !aligned || back != normalized || front.iter().any(|dim| *dim != Dim::Known(1)) {
            return Err(missed("the scale or the bias is not as large as what is normalised"));
        }
        if !front.is_empty() {
            let sizes: Option<Vec<i64>> = normalized.iter().map(Dim::as_known).collect();
            let sizes = sizes.ok_or_else(|| missed("the size of the scale is not known"))?;
            let target = found.m.i64s(&sizes);
            let flat = found.m.op("Reshape", &[value, target], onnx::Attrs::new())?;
            found.set_value(name, flat);
        }
    }
    if found.axes("axes").is_some() {
        let ones = || {
            let sizes = normalized.iter().map(|dim| usize::try_from(dim.as_known()?).ok());
            let sizes: Vec<usize> = sizes.collect::<Option<_>>()?;
            let one = Tensor::scalar(found.m.ty(x).dtype, 1.0)?;
            let count = sizes.iter().product();
            Tensor::new(one.dtype(), &sizes, std::sync::Arc::new(one.bytes().repeat(count))).ok()
        };
        let ones = ones();
        found.set_attr("axis", first as i64 - rank as i64);
        match ones {
            Some(ones) => {
                let ones = found.m.tensor(ones);
                found.set_value("one", ones);
            }
            None if found.value("scale").is_none() => {
                return Err(missed("the size of what is normalised is not known"));
            }
            None => {}
        }
    }
    Ok(())
}
