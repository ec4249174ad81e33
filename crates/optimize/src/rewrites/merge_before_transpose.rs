//! `Reshape(Transpose(x))` → `Transpose(Reshape(x))`, if the merged axes are already adjacent in
//! `x`, as groups of channels are after a group norm. Consumers can then use the layout of `x`.

use onnx::ValueId;

use crate::movement::{Atoms, Chain, emit};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("merge_before_transpose", &["Reshape"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (moved, result) = (m.operand(0)?, m.result()?);
    let nodes = Chain::to(m, result).nodes;
    let [.., transpose, _] = *nodes else { return Err("nothing is transposed".into()) };
    let x =
        m.graph().node(transpose).input(0).filter(|_| m.graph().node(transpose).is("Transpose"));
    let x = x.ok_or("nothing is transposed")?;
    Skip::when(!m.is_used_once(moved), "the transposed value has other readers")?;
    let nodes = [transpose, m.id()];
    let (atoms, from, to) = Atoms::moved(m.graph(), x, &nodes)?;
    let (from, to) = (atoms.layout(from), atoms.layout(to));
    let is_inside =
        |axis: &Vec<usize>| to.iter().any(|all| axis.iter().all(|atom| all.contains(atom)));
    Skip::when(to.len() >= from.len() || !from.iter().all(is_inside), "no axes are merged")?;
    let steps = atoms.reshaped_first(from, to).ok_or("axes are merged that were apart")?;
    Ok(vec![emit(m, x, &steps, &[m.id(), transpose])?])
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
