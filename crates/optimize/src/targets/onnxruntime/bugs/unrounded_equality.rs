//! Adds an axis to the computed operands of an `Equal` in half precision, and removes it again.
//!
//! onnxruntime computes most operators in single precision and drops the rounding between them, so
//! that a number may differ from itself if another path rounds it. Two nodes in a row that have
//! kernels in half precision make it round. A single one would run in single precision, too.

use onnx::NodeId;
use tensor::DType;

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(super) static BUG: Bug =
    Bug { name: "unrounded_equality", roots: Roots::Named(&["Equal"]), avoid };

fn avoid(work: &mut Legalizer<'_>, equal: NodeId) -> Result<(), Error> {
    if work.target.rounds_once {
        return Ok(());
    }
    let node = work.graph().node(equal);
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Ok(()) };
    if a == b || work.graph().ty(a).dtype != DType::F16 {
        return Ok(());
    }
    for (index, operand) in [a, b].into_iter().enumerate() {
        if work.graph().producer(operand).is_some() && work.graph().constant(operand).is_none() {
            let mut b = work.builder(equal);
            let viewed = b.unsqueeze(operand, &[0])?;
            let rounded = b.squeeze(viewed, &[0])?;
            work.set_input(equal, index, rounded);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing;

    #[test]
    fn computed_numbers_are_rounded() {
        let of = |dtype: &str, operands: &str, target| {
            let text = format!(
                "g ({dtype}[3] x) => (bool[3] y) {{
                    a = Neg (x) b = Sin (x) y = Equal ({operands}) }}"
            );
            testing::legalized(&text, target).matches("Unsqueeze").count()
        };
        assert_eq!(of("float16", "a, b", Target::default()), 2);
        assert_eq!(of("float16", "a, x", Target::default()), 1);
        assert_eq!(of("float16", "a, a", Target::default()), 0);
        assert_eq!(of("float", "a, b", Target::default()), 0);
        assert_eq!(of("float16", "a, b", Target::any()), 0);
    }
}
