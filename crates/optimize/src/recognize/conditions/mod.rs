//! Conditions for an operator beyond its spelling: supported axes, operand sizes and derived
//! attributes.

pub(super) mod attention;
pub(super) mod normalization;
mod rotary;

use onnx::operators::{self, Axes};
use tensor::Dim;
use tensor::bounds::is_never_zero;

use super::found::Found;
use super::{NORMALIZATIONS, missed};
use crate::Skip;

/// A function that checks a match and completes it.
pub(super) type Condition = fn(&mut Found<'_, '_>) -> Result<(), Skip>;

/// Returns the condition for an operator.
pub(super) fn of(op: &str) -> Option<Condition> {
    Some(match op {
        "Attention" => attention::attention,
        "Clip" => clip,
        "PRelu" => prelu,
        "ReduceMean" => mean,
        "RotaryEmbedding" => rotary::rotary,
        _ if NORMALIZATIONS.contains(&op) => normalization::of(op),
        _ => match operators::find(op).axes {
            Axes::Reduce => reduction,
            Axes::Softmax => softmax,
            _ => return None,
        },
    })
}

/// Requires ordered bounds: with swapped bounds, the spellings differ in meaning.
fn clip(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let (low, high) = (found.number("low").unwrap_or(0.0), found.number("high").unwrap_or(0.0));
    if low <= high { Ok(()) } else { Err("the lower bound is above the upper one".into()) }
}

fn prelu(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let slope = found.value("slope").ok_or("there is no slope")?;
    // An infinite slope gives NaN at zero. A learned slope stays finite if its elements are replaced.
    let Some(slope) = found.m.graph().tensor(slope) else {
        return Err(missed("the slope is computed, so it may be infinite"));
    };
    match slope.to_f64s() {
        Some(slopes) if slopes.iter().all(|slope| slope.is_finite()) => Ok(()),
        _ => Err(missed("the slope is not finite")),
    }
}

/// Sets `keepdims` if the result has the rank of the operand.
fn reduction(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let x = found.value("x").ok_or("there is no operand")?;
    if found.count("axes") == Some(Dim::Known(0)) {
        return Err("nothing is reduced".into());
    }
    let keep = found.m.ty(x).rank() == found.shape()?.len();
    found.set_attr("keepdims", keep);
    Ok(())
}

/// Rejects empty means: they are NaN in JAX and zero in the runtime.
fn mean(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let count = found.count("axes").ok_or("there are no axes")?;
    if !is_never_zero(&count) {
        return Err("the axes may be empty".into());
    }
    reduction(found)
}

fn softmax(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let rank = found.shape()?.len();
    let Some(&[axis]) = found.axes("axes") else {
        return Err(missed("it is over several axes"));
    };
    if let (Some(masked), Some(mask)) = (found.value("masked"), found.value("mask")) {
        let node = found.m.producer(masked, &["Where"]).ok_or("the operand is not masked")?;
        let is_mask = node.input(0) == Some(mask);
        let fill = node.input(2).and_then(|value| found.m.number(value));
        if !is_mask || fill != Some(f64::NEG_INFINITY) {
            return Err("the mask is different".into());
        }
    }
    let x = found.placed("x").or_else(|| found.placed("masked")).ok_or("there is no operand")?;
    if !x.1.is_aligned(&found.m.ty(x.0).shape, rank) {
        return Err("the axes are arranged differently".into());
    }
    // Counts the axis from the end, as users usually write the last axis.
    found.set_attr("axis", axis as i64 - rank as i64);
    Ok(())
}
