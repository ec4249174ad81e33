//! `Scan` → `Loop`, for targets without scans.

use std::panic::Location;

use onnx::{Attrs, NodeId, Op, ValueId, attrs};
use tensor::{DType, Tensor, Type};

use super::backwards::scan_forwards;
use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::loops::Loop;
use crate::targets::Bug;
use crate::targets::stacked::has_axes;

pub(in crate::targets) static SCANS: Bug =
    Bug { name: "scans", roots: Roots::Named(&["Scan"]), avoid: loop_for_scan };

/// Replaces a `Scan` by a `Loop`.
pub(crate) fn loop_for_scan(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let id = scan_forwards(work, id)?;
    let Some(found) = Loop::at(work.graph(), id) else { return Ok(()) };
    let node = work.graph().node(id).clone();
    let Some(rows) = node.input(found.carried).filter(|_| !has_axes(&node)) else { return Ok(()) };
    let body = found.body;
    let inputs = work.graph().block(body).inputs.clone();
    let graph = work.edit.graph_mut();
    let index = graph.add_input(body, Type::new(DType::I64, Vec::new()));
    let goes_on = graph.add_input(body, Type::new(DType::Bool, Vec::new()));
    let (carried, elements) = inputs.split_at(found.carried);
    let first = work.graph().nodes_of(body).next();
    let origin = node.origin;
    let b = &mut work.builder(id);
    let length = b.op("Shape", &[rows], attrs! { start: 0, end: 1 })?;
    let length = b.squeeze(length, &[0])?;
    for (number, element) in elements.iter().enumerate() {
        let Some(rows) = node.input(found.carried + number) else { return Ok(()) };
        let b = &mut work.edit.builder_at("Scan", origin, body, first);
        let row = b.op("Gather", &[rows, index], attrs! { axis: 0 })?;
        work.edit.replace_uses(*element, row);
    }
    let b = &mut work.edit.builder_at("Scan", origin, body, None);
    let goes_on_still = b.op("Identity", &[goes_on], Attrs::new())?;
    // The rows that were results as they came are results of other nodes now.
    let now = work.graph().block(body).outputs();
    let results: Vec<ValueId> = std::iter::once(goes_on_still).chain(now.iter().copied()).collect();
    work.edit.graph_mut().set_outputs(body, &results);
    let inputs = [index, goes_on].into_iter().chain(carried.iter().copied()).collect();
    work.edit.set_inputs(body, inputs);
    // The body moves to the new node.
    work.edit.attrs_mut(id).clear();
    let b = &mut work.builder(id);
    let always = b.constant(Tensor::bools(&[], &[true]));
    let initial = node.inputs[..found.carried].iter().copied();
    let operands = [Some(length), Some(always)].into_iter().chain(initial).collect();
    let (count, at) = (node.outputs.len(), Location::caller());
    let results = b.emit(Op::onnx("Loop"), operands, attrs! { body: body }, count, at)?;
    Ok(work.substitute(id, &results)?)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn scan(batch: &str) -> String {
        format!(
            "g (float[{batch},2] h, float[6,{batch},2] x) => (float[{batch},2] last, float[6,{batch},2] all) {{
                last, all = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1], body = b (float[{batch},2] s, float[{batch},2] r) => (float[{batch},2] n, float[{batch},2] o) {{
                    n = Add (s, r)
                    o = Mul (n, r)
                }}> (h, x)
            }}"
        )
    }

    #[test]
    fn a_scan_is_a_loop_over_rows() {
        let text = spelled(&scan("B"), "rten").unwrap();
        assert!(text.contains("Loop") && !text.contains("Scan"), "{text}");
        assert!(text.contains("Gather") && text.matches("Slice").count() == 2, "{text}");
    }
}
