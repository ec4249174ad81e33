//! `Unsqueeze` of a scalar → `Reshape`, for targets whose scalars may have an axis of size one.

use onnx::{Attrs, NodeId};

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static RAISED_SCALARS: Bug =
    Bug { name: "raised_scalars", roots: Roots::Named(&["Unsqueeze"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id);
    let Some(x) = node.input(0).filter(|x| work.graph().ty(*x).rank() == 0) else { return Ok(()) };
    let rank = work.graph().ty(node.outputs[0]).rank();
    let b = &mut work.builder(id);
    let shape = b.i64s(&vec![1; rank]);
    let raised = b.op("Reshape", &[x, shape], Attrs::new())?;
    Ok(work.substitute(id, &[raised])?)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    #[test]
    fn scalars_are_reshaped() {
        let raised = |operand: &str, result: &str, target| {
            let text = format!(
                "g (float{operand} x) => (float{result} y) {{
                    a = Constant <value_ints = [0]> ()
                    y = Unsqueeze (x, a)
                }}"
            );
            spelled(&text, target).unwrap()
        };
        assert!(raised("", "[1]", "mnn").contains("Reshape"));
        assert!(raised("[2]", "[1,2]", "mnn").contains("Unsqueeze"));
        assert!(raised("", "[1]", "tract").contains("Unsqueeze"));
    }
}
