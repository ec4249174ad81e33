//! `i < 0 ? i + n : i` → `i`, if it indexes an axis of size `n` and the user promises that indices
//! are in range. ONNX itself interprets negative indices as counting from the end.

use onnx::operators::Trait;
use onnx::{Assumption, NodeId, ValueId, fold};
use tensor::Dim;

use super::gather_from_the_end::counted_from_end;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::with("drop_counting_from_the_end", |op| op.has(Trait::Indexes), try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    // Otherwise, indices out of range are clamped, or the elements that they read become NaN.
    let promises = [Assumption::IndicesInRange, Assumption::Finite];
    if !promises.iter().any(|one| m.graph().assumptions.contains(*one)) {
        return Err("an index may be outside".into());
    }
    let root = m.root().clone();
    let sizes = indexed_sizes(m)?;
    let at = plain(m, m.operand(1)?, &sizes)?.ok_or("no index is counted from the end")?;
    Ok(vec![m.like_with(&root, 1, at)?])
}

/// Returns the sizes of the axes that the components of an index vector refer to. A single index
/// has one.
pub(super) fn indexed_sizes(m: &Match<'_>) -> Result<Vec<Dim>, Skip> {
    let (root, shape) = (m.root(), &m.ty(m.operand(0)?).shape);
    if !matches!(root.op.name, "GatherND" | "ScatterND") {
        let axis = fold::axis(root.int("axis", 0), shape.len())?;
        return Ok(vec![shape[axis].clone()]);
    }
    let width = m.ty(m.operand(1)?).shape.last().and_then(Dim::as_known);
    let width = width.and_then(|n| usize::try_from(n).ok()).ok_or("the vectors are of any size")?;
    let skipped = usize::try_from(root.int("batch_dims", 0)).unwrap_or(0);
    let sizes = shape.get(skipped..skipped + width).ok_or("there are not so many axes")?;
    Ok(sizes.to_vec())
}

/// Returns the indices without the adjustment, or `None` if nothing is adjusted.
fn plain(m: &mut Match<'_>, value: ValueId, sizes: &[Dim]) -> Result<Option<ValueId>, Skip> {
    let Some(id) = m.graph().producer(value) else { return Ok(None) };
    let node = m.graph().node(id).clone();
    if node.block() != m.root().block() {
        return Ok(None);
    }
    let mut inputs = node.inputs.clone();
    let changed = match (node.op.name, sizes) {
        ("Where", [size]) => return Ok(counted_from_end(m, value, size).map(|(index, _)| index)),
        ("Concat", _) if is_last_axis(m, id) && inputs.len() == sizes.len() => {
            let mut changed = false;
            for (input, size) in inputs.iter_mut().zip(sizes) {
                let Some(part) = *input else { return Ok(None) };
                if m.ty(part).shape.last() == Some(&Dim::Known(1))
                    && let Some(new) = plain(m, part, std::slice::from_ref(size))?
                {
                    *input = Some(new);
                    changed = true;
                }
            }
            changed
        }
        // Offsets within a window.
        ("Add", _) => {
            let mut changed = false;
            for index in 0..2 {
                let (Some(one), Some(other)) = (inputs[index], inputs[1 - index]) else {
                    return Ok(None);
                };
                if is_offset(m, other)
                    && let Some(new) = plain(m, one, sizes)?
                {
                    inputs[index] = Some(new);
                    changed = true;
                    break;
                }
            }
            changed
        }
        ("Cast", _) if inputs[0].is_some_and(|from| m.ty(from).dtype.is_integer()) => {
            follow(m, &mut inputs, sizes)?
        }
        ("Unsqueeze", _) => follow(m, &mut inputs, sizes)?,
        (_, [_]) if node.is_movement() || node.is("Expand") => follow(m, &mut inputs, sizes)?,
        _ => false,
    };
    if changed { Ok(Some(m.like(&node, inputs)?)) } else { Ok(None) }
}

fn follow(m: &mut Match<'_>, inputs: &mut [Option<ValueId>], sizes: &[Dim]) -> Result<bool, Skip> {
    let Some(from) = inputs[0] else { return Ok(false) };
    let new = plain(m, from, sizes)?;
    inputs[0] = new.or(Some(from));
    Ok(new.is_some())
}

/// Returns `true` if a concatenation makes vectors of single elements, and not a table of their rows, which
/// an addition may still spread along the last axis.
fn is_last_axis(m: &Match<'_>, concat: NodeId) -> bool {
    let node = m.graph().node(concat);
    let axis = node.int("axis", 0);
    axis == -1 || axis + 1 == m.ty(node.outputs[0]).rank() as i64
}

/// Returns `true` if a value is a constant or may be an iota from zero.
fn is_offset(m: &Match<'_>, value: ValueId) -> bool {
    m.constant(value).is_some() || m.producer(value, &["Range", "Reshape", "Mul"]).is_some()
}

#[cfg(test)]
mod tests {
    use onnx::Assumption;

    use super::REWRITE;
    use crate::testing::{operators_assuming, stays};

    const LOOKUP: &str = "g (float[9,4] x, int32[B] i) => (float[B,4] y) {
        zero = Constant <value = int32 {0}> ()
        nine = Constant <value = int32 {9}> ()
        n = Less (i, zero)
        s = Add (i, nine)
        w = Where (n, s, i)
        y = Gather (x, w)
    }";

    fn rewritten(text: &str) -> String {
        operators_assuming(Assumption::IndicesInRange, &REWRITE, text)
    }

    #[test]
    fn adjustments_that_onnx_makes_itself_are_dropped() {
        assert_eq!(rewritten(LOOKUP), "Gather");
        let pairs = "g (float[9,4] x, int64[B] i, int64[B] j) => (float[B] y) {
            zero = Constant <value_int = 0> ()
            nine = Constant <value_int = 9> ()
            a = Constant <value_ints = [1]> ()
            n = Less (i, zero)
            s = Add (i, nine)
            w = Where (n, s, i)
            u = Unsqueeze (w, a)
            v = Unsqueeze (j, a)
            c = Concat <axis = 1> (u, v)
            y = GatherND (x, c)
        }";
        assert_eq!(rewritten(pairs), "Unsqueeze Unsqueeze Concat GatherND");
    }

    #[test]
    fn adjustments_by_other_sizes_are_unchanged() {
        assert_eq!(rewritten(&LOOKUP.replace("{9}", "{8}")), "Less Add Where Gather");
        stays(&REWRITE, LOOKUP);
    }

    #[test]
    fn changes_of_layout_and_type_are_passed() {
        let read = |body: &str| {
            LOOKUP
                .replace("[B,4] y", "[B,?,4] y")
                .replace("y = Gather (x, w)", &format!("{body} y = Gather (x, v)"))
        };
        let axis = "a = Constant <value_ints = [1]> () u = Unsqueeze (w, a)";
        for (body, left) in [
            (format!("{axis} v = Cast <to = 7> (u)"), "Unsqueeze Cast Gather"),
            (
                format!("{axis} f = Cast <to = 1> (u) v = Cast <to = 7> (f)"),
                "Less Add Where Unsqueeze Cast Cast Gather",
            ),
            (
                format!("{axis} t = Constant <value_ints = [1, 3]> () v = Expand (u, t)"),
                "Unsqueeze Expand Gather",
            ),
            (format!("{axis} v = Neg (u)"), "Less Add Where Unsqueeze Neg Gather"),
            // Offsets within a window.
            (
                format!("{axis} o = Constant <value = int32[2] {{0, 1}}> () v = Add (u, o)"),
                "Unsqueeze Add Gather",
            ),
            (
                format!("{axis} o = Constant <value = int32[2] {{0, 1}}> () v = Add (o, u)"),
                "Unsqueeze Add Gather",
            ),
            (
                format!("{axis} o = Abs (u) v = Add (u, o)"),
                "Less Add Where Unsqueeze Abs Add Gather",
            ),
        ] {
            assert_eq!(rewritten(&read(&body)), left, "{body}");
        }
    }

    #[test]
    fn vectors_are_concatenated_along_their_last_axis() {
        let pairs = |axis: i64, shape: &str| {
            format!(
                "g (float[9,9] x, int64[{shape}] i, int64[{shape}] j) => (float[?] y) {{
                    zero = Constant <value_int = 0> ()
                    nine = Constant <value_int = 9> ()
                    n = Less (i, zero)
                    s = Add (i, nine)
                    w = Where (n, s, i)
                    c = Concat <axis = {axis}> (w, j)
                    y = GatherND (x, c)
                }}"
            )
        };
        assert_eq!(rewritten(&pairs(-1, "2,1")), "Concat GatherND");
        assert_eq!(rewritten(&pairs(1, "2,1")), "Concat GatherND");
        assert_eq!(rewritten(&pairs(0, "1,2")), "Less Add Where Concat GatherND");
        // Each row is repeated along the last axis, so its index belongs to both axes of `x`.
        let offsets = "o = Constant <value = int64[1,2] {0, 0}> () c = Add (rows, o)";
        let spread = pairs(0, "1,1")
            .replace("c = Concat <axis = 0> (w, j)", "rows = Concat <axis = 0> (w, j)");
        let spread = spread.replace("y = GatherND", &format!("{offsets} y = GatherND"));
        assert_eq!(rewritten(&spread), "Less Add Where Concat Add GatherND");
    }
}
