//! Moves a `Cast` between a `Transpose` and a `MatMul` in front of the `Transpose`.
//!
//! onnxruntime's optimiser swaps them itself, to fuse the transpose into the product, and crashes
//! if the transpose moves the first axis. It also moves transposes behind a `Concat`.

use onnx::{Graph, Node, NodeId, ValueId, attrs};
use provenance::OriginId;
use tensor::DType;

use crate::Roots;
use crate::legalize::{Error, Legalizer, made_by};
use crate::targets::Bug;

pub(super) static BUG: Bug =
    Bug { name: "cast_after_transpose", roots: Roots::Named(&["MatMul"]), avoid };

fn avoid(work: &mut Legalizer<'_>, product: NodeId) -> Result<(), Error> {
    for index in 0..2 {
        let Some(cast) = work.graph().node(product).input(index) else { continue };
        let Some(node) = made_by(work.graph(), cast, "Cast") else { continue };
        let (Some(x), origin) = (node.input(0), node.origin) else { continue };
        if !is_turned(work.graph(), x) {
            continue;
        }
        let dtype = work.graph().ty(cast).dtype;
        let turned = cast_first(work, product, origin, x, dtype)?;
        work.set_input(product, index, turned);
    }
    Ok(())
}

/// Returns `true` if a value is a transpose of more than two axes that moves the first one, or is
/// concatenated from such transposes.
pub(super) fn is_turned(graph: &Graph, value: ValueId) -> bool {
    let Some(node) = graph.producer(value).map(|id| graph.node(id)) else { return false };
    match node.is("Concat") {
        true => node.inputs.iter().flatten().any(|part| is_turned(graph, *part)),
        false => node.is("Transpose") && moves_first(node),
    }
}

fn moves_first(transpose: &Node) -> bool {
    transpose.ints("perm").is_none_or(|perm| perm.len() > 2 && perm.first() != Some(&0))
}

/// Casts `value` for its consumer `at`. Transposes between the cast and the consumer come after the cast. The casts
/// have the origin `origin`.
pub(super) fn cast_first(
    work: &mut Legalizer<'_>,
    at: NodeId,
    origin: OriginId,
    value: ValueId,
    dtype: DType,
) -> Result<ValueId, Error> {
    let made = work.graph().producer(value).map(|id| work.graph().node(id).clone());
    let Some(node) = made.filter(|_| is_turned(work.graph(), value)) else {
        let mut b = work.builder(at);
        return Ok(b.like(origin, |b| b.op("Cast", &[value], attrs! { to: dtype }))?);
    };
    let parts: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
    let mut operands: Vec<ValueId> = Vec::new();
    for part in &parts {
        let known = parts.iter().position(|other| other == part).and_then(|i| operands.get(i));
        let operand = known.copied();
        operands.push(operand.map_or_else(|| cast_first(work, at, origin, *part, dtype), Ok)?);
    }
    let mut b = work.builder(at);
    Ok(b.like(node.origin, |b| b.op(node.op.name, &operands, node.attrs))?)
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing;

    fn legalized(perm: &str, target: Target) -> String {
        let text = format!(
            "g (float16[3,3,3] x, float[3,2] w) => (float[3,3,2] y) {{
                t = Transpose <perm = {perm}> (x) c = Cast <to = 1> (t) y = MatMul (c, w) }}"
        );
        testing::legalized(&text, target)
    }

    #[test]
    fn casts_come_first() {
        let nodes = legalized("[1, 2, 0]", Target::default());
        assert_eq!(nodes, "Cast:f32 Transpose:f32 MatMul:f32");
    }

    #[test]
    fn nothing_else_changes() {
        let nodes = "Transpose:f16 Cast:f32 MatMul:f32";
        assert_eq!(legalized("[0, 2, 1]", Target::default()), nodes);
        assert_eq!(legalized("[1, 2, 0]", Target::any()), nodes);
    }

    #[test]
    fn parts_that_are_concatenated_twice_are_cast_once() {
        let text = "g (float16[3,3,3] x, float[6,2] w) => (float[3,3,2] y) {
            t = Transpose <perm = [1, 2, 0]> (x) k = Concat <axis = 2> (t, t) c = Cast <to = 1> (k) y = MatMul (c, w) }";
        let found = testing::legalized(text, Target::default());
        assert_eq!(found, "Cast:f32 Transpose:f32 Concat:f32 MatMul:f32");
    }

    #[test]
    fn matrices_are_unchanged() {
        let text = "g (float16[3,4] x, float[3,2] w) => (float[4,2] y) {
            t = Transpose <perm = [1, 0]> (x) c = Cast <to = 1> (t) y = MatMul (c, w) }";
        let found = testing::legalized(text, Target::default());
        assert_eq!(found, "Transpose:f16 Cast:f32 MatMul:f32");
    }
}
