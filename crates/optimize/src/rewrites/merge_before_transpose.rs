//! `Reshape(Transpose(x))` → `Transpose(Reshape(x))`, if the merged axes are already adjacent in
//! `x`, as groups of channels are after a group norm. Consumers can then use the layout of `x`.

use onnx::ValueId;
use tensor::Dim;
use tensor::division::product;

use super::compose_transposes::permutation;
use crate::movement::{Step, emit};
use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "merge_before_transpose", roots: Roots::Named(&["Reshape"]), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (moved, result) = (m.operand(0)?, m.result()?);
    let transpose = m.graph().producer(moved).filter(|_| m.is_used_once(moved));
    let transpose = transpose.ok_or("nothing is moved for this alone")?;
    let node = m.graph().node(transpose);
    let x = node.input(0).filter(|_| node.is("Transpose") && node.block() == m.root().block());
    let x = x.ok_or("nothing is transposed")?;
    let perm = permutation(node, m.ty(moved).rank())?;
    let perm: Result<Vec<usize>, _> = perm.into_iter().map(usize::try_from).collect();
    let perm = perm.map_err(|_| "an axis is negative")?;
    let groups = merged(&m.ty(moved).shape, &m.ty(result).shape).ok_or("no axes are merged")?;
    let mut parts: Vec<&[usize]> = Vec::new();
    let mut rest = perm.as_slice();
    for count in groups {
        let (axes, others) = rest.split_at(count);
        if axes.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
            return Err("axes are merged that were apart".into());
        }
        parts.push(axes);
        rest = others;
    }
    let mut before = parts.clone();
    before.sort_unstable();
    let from = m.ty(x).shape.clone();
    let to: Vec<Dim> =
        before.iter().map(|axes| product(&from[axes[0]..axes[0] + axes.len()])).collect();
    let place = |axes: &&[usize]| before.iter().position(|other| other == axes).map(|i| i as i64);
    let perm = parts.iter().map(place).collect::<Option<Vec<i64>>>().ok_or("an axis is lost")?;
    let steps = [Step::Reshape(from, to), Step::Transpose(perm)];
    Ok(vec![emit(m, x, &steps, &[m.id(), transpose])?])
}

/// Returns the number of axes that each axis of `to` consists of, if some axes are merged and all
/// others are unchanged.
fn merged(from: &[Dim], to: &[Dim]) -> Option<Vec<usize>> {
    let mut rest = from;
    let mut counts = Vec::new();
    for size in to {
        let count = (1..=rest.len()).find(|count| product(&rest[..*count]) == *size)?;
        counts.push(count);
        rest = &rest[count..];
    }
    (rest.is_empty() && to.len() < from.len()).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn adjacent_groups_are_merged() {
        rewrites_to(
            &REWRITE,
            "g (float[N,2,3,4,5] x) => (float[N,4,5,6] y) {
                s = Constant <value_ints = [0, 4, 5, 6]> ()
                t = Transpose <perm = [0, 3, 4, 1, 2]> (x)
                y = Reshape (t, s)
            }",
            "g (float[N,2,3,4,5] x) => (float[N,4,5,6] y) {
                s = Constant <value_ints = [0, 6, 4, 5]> ()
                v1 = Reshape (x, s)
                y = Transpose <perm = [0, 2, 3, 1]> (v1)
            }",
        );
    }

    #[test]
    fn axes_that_are_not_adjacent_are_unchanged() {
        for (perm, shape) in [("0, 2, 1, 3", "2,4,15"), ("0, 2, 1, 3", "2,12,5")] {
            let target = shape.replace(',', ", ");
            stays(
                &REWRITE,
                &format!(
                    "g (float[2,3,4,5] x) => (float[{shape}] y) {{
                        s = Constant <value_ints = [{target}]> ()
                        t = Transpose <perm = [{perm}]> (x)
                        y = Reshape (t, s)
                    }}"
                ),
            );
        }
    }

    #[test]
    fn sizes_that_require_computation_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[N,2,3,H,W] x) => (float[N,H,W,6] y) {
                s = Constant <value_ints = [0, 0, 0, 6]> ()
                t = Transpose <perm = [0, 3, 4, 1, 2]> (x)
                y = Reshape (t, s)
            }",
        );
    }
}
