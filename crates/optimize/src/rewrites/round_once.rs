//! `Cast(f(Cast(x)))` → `f(x)` in half precision, if the target computes `f` in float32 anyway and
//! rounds once. What moves elements may be in between.

use onnx::operators::{Operator, Trait};
use onnx::schema::{Binding, Types};
use onnx::{Node, ValueId, attrs};
use tensor::{DType, Tensor};

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("round_once", &["Cast"], try_at);

/// The largest number of movements between a cast and the operator.
const DEPTH: usize = 4;

/// The largest constant whose numbers are examined.
const MOST_NUMBERS: usize = 1 << 16;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let small = m.ty(m.result()?).dtype;
    Skip::when(!matches!(small, DType::F16 | DType::BF16), "it is not in half precision")?;
    Skip::when(!m.forms().target.rounds_once, "the target rounds more often")?;
    let mut value = m.operand(0)?;
    let mut moved: Vec<Node> = Vec::new();
    let node = loop {
        Skip::when(m.ty(value).dtype != DType::F32, "the operand has another type")?;
        Skip::when(!m.is_used_once(value), "the operand has other readers")?;
        let node = m.producer_with(value, |_| true).ok_or("the operand is not computed")?.clone();
        Skip::when(node.block() != m.root().block(), "it is computed in another block")?;
        if !node.operator().is_movement() || moved.len() == DEPTH {
            break node;
        }
        value = node.input(0).ok_or("an operand is missing")?;
        moved.push(node);
    };
    let target = m.forms().target;
    Skip::when(!node.operator().has(Trait::Sums), "it may be rounded more than once")?;
    Skip::when(node.outputs.len() != 1, "the node has several results")?;
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
    Skip::when(m.ty(result).dtype != small, "the result has another type")?;
    Ok(vec![result])
}

/// Returns the value that `value` was widened from.
fn widened(m: &Match<'_>, value: ValueId, small: DType) -> Option<ValueId> {
    let source = m.producer(value, &["Cast"])?.input(0)?;
    (m.ty(source).dtype == small).then_some(source)
}

/// Returns `true` if all numbers of `value` are numbers of the small type.
pub(crate) fn is_small(m: &Match<'_>, value: ValueId, small: DType) -> bool {
    let mut value = value;
    for _ in 0..=DEPTH {
        if let Some(tensor) = m.constant(value) {
            return holds(tensor, small);
        }
        if widened(m, value, small).is_some() {
            return true;
        }
        let moved = m.producer_with(value, Operator::is_movement).and_then(|node| node.input(0));
        let Some(x) = moved else { return false };
        value = x;
    }
    false
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
    use crate::testing::{edited_with, run, stays};
    use crate::{Changed, Forms, Options, Target};

    #[test]
    fn casts_stay_unless_the_target_rounds_once() {
        stays(
            &REWRITE,
            "g (float16[2,4] x) => (float16[2,4] y) {
                w = Cast <to = 1> (x) s = Softmax <axis = -1> (w) y = Cast <to = 10> (s) }",
        );
    }

    /// Returns `true` if the rewrite applies to these nodes for a target that rounds once. The result
    /// `y` has the type of `x` unless it is given.
    fn applies(inputs: &str, results: &str, body: &str) -> bool {
        let target = Target::all().find(|target| target.rounds_once).unwrap();
        let options = Options { forms: Forms { target, ..Forms::auto(23) }, ..Options::default() };
        let text = format!("g ({inputs}) => ({results}) {{ {body} }}");
        edited_with(&options, &text, |edit| run(edit, [&REWRITE]).unwrap()).1 == Changed::Yes
    }

    const X: &str = "float16[2,4] x";
    const Y: &str = "float16[2,4] y";
    const WIDE: &str = "w = Cast <to = 1> (x)";

    #[test]
    fn sums_of_numbers_in_half_precision_are_rounded_once() {
        let softmax = format!("{WIDE} s = Softmax <axis = -1> (w) y = Cast <to = 10> (s)");
        assert!(applies(X, Y, &softmax));
        for (body, is_rounded_once) in [
            // The sum or the cast does something else.
            (softmax.replace("Softmax <axis = -1>", "Exp"), false),
            (softmax.replace("<to = 1>", "<to = 11>"), false),
            (softmax.replace("s = Softmax", "v = Softmax").replace("(s)", "(v)"), true),
        ] {
            assert_eq!(applies(X, Y, &body), is_rounded_once, "{body}");
        }
        assert!(!applies(X, "double[2,4] y", &softmax.replace("<to = 10>", "<to = 11>")));
        assert!(!applies("bfloat16[2,4] x", Y, &softmax), "the operand is another half");
        assert!(!applies("float[2,4] x", Y, &softmax.replace(WIDE, "w = Identity (x)")));
        assert!(!applies(X, &format!("{Y}, float[2,4] s"), &softmax), "the sum has other readers");
    }

    #[test]
    fn constants_of_few_digits_are_narrowed() {
        let product = |number: &str| {
            let numbers = vec![number; 16].join(", ");
            format!(
                "{WIDE} c = Constant <value = float[4,4] {{{numbers}}}> ()
                 s = MatMul (w, c) y = Cast <to = 10> (s)"
            )
        };
        assert!(applies(X, Y, &product("0.5")));
        assert!(!applies(X, Y, &product("0.1")), "the constant has more digits");
        assert!(!applies(X, Y, &product("70000")), "the constant is out of range");
        let inputs = format!("{X}, float[4,4] c");
        let computed = "w = Cast <to = 1> (x) s = MatMul (w, c) y = Cast <to = 10> (s)";
        assert!(!applies(&inputs, Y, computed), "an operand may have more digits");
    }

    #[test]
    fn a_few_movements_are_between_casts_and_sums() {
        let turn = |count: usize, from: &str| {
            let name = |n: usize| if n == 0 { from.to_owned() } else { format!("{from}{n}") };
            let turn = |n| format!("{} = Transpose ({}) ", name(n + 1), name(n));
            ((0..count).map(turn).collect::<String>(), name(count))
        };
        for (before, after, is_rounded_once) in
            [(4, 0, true), (5, 0, false), (0, 4, true), (0, 5, false), (2, 2, true)]
        {
            let ((before, w), (after, s)) = (turn(before, "w"), turn(after, "s"));
            let text = format!(
                "{WIDE} {before} s = Softmax <axis = -1> ({w}) {after} y = Cast <to = 10> ({s})"
            );
            let found = applies("float16[4,4] x", "float16[4,4] y", &text);
            assert_eq!(found, is_rounded_once, "{text}");
        }
    }

    #[test]
    fn sums_of_other_blocks_and_with_several_results_are_unchanged() {
        let branch = "s = Softmax (w)
            y = If (c) <
                then_branch = t () => (float16[2,4] a) { a = Cast <to = 10> (s) },
                else_branch = f () => (float16[2,4] b) { b = Identity (x) }
            >";
        assert!(!applies(&format!("{X}, bool c"), Y, &format!("{WIDE} {branch}")));
        let scale = "k = Constant <value = float[4] {1, 1, 1, 1}> ()";
        for (results, is_rounded_once) in [("s", true), ("s, m", false)] {
            let text = format!(
                "{WIDE} {scale} {results} = LayerNormalization (w, k) y = Cast <to = 10> (s)"
            );
            assert_eq!(applies(X, Y, &text), is_rounded_once, "{text}");
        }
    }
}
