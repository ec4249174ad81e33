//! Remainders, powers and products of integers, for runtimes that compute them in double precision.

use onnx::formula::formulas;
use onnx::{Attrs, Builder, Node, Result, ValueId, attrs};
use tensor::Type;

use super::{Lack, Results, drop_reduced, formula, fresh, operand};

/// Computes the remainder with the sign of the dividend from the quotient.
pub(super) fn remainder(b: &mut Builder<'_>, node: &Node) -> Results {
    if node.int("fmod", 0) == 0 {
        return Err(Lack::Because("its sign is that of the divisor"));
    }
    if !b.dtype(operand(node, 0)?).is_integer() {
        return Err(Lack::Because("quotients of floats are rounded"));
    }
    formula(b, node, |[x, y]| x - x / y * y)
}

/// Computes a known power by repeated squaring.
pub(super) fn power(b: &mut Builder<'_>, node: &Node) -> Results {
    let (x, exponent) = (operand(node, 0)?, operand(node, 1)?);
    let known = b.graph().constant(exponent).and_then(tensor::Tensor::splat);
    let known = known.filter(|e| (1.0..=64.0).contains(e) && e.fract() == 0.0);
    let Some(known) = known else {
        return Err(Lack::Because("its exponent is not one small constant"));
    };
    if b.shape(x) != b.shape(node.outputs[0]) {
        return Err(Lack::Because("its exponent has more axes than its base"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just checked")]
    let mut rest = known as u32;
    let [result] = formulas(b, [x], |[x]| {
        let (mut square, mut result) = (x, None);
        loop {
            if rest % 2 == 1 {
                result = Some(result.map_or(square, |result| result * square));
            }
            rest /= 2;
            if rest == 0 {
                return [result.unwrap_or(x)];
            }
            square = square.squared();
        }
    })?;
    Ok(vec![fresh(b, x, result)?])
}

/// Computes the product along each axis: by halving the axis until one element is left, or
/// sequentially if its size is unknown.
pub(super) fn product(b: &mut Builder<'_>, node: &Node) -> Results {
    let mut x = operand(node, 0)?;
    let axes = b.graph().facts().reduced_axes(node);
    let axes = axes.ok_or(Lack::Because("its axes are not known"))?;
    if axes.is_empty() {
        return Err(Lack::Because("it has no axes"));
    }
    let size = |b: &Builder<'_>, axis: usize| b.shape(x)[axis].as_known().filter(|size| *size > 0);
    let sizes: Vec<_> = axes.iter().map(|axis| (*axis, size(b, *axis))).collect();
    for (axis, size) in &sizes {
        if let Some(size) = size {
            x = halve(b, x, *axis as i64, *size)?;
        }
    }
    for (axis, size) in &sizes {
        if size.is_none() {
            x = one_by_one(b, x, *axis)?;
        }
    }
    let result = drop_reduced(b, node, x, &axes)?;
    Ok(vec![fresh(b, operand(node, 0)?, result)?])
}

/// Computes the product along an axis sequentially. The axis remains with size one.
fn one_by_one(b: &mut Builder<'_>, x: ValueId, axis: usize) -> Result<ValueId> {
    let first = std::iter::once(axis);
    let perm: Vec<usize> = first.chain((0..b.rank(x)).filter(|other| *other != axis)).collect();
    let rows = b.transpose(x, &perm)?;
    let row = Type::new(b.dtype(x), &b.shape(rows)[1..]);
    let mut start = b.int(row.dtype, 1)?;
    if !row.shape.is_empty() {
        let others: Vec<i64> = (1..perm.len() as i64).collect();
        let (shape, others) = (b.op("Shape", &[rows], Attrs::new())?, b.i64s(&others));
        let shape = b.op("Gather", &[shape, others], attrs! { axis: 0 })?;
        start = b.op("Expand", &[start, shape], Attrs::new())?;
    }
    let body = b.body(|b, block| {
        let factors = [row.clone(), row].map(|ty| b.graph_mut().add_input(block, ty));
        Ok(vec![b.op("Mul", &factors, Attrs::new())?])
    })?;
    let attrs = attrs! { body: body, num_scan_inputs: 1 };
    let product = b.op("Scan", &[start, rows], attrs)?;
    b.unsqueeze(product, &[axis as i64])
}

fn halve(b: &mut Builder<'_>, mut x: ValueId, axis: i64, mut size: i64) -> Result<ValueId> {
    while size > 1 {
        let half = size / 2;
        let first = slice(b, x, axis, (0, half))?;
        let second = slice(b, x, axis, (half, 2 * half))?;
        let mut product = b.op("Mul", &[first, second], Attrs::new())?;
        if size % 2 == 1 {
            let rest = slice(b, x, axis, (size - 1, size))?;
            product = b.op("Concat", &[product, rest], attrs! { axis: axis })?;
        }
        (x, size) = (product, half + size % 2);
    }
    Ok(x)
}

fn slice(b: &mut Builder<'_>, x: ValueId, axis: i64, range: (i64, i64)) -> Result<ValueId> {
    let [start, end, axis] = [range.0, range.1, axis].map(|n| b.i64s(&[n]));
    b.op("Slice", &[x, start, end, axis], Attrs::new())
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::legalize;
    use crate::legalize::testing::{assert_integers, run_integers};
    use crate::testing::graph;
    use onnx::attrs;
    use provenance::Origins;
    use tensor::DType::{I8, I32, I64, U64};

    #[test]
    fn powers_wrap_around() {
        for exponent in [1, 2, 3, 6, 13] {
            let mut origins = Origins::default();
            let text = format!(
                "g (int8[4] x) => (int8[4] y) {{
                    e = Constant <value = int8 {{{exponent}}}> ()
                    y = Pow (x, e)
                }}"
            );
            let mut graph = graph(&text, &mut origins);
            legalize(&mut graph, &mut origins, 21, Target::default()).unwrap();
            let x = [0, 1, -3, 7];
            let power = |x: i128| (x.pow(exponent) + 128).rem_euclid(256) - 128;
            assert_eq!(run_integers(&graph, &[x.to_vec()]), x.map(power), "{exponent}");
        }
    }

    #[test]
    fn remainders_have_the_sign_of_the_dividend() {
        let x = [(1 << 62) + 1, -(1 << 62) - 1, 7, -7];
        let y = [10, 10, -4, 4];
        let expected: Vec<i128> = x.iter().zip(y).map(|(a, b)| a % b).collect();
        assert_integers("Mod", I64, &[&x, &y], attrs! { fmod: 1 }, &expected);
        let (x, y) = ([u64::MAX.into()], [10]);
        assert_integers("Mod", U64, &[&x, &y], attrs! { fmod: 1 }, &[5]);
    }

    #[test]
    fn products_wrap_around() {
        for n in [1, 2, 3, 5, 8, 13] {
            let x: Vec<i128> = (0..n).map(|i| 3 + 2 * i).collect();
            let product: i128 = x.iter().product();
            let wrapped = |bits: u32| {
                let half = 1i128 << (bits - 1);
                (product + half).rem_euclid(2 * half) - half
            };
            assert_integers("ReduceProd", I8, &[&x], attrs! {}, &[wrapped(8)]);
            assert_integers("ReduceProd", I32, &[&x], attrs! {}, &[wrapped(32)]);
            assert_integers("ReduceProd", I64, &[&x], attrs! {}, &[wrapped(64)]);
        }
    }
}
