//! Inserts a `Neg` between a `MatMul` in double precision and the scaling of its result or an
//! operand by a number, and negates the number.
//!
//! onnxruntime's `MatMulScaleFusion` moves the number into the product, in single precision.

use onnx::{Attrs, NodeId, ValueId};
use tensor::{DType, Tensor};

use crate::Roots;
use crate::legalize::{Error, Legalizer, made_by};
use crate::targets::Bug;

pub(super) static BUG: Bug =
    Bug { name: "scaled_product", roots: Roots::Named(&["Mul", "Div"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let graph = &work.graph();
    let node = graph.node(id).clone();
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Ok(()) };
    let result = node.outputs[0];
    let number = |value| {
        let tensor: Option<&Tensor> = graph.tensor(value).filter(|tensor| tensor.len() == 1);
        tensor.and_then(Tensor::splat)
    };
    let (x, constant) = match (number(a), number(b)) {
        (None, Some(c)) => (0, c),
        (Some(c), None) => (1, c),
        _ => return Ok(()),
    };
    let made = made_by(graph, [a, b][x], "MatMul").is_some();
    let read = graph.value(result).consumers().any(|user| graph.node(user).is("MatMul"));
    // A number with more axes than the operand would change the shape.
    let is_alike = graph.ty([a, b][x]) == graph.ty(result);
    if graph.ty(result).dtype != DType::F64 || !is_alike || !(made || read) {
        return Ok(());
    }
    let mut inputs = [a, b];
    let negated = |work: &mut Legalizer<'_>, value: ValueId| {
        work.builder(id).op("Neg", &[value], Attrs::new())
    };
    if made {
        inputs[x] = negated(work, inputs[x])?;
    }
    if made != read {
        inputs[1 - x] = work.builder(id).scalar(DType::F64, -constant)?;
    }
    let op = node.op.name;
    let mut scaled = work.builder(id).op(op, &inputs, node.attrs.clone())?;
    if read {
        scaled = negated(work, scaled)?;
    }
    Ok(work.substitute(id, &[scaled])?)
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing::legalized_text;

    fn scaled(dtype: &str, body: &str) -> String {
        let text = format!(
            "g ({dtype}[2,2] x, {dtype}[2,2] w) => ({dtype}[2,2] y) {{ c = Constant <value = {dtype} {{2}}> () {body} }}"
        );
        legalized_text(&text, Target::default())
    }

    #[test]
    fn two_signs_separate_a_product_from_its_scale() {
        for body in ["m = MatMul (x, w) y = Mul (m, c)", "m = Mul (x, c) y = MatMul (m, w)"] {
            let found = scaled("double", body);
            assert!(found.matches("Neg (").count() == 1 && found.contains("{-2.0}"), "{found}");
            assert!(!scaled("float", body).contains("Neg"));
        }
        let found = scaled("double", "m = MatMul (x, w) n = Mul (m, c) y = MatMul (n, w)");
        assert!(found.matches("Neg (").count() == 2 && found.contains("{2.0}"), "{found}");
        let other = scaled("double", "m = Sin (x) y = Mul (m, c)");
        assert!(!other.contains("Neg"), "{other}");
    }
}
