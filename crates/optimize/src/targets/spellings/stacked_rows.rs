//! Results of `Scan` whose rows have symbolic sizes → carried tensors, for targets that stack only one element of
//! such an axis. Each iteration replaces its row.

use std::panic::Location;

use onnx::{Attr, Builder, NodeId, ValueId, attrs};
use tensor::{DType, Type};

use super::backwards::scan_forwards;
use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::loops::Loop;
use crate::targets::Bug;
use crate::targets::stacked::{has_axes, shape, sizes};

pub(in crate::targets) static STACKED_ROWS: Bug =
    Bug { name: "stacked_rows", roots: Roots::Named(&["Scan"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let id = scan_forwards(work, id)?;
    let Some(found) = Loop::at(work.graph(), id) else { return Ok(()) };
    let node = work.graph().node(id).clone();
    let stacked = &node.outputs[found.carried..];
    let is_symbolic = |value: &ValueId| work.graph().ty(*value).static_shape().is_none();
    let symbolic: Vec<usize> = (0..stacked.len()).filter(|k| is_symbolic(&stacked[*k])).collect();
    let Some(first) = symbolic.first() else { return Ok(()) };
    let types: Vec<Type> = symbolic.iter().map(|k| work.graph().ty(stacked[*k]).clone()).collect();
    let length = types[0].shape[0].as_known();
    let sizes: Option<Vec<_>> = types.iter().map(|ty| sizes(work.graph(), &node, ty)).collect();
    let (Some(length), Some(sizes), false) = (length, sizes, has_axes(&node)) else {
        let reason = "it stacks results of symbolic sizes incorrectly; export the model with numbers in place \
                      of these sizes";
        return Err(work.unsupported(id, work.graph().ty(stacked[*first]).dtype, reason));
    };

    // Before the scan: the tensors without rows, and the numbers of the iterations.
    let b = &mut work.builder(id);
    let mut empty = Vec::new();
    for (ty, sizes) in types.iter().zip(&sizes) {
        let zero = b.scalar(DType::F32, 0.0)?;
        let zero = b.cast(zero, ty.dtype)?;
        let shape = shape(b, sizes, size_of)?;
        empty.push(Some(b.op("Expand", &[zero, shape], Vec::new())?));
    }
    let numbers = b.i64s(&(0..length).collect::<Vec<_>>());

    // In the body: each tensor with the row of this iteration.
    let body = found.body;
    let block = work.graph().block(body);
    let (mut inputs, results) = (block.inputs.clone(), block.outputs().to_vec());
    let graph = work.edit.graph_mut();
    let number = graph.add_input(body, Type::new(DType::I64, Vec::new()));
    let old: Vec<ValueId> = types.iter().map(|ty| graph.add_input(body, ty.clone())).collect();
    let b = &mut work.edit.builder_at("Scan", node.origin, body, None);
    let mut new = Vec::new();
    for ((k, ty), old) in symbolic.iter().zip(&types).zip(&old) {
        let axes: Vec<i64> = (1..ty.shape.len() as i64).collect();
        let rows = b.i64s(&(0..length).collect::<Vec<_>>());
        let rows = b.unsqueeze(rows, &axes)?;
        let here = b.op("Equal", &[rows, number], Vec::new())?;
        let row = b.unsqueeze(results[found.carried + k], &[0])?;
        new.push(b.op("Where", &[here, row, *old], Vec::new())?);
    }
    let others = |k: &usize| !symbolic.contains(k);
    let kept: Vec<usize> = (0..stacked.len()).filter(others).collect();
    let state = results[..found.carried].iter().chain(&new);
    let outputs: Vec<ValueId> =
        state.copied().chain(kept.iter().map(|k| results[found.carried + k])).collect();
    work.edit.graph_mut().set_outputs(body, &outputs);
    inputs.splice(found.carried..found.carried, old);
    inputs.push(number);
    work.edit.set_inputs(body, inputs);

    // The scan itself. The body moves to the new node.
    let mut attrs = node.attrs.clone();
    work.edit.attrs_mut(id).clear();
    for (name, attr) in &mut attrs {
        match (&**name, attr) {
            ("num_scan_inputs", Attr::Int(count)) => *count += 1,
            ("scan_input_directions", Attr::Ints(all)) => all.push(0),
            ("scan_output_directions", Attr::Ints(all)) => {
                *all = kept.iter().map(|k| all[*k]).collect();
            }
            _ => {}
        }
    }
    let mut operands = node.inputs.clone();
    operands.splice(found.carried..found.carried, empty);
    operands.push(Some(numbers));
    let b = &mut work.builder(id);
    let made = b.emit(node.op, operands, attrs, node.outputs.len(), Location::caller())?;
    let (state, rest) = made.split_at(found.carried);
    let (tensors, rest) = rest.split_at(symbolic.len());
    let result = |k: usize| match symbolic.iter().position(|s| *s == k) {
        Some(position) => tensors[position],
        None => rest[kept.iter().filter(|other| **other < k).count()],
    };
    let results: Vec<ValueId> =
        state.iter().copied().chain((0..stacked.len()).map(result)).collect();
    Ok(work.substitute(id, &results)?)
}

#[track_caller]
fn size_of(b: &mut Builder<'_>, value: ValueId, axis: usize) -> onnx::Result<ValueId> {
    b.op("Shape", &[value], attrs! { start: axis as i64, end: axis as i64 + 1 })
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn scan(batch: &str, length: &str) -> String {
        format!(
            "g (float[{batch},2] h, float[{length},{batch},2] x) => (float[{batch},2] last, float[{length},{batch},2] all, float[{length},2] sums) {{
                last, all, sums = Scan <num_scan_inputs = 1, scan_output_directions = [1, 0], body = b (float[{batch},2] s, float[{batch},2] r) => (float[{batch},2] n, float[{batch},2] o, float[2] p) {{
                    n = Add (s, r)
                    o = Mul (n, r)
                    axes = Constant <value = int64[1] {{0}}> ()
                    p = ReduceSum <keepdims = 0> (o, axes)
                }}> (h, x)
            }}"
        )
    }

    #[test]
    fn symbolic_rows_are_replaced_in_a_carried_tensor() {
        let text = spelled(&scan("B", "3"), "iree").unwrap();
        assert!(text.contains("Where") && text.contains("Slice"), "{text}");
        assert!(text.contains("scan_output_directions: ints = [0]"), "{text}");
        assert!(!spelled(&scan("5", "3"), "iree").unwrap().contains("Where"));
    }

    #[test]
    fn a_symbolic_number_of_rows_is_an_error() {
        let error = spelled(&scan("B", "T"), "iree").unwrap_err();
        assert!(error.to_string().contains("symbolic sizes"), "{error}");
    }
}
