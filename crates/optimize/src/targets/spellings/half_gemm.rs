//! `Gemm` in half precision → `MatMul` and `Add`, for targets that return single precision.

use onnx::formula::formulas;
use onnx::{Attrs, Builder, Node, NodeId, Result, ValueId};
use tensor::DType;

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static HALF_GEMM: Bug =
    Bug { name: "half_gemm", roots: Roots::Named(&["Gemm"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> std::result::Result<(), Error> {
    let node = work.graph().node(id).clone();
    let (Some(x), Some(w)) = (node.input(0), node.input(1)) else { return Ok(()) };
    if work.graph().ty(x).dtype != DType::F16 {
        return Ok(());
    }
    let b = &mut work.builder(id);
    let (x, w) = (turned(b, &node, "transA", x)?, turned(b, &node, "transB", w)?);
    let mut sum = b.op("MatMul", &[x, w], Attrs::new())?;
    sum = scaled(b, &node, "alpha", sum)?;
    if let Some(bias) = node.input(2) {
        let bias = scaled(b, &node, "beta", bias)?;
        sum = b.op("Add", &[sum, bias], Attrs::new())?;
    }
    Ok(work.substitute(id, &[sum])?)
}

fn turned(b: &mut Builder<'_>, node: &Node, attr: &str, x: ValueId) -> Result<ValueId> {
    if node.int(attr, 0) == 0 { Ok(x) } else { b.transpose(x, &[1, 0]) }
}

fn scaled(b: &mut Builder<'_>, node: &Node, attr: &str, x: ValueId) -> Result<ValueId> {
    let factor = node.float(attr, 1.0);
    let [scaled] = formulas(b, [x], |[x]| [if factor == 1.0 { x } else { x * factor }])?;
    Ok(scaled)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    #[test]
    fn a_product_of_half_precision_is_added_to() {
        let layer = |dtype| {
            let text = format!(
                "g ({dtype}[B,4] x, {dtype}[3,4] w, {dtype}[3] c) => ({dtype}[B,3] y) {{
                    y = Gemm <transB = 1, alpha = 0.5> (x, w, c)
                }}"
            );
            spelled(&text, "tract").unwrap()
        };
        let half = layer("float16");
        for op in ["Transpose", "MatMul", "Mul", "Add"] {
            assert!(half.contains(op), "{half}");
        }
        assert!(layer("float").contains("Gemm"));
    }

    #[test]
    fn a_product_without_factors_is_not_scaled() {
        let text = "g (float16[B,4] x, float16[4,3] w, float16[3] c) => (float16[B,3] y) { y = Gemm (x, w, c) }";
        let found = spelled(text, "tract").unwrap();
        assert!(found.contains("MatMul (x, w)") && !found.contains("Mul (y"), "{found}");
        assert_eq!(found.matches("= Mul").count(), 0, "{found}");
    }
}
