//! `Range` as the positions of the elements of a vector.

use std::panic::Location;

use onnx::{Attrs, Builder, Node, Op, attrs};
use tensor::{DType, Dim, Tensor, Type};

use super::{Lack, Results, fresh, operand};

/// Counts the elements of a vector with `NonZero`. The step must be one.
pub(super) fn of_positions(b: &mut Builder<'_>, node: &Node) -> Results {
    let (start, limit, step) = (operand(node, 0)?, operand(node, 1)?, operand(node, 2)?);
    let known = |value| b.graph().constant(value).and_then(Tensor::splat);
    if !b.dtype(start).is_integer() || known(step) != Some(1.0) {
        return Err(Lack::Because("it does not count integers by 1"));
    }
    let (dtype, is_iota) = (b.dtype(start), known(start) == Some(0.0));
    let mut count = b.cast(limit, DType::I64)?;
    if !is_iota {
        let start = b.cast(start, DType::I64)?;
        count = b.op("Sub", &[count, start], Attrs::new())?;
    }
    let size = b.shape(node.outputs[0])[0].clone();
    let is_size = b.graph().content(limit).is_some_and(|content| content == [size.clone()]);
    if !is_iota || !is_size {
        let none = b.int(DType::I64, 0)?;
        let is_some = b.op("Greater", &[count, none], Attrs::new())?;
        count = b.op("Where", &[is_some, count, none], Attrs::new())?;
    }
    let count = b.unsqueeze(count, &[0])?;
    let value = attrs! { value: Tensor::bools(&[1], &[true]) };
    let all = (Op::onnx("ConstantOfShape"), vec![Some(count)], value);
    let all = b.emit_typed(all, vec![Type::new(DType::Bool, [size.clone()])], Location::caller());
    let places = (Op::onnx("NonZero"), vec![Some(all[0])], Attrs::new());
    let types = vec![Type::new(DType::I64, [Dim::Known(1), size])];
    let places = b.emit_typed(places, types, Location::caller())[0];
    let places = b.squeeze(places, &[0])?;
    let mut result = b.cast(places, dtype)?;
    if !is_iota {
        result = b.op("Add", &[result, start], Attrs::new())?;
    }
    Ok(vec![fresh(b, places, result)?])
}

#[cfg(test)]
mod tests {
    use crate::legalize::testing::at_opset;

    fn counted(call: &str) -> String {
        let text = format!(
            "g (float[B] x) => (int64[N] y) {{
                axes = Constant <value_ints = [0]> () shape = Shape (x) n = Squeeze (shape, axes)
                zero = Constant <value = int64 {{0}}> () one = Constant <value = int64 {{1}}> ()
                {call} }}"
        );
        at_opset(&text, 10)
    }

    #[test]
    fn the_positions_of_a_known_number_of_elements_need_no_arithmetic() {
        let found = counted("i = Range (zero, n, one) y = Mul (i, i)").replace("[N]", "[B]");
        assert!(found.contains("NonZero"), "{found}");
        assert!(!["Sub", "Where", "Add"].iter().any(|op| found.contains(op)), "{found}");
    }

    #[test]
    fn ranges_that_start_later_are_shifted() {
        let found = counted("i = Range (one, n, one) y = Mul (i, i)");
        assert!(
            ["NonZero", "Sub (", "Where (", "Add ("].iter().all(|op| found.contains(op)),
            "{found}"
        );
    }
}
