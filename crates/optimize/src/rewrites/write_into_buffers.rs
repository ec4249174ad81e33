//! `ScatterND` that writes a contiguous run along one axis of a buffer → `TensorScatter`. This
//! updates a cache at a position, either the same for all examples of a batch or one per example. A
//! run that wraps around the end of the buffer uses `mode = "circular"`.
//!
//! `TensorScatter` neither clamps positions nor counts from the end. So positions must have been
//! clamped before, or the user must promise that they are in range.

use onnx::{Assumption, Attr, Attrs, ValueId, attrs};
use tensor::Dim;

use crate::index_vectors::Element;
use crate::movement::{AxisMap, reshaped};
use crate::recognize::check_movement;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("TensorScatter", &["ScatterND"], try_at);

const ZERO: Dim = Dim::Known(0);
const ONE: Dim = Dim::Known(1);

/// A contiguous run of elements to write.
pub(crate) struct Run {
    /// The axis of the operand along which the position is computed.
    pub(crate) axis: usize,
    /// The number of elements along the axis.
    pub(crate) count: Dim,
    pub(crate) start: Element,
    /// For each axis of the operand, the axis of the indices that counts along it.
    along: Vec<Option<usize>>,
}

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    // If the model does not write into its input, every run copies the buffer, and runtimes may
    // print a warning each time. So this form must be requested.
    Skip::when(!m.forms().of("TensorScatter").is_native(), "it was not requested")?;
    let (operand, indices, update) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
    Skip::when(m.root().string("reduction", "none") != "none", "elements are combined")?;
    let run = Run::of(m, operand, indices)?;
    check_movement(m.forms(), "TensorScatter", "", m.ty(operand).dtype)?;
    // The `ScatterND` needs the indexed axes first. The buffer itself may have others before them.
    let turned = m.producer(operand, &["Transpose"]);
    let turned = turned.and_then(|node| node.input(0).zip(AxisMap::of(m.graph(), node)));
    let shape = m.ty(operand).shape.clone();
    let (buffer, order) =
        turned.unwrap_or_else(|| (operand, AxisMap::permutation((0..shape.len()).collect())));
    let axis = order.sources()[run.axis];
    if axis == 0 {
        return Err(missed("the first axis of the buffer is not that of a batch"));
    }
    let back = order.inverse();
    let starts = run.starts(m, &shape, back.sources()[0], operand)?;
    let mut new = shape;
    new[run.axis] = run.count.clone();
    let mut update = reshaped(m, update, &new)?;
    let mut attrs = attrs! { axis: axis as i64 };
    if run.start.modulo.is_some() {
        attrs.push(("mode", Attr::String("circular".into())));
    }
    if !order.is_identity() {
        update = m.op("Transpose", &[update], attrs! { perm: back.attr() })?;
    }
    let mut written = m.op("TensorScatter", &[buffer, update, starts], attrs)?;
    if !order.is_identity() {
        written = m.op("Transpose", &[written], attrs! { perm: order.attr() })?;
    }
    Ok(vec![written])
}

fn missed(reason: &str) -> Skip {
    Skip::Missed(reason.to_owned())
}

impl Run {
    /// Returns the run that is written, if the indices count from zero along all other axes.
    pub(crate) fn of(m: &Match<'_>, buffer: ValueId, indices: ValueId) -> Result<Self, Skip> {
        const OTHERWISE: Skip = Skip::Because("places are computed otherwise");
        let (shape, grid) = (&m.ty(buffer).shape, &m.ty(indices).shape);
        let (width, grid) = grid.split_last().ok_or(OTHERWISE)?;
        let width = width.as_known().and_then(|n| usize::try_from(n).ok()).ok_or(OTHERWISE)?;
        let mut found: Option<(usize, Element)> = None;
        let mut along = Vec::new();
        for (axis, size) in shape.iter().enumerate().take(width) {
            let element = Element::of(m.graph(), indices, axis).ok_or(OTHERWISE)?;
            let is_whole = match element.along.as_slice() {
                [] => *size == ONE,
                [counted] => grid.get(*counted) == Some(size),
                _ => return Err(OTHERWISE),
            };
            along.push(element.along.first().copied());
            if is_whole && element.first == 0 && element.base.is_none() {
                continue;
            }
            Skip::when(found.is_some(), "places are computed along several axes")?;
            found = Some((axis, element));
        }
        let (axis, start) = found.ok_or("all of the buffer is written")?;
        let all: Vec<usize> = (0..grid.len()).filter(|axis| grid[*axis] != ONE).collect();
        let counted = along.iter().copied().flatten().filter(|axis| grid[*axis] != ONE);
        let counted: Vec<usize> = counted.collect();
        Skip::when(counted != all, "elements are written in another order")?;
        let count = start.along.first().map_or(ONE, |axis| grid[*axis].clone());
        Ok(Self { axis, count, start, along })
    }

    /// Returns `true` if positions may count from the end. Fails if they may be out of range.
    fn check_places(&self, m: &Match<'_>, length: &Dim) -> Result<bool, Skip> {
        let (graph, start) = (m.graph(), &self.start);
        if let Some(modulo) = start.modulo {
            let fits = Dim::Known(modulo) == *length
                && self.count.as_known().is_some_and(|count| count <= modulo);
            let is_bounded = start.is_at_least(graph, &Dim::Known(-1 << 30))
                && start.is_at_most(graph, &Dim::Known(1 << 30));
            // A sum that wraps around has another remainder, unless the length is a power of two.
            if !fits || !(is_bounded || modulo.count_ones() == 1) {
                return Err(missed("the remainder is not that of the buffer's length"));
            }
            return Ok(true);
        }
        let is_positive = start.is_at_least(graph, &ZERO);
        let last = length.clone() - self.count.clone();
        match is_positive && start.is_at_most(graph, &last) {
            true => Ok(false),
            false if graph.assumptions.contains(Assumption::IndicesInRange) => Ok(!is_positive),
            false => Err(missed("a place may be outside of the buffer")),
        }
    }

    /// Emits the start positions in an operand of this shape, one per example of the batch, which is
    /// the axis `batch`. Positions that may count from the end are taken modulo the length.
    fn starts(
        &self,
        m: &mut Match<'_>,
        shape: &[Dim],
        batch: usize,
        operand: ValueId,
    ) -> Result<ValueId, Skip> {
        let (size, length) = (&shape[batch], &shape[self.axis]);
        let counts_back = self.check_places(m, length)?;
        let along = self.along.get(batch).copied().flatten();
        let mut starts = self.start.for_each(m, along, size)?;
        if counts_back {
            let length = length.as_known().ok_or_else(|| {
                missed("places may count from the end of a buffer whose length is not known")
            })?;
            let length = m.i64s(&[length]);
            starts = m.op("Mod", &[starts, length], Attrs::new())?;
        }
        if m.ty(starts).shape[0] != *size {
            let sizes = m.sizes(std::slice::from_ref(size), operand)?;
            starts = m.op("Expand", &[starts, sizes], Attrs::new())?;
        }
        Ok(starts)
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to_natively, rewritten_natively, stays, stays_natively};

    fn scatter(position: &str) -> String {
        format!(
            "g (float[2,3,8,4] x, float[2,3,1,4] u, int32 p) => (float[2,3,8,4] y) {{
                low = Constant <value = int32 {{0}}> ()
                high = Constant <value = int32 {{7}}> ()
                {position}
                wide = Cast <to = 7> (q)
                none = Constant <value_ints = [0]> ()
                at = Unsqueeze (wide, none)
                zeros = Constant <value_ints = [0, 0]> ()
                first = Concat <axis = 0> (zeros, at)
                axes = Constant <value_ints = [0, 1, 2]> ()
                vector = Unsqueeze (first, axes)
                grid = Constant <value = int64[2,3,1,3] {{0, 0, 0, 0, 1, 0, 0, 2, 0, 1, 0, 0, 1, 1, 0, 1, 2, 0}}> ()
                places = Add (vector, grid)
                y = ScatterND (x, places, u)
            }}"
        )
    }

    #[test]
    fn a_run_is_written_at_a_clamped_position() {
        rewrites_to_natively(
            &REWRITE,
            &scatter("q = Clip (p, low, high)"),
            "g (float[2,3,8,4] x, float[2,3,1,4] u, int32 p) => (float[2,3,8,4] y) {
                low = Constant <value = int32 {0}> ()
                high = Constant <value = int32 {7}> ()
                q = Clip (p, low, high)
                v2 = Cast <to = 7> (q)
                one = Constant <value_ints = [1]> ()
                v4 = Reshape (v2, one)
                two = Constant <value_ints = [2]> ()
                v6 = Expand (v4, two)
                y = TensorScatter <axis = 2> (x, u, v6)
            }",
        );
    }

    #[test]
    fn positions_that_may_be_out_of_range_are_unchanged() {
        for position in ["Identity (p)", "Max (p, low)", "Min (p, high)"] {
            stays_natively(&REWRITE, &scatter(&format!("q = {position}")));
        }
    }

    /// 255 + 3 is 2 in eight bits.
    #[test]
    fn a_sum_that_may_wrap_around_is_preserved() {
        let long = |text: &str| text.replace("3,8,4]", "3,300,4]").replace("int32 p", "uint8 p");
        rewrites_to_natively(
            &REWRITE,
            &long(&scatter("three = Constant <value = uint8 {3}> () q = Add (p, three)")),
            &long(
                "g (float[2,3,8,4] x, float[2,3,1,4] u, int32 p) => (float[2,3,8,4] y) {
                three = Constant <value = uint8 {3}> ()
                q = Add (p, three)
                v1 = Cast <to = 7> (q)
                one = Constant <value_ints = [1]> ()
                v3 = Reshape (v1, one)
                two = Constant <value_ints = [2]> ()
                v5 = Expand (v3, two)
                y = TensorScatter <axis = 2> (x, u, v5)
            }",
            ),
        );
    }

    #[test]
    fn the_operator_must_be_requested() {
        stays(&REWRITE, &scatter("q = Clip (p, low, high)"));
    }

    #[test]
    fn elements_are_written_in_order_and_on_their_own() {
        let plain = scatter("q = Clip (p, low, high)");
        let grid = "{0, 0, 0, 0, 1, 0, 0, 2, 0, 1, 0, 0, 1, 1, 0, 1, 2, 0}";
        for text in [
            plain.replace("ScatterND (x", "ScatterND <reduction = \"add\"> (x"),
            // The second examples come first, all are the first one, or counted from one on.
            plain.replace(grid, "{1, 0, 0, 1, 1, 0, 1, 2, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0}"),
            plain.replace(grid, "{0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0}"),
            plain.replace(grid, "{1, 0, 0, 1, 1, 0, 1, 2, 0, 2, 0, 0, 2, 1, 0, 2, 2, 0}"),
        ] {
            stays_natively(&REWRITE, &text);
        }
    }

    #[test]
    fn the_remainder_is_that_of_the_length() {
        let written = |length: i64, by: i64, position: &str| {
            let text = format!(
                "g (float[2,3,{length},4] x, float[2,3,2,4] u, int64[1] p) => (float[2,3,{length},4] y) {{
                    least = Constant <value_int = -100> () most = Constant <value_int = 100> ()
                    by = Constant <value_int = {by}> () r = {position}
                    steps = Constant <value = int64[1,1,2,1] {{0, 1}}> () s = Add (r, steps)
                    m = Mod (s, by) sizes = Constant <value_ints = [2, 3, 2, 1]> ()
                    third = Expand (m, sizes)
                    first = Constant <value = int64[2,3,2,1] {{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}}> ()
                    second = Constant <value = int64[2,3,2,1] {{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}}> ()
                    places = Concat <axis = -1> (first, second, third) y = ScatterND (x, places, u) }}"
            );
            rewritten_natively(&REWRITE, &text).contains("mode: string = \"circular\"")
        };
        let clipped = "Clip (p, least, most)";
        assert!(written(8, 8, "Identity (p)"));
        assert!(!written(8, 7, "Identity (p)"), "another remainder");
        assert!(!written(8, 16, clipped), "a remainder out of range");
        assert!(!written(6, 6, "Identity (p)"), "the sum may wrap around");
        assert!(written(6, 6, clipped));
    }
}
