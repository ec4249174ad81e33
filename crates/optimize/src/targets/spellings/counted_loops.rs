//! `Loop` with a known number of iterations → `Scan` over the numbers of the iterations, for targets without loops.

use onnx::{Graph, NodeId, Op, ValueId, attrs};
use std::panic::Location;
use tensor::{DType, Tensor};

use crate::Roots;
use crate::legalize::{Error, Work};
use crate::loops::Loop;
use crate::targets::Bug;

pub(in crate::targets) static COUNTED_LOOPS: Bug =
    Bug { name: "counted_loops", roots: Roots::Named(&["Loop"]), avoid };

/// The largest number of iterations, which are stored.
const LONGEST: i64 = 1 << 20;

fn avoid(work: &mut Work<'_>, id: NodeId) -> Result<(), Error> {
    let Some(found) = Loop::at(work.graph(), id) else { return Ok(()) };
    let node = work.graph().node(id).clone();
    let Some(count) = iterations(work.graph(), &found) else {
        let dtype = node.outputs.first().map_or(DType::Bool, |v| work.graph().ty(*v).dtype);
        return Err(Error::Unsupported {
            op: node.op.name,
            dtype,
            target: work.target,
            reason: "it has no loops, except those with a fixed number of iterations".to_owned(),
            origin: node.origin,
        });
    };
    let block = work.graph().block(found.body);
    let (inputs, outputs) = (block.inputs.clone(), block.outputs().to_vec());
    let (control, carried) = inputs.split_at(2);
    let always = work.edit.graph_mut().intern_constant(Tensor::bools(&[], &[true]));
    work.edit.graph_mut().set_outputs(found.body, &outputs[1..]);
    work.edit.replace_uses(control[1], always);
    let inputs = carried.iter().chain([&control[0]]).copied().collect();
    work.edit.set_inputs(found.body, inputs);
    // The body moves to the new node.
    work.edit.attrs_mut(id).clear();
    let b = &mut work.builder(id, Some(id));
    let numbers = b.i64s(&(0..count).collect::<Vec<_>>());
    let operands = node.inputs[2..].iter().copied().chain([Some(numbers)]).collect();
    let attrs = attrs! { body: found.body, num_scan_inputs: 1 };
    let results =
        b.emit(Op::onnx("Scan"), operands, attrs, node.outputs.len(), Location::caller())?;
    Ok(work.substitute(id, &results)?)
}

/// Returns the number of iterations of a loop whose condition always holds.
fn iterations(graph: &Graph, found: &Loop) -> Option<i64> {
    let node = graph.node(found.id);
    let count = graph.constant(node.input(0)?)?.to_i64s()?;
    let [count] = *count.as_slice() else { return None };
    let holds = |value: ValueId| graph.facts().truth(value) == Some(true);
    let block = graph.block(found.body);
    let (given, next) = (block.inputs[1], *block.outputs().first()?);
    let passed_on = graph.producer(next).map(|id| graph.node(id)).filter(|n| n.is("Identity"));
    let is_passed_on = passed_on.is_some_and(|node| node.input(0) == Some(given));
    let starts = node.input(1).is_none_or(holds);
    (starts && (is_passed_on || holds(next)) && (0..=LONGEST).contains(&count)).then_some(count)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn counted(goes_on: &str, target: &str) -> Result<String, crate::legalize::Error> {
        let text = format!(
            "g (float[B] x) => (float[B] y) {{
                n = Constant <value = int64 {{4}}> ()
                yes = Constant <value = bool {{1}}> ()
                y = Loop <body = b (int64 i, bool c, float[B] s) => (bool d, float[B] t) {{
                    f = Cast <to = 1> (i)
                    t = Add (s, f)
                    z = ReduceSum <keepdims = 0> (t)
                    d = {goes_on}
                }}> (n, yes, x)
            }}"
        );
        spelled(&text, target)
    }

    #[test]
    fn a_fixed_number_of_iterations_is_scanned() {
        let text = counted("Identity (c)", "tract").unwrap();
        assert!(text.contains("Scan") && !text.contains("Loop"), "{text}");
        assert!(counted("Identity (c)", "onnxruntime").unwrap().contains("Loop"));
    }

    #[test]
    fn a_conditional_loop_is_an_error() {
        let error = counted("Less (z, f)", "tract").unwrap_err();
        let message = "tract cannot compute `Loop` on f32: it has no loops, except those with a fixed number of iterations";
        assert_eq!(error.to_string(), message);
    }
}
