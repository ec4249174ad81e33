//! `ScatterND` and `ScatterElements` into a tensor of symbolic size → `Slice` of one with another row, for targets that write into
//! constants of symbolic size although other operators read them, too. They copy a padded one.

use onnx::{Attrs, NodeId, attrs};
use tensor::{DType, Dim};

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static PADDED_UPDATES: Bug =
    Bug { name: "padded_updates", roots: Roots::Named(&["ScatterElements", "ScatterND"]), avoid };

/// A number that no operand consists of. Padding with the same number would be part of the constant.
const FILL: f64 = 77.0;

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let graph = work.graph();
    let node = graph.node(id).clone();
    let operands: Vec<_> = node.inputs.iter().flatten().copied().collect();
    let [x, indices, updates] = *operands else { return Ok(()) };
    let ty = graph.ty(x);
    if ty.static_shape().is_some() {
        return Ok(());
    }
    if let Some(producer) = graph.producer(x) {
        if graph.node(producer).is("Pad") {
            return Ok(());
        }
        if graph.node(producer).block() != node.block() {
            let reason = "in a loop, it changes a tensor of symbolic size that the next iteration reads; \
                          export the model with numbers in place of its sizes";
            return Err(work.unsupported(id, ty.dtype, reason));
        }
    }
    let (dtype, rank) = (ty.dtype, ty.rank());
    // The indices of other axes than the first one keep their meaning.
    let axes = match node.op.name {
        "ScatterND" => graph.ty(indices).shape.last().and_then(Dim::as_known).unwrap_or(0),
        _ => i64::from(node.int("axis", 0).rem_euclid(rank as i64) == 0),
    };
    // A negative index counts from the end, which moves.
    let is_in_order = graph.facts().interval(indices).is_at_least(&Dim::Known(0));
    let b = &mut work.builder(id);
    let mut places = indices;
    if axes > 0 && !is_in_order {
        let sizes = b.op("Shape", &[x], attrs! { end: axes })?;
        let zero = b.scalar(DType::I64, 0.0)?;
        let is_negative = b.op("Less", &[indices, zero], Attrs::new())?;
        let from_the_end = b.op("Add", &[indices, sizes], Attrs::new())?;
        places = b.op("Where", &[is_negative, from_the_end, indices], Attrs::new())?;
    }
    let mut pads = vec![0; 2 * rank];
    pads[rank] = 1;
    let (pads, fill) = (b.i64s(&pads), b.scalar(DType::F32, FILL)?);
    let fill = b.cast(fill, dtype)?;
    let padded = b.op("Pad", &[x, pads, fill], Attrs::new())?;
    let whole = b.op(node.op.name, &[padded, places, updates], node.attrs)?;
    let (start, end) = (b.i64s(&[0]), b.i64s(&[-1]));
    let part = b.op("Slice", &[whole, start, end, start], Attrs::new())?;
    Ok(work.substitute(id, &[part])?)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn updated(rows: &str, indices: &str, target: &str) -> String {
        let text = format!(
            "g (float[{rows},2] x, int64[3,1] i, float[3,2] u) => (float[{rows},2] y) {{
                {indices}
                y = ScatterND <reduction = \"add\"> (x, j, u)
            }}"
        );
        spelled(&text, target).unwrap()
    }

    #[test]
    fn updates_of_symbolic_sizes_get_another_row() {
        let any = "j = Identity (i)";
        let text = updated("B", any, "iree");
        assert!(text.contains("Pad") && text.contains("Slice") && text.contains("Less"), "{text}");
        assert!(text.contains("reduction: string = \"add\""), "{text}");
        let text = updated("B", "j = Constant <value = int64[3,1] {0, 1, 1}> ()", "iree");
        assert!(text.contains("Pad") && !text.contains("Less"), "{text}");
        for (rows, target) in [("4", "iree"), ("B", "tract")] {
            let text = updated(rows, any, target);
            assert!(!text.contains("Pad"), "{text}");
        }
    }

    #[test]
    fn updates_of_outer_tensors_in_loops_are_an_error() {
        let text = "g (float[B,2] x, int64[3,1] i, float[3,2] u) => (float[B,2] y) {
            n = Constant <value_int = 3> ()
            t = Constant <value = bool {1}> ()
            z = Neg (x)
            y = Loop <body = b (int64 k, bool c, float[B,2] s) => (bool d, float[B,2] r) {
                d = Identity (c)
                w = ScatterND <reduction = \"add\"> (z, i, u)
                r = Add (s, w)
            }> (n, t, x)
        }";
        let message = spelled(text, "iree").unwrap_err().to_string();
        assert!(message.contains("numbers in place of its sizes"), "{message}");
        assert!(spelled(&text.replace("(z, i, u)", "(s, i, u)"), "iree").is_ok());
    }
}
