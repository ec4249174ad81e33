//! Maxima and minima of numbers that may include NaN, which takes precedence.

use onnx::{Attrs, Builder, Node, ValueId, attrs};
use tensor::DType;

use super::{Lack, operand};

/// Computes the reduction, and finds NaN by the sum of all magnitudes: infinities of one sign add
/// up to infinity. Sums are the fastest reductions of runtimes.
pub(super) fn reduce(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let x = operand(node, 0)?;
    let dtype = b.dtype(x);
    let wide = if dtype == DType::F64 { dtype } else { DType::F32 };
    let x = b.cast(x, wide)?;
    let is_size = b.graph().producer(x).is_some_and(|id| b.graph().node(id).is("Abs"));
    let sizes = if is_size { x } else { b.op("Abs", &[x], Attrs::new())? };
    let best = super::reduce(b, node.op.name, node, x)?;
    let sum = super::reduce(b, "ReduceSum", node, sizes)?;
    let result = if is_size && node.is("ReduceMax") {
        // The largest magnitude does not exceed the sum, and `Min` propagates NaN.
        b.op("Min", &[best, sum], Attrs::new())?
    } else {
        let any = b.op("IsNaN", &[sum], Attrs::new())?;
        b.op("Where", &[any, sum, best], Attrs::new())?
    };
    Ok(vec![b.cast(result, dtype)?])
}

/// Scatters the larger or the smaller number, and separately scatters flags for NaN.
pub(super) fn scatter(b: &mut Builder<'_>, node: &Node) -> Result<Vec<ValueId>, Lack> {
    let (data, indices, updates) = (operand(node, 0)?, operand(node, 1)?, operand(node, 2)?);
    let last = match node.string("reduction", "none") {
        "max" => f64::NEG_INFINITY,
        "min" => f64::INFINITY,
        _ => return Err(Lack::Because("it does not compare")),
    };
    let dtype = b.dtype(data);
    let wide = if dtype == DType::F64 { dtype } else { DType::F32 };
    let last = b.scalar(wide, last)?;
    let mut split = |x| {
        let x = b.cast(x, wide)?;
        let nan = b.op("IsNaN", &[x], Attrs::new())?;
        let number = b.op("Where", &[nan, last, x], Attrs::new())?;
        Ok::<_, Lack>((number, b.cast(nan, DType::U8)?))
    };
    let ((data, data_marks), (updates, marks)) = (split(data)?, split(updates)?);
    let best = b.op(node.op.name, &[data, indices, updates], node.attrs.clone())?;
    let mut attrs = node.attrs.clone();
    attrs.retain(|(name, _)| *name != "reduction");
    attrs.extend(attrs! { reduction: "max" });
    let any = b.op(node.op.name, &[data_marks, indices, marks], attrs)?;
    let any = b.cast(any, DType::Bool)?;
    let nan = b.scalar(wide, f64::NAN)?;
    let result = b.op("Where", &[any, nan, best], Attrs::new())?;
    Ok(vec![b.cast(result, dtype)?])
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::legalize;
    use crate::legalize::testing::{legalized, outcome, show};
    use crate::testing::graph;
    use onnx::attrs;
    use provenance::Origins;
    use tensor::DType;

    fn reduced(dtype: &str) -> String {
        let text = format!("g ({dtype}[2,2] x) => ({dtype}[1,1] y) {{ y = ReduceMax (x) }}");
        legalized(&text, Target::default())
    }

    #[test]
    fn nan_is_looked_for() {
        let nodes = "Abs:f32 ReduceMax:f32 ReduceSum:f32 LessOrEqual:bool Where:f32";
        assert_eq!(reduced("float"), nodes);
        assert_eq!(reduced("bfloat16"), format!("Cast:f32 {nodes} Cast:bf16"));
    }

    #[test]
    fn nan_is_remembered_by_updates() {
        let scatter = |how: &'static str, dtype| {
            let (given, attrs) = ([dtype, DType::I64, dtype], attrs! { reduction: how });
            outcome("ScatterElements", &given, attrs, &[dtype], (23, Target::default())).unwrap()
        };
        let split = "IsNaN:bool Where:f32 Cast:u8";
        let nodes = "ScatterElements:f32 ScatterElements:u8 Cast:bool Where:f32";
        assert_eq!(scatter("max", DType::F32), format!("{split} {split} {nodes}"));
        let cast = "Cast:f32";
        let nodes = format!("{cast} {split} {cast} {split} {nodes} Cast:bf16");
        assert_eq!(scatter("min", DType::BF16), nodes);
        assert_eq!(scatter("max", DType::I32), "ScatterElements:i32");
        assert_eq!(scatter("add", DType::F32), "ScatterElements:f32");
    }

    #[test]
    fn the_largest_size_is_at_most_their_sum() {
        let text = "g (float[2,3] x) => (float[2,1] y) <int64[1] a = {1}> {
            s = Abs (x) y = ReduceMax (s, a)
        }";
        let mut origins = Origins::default();
        let mut graph = graph(text, &mut origins);
        for _ in 0..2 {
            legalize(&mut graph, &mut origins, 23, Target::default()).unwrap();
            assert_eq!(show(&graph), "Abs:f32 ReduceMax:f32 ReduceSum:f32 Min:f32");
        }
    }

    #[test]
    fn integers_have_none() {
        assert_eq!(reduced("int32"), "ReduceMax:i32");
        assert_eq!(reduced("uint32"), "Cast:f64 ReduceMax:f64 Cast:u32");
    }

    #[test]
    fn the_sign_of_nan_is_found_in_a_wider_type() {
        let at = (23, Target::default());
        let sign = |dtype| outcome("Sign", &[dtype], attrs! {}, &[dtype], at).unwrap();
        assert_eq!(sign(DType::F16), "Cast:f32 Sign:f32 Cast:f16");
        assert_eq!(sign(DType::F32), "Sign:f32");
    }
}
