//! Sequences that are read backwards → reversed sequences that are read forwards, for targets that ignore the direction.

use std::panic::Location;

use onnx::{Attr, Attrs, Builder, NodeId, ValueId, attrs, reversal};
use tensor::{DType, Tensor};

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::loops::Loop;
use crate::targets::Bug;

pub(in crate::targets) static BACKWARD_LAYERS: Bug =
    Bug { name: "backward_layers", roots: Roots::Named(&["GRU", "LSTM", "RNN"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let mut node = work.graph().node(id).clone();
    let direction = node.attrs.iter().position(|(name, value)| {
        *name == "direction" && matches!(value, Attr::String(text) if **text == *"reverse")
    });
    let (Some(direction), Some(sequence), None) = (direction, node.input(0), node.input(4)) else {
        return Ok(());
    };
    node.attrs.remove(direction);
    let b = &mut work.builder(id);
    node.inputs[0] = Some(reversed(b, sequence)?);
    let count = node.outputs.len();
    let mut results = b.emit(node.op, node.inputs, node.attrs, count, Location::caller())?;
    if let Some(all) = results.first_mut() {
        *all = reversed(b, *all)?;
    }
    Ok(work.substitute(id, &results)?)
}

pub(in crate::targets) static BACKWARD_SLICES: Bug =
    Bug { name: "backward_slices", roots: Roots::Named(&["Slice"]), avoid: avoid_slice };

fn avoid_slice(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let (graph, node) = (work.graph(), work.graph().node(id));
    if let Some((mut value, axes)) = reversal(graph, node) {
        let b = &mut work.builder(id);
        for axis in axes {
            value = gathered(b, value, axis)?;
        }
        return Ok(work.substitute(id, &[value])?);
    }
    let steps = node.input(4).and_then(|steps| graph.constant(steps)).and_then(Tensor::to_i64s);
    if steps.is_none_or(|steps| steps.iter().all(|step| *step > 0)) {
        return Ok(());
    }
    let reason = "it reads elements backwards incorrectly, unless a whole axis is reversed";
    Err(work.unsupported(id, graph.ty(node.outputs[0]).dtype, reason))
}

/// Makes a scan go forwards. Returns its node, which is another one if it went backwards.
pub(super) fn scan_forwards(work: &mut Legalizer<'_>, id: NodeId) -> Result<NodeId, Error> {
    let graph = work.graph();
    let Some(found) = Loop::at(graph, id) else { return Ok(id) };
    let mut node = graph.node(id).clone();
    let scanned = 0..node.inputs.len() - found.carried;
    let read: Vec<usize> = scanned.filter(|k| found.reads_backwards(graph, *k)).collect();
    let stacked = 0..node.outputs.len() - found.carried;
    let stacked: Vec<usize> = stacked.filter(|k| found.stacks_backwards(graph, *k)).collect();
    if read.is_empty() && stacked.is_empty() {
        return Ok(id);
    }
    // The body moves to the new node.
    work.edit.attrs_mut(id).clear();
    for (name, value) in &mut node.attrs {
        if let ("scan_input_directions" | "scan_output_directions", Attr::Ints(all)) =
            (*name, value)
        {
            all.fill(0);
        }
    }
    let b = &mut work.builder(id);
    for index in read {
        if let Some(rows) = &mut node.inputs[found.carried + index] {
            *rows = reversed(b, *rows)?;
        }
    }
    let count = node.outputs.len();
    let mut results = b.emit(node.op, node.inputs, node.attrs, count, Location::caller())?;
    let forward = b.graph().producer(results[0]);
    for index in stacked {
        let rows = &mut results[found.carried + index];
        *rows = reversed(b, *rows)?;
    }
    work.substitute(id, &results)?;
    Ok(forward.unwrap_or(id))
}

fn reversed(b: &mut Builder<'_>, rows: ValueId) -> onnx::Result<ValueId> {
    let [start, end, axis] = [-1, i64::MIN, 0].map(|number| b.i64s(&[number]));
    let step = start;
    b.op("Slice", &[rows, start, end, axis, step], Attrs::new())
}

/// Reverses an axis without a `Slice`.
fn gathered(b: &mut Builder<'_>, value: ValueId, axis: usize) -> onnx::Result<ValueId> {
    let indices = if let Some(size) = b.shape(value)[axis].as_known() {
        b.i64s(&(0..size).rev().collect::<Vec<_>>())
    } else {
        let size = b.op("Shape", &[value], attrs! { start: axis as i64, end: axis as i64 + 1 })?;
        let size = b.squeeze(size, &[0])?;
        let step = b.int(DType::I64, -1)?;
        let last = b.op("Add", &[size, step], Attrs::new())?;
        b.op("Range", &[last, step, step], Attrs::new())?
    };
    b.op("Gather", &[value, indices], attrs! { axis: axis as i64 })
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    #[test]
    fn backward_layers_read_reversed_sequences() {
        let layer = |direction: &str, target| {
            let text = format!(
                "g (float[3,B,1] x, float[1,4,1] w, float[1,4,1] r) => (float[3,1,B,1] y, float[1,B,1] z) {{
                    y, z = LSTM <hidden_size = 1, direction = \"{direction}\"> (x, w, r)
                }}"
            );
            spelled(&text, target).unwrap()
        };
        let text = layer("reverse", "tract");
        assert_eq!(text.matches("Slice").count(), 2, "{text}");
        assert!(!text.contains("direction"), "{text}");
        assert!(!layer("forward", "tract").contains("Slice"));
        assert!(!layer("reverse", "openvino").contains("Slice"));
        assert!(layer("reverse", "mnn").contains("Gather"));
    }

    #[test]
    fn whole_axes_are_reversed_without_slices() {
        let slice = |start: i64, steps: &str| {
            let text = format!(
                "g (float[3,B,2,2] x) => (float[C,B,2,2] y) {{
                    s = Constant <value_ints = [{start}, -1]> ()
                    e = Constant <value_ints = [-9223372036854775808, -9223372036854775808]> ()
                    a = Constant <value_ints = [0, 1]> ()
                    t = Constant <value_ints = {steps}> ()
                    y = Slice (x, s, e, a, t)
                }}"
            );
            spelled(&text, "mnn")
        };
        let text = slice(-1, "[-1, -1]").unwrap();
        assert!(text.matches("Gather").count() == 2 && text.contains("Range"), "{text}");
        assert!(!text.contains("Slice"), "{text}");
        let error = slice(-2, "[-1, -1]").unwrap_err().to_string();
        assert!(error.contains("a whole axis"), "{error}");
    }

    #[test]
    fn backward_scans_read_reversed_sequences() {
        let text = "g (float[2] h, float[3,2] x) => (float[2] last, float[3,2] all) {
            last, all = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1], body = b (float[2] s, float[2] r) => (float[2] n, float[2] o) {
                n = Add (s, r)
                o = Mul (n, r)
            }> (h, x)
        }";
        let text = spelled(text, "iree").unwrap();
        assert_eq!(text.matches("Slice").count(), 2, "{text}");
        assert!(!text.contains("[1]"), "{text}");
    }
}
