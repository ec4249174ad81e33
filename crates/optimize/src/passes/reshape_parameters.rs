//! A parameter that is only read in another shape → a parameter of that shape under the same name.
//! The kernel of a head split becomes the matrix that products read.

use onnx::{NodeId, Use, ValueId};
use tensor::Tensor;

use crate::{Changed, Editor, Error, Pass};

pub(crate) const PASS: Pass = Pass { name: "reshape_parameters", run };

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    let parameters: Vec<ValueId> = edit.graph().live_tensors().map(|(id, _)| id).collect();
    for parameter in parameters {
        let Some((tensor, reshapes)) = reshaped(edit, parameter) else { continue };
        if !edit.spend(PASS.name) {
            break;
        }
        let graph = edit.graph_mut();
        let name = graph.take_name(parameter);
        let new = graph.add_parameter(name, tensor);
        for node in reshapes {
            edit.replace(PASS.name, node, &[new], &[])?;
        }
        changed = Changed::Yes;
    }
    Ok(changed)
}

/// Returns the parameter in the only shape in which it is read, and the nodes that reshape it.
fn reshaped(edit: &Editor<'_>, parameter: ValueId) -> Option<(Tensor, Vec<NodeId>)> {
    let graph = edit.graph();
    let tensor = graph.parameter(parameter)?;
    let mut nodes = Vec::new();
    let mut shape = None;
    for place in graph.value(parameter).uses() {
        let Use::Operand(id, 0) = place else { return None };
        let node = graph.node(id);
        let [result] = *node.outputs else { return None };
        let is_returned = |place| matches!(place, Use::Output(..));
        if !node.is_reshape() || graph.value(result).uses().any(is_returned) {
            return None;
        }
        let to = graph.ty(result).static_shape()?;
        if shape.get_or_insert_with(|| to.clone()) != &to {
            return None;
        }
        nodes.push(id);
    }
    let shape: Vec<usize> =
        shape?.into_iter().map(usize::try_from).collect::<Result<_, _>>().ok()?;
    Some((tensor.reshaped(&shape).ok()?, nodes))
}

#[cfg(test)]
mod tests {
    use super::PASS;
    use crate::testing::passes_to;

    #[test]
    fn a_kernel_becomes_the_matrix_that_is_read() {
        passes_to(
            &PASS,
            "g (float[2,2] x) => (float[2,4] y) <float[2,2,2] kernel = {1, 2, 3, 4, 5, 6, 7, 8}> {
                s = Constant <value_ints = [2, 4]> ()
                r = Reshape (kernel, s)
                y = MatMul (x, r)
            }",
            "g (float[2,2] x) => (float[2,4] y) <float[2,4] kernel = {1, 2, 3, 4, 5, 6, 7, 8}> {
                y = MatMul (x, kernel)
            }",
        );
    }

    #[test]
    fn a_parameter_in_several_shapes_is_unchanged() {
        let text = "g (float[2,2] x) => (float[2,2] y, float[4] z) <float[2,2] w = {1, 2, 3, 4}> {
            s = Constant <value_ints = [4]> ()
            r = Reshape (w, s)
            y = MatMul (x, w)
            z = Exp (r)
        }";
        passes_to(&PASS, text, text);
    }
}
