//! Weights of products that get a bias, as a stack of one matrix, for targets that would make a `Gemm`
//! of the product and its bias between two `Reshape`. That `Gemm` reads the bias from a matrix of the
//! size of the result, which is written first. An `Add` behind a product is fused with what follows
//! instead.

use onnx::{Graph, NodeId, ValueId};

use crate::Roots;
use crate::legalize::{Error, Legalizer, made_by};
use crate::targets::Bug;
use crate::weights::multiplies_stacks;

pub(in crate::targets) static RAISED_WEIGHTS: Bug =
    Bug { name: "raised_weights", roots: Roots::Named(&["Add"]), avoid };

fn avoid(work: &mut Legalizer<'_>, add: NodeId) -> Result<(), Error> {
    let graph = work.graph();
    let operands: Vec<ValueId> = graph.node(add).inputs.iter().flatten().copied().collect();
    let weights = operands.iter().find_map(|sum| weights_of(graph, *sum));
    let Some(weights) = weights else { return Ok(()) };
    let Some(tensor) = graph.tensor(weights) else { return Ok(()) };
    let shape: Vec<usize> = [&[1], tensor.shape()].concat();
    let Ok(stack) = tensor.reshaped(&shape) else { return Ok(()) };
    let readers: Vec<NodeId> = graph.value(weights).consumers().collect();
    let graph = work.edit.graph_mut();
    let name = graph.take_name(weights);
    let raised = graph.add_parameter(name, stack);
    for reader in readers {
        work.set_input(reader, 1, raised);
    }
    Ok(())
}

/// Returns the weights of the product that results in `value`, if all their readers are products of
/// tensors with at least three axes.
fn weights_of(graph: &Graph, value: ValueId) -> Option<ValueId> {
    graph.only_reader(value)?;
    let weights = made_by(graph, value, "MatMul")?.input(1)?;
    let is_matrix = graph.ty(weights).rank() == 2 && graph.tensor(weights).is_some();
    (is_matrix && multiplies_stacks(graph, weights)).then_some(weights)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn layer(shape: &str, body: &str) -> String {
        let text = format!(
            "g (float[B,{shape}] x, float[B,{shape}] z) => (float[B,{shape}] y) <float[2,2] w = {{1, 2, 3, 4}}, float[2] b = {{1, 2}}> {{
                {body}
            }}"
        );
        spelled(&text, "cuda").unwrap()
    }

    #[test]
    fn weights_of_products_with_a_bias_are_a_stack() {
        for body in ["p = MatMul (x, w) y = Add (p, b)", "p = MatMul (x, w) y = Add (z, p)"] {
            let text = layer("3,2", body);
            assert!(text.contains("float[1,2,2] w"), "{text}");
        }
        let shared = "p = MatMul (x, w) q = Add (p, b) r = MatMul (q, w) y = Add (r, b)";
        assert!(layer("3,2", shared).contains("float[1,2,2] w"));
    }

    #[test]
    fn other_weights_are_matrices() {
        for (shape, body) in [
            ("2", "p = MatMul (x, w) y = Add (p, b)"),
            ("3,2", "y = MatMul (x, w)"),
            ("3,2", "p = MatMul (x, w) q = Add (p, b) r = Add (q, p) y = Add (r, b)"),
            ("2,2", "p = MatMul (x, w) q = Add (p, b) y = Add (q, w)"),
        ] {
            let text = layer(shape, body);
            assert!(text.contains("float[2,2] w"), "{text}");
        }
    }
}
