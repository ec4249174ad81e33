//! Stores four-bit floats in eight bits. Runtimes can store four-bit floats, but have no kernels
//! that read them.
//!
//! `f8e4m3fn` can represent every four-bit float. Rounding to four bits requires a formula.
//! Arithmetic is computed in single precision and rounded once.

use std::sync::Arc;

use onnx::formula::formulas;
use onnx::operators::Algebra;
use onnx::schema::{Binding, Types};
use onnx::{Graph, NodeId, Producer, ValueId, attrs};
use tensor::{DType, Tensor, Type};

use super::{Error, Legalizer, casts};

const FOUR: DType = DType::F4E2M1FN;
const EIGHT: DType = DType::F8E4M3FN;

/// 0, ½, 1, 1½, 2, 3, 4 and 6 as eight-bit floats.
const SIZES: [u8; 8] = [0x00, 0x30, 0x38, 0x3c, 0x40, 0x44, 0x48, 0x4c];

/// Widens all four-bit floats, unless the model takes or returns some, which must not change.
pub(super) fn widen(work: &mut Legalizer<'_>) -> Result<(), Error> {
    let main = work.graph().block(Graph::MAIN);
    let is_boundary = main.inputs.iter().chain(main.outputs()).any(|v| is_four(work.graph(), *v));
    let has_some = work.graph().value_ids().any(|v| is_four(work.graph(), v));
    if !work.target.only_stores_four_bit_floats || is_boundary || !has_some {
        return Ok(());
    }
    compute_in_single(work)?;
    let values: Vec<ValueId> =
        work.graph().value_ids().filter(|v| is_four(work.graph(), *v)).collect();
    for id in values {
        match work.graph().value(id).producer() {
            Producer::Constant(tensor) | Producer::Parameter(tensor) => {
                let wide = wide(tensor)?;
                let name = work.edit.graph_mut().take_name(id);
                let new = work.edit.graph_mut().add_parameter(name, wide);
                work.edit.replace_uses(id, new);
            }
            Producer::Node(..) | Producer::Input(_) => {
                let ty = Type::new(EIGHT, work.graph().ty(id).shape.clone());
                work.edit.graph_mut().set_type(id, ty);
                let maker = work.graph().producer(id);
                if let Some(cast) = maker.filter(|maker| work.graph().node(*maker).is("Cast")) {
                    round(work, cast)?;
                }
            }
            Producer::Removed => {}
        }
    }
    Ok(())
}

fn is_four(graph: &Graph, value: ValueId) -> bool {
    graph.ty(value).dtype == FOUR
}

/// Inserts casts around nodes that compute new numbers. The remaining nodes only move or compare
/// them.
fn compute_in_single(work: &mut Legalizer<'_>) -> Result<(), Error> {
    for block in work.graph().live_blocks() {
        let nodes: Vec<NodeId> = work.graph().nodes_of(block).collect();
        for (i, id) in nodes.iter().enumerate() {
            let node = work.graph().node(*id);
            let computes =
                matches!(node.algebra(), Algebra::Ring | Algebra::Integer | Algebra::Real);
            if !computes || !node.outputs.iter().any(|v| is_four(work.graph(), *v)) {
                continue;
            }
            let Some(schema) = node.schema(work.opset) else { continue };
            let complain = |reason| onnx::Error::invalid(node.op.name, reason);
            let binding = Binding::new(schema, work.graph(), node).map_err(complain)?;
            let single = |types: Types| (types.single() == Some(FOUR)).then_some(DType::F32);
            let choice = binding.types().map(single).collect();
            casts::apply(work, *id, nodes.get(i + 1).copied(), schema, &choice)?;
        }
    }
    Ok(())
}

fn wide(tensor: &Tensor) -> Result<Tensor, onnx::Error> {
    let packed = tensor.read().map_err(onnx::Error::Contents)?;
    let nibbles = packed.iter().flat_map(|byte| [byte & 15, byte >> 4]).take(tensor.len());
    let bytes: Vec<u8> =
        nibbles.map(|n| SIZES[usize::from(n & 7)] | if n >= 8 { 0x80 } else { 0 }).collect();
    let wide = Tensor::new(EIGHT, tensor.shape(), Arc::new(bytes));
    wide.map_err(|error| onnx::Error::Graph(error.to_string()))
}

/// Rounds to the nearest number, ties to even. As in JAX, numbers out of range become the largest
/// number, and NaN becomes minus zero.
fn round(work: &mut Legalizer<'_>, cast: NodeId) -> Result<(), Error> {
    let Some(x) = work.graph().node(cast).input(0) else { return Ok(()) };
    let mut b = work.builder(cast);
    let x = b.cast(x, DType::F32)?;
    let [rounded] = formulas(&mut b, [x], |[x]| {
        let size = x.is_nan().select(0.0, x.abs()).clip(0.0, 6.0);
        let step = size.less(2.0).select(size.constant(0.5), 1.0);
        let step = size.less(4.0).select(step, 2.0);
        let size = (size / step).round() * step;
        let negative = x.is_negative() | x.is_nan();
        [size * negative.select(size.constant(-1.0), 1.0)]
    })?;
    let narrow = b.op("Cast", &[rounded], attrs! { to: EIGHT })?;
    Ok(work.substitute(cast, &[narrow])?)
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing;

    #[test]
    fn intermediate_four_bit_floats_are_widened() {
        let text =
            "g (float[3] x) => (float[3] y) { z = Cast <to = 23> (x) y = Cast <to = 1> (z) }";
        assert!(!testing::legalized_text(text, Target::default()).contains("float4e2m1"));
        assert!(testing::legalized_text(text, Target::any()).contains("= Cast <to: int = 23>"));
    }

    #[test]
    fn sums_are_rounded_and_elements_that_move_are_not() {
        let with = |op: &str| {
            let text = format!(
                "g (float[3] x) => (float[3] y) {{
                    z = Cast <to = 23> (x) s = {op} y = Cast <to = 1> (s)
                }}"
            );
            testing::legalized_text(&text, Target::default()).matches("Round").count()
        };
        assert_eq!(with("Add (z, z)"), 2);
        assert_eq!(with("Exp (z)"), 2);
        assert_eq!(with("Concat <axis = 0> (z)"), 1);
    }
}
