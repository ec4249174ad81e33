//! `Cast` between a `Transpose` and a `MatMul` goes before the `Transpose`.
//!
//! onnxruntime's optimiser swaps them itself, to make the product read its operand sideways, and
//! crashes if the first axis is one of those that move.

use onnx::{Attr, Graph, NodeId, ValueId};

use super::Bug;
use crate::legalize::{Error, Target, Work};

pub(super) static BUG: Bug =
    Bug { name: "cast_after_transpose", target: Target::OnnxRuntime, roots: &["MatMul"], avoid };

fn avoid(work: &mut Work<'_>, product: NodeId) -> Result<(), Error> {
    for index in 0..2 {
        let Some(pair) = find(work.graph, product, index) else { continue };
        let (cast, transpose) = (work.graph.node(pair.cast), work.graph.node(pair.transpose));
        let (cast_attrs, transpose_attrs) = (cast.attrs.clone(), transpose.attrs.clone());
        let mut b = work.builder(pair.cast, Some(pair.cast));
        let wide = b.op("Cast", &[pair.x], cast_attrs)?;
        let turned = b.op("Transpose", &[wide], transpose_attrs)?;
        work.graph.set_input(product, index, Some(turned));
        for node in [pair.cast, pair.transpose] {
            if !work.graph.value(work.graph.node(node).outputs[0]).is_used() {
                work.graph.remove_node(node);
            }
        }
    }
    Ok(())
}

struct Pair {
    x: ValueId,
    transpose: NodeId,
    cast: NodeId,
}

fn find(graph: &Graph, product: NodeId, index: usize) -> Option<Pair> {
    let cast = graph.producer(graph.node(product).input(index)?)?;
    let between = graph.node(cast).input(0).filter(|_| graph.node(cast).is("Cast"))?;
    let (x, transpose) = moved(graph, between)?;
    Some(Pair { x, transpose, cast })
}

/// What a value is the transpose of, if the first of more than two axes moves, and the node.
pub(super) fn moved(graph: &Graph, value: ValueId) -> Option<(ValueId, NodeId)> {
    let transpose = graph.producer(value)?;
    let x = graph.node(transpose).input(0).filter(|_| graph.node(transpose).is("Transpose"))?;
    let moves_first = match graph.node(transpose).attr("perm") {
        Some(Attr::Ints(perm)) => perm.len() > 2 && perm.first() != Some(&0),
        _ => true,
    };
    moves_first.then_some((x, transpose))
}

#[cfg(test)]
mod tests {
    use crate::legalize::{Target, testing};

    fn legalized(perm: &str, target: Target) -> String {
        let text = format!(
            "g (float16[3,3,3] x, float[3,2] w) => (float[3,3,2] y) {{
                t = Transpose <perm = {perm}> (x) c = Cast <to = 1> (t) y = MatMul (c, w) }}"
        );
        testing::legalized(&text, target)
    }

    #[test]
    fn casts_come_first() {
        let nodes = legalized("[1, 2, 0]", Target::OnnxRuntime);
        assert_eq!(nodes, "Cast:f32 Transpose:f32 MatMul:f32");
    }

    #[test]
    fn nothing_else_changes() {
        let nodes = "Transpose:f16 Cast:f32 MatMul:f32";
        assert_eq!(legalized("[0, 2, 1]", Target::OnnxRuntime), nodes);
        assert_eq!(legalized("[1, 2, 0]", Target::Spec), nodes);
    }
}
