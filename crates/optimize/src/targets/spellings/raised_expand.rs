//! `Expand` that adds axes → `Unsqueeze` and `Expand`, for targets that lose the axes in products of
//! concatenated values.

use onnx::NodeId;

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static RAISED_EXPAND: Bug =
    Bug { name: "raised_expand", roots: Roots::Named(&["Expand"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id);
    let Some(x) = node.input(0) else { return Ok(()) };
    let rank = |value| work.graph().ty(value).rank();
    let added = rank(node.outputs[0]).saturating_sub(rank(x));
    if added == 0 || work.graph().tensor(x).is_some() {
        return Ok(());
    }
    let axes: Vec<i64> = (0..added as i64).collect();
    let raised = work.builder(id).unsqueeze(x, &axes)?;
    work.edit.set_input(id, 0, Some(raised));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    #[test]
    fn axes_are_added_before_values_are_repeated() {
        let repeated = |operand: &str, target| {
            let text = format!(
                "g (float{operand} x) => (float[2,3] y) {{
                    s = Constant <value_ints = [2, 3]> ()
                    y = Expand (x, s)
                }}"
            );
            spelled(&text, target).unwrap()
        };
        assert!(repeated("", "tract").contains("Unsqueeze"));
        assert!(!repeated("[1,1]", "tract").contains("Unsqueeze"));
        assert!(!repeated("", "openvino").contains("Unsqueeze"));
    }

    #[test]
    fn constants_are_repeated_as_they_are() {
        let text = "g (float[2,3] x) => (float[2,3] y) {
            s = Constant <value_ints = [2, 3]> () c = Constant <value = float {2}> () e = Expand (c, s) y = Add (x, e) }";
        assert!(!spelled(text, "tract").unwrap().contains("Unsqueeze"));
    }
}
