//! The largest and the smallest of numbers among which NaN may be, which wins.

use onnx::{Attrs, Builder, Node, ValueId};
use tensor::DType;

use super::{Lack, operand};

/// A reduction of the numbers alone, unless there is NaN.
pub(super) fn reduce(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let dtype = b.dtype(x);
    let wide = if matches!(dtype, DType::F16 | DType::F64) { dtype } else { DType::F32 };
    let x = b.cast(x, wide)?;
    let nan = b.op("IsNaN", &[x], Attrs::new())?;
    let last = if node.is("ReduceMax") { f64::NEG_INFINITY } else { f64::INFINITY };
    let last = b.scalar(wide, last)?;
    let numbers = b.op("Where", &[nan, last, x], Attrs::new())?;
    let marks = b.cast(nan, DType::U8)?;
    let mut reduce = |op, operand| {
        let mut inputs = node.inputs.clone();
        inputs[0] = Some(operand);
        b.op_optional(op, &inputs, node.attrs.clone())
    };
    let best = reduce(node.op.name, numbers)?;
    let any = reduce("ReduceMax", marks)?;
    let any = b.cast(any, DType::Bool)?;
    let nan = b.scalar(wide, f64::NAN)?;
    let result = b.op("Where", &[any, nan, best], Attrs::new())?;
    Ok(vec![b.cast(result, dtype)?])
}

#[cfg(test)]
mod tests {
    use crate::legalize::Target;
    use crate::legalize::testing::outcome;
    use onnx::attrs;
    use tensor::DType;

    fn reduced(dtype: DType) -> String {
        let at = (23, Target::OnnxRuntime);
        outcome("ReduceMax", &[dtype], attrs! {}, &[dtype], at).unwrap()
    }

    #[test]
    fn nan_is_looked_for() {
        let nodes = "IsNaN:bool Where:f32 Cast:u8 ReduceMax:f32 ReduceMax:u8 Cast:bool Where:f32";
        assert_eq!(reduced(DType::F32), nodes);
        assert_eq!(reduced(DType::BF16), format!("Cast:f32 {nodes} Cast:bf16"));
    }

    #[test]
    fn integers_have_none() {
        assert_eq!(reduced(DType::I32), "ReduceMax:i32");
        assert_eq!(reduced(DType::U32), "Cast:f64 ReduceMax:f64 Cast:u32");
    }

    #[test]
    fn the_sign_of_nan_is_found_in_a_wider_type() {
        let at = (23, Target::OnnxRuntime);
        let sign = |dtype| outcome("Sign", &[dtype], attrs! {}, &[dtype], at).unwrap();
        assert_eq!(sign(DType::F16), "Cast:f32 Sign:f32 Cast:f16");
        assert_eq!(sign(DType::F32), "Sign:f32");
    }
}
