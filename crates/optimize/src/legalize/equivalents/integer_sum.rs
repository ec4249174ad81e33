//! Sums of integers that wrap around, for runtimes that add them in double precision.
//!
//! Products of integers wrap around, so a sum over one of the last two axes is a product with ones.
//! For other axes, double precision is exact up to 2⁵³. Integers that are too wide for the number
//! of terms are split into parts whose sums are exact, and recombined with arithmetic that wraps
//! around.

use std::sync::Arc;

use onnx::formula::{Num, formulas};
use onnx::{Attrs, Builder, Node, Result, ValueId, attrs};
use tensor::{DType, Dim, Tensor};

use super::{Lack, Results, drop_reduced, fresh, operand, reduce, reshape};

pub(super) fn sum(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let dtype = b.dtype(x);
    if let Some(sum) = by_products(b, node, x)? {
        return Ok(vec![sum]);
    }
    let terms = b.graph().facts().terms_of_sums(node).and_then(|terms| terms.as_known());
    let terms = terms.and_then(|terms| u64::try_from(terms).ok());
    let room = 53 - terms.map_or(37, |n| 64 - n.leading_zeros());
    if dtype.bits() <= room {
        let sum = in_double(b, node, x)?;
        // Masks the low bits before the cast. Runtimes may merge two consecutive casts, and a cast
        // from double precision does not wrap around.
        let mask = b.int(DType::I64, (1 << dtype.bits()) - 1)?;
        let low = b.op("BitwiseAnd", &[sum, mask], Attrs::new())?;
        return Ok(vec![b.cast(low, dtype)?]);
    }
    let width = if room >= 32 { 32 } else { 16 };
    let bits = b.cast(x, DType::U64)?;
    let mut total = None;
    for shift in (0..dtype.bits()).step_by(width as usize) {
        let [piece] = formulas(b, [bits], |[bits]| [cut(bits, shift, width)])?;
        let sum = in_double(b, node, piece)?;
        let factor = b.int(DType::I64, 1 << shift)?;
        let part = b.op("Mul", &[sum, factor], Attrs::new())?;
        total = Some(match total {
            None => part,
            Some(total) => b.op("Add", &[total, part], Attrs::new())?,
        });
    }
    let total = total.ok_or(Lack::Because("it has no bits"))?;
    Ok(vec![b.cast(total, dtype)?])
}

/// Computes the sum by products with vectors of ones, one for each axis.
fn by_products(b: &mut Builder<'_>, node: &Node, x: ValueId) -> Result<Option<ValueId>> {
    let (dtype, rank) = (b.dtype(x), b.rank(x));
    let axes =
        b.graph().facts().reduced_axes(node).filter(|_| matches!(dtype, DType::I32 | DType::I64));
    let Some(axes) = axes.filter(|axes| !axes.is_empty()) else { return Ok(None) };
    let (mut total, mut summed) = (x, axes.clone());
    if axes.len() == rank && rank > 1 {
        (total, summed) = (reshape(b, x, &[-1])?, vec![0]);
    }
    let Some(steps) = steps(b.shape(total), &summed) else { return Ok(None) };
    for (axis, step) in summed.iter().rev().zip(steps) {
        let ones = ones(b, total, *axis, step, dtype)?;
        let operands = match step {
            ProductForm::Rows => [ones, total],
            ProductForm::Columns | ProductForm::MaybeNone => [total, ones],
        };
        total = b.op("MatMul", &operands, Attrs::new())?;
        if step == ProductForm::MaybeNone {
            total = b.squeeze(total, &[*axis as i64])?;
        }
    }
    if node.int("keepdims", 1) != 0 {
        let axes: Vec<i64> = axes.iter().map(|axis| *axis as i64).collect();
        total = b.unsqueeze(total, &axes)?;
    }
    Ok(Some(total))
}

/// The form of the product with ones along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProductForm {
    /// The last axis, by a vector.
    Columns,
    /// The last axis of a value that may otherwise be empty, by a matrix. Runtimes may reject a
    /// vector there.
    MaybeNone,
    /// The second-to-last axis, by a vector.
    Rows,
}

/// Returns the steps that sum over `axes`, the last one first. All axes but the last two must not
/// be summed.
fn steps(shape: &[Dim], axes: &[usize]) -> Option<Vec<ProductForm>> {
    let is_some = |dims: &[Dim]| dims.iter().all(|dim| dim.as_known().is_some_and(|n| n > 0));
    let mut shape = shape.to_vec();
    let mut steps = Vec::new();
    for axis in axes.iter().rev() {
        steps.push(match shape.len() - axis {
            1 if is_some(&shape[..*axis]) => ProductForm::Columns,
            1 => ProductForm::MaybeNone,
            2 if is_some(&shape[..*axis]) => ProductForm::Rows,
            _ => return None,
        });
        shape.remove(*axis);
    }
    Some(steps)
}

/// The largest number of ones to store as a constant.
const LARGEST: usize = 1024;

/// Emits as many ones as `x` has elements along an axis.
fn ones(
    b: &mut Builder<'_>,
    x: ValueId,
    axis: usize,
    step: ProductForm,
    dtype: DType,
) -> Result<ValueId> {
    let size = b.shape(x)[axis].as_known();
    let is_matrix = step == ProductForm::MaybeNone;
    let small = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= LARGEST);
    if let Some(count) = small
        && let Some(bytes) = Tensor::int_scalar(dtype, 1).as_ref().and_then(Tensor::bytes)
    {
        let shape = if is_matrix { &[count, 1][..] } else { &[count] };
        if let Ok(ones) = Tensor::new(dtype, shape, Arc::new(bytes.repeat(count))) {
            return Ok(b.constant(ones));
        }
    }
    let start = axis as i64;
    let mut sizes = match size {
        Some(size) => b.i64s(&[size]),
        None => b.op("Shape", &[x], attrs! { start: start, end: start + 1 })?,
    };
    if is_matrix {
        let width = b.i64s(&[1]);
        sizes = b.op("Concat", &[sizes, width], attrs! { axis: 0 })?;
    }
    super::ones(b, sizes, dtype)
}

/// Computes the last of the running totals, for a target without double precision. They wrap around
/// like sums of integers. A zero before the first term is the empty sum.
pub(super) fn running(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let (dtype, rank) = (b.dtype(x), b.rank(x));
    let axes = b.graph().facts().reduced_axes(node);
    let axes = axes.ok_or(Lack::Because("its axes are computed"))?;
    let word = if dtype.bits() < 32 || dtype == DType::I32 { DType::I32 } else { DType::I64 };
    let mut total = b.cast(x, word)?;
    for axis in &axes {
        let mut amounts = vec![0; 2 * rank];
        amounts[*axis] = 1;
        let number = *axis as i64;
        let (amounts, axis) = (b.i64s(&amounts), b.int(DType::I64, i128::from(number))?);
        total = b.op("Pad", &[total, amounts], Attrs::new())?;
        total = b.op("CumSum", &[total, axis], Attrs::new())?;
        let (last, end, axes) = (b.i64s(&[-1]), b.i64s(&[i64::MAX]), b.i64s(&[number]));
        total = b.op("Slice", &[total, last, end, axes], Attrs::new())?;
    }
    let total = drop_reduced(b, node, total, &axes)?;
    let total = b.cast(total, dtype)?;
    Ok(vec![fresh(b, x, total)?])
}

/// Computes the sum of the magnitudes.
pub(super) fn of_sizes(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let sizes = b.op("Abs", &[x], Attrs::new())?;
    Ok(vec![reduce(b, "ReduceSum", node, sizes)?])
}

/// Computes the sum of the squares.
pub(super) fn of_squares(b: &mut Builder<'_>, node: &Node) -> Results {
    let x = operand(node, 0)?;
    let squares = b.op("Mul", &[x, x], Attrs::new())?;
    Ok(vec![reduce(b, "ReduceSum", node, squares)?])
}

/// Computes the sum of `x` as 64-bit integers, in double precision.
fn in_double(b: &mut Builder<'_>, node: &Node, x: ValueId) -> Result<ValueId> {
    let double = b.cast(x, DType::F64)?;
    let sum = reduce(b, "ReduceSum", node, double)?;
    b.cast(sum, DType::I64)
}

/// Extracts `width` bits of `x`, starting at `shift`.
fn cut<'f>(x: Num<'f>, shift: u32, width: u32) -> Num<'f> {
    let shifted = if shift > 0 { x >> u64::from(shift) } else { x };
    if shift + width < 64 { shifted & ((1u64 << width) - 1) } else { shifted }
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::legalize;
    use crate::legalize::testing::{assert_integers, legalized, show};
    use crate::testing::graph;
    use onnx::attrs;
    use provenance::Origins;
    use tensor::DType::{I8, I16, I32, I64, U8, U32, U64};

    #[test]
    fn counts_are_summed_without_casts() {
        for (size, operand, nodes) in [
            ("3", "c = Cast <to = 6> (b)", "Cast:i32 ReduceSum:i32".to_owned()),
            ("T", "c = Cast <to = 6> (b)", "Cast:i32 ReduceSum:i32".to_owned()),
            ("3", "c = Clip (x, low, high)", "Max:i32 Min:i32 ReduceSum:i32".to_owned()),
            (
                "1100000",
                "c = Clip (x, low, high)",
                "Max:i32 Min:i32 ConstantOfShape:i32 MatMul:i32 Unsqueeze:i32".to_owned(),
            ),
            ("3", "c = Neg (x)", "Neg:i32 MatMul:i32 Unsqueeze:i32".to_owned()),
        ] {
            let text = format!(
                "g (bool[2,{size}] b, int32[2,{size}] x) => (int32[2,1] y) {{
                    low = Constant <value = int32 {{-2000}}> ()
                    high = Constant <value = int32 {{1000}}> ()
                    a = Constant <value_ints = [1]> ()
                    {operand} y = ReduceSum (c, a) }}"
            );
            let mut origins = Origins::default();
            let mut graph = graph(&text, &mut origins);
            legalize(&mut graph, &mut origins, 23, Target::default()).unwrap();
            assert_eq!(show(&graph), nodes, "{size} {operand}");
        }
    }

    #[test]
    fn sums_over_other_axes() {
        let products = "MatMul:i32 MatMul:i32";
        let pieces = "Cast:f64 ReduceSum:f64 Cast:i64 BitwiseAnd:i64 Cast:i32";
        for (axes, nodes) in [
            ("2", "MatMul:i32"),
            ("1", "MatMul:i32"),
            ("1, 2", products),
            ("-1, 1", products),
            ("0", pieces),
            ("0, 2", products),
            ("0, 1, 2", "Reshape:i32 MatMul:i32"),
        ] {
            let left = 3 - axes.split(',').count();
            let shape = ["", "[N]", "[N,M]"][left];
            let sizes = match axes {
                "2" => "[2,3]",
                "1" => "[2,4]",
                "0" => "[3,4]",
                "0, 2" => "[3]",
                _ => shape,
            };
            let sizes = if sizes == "[N]" { "[2]" } else { sizes };
            let text = format!(
                "g (int32[2,3,4] x) => (int32{sizes} y) {{
                    axes = Constant <value_ints = [{axes}]> ()
                    y = ReduceSum <keepdims = 0> (x, axes) }}"
            );
            let mut origins = Origins::default();
            let mut graph = graph(&text, &mut origins);
            legalize(&mut graph, &mut origins, 23, Target::default()).unwrap();
            assert_eq!(show(&graph), nodes, "{axes}");
        }
    }

    #[test]
    fn more_terms_are_summed_in_narrower_pieces() {
        for (size, pieces) in [("3", 2), ("2097151", 2), ("2097152", 4), ("T", 4)] {
            let text = format!(
                "g (uint64[2,{size}] x) => (uint64[2,1] y) {{
                    a = Constant <value_ints = [1]> () y = ReduceSum (x, a) }}"
            );
            let shown = legalized(&text, Target::default());
            assert_eq!(shown.matches("ReduceSum:f64").count(), pieces, "{size}: {shown}");
        }
    }

    #[test]
    fn sums_wrap_around() {
        for dtype in [I8, I16, I32, I64, U8, U32, U64] {
            let (low, high) = dtype.int_range().unwrap();
            let modulus = high - low + 1;
            let wrap = |v: i128| (v - low).rem_euclid(modulus) + low;
            let all: Vec<i128> =
                (0..100).map(|i| wrap(low + i * i * 7_777_777_777 + i * modulus / 3)).collect();
            let mut operands = vec![all, vec![high; 100], vec![low; 100], vec![low, high, 1]];
            operands.push((0..70_000).map(|i| wrap(high - i)).collect());
            for x in operands {
                assert_integers("ReduceSum", dtype, &[&x], attrs! {}, &[wrap(x.iter().sum())]);
            }
        }
    }

    #[test]
    fn sizes_and_squares_follow() {
        let x = [3, -4, i128::from(i32::MAX)];
        let sizes = i128::from(i32::MIN) + 6;
        assert_integers("ReduceL1", I32, &[&x], attrs! {}, &[sizes]);
        assert_integers("ReduceSumSquare", I32, &[&x], attrs! {}, &[26]);
    }
}
