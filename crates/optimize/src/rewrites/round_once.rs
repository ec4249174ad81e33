//! `Cast(f(Cast(x)))` → `f(x)` in half precision, if the target computes `f` in float32 anyway and
//! rounds once. What moves elements may be in between.

use onnx::operators::{Operator, Trait};
use onnx::schema::{Binding, Types};
use onnx::{Node, ValueId, attrs};
use tensor::{DType, Tensor};

use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "round_once", roots: Roots::Named(&["Cast"]), try_at };

/// The largest number of movements between a cast and the operator.
const DEPTH: usize = 4;

/// The largest constant whose numbers are examined.
const MOST_NUMBERS: usize = 1 << 16;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let small = m.ty(m.result()?).dtype;
    if !matches!(small, DType::F16 | DType::BF16) || !m.forms().target.rounds_once {
        return Err("it is not rounded to half precision".into());
    }
    let mut value = m.operand(0)?;
    let mut moved: Vec<Node> = Vec::new();
    let node = loop {
        if m.ty(value).dtype != DType::F32 || !m.is_used_once(value) {
            return Err("the operand has other readers or another type".into());
        }
        let node = m.producer_with(value, |_| true).ok_or("the operand is not computed")?.clone();
        if node.block() != m.root().block() {
            return Err("it is computed in another block".into());
        }
        if !node.operator().is_movement() || moved.len() == DEPTH {
            break node;
        }
        value = node.input(0).ok_or("an operand is missing")?;
        moved.push(node);
    };
    let target = m.forms().target;
    if !node.operator().has(Trait::Sums) || node.outputs.len() != 1 {
        return Err("it may be rounded more than once".into());
    }
    let schema = node.schema(m.forms().opset).ok_or("the opset lacks it")?;
    let binding = Binding::new(schema, m.graph(), &node).map_err(|_| "its types are unknown")?;
    let wide = Types::of(DType::F32);
    let types = binding.types().map(|have| if have == wide { Types::of(small) } else { have });
    if !target.runs_as(schema, m.graph(), &node, &types.collect::<Vec<_>>()) {
        return Err("the target has no kernel for the type".into());
    }
    let mut inputs = node.inputs.clone();
    // All operands are checked before any of them is replaced.
    for input in inputs.iter().flatten() {
        if m.ty(*input).dtype == DType::F32 && !is_small(m, *input, small) {
            return Err("an operand has more digits".into());
        }
    }
    for input in inputs.iter_mut().flatten() {
        if m.ty(*input).dtype == DType::F32 {
            *input = narrowed(m, *input, small)?;
        }
    }
    let mut result = m.like(&node, inputs)?;
    for node in moved.iter().rev() {
        result = m.like_with(node, 0, result)?;
    }
    if m.ty(result).dtype != small {
        return Err("the result has another type".into());
    }
    Ok(vec![result])
}

/// Returns the value that `value` was widened from.
fn widened(m: &Match<'_>, value: ValueId, small: DType) -> Option<ValueId> {
    let source = m.producer(value, &["Cast"])?.input(0)?;
    (m.ty(source).dtype == small).then_some(source)
}

/// Returns `true` if all numbers of `value` are numbers of the small type.
pub(crate) fn is_small(m: &Match<'_>, value: ValueId, small: DType) -> bool {
    is_small_within(m, value, small, DEPTH)
}

fn is_small_within(m: &Match<'_>, value: ValueId, small: DType, depth: usize) -> bool {
    if let Some(tensor) = m.constant(value) {
        return holds(tensor, small);
    }
    if widened(m, value, small).is_some() {
        return true;
    }
    let moved = m.producer_with(value, Operator::is_movement).and_then(|node| node.input(0));
    depth > 0 && moved.is_some_and(|x| is_small_within(m, x, small, depth - 1))
}

/// Returns `true` if the small type has all numbers of a constant.
fn holds(tensor: &Tensor, small: DType) -> bool {
    let numbers = tensor.to_f64s().filter(|numbers| numbers.len() <= MOST_NUMBERS);
    numbers.is_some_and(|numbers| {
        numbers.iter().all(|number| {
            let rounded = Tensor::scalar(small, *number).and_then(|one| one.splat());
            rounded == Some(*number)
        })
    })
}

/// Emits `value` in the small type.
pub(crate) fn narrowed(m: &mut Match<'_>, value: ValueId, small: DType) -> Result<ValueId, Skip> {
    if let Some(source) = widened(m, value, small) {
        return Ok(source);
    }
    let moved = m.producer_with(value, Operator::is_movement).cloned();
    let Some(node) = moved.filter(|_| m.constant(value).is_none()) else {
        return m.op("Cast", &[value], attrs! { to: small });
    };
    let x = narrowed(m, node.input(0).ok_or("an operand is missing")?, small)?;
    m.like_with(&node, 0, x)
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::stays;

    #[test]
    fn casts_stay_unless_the_target_rounds_once() {
        stays(
            &REWRITE,
            "g (float16[2,4] x) => (float16[2,4] y) {
                w = Cast <to = 1> (x) s = Softmax <axis = -1> (w) y = Cast <to = 10> (s) }",
        );
    }
}
