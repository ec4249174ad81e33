//! `ConvTranspose` with more padding on one side than on the other → `Slice` of one without padding.

use onnx::{Attr, NodeId};

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static UNEVEN_PADDING: Bug =
    Bug { name: "uneven_padding", roots: Roots::Named(&["ConvTranspose"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id).clone();
    let Some(pads) = node.ints("pads").map(<[i64]>::to_vec) else { return Ok(()) };
    let (before, after) = pads.split_at(pads.len() / 2);
    if before == after || node.attr("output_shape").is_some() {
        return Ok(());
    }
    let mut attrs = node.attrs.clone();
    attrs.retain(|(name, _)| *name != "pads");
    attrs.push(("pads", Attr::Ints(vec![0; pads.len()])));
    let b = &mut work.builder(id);
    let whole = b.op_optional(node.op.name, &node.inputs, attrs)?;
    let ends: Vec<i64> = after.iter().map(|n| if *n == 0 { i64::MAX } else { -n }).collect();
    let axes: Vec<i64> = (2..2 + before.len() as i64).collect();
    let (starts, ends, axes) = (b.i64s(before), b.i64s(&ends), b.i64s(&axes));
    let part = b.op("Slice", &[whole, starts, ends, axes], Vec::new())?;
    Ok(work.substitute(id, &[part])?)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    #[test]
    fn uneven_padding_is_sliced_off() {
        let layer = |pads: &str, target| {
            let text = format!(
                "g (float[B,2,4,4] x, float[2,3,3,3] w) => (float[B,3,8,8] y) {{
                    y = ConvTranspose <strides = [2, 2], pads = {pads}> (x, w)
                }}"
            );
            spelled(&text, target).unwrap()
        };
        assert!(layer("[0, 0, 1, 1]", "iree").contains("Slice"));
        assert!(layer("[1, 0, 0, 1]", "iree").contains("Slice"));
        assert!(!layer("[0, 0, 1, 1]", "tract").contains("Slice"));
    }

    #[test]
    fn even_padding_stays() {
        let text = "g (float[B,2,4,4] x, float[2,3,3,3] w) => (float[B,3,7,7] y) {
            y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w) }";
        assert!(!spelled(text, "iree").unwrap().contains("Slice"));
    }
}
