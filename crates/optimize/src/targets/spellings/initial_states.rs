//! Recurrent layers with explicit zero states, for targets that cannot make them for a batch of symbolic size.

use std::panic::Location;

use onnx::{Attrs, NodeId, attrs};

use crate::Roots;
use crate::legalize::{Error, Work};
use crate::targets::Bug;

pub(in crate::targets) static INITIAL_STATES: Bug =
    Bug { name: "initial_states", roots: Roots::Named(&["GRU", "LSTM"]), avoid };

/// The index of the operand that is the first initial state.
const STATE: usize = 5;

fn avoid(work: &mut Work<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id).clone();
    let (Some(x), Some(w)) = (node.input(0), node.input(1)) else { return Ok(()) };
    let (ty, directions) = (work.graph().ty(x).clone(), work.graph().ty(w).shape[0].as_known());
    let Some(directions) = directions else { return Ok(()) };
    let has_state = node.input(STATE).is_some() || node.input(STATE + 1).is_some();
    if has_state || node.attr("layout").is_some() || ty.shape[1].as_known().is_some() {
        return Ok(());
    }
    let mut b = work.builder(id, Some(id));
    let batch = b.op("Shape", &[x], attrs! { start: 1, end: 2 })?;
    let (directions, units) = (b.i64s(&[directions]), b.i64s(&[node.int("hidden_size", 0)]));
    let shape = b.op("Concat", &[directions, batch, units], attrs! { axis: 0 })?;
    let zero = b.scalar(ty.dtype, 0.0)?;
    let zeros = b.op("Expand", &[zero, shape], Attrs::new())?;
    let states = if node.is("LSTM") { 2 } else { 1 };
    let mut inputs = node.inputs.clone();
    inputs.resize(STATE, None);
    inputs.extend(std::iter::repeat_n(Some(zeros), states));
    let count = node.outputs.len();
    let results = b.emit(node.op, inputs, node.attrs.clone(), count, Location::caller())?;
    Ok(work.substitute(id, &results)?)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn layer(batch: &str, target: &str) -> String {
        let text = format!(
            "g (float[5,{batch},4] x, float[1,18,4] w, float[1,18,6] r) => (float[5,1,{batch},6] y) {{
                y = GRU <hidden_size = 6> (x, w, r)
            }}"
        );
        spelled(&text, target).unwrap()
    }

    #[test]
    fn states_of_a_symbolic_batch_are_explicit() {
        assert!(layer("B", "tract").contains("Expand"));
        assert!(layer("B", "iree").contains("Expand"));
        assert!(!layer("B", "onnxruntime").contains("Expand"));
        assert!(!layer("3", "tract").contains("Expand"));
    }
}
