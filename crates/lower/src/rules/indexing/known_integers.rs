//! Integers that are known while lowering: constants, and what JAX computes from them on the way to
//! an index (wrapping negative ones around, broadcasting, stacking).

use onnx::{Node, ValueId};
use tensor::{DType, Dim, Kind, Tensor};

use crate::Context;

/// More elements than this are not looked at.
const LARGEST: usize = 4096;
/// More nodes than this are not followed.
const STEPS: u32 = 64;

/// An array of integers; booleans are zeros and ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<i64>,
}

impl Known {
    /// What `value` holds, if that is known.
    pub(crate) fn of(cx: &Context<'_>, value: ValueId) -> Option<Self> {
        find(cx, value, &mut { STEPS })
    }

    /// The array as a constant of 64-bit integers.
    pub(crate) fn tensor(&self) -> Option<Tensor> {
        Tensor::i64s(&self.values).reshaped(&self.shape).ok()
    }

    fn expanded(&self, shape: &[usize]) -> Option<Self> {
        let missing = shape.len().checked_sub(self.shape.len())?;
        let values = (0..shape.iter().product()).map(|place: usize| {
            let (mut rest, mut at, mut step) = (place, 0, 1);
            for axis in (0..shape.len()).rev() {
                let position = rest % shape[axis];
                rest /= shape[axis];
                if axis >= missing {
                    let size = self.shape[axis - missing];
                    at += if size == 1 { 0 } else { position * step };
                    step *= size;
                }
            }
            self.values.get(at).copied()
        });
        let values = values.collect::<Option<_>>()?;
        Some(Self { shape: shape.to_vec(), values })
    }
}

fn find(cx: &Context<'_>, value: ValueId, steps: &mut u32) -> Option<Known> {
    let shape = static_shape(cx, value)?;
    if shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size))? > LARGEST {
        return None;
    }
    if let Some(tensor) = cx.known(value) {
        return Some(Known { shape, values: tensor.to_i64s()? });
    }
    let node = cx.producer(value)?;
    *steps = steps.checked_sub(1)?;
    let found = compute(cx, node, &shape, steps)?;
    fits(&found, cx.ty(value).dtype).then_some(found)
}

fn static_shape(cx: &Context<'_>, value: ValueId) -> Option<Vec<usize>> {
    let sizes = cx.ty(value).shape.iter().map(Dim::as_known);
    sizes.map(|size| usize::try_from(size?).ok()).collect()
}

/// Whether a runtime would get the same without wrapping around.
fn fits(known: &Known, dtype: DType) -> bool {
    let (low, high) = match (dtype.kind(), dtype.int_range()) {
        (Kind::Bool, _) => (0, 1),
        (_, Some(range)) => range,
        _ => return false,
    };
    known.values.iter().all(|value| (low..=high).contains(&i128::from(*value)))
}

fn compute(cx: &Context<'_>, node: &Node, shape: &[usize], steps: &mut u32) -> Option<Known> {
    if !node.op.domain.is_empty() {
        return None;
    }
    let mut operand = |index: usize| find(cx, node.input(index)?, steps);
    let known = |values| Some(Known { shape: shape.to_vec(), values });
    let combine: fn(i64, i64) -> Option<i64> = match node.op.name {
        "Cast" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" => {
            return known(operand(0)?.values);
        }
        "Expand" => return operand(0)?.expanded(shape),
        "Where" => {
            let which = operand(0)?.expanded(shape)?.values;
            let (yes, no) = (operand(1)?.expanded(shape)?, operand(2)?.expanded(shape)?);
            let cases = yes.values.into_iter().zip(no.values);
            let chosen =
                which.iter().zip(cases).map(|(w, (yes, no))| if *w != 0 { yes } else { no });
            return known(chosen.collect());
        }
        "Concat" => {
            let parts = (0..node.inputs.len()).map(operand).collect::<Option<Vec<_>>>()?;
            return known(concat(&parts, node.int("axis", 0))?);
        }
        "Range" => {
            let (start, step) = (operand(0)?, operand(2)?);
            let (start, step) = (*start.values.first()?, *step.values.first()?);
            let count = i64::try_from(*shape.first()?).ok()?;
            let place = |i: i64| start.checked_add(i.checked_mul(step)?);
            return known((0..count).map(place).collect::<Option<_>>()?);
        }
        "Add" => i64::checked_add,
        "Sub" => i64::checked_sub,
        "Mul" => i64::checked_mul,
        "Less" => |a, b| Some(i64::from(a < b)),
        "GreaterOrEqual" => |a, b| Some(i64::from(a >= b)),
        _ => return None,
    };
    let (left, right) = (operand(0)?.expanded(shape)?, operand(1)?.expanded(shape)?);
    let pairs = left.values.into_iter().zip(right.values);
    known(pairs.map(|(a, b)| combine(a, b)).collect::<Option<_>>()?)
}

/// The values of arrays that are joined along `axis`.
fn concat(parts: &[Known], axis: i64) -> Option<Vec<i64>> {
    let first = &parts.first()?.shape;
    let rank = i64::try_from(first.len()).ok()?;
    let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?;
    let outer: usize = first.get(..axis)?.iter().product();
    let mut values = Vec::new();
    for row in 0..outer {
        for part in parts {
            let width = part.values.len() / outer;
            values.extend_from_slice(part.values.get(row * width..(row + 1) * width)?);
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(shape: &[usize], values: &[i64]) -> Known {
        Known { shape: shape.to_vec(), values: values.to_vec() }
    }

    #[test]
    fn arrays_are_broadcast() {
        let column = known(&[2, 1], &[1, 2]);
        assert_eq!(column.expanded(&[2, 2]), Some(known(&[2, 2], &[1, 1, 2, 2])));
        assert_eq!(known(&[2], &[1, 2]).expanded(&[2, 2]), Some(known(&[2, 2], &[1, 2, 1, 2])));
        assert_eq!(known(&[], &[7]).expanded(&[3]), Some(known(&[3], &[7, 7, 7])));
        assert_eq!(known(&[1], &[7]).expanded(&[0]), Some(known(&[0], &[])));
        assert_eq!(known(&[2], &[1, 2]).expanded(&[]), None);
    }

    #[test]
    fn arrays_are_joined() {
        let parts = [known(&[2, 1], &[1, 2]), known(&[2, 2], &[3, 4, 5, 6])];
        assert_eq!(concat(&parts, -1), Some(vec![1, 3, 4, 2, 5, 6]));
        assert_eq!(concat(&[known(&[1], &[1]), known(&[2], &[2, 3])], 0), Some(vec![1, 2, 3]));
    }

    #[test]
    fn what_wraps_around_is_not_known() {
        assert!(fits(&known(&[1], &[127]), DType::I8));
        assert!(!fits(&known(&[1], &[128]), DType::I8));
        assert!(!fits(&known(&[1], &[-1]), DType::U32));
        assert!(!fits(&known(&[1], &[1]), DType::F32));
    }
}
