//! The order of 64-bit integers, for runtimes that compare only narrower or only signed ones.

use onnx::formula::{Num, Term, formulas};
use onnx::{Builder, Node, attrs};
use tensor::DType;

use super::{Results, formula, fresh, operand, reduce};

/// Combines two numbers.
type Combine = for<'f> fn(Num<'f>, Num<'f>) -> Num<'f>;

fn larger<'f>(x: Num<'f>, y: Num<'f>) -> Num<'f> {
    x.greater(y).select(x, y)
}

fn smaller<'f>(x: Num<'f>, y: Num<'f>) -> Num<'f> {
    x.less(y).select(x, y)
}

pub(super) fn max(b: &mut Builder<'_>, node: &Node) -> Results {
    fold(b, node, |_| larger)
}

pub(super) fn min(b: &mut Builder<'_>, node: &Node) -> Results {
    fold(b, node, |_| smaller)
}

pub(super) fn clip(b: &mut Builder<'_>, node: &Node) -> Results {
    fold(b, node, |index| if index == 1 { larger } else { smaller })
}

/// Writes `Clip` as `Max` and `Min`.
pub(in super::super) fn limits(b: &mut Builder<'_>, node: &Node) -> Results {
    fold(b, node, |index| if index == 1 { |x, low| x.max(low) } else { |x, high| x.min(high) })
}

/// Combines the first operand with each of the others that is present, by the function for its index.
fn fold(b: &mut Builder<'_>, node: &Node, of: impl Fn(usize) -> Combine) -> Results {
    let x = operand(node, 0)?;
    let [result] = formulas(b, [x], |[x]| {
        let others = node.inputs.iter().enumerate().skip(1);
        let others = others.filter_map(|(index, other)| Some((of(index), x.beside((*other)?))));
        [others.fold(x, |result, (combine, other)| combine(result, other))]
    })?;
    Ok(vec![fresh(b, x, result)?])
}

pub(super) fn relu(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| x.greater(0.0).select(x, 0.0))
}

pub(super) fn sign(b: &mut Builder<'_>, node: &Node) -> Results {
    formula(b, node, |[x]| {
        let (above, below) = (x.greater(0.0), x.less(0.0));
        above.cast(DType::I64) - below.cast(DType::I64)
    })
}

/// Compares signed instead of unsigned integers. Flipping the highest bit converts between the two
/// orders.
pub(super) fn through_signed(b: &mut Builder<'_>, node: &Node) -> Results {
    let [signed] = formulas(b, [operand(node, 0)?], |[x]| [(x ^ HIGHEST).cast(DType::I64)])?;
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(signed);
    let at = std::panic::Location::caller();
    let mut results = b.emit(node.op, inputs, node.attrs.clone(), node.outputs.len(), at)?;
    for (old, new) in node.outputs.iter().zip(&mut results) {
        if b.dtype(*old) == DType::U64 {
            [*new] = formulas(b, [*new], |[x]| [x.cast(DType::U64) ^ HIGHEST])?;
        }
    }
    Ok(results)
}

/// The highest bit of 64.
const HIGHEST: u64 = 1 << 63;

/// Computes the extremum of the upper halves, and the extremum of the lower halves that go with it.
///
/// Both are 32-bit integers. The lower one is unsigned and has its highest bit flipped.
pub(super) fn reduce_by_halves(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let last = if node.is("ReduceMax") { i32::MIN } else { i32::MAX };
    let (last, highest) = (i128::from(last), i128::from(i32::MIN));
    let [upper, lower] = formulas(b, [x], |[x]| {
        [
            (x.cast(DType::U64) >> 32u64).cast(DType::I32),
            x.cast(DType::I32) ^ Term::Integer(highest),
        ]
    })?;
    let mut keeping = node.clone();
    keeping.attrs.retain(|(name, _)| *name != "keepdims");
    keeping.attrs.extend(attrs! { keepdims: true });
    let best = reduce(b, node.op.name, &keeping, upper)?;
    let [lower] = formulas(b, [upper, best, lower], |[upper, best, lower]| {
        [upper.equals(best).select(lower, Term::Integer(last))]
    })?;
    let halves = [reduce(b, node.op.name, node, upper)?, reduce(b, node.op.name, node, lower)?];
    let [result] = formulas(b, halves, |[upper, lower]| {
        let lower = (lower ^ Term::Integer(highest)).cast(DType::U32).cast(DType::I64);
        [upper.cast(DType::I64) * (1u64 << 32) + lower]
    })?;
    Ok(vec![result])
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::assert_integers;
    use onnx::attrs;
    use tensor::DType::{I64, U64};

    const HARD: [i128; 8] = [
        0,
        3_000_000_000,
        -5,
        4_294_967_295,
        -3_000_000_000,
        1 << 40,
        i64::MIN as i128,
        i64::MAX as i128,
    ];

    #[test]
    fn reductions_are_exact() {
        for n in 1..=HARD.len() {
            for part in HARD.windows(n) {
                let (most, least) = (*part.iter().max().unwrap(), *part.iter().min().unwrap());
                assert_integers("ReduceMax", I64, &[part], attrs! {}, &[most]);
                assert_integers("ReduceMin", I64, &[part], attrs! {}, &[least]);
                let unsigned: Vec<i128> = part.iter().map(|v| v.rem_euclid(1 << 64)).collect();
                let (most, least) =
                    (unsigned.iter().max().unwrap(), unsigned.iter().min().unwrap());
                assert_integers("ReduceMax", U64, &[&unsigned], attrs! {}, &[*most]);
                assert_integers("ReduceMin", U64, &[&unsigned], attrs! {}, &[*least]);
            }
        }
    }

    #[test]
    fn comparisons_are_exact() {
        let other: Vec<i128> = HARD.iter().rev().copied().collect();
        let both = |f: fn(i128, i128) -> i128| -> Vec<i128> {
            HARD.iter().zip(&other).map(|(a, b)| f(*a, *b)).collect()
        };
        assert_integers("Max", I64, &[&HARD, &other], attrs! {}, &both(i128::max));
        assert_integers("Min", I64, &[&HARD, &other], attrs! {}, &both(i128::min));
        let sign: Vec<i128> = HARD.iter().map(|v| v.signum()).collect();
        assert_integers("Sign", I64, &[&HARD], attrs! {}, &sign);
        let relu: Vec<i128> = HARD.iter().map(|v| *v.max(&0)).collect();
        assert_integers("Relu", I64, &[&HARD], attrs! {}, &relu);
        let clipped: Vec<i128> = HARD.iter().map(|v| *v.clamp(&-4, &3_000_000_001)).collect();
        assert_integers("Clip", I64, &[&HARD, &[-4], &[3_000_000_001]], attrs! {}, &clipped);
    }
}
