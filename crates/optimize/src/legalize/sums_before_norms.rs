//! Writes a sum that only a layer norm reads as `Sum`, for targets that fuse an `Add` with the norm
//! into a slower operator.
//!
//! They fuse an `Add` with three axes whose last two sizes are known. For other sizes, the `Add` is
//! unchanged, for tools that look for it.

use onnx::{Graph, NodeId, ValueId};
use tensor::{DType, Dim};

use super::{Error, Legalizer};
use crate::targets::add_by_sum;

/// Converts all such sums.
pub(super) fn keep_apart(work: &mut Legalizer<'_>) -> Result<(), Error> {
    for id in work.graph().all_nodes() {
        if let Some(add) = fused(work.graph(), id) {
            add_by_sum(work, add)?;
        }
    }
    Ok(())
}

/// Returns the sum that such a target would fuse with the node.
fn fused(graph: &Graph, norm: NodeId) -> Option<NodeId> {
    let node = graph.node(norm);
    let sum = node.input(0).filter(|_| node.is("LayerNormalization"))?;
    graph.only_reader(sum)?;
    let add = graph.producer(sum)?;
    let is_add = graph.node(add).is("Add") && graph.node(add).block() == node.block();
    let shape_of = |v: &Option<ValueId>| v.map(|v| graph.ty(v).shape.as_slice());
    let shape = graph.ty(sum).shape.as_slice();
    let is_whole = graph.node(add).inputs.iter().all(|v| shape_of(v) == Some(shape));
    let is_known = matches!(shape, [_, Dim::Known(_), Dim::Known(_)]);
    (is_add && is_whole && is_known && graph.ty(sum).dtype == DType::F32).then_some(add)
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing;

    fn legalized(shape: &str, target: Target) -> String {
        testing::legalized(
            &format!(
                "g (float{shape} x, float{shape} z) => (float{shape} y) <float[4] w = {{1, 2, 3, 4}}> {{
                    s = Add (x, z)
                    y = LayerNormalization (s, w)
                }}"
            ),
            target,
        )
    }

    #[test]
    fn fusible_additions_become_sums() {
        for shape in ["[2,3,4]", "[B,3,4]"] {
            let found = legalized(shape, Target::default());
            assert_eq!(found, "Sum:f32 LayerNormalization:f32", "{shape}");
            assert_eq!(legalized(shape, Target::any()), "Add:f32 LayerNormalization:f32");
        }
    }

    #[test]
    fn other_sums_stay() {
        for shape in ["[B,T,4]", "[3,4]", "[2,2,3,4]"] {
            let found = legalized(shape, Target::default());
            assert_eq!(found, "Add:f32 LayerNormalization:f32", "{shape}");
        }
        let text = "g (float[2,3,4] x, float[4] z) => (float[2,3,4] s, float[2,3,4] y) <float[4] w = {1, 2, 3, 4}> {
            s = Add (x, x)
            a = LayerNormalization (s, w)
            t = Add (a, z)
            y = LayerNormalization (t, w)
        }";
        assert!(!testing::legalized(text, Target::default()).contains("Sum"));
        let product =
            "g (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] y) <float[4] w = {1, 2, 3, 4}> {
            p = Mul (x, z)
            y = LayerNormalization (p, w)
        }";
        let found = testing::legalized(product, Target::default());
        assert_eq!(found, "Mul:f32 LayerNormalization:f32");
    }
}
