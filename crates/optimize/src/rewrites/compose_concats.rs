//! `Concat(Concat(…), …)` along the same axis → one `Concat` of all non-empty parts, if the inner
//! result has no other consumers.

use onnx::{Node, ValueId, attrs, fold};
use tensor::Dim;

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("compose_concats", &["Concat"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let rank = m.ty(m.result()?).rank();
    let axis_of = |concat: &Node| fold::axis(concat.int("axis", 0), rank);
    let axis = axis_of(m.root())?;
    let mut parts = Vec::new();
    let mut composed = false;
    for operand in m.root().inputs.iter().copied() {
        let operand = operand.ok_or("an operand is missing")?;
        let inner = m.producer(operand, &["Concat"]).filter(|inner| {
            axis_of(inner) == Ok(axis)
                && inner.block() == m.root().block()
                && m.is_used_once(operand)
        });
        match inner {
            Some(inner) => {
                composed = true;
                parts.extend(inner.inputs.iter().copied().flatten());
            }
            None => parts.push(operand),
        }
    }
    let all = parts.len();
    parts.retain(|part| m.ty(*part).shape[axis] != Dim::Known(0));
    Skip::when(!composed && parts.len() == all, "no operand is a Concat along the axis")?;
    match *parts.as_slice() {
        [] => return Err("all operands are empty".into()),
        [only] => return Ok(vec![only]),
        _ => {}
    }
    Ok(vec![m.op("Concat", &parts, attrs! { axis: axis as i64 })?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn empty_parts_are_dropped() {
        rewrites_to(
            &REWRITE,
            "g (float[B,3] x, float[B,0] y, float[B,4] z) => (float[B,7] r, float[B,3] s) {
                r = Concat <axis = 1> (x, y, z)
                c = Concat <axis = 1> (y, x)
                s = Neg (c)
            }",
            "g (float[B,3] x, float[B,0] y, float[B,4] z) => (float[B,7] r, float[B,3] s) {
                r = Concat <axis = 1> (x, z)
                s = Neg (x)
            }",
        );
    }

    #[test]
    fn nested_concats_become_one() {
        rewrites_to(
            &REWRITE,
            "g (float[2,3] x, float[2,4] y, float[2,5] z) => (float[2,12] r) {
                a = Concat <axis = -1> (x, y)
                r = Concat <axis = 1> (a, z)
            }",
            "g (float[2,3] x, float[2,4] y, float[2,5] z) => (float[2,12] r) {
                r = Concat <axis = 1> (x, y, z)
            }",
        );
    }

    #[test]
    fn concats_along_other_axes_or_with_two_consumers_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[2,3] x, float[2,4] y, float[2,7] z) => (float[4,7] r) {
                a = Concat <axis = 1> (x, y)
                r = Concat <axis = 0> (a, z)
            }",
        );
        stays(
            &REWRITE,
            "g (float[2,3] x, float[2,4] y) => (float[2,14] r) {
                a = Concat <axis = 1> (x, y)
                r = Concat <axis = 1> (a, a)
            }",
        );
    }
}
