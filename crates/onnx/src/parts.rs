//! The parts of a value that `Slice` and `Split` return, and its reversal by a `Slice`.

use tensor::Dim;

use crate::{Graph, Node, ValueId, fold};

/// The elements that a `Slice` takes along one axis, as written.
struct Cut {
    axis: usize,
    start: i64,
    /// `None` if the end is computed.
    end: Option<i64>,
    step: i64,
}

/// Returns the elements that a `Slice` takes along each axis that it names, if they are known.
fn cuts(graph: &Graph, slice: &Node) -> Option<Vec<Cut>> {
    let rank = graph.ty(slice.input(0).filter(|_| slice.is("Slice"))?).rank();
    let ints = |index| graph.constant(slice.input(index)?)?.to_i64s();
    let (starts, ends) = (ints(1)?, ints(2));
    let axes = match slice.input(3) {
        Some(_) => ints(3)?,
        None => (0..).take(starts.len()).collect(),
    };
    let steps = match slice.input(4) {
        Some(_) => ints(4)?,
        None => vec![1; starts.len()],
    };
    let cut = |(i, axis)| {
        let axis = fold::axis(axis, rank).ok()?;
        let end = ends.as_ref().and_then(|ends| ends.get(i).copied());
        Some(Cut { axis, start: *starts.get(i)?, end, step: *steps.get(i)? })
    };
    axes.into_iter().enumerate().map(cut).collect()
}

/// Evenly spaced elements along one axis of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The value that the elements are taken from.
    pub source: ValueId,
    /// The axis along which they are taken.
    pub axis: usize,
    /// The index of the first element. It counts from the end if it is negative, which occurs only
    /// if the size of the axis is unknown.
    pub start: i64,
    /// The distance between elements, which is positive.
    pub step: i64,
    /// The number of elements.
    pub count: i64,
}

impl Part {
    /// Returns the part that `node` returns as `value`, if it is a `Split`, or a forward `Slice`
    /// along one axis.
    pub fn of(graph: &Graph, node: &Node, value: ValueId) -> Option<Self> {
        let source = node.input(0)?;
        let size = |value: ValueId, axis: usize| graph.ty(value).shape.get(axis)?.as_known();
        let (axis, start, step) = if node.is("Split") {
            let axis = fold::axis(node.int("axis", 0), graph.ty(source).rank()).ok()?;
            let before = node.outputs.iter().take_while(|output| **output != value);
            (axis, before.map(|output| size(*output, axis)).sum::<Option<i64>>()?, 1)
        } else {
            let [Cut { axis, start, step: step @ 1.., .. }] = *cuts(graph, node)? else {
                return None;
            };
            // A start beyond either end is that end.
            let start = match size(source, axis) {
                Some(size) if start < 0 => start.saturating_add(size).max(0),
                Some(size) => start.min(size),
                None => start,
            };
            (axis, start, step)
        };
        Some(Self { source, axis, start, step, count: size(value, axis)? })
    }

    /// Returns the indices of the elements.
    pub fn indices(&self) -> impl Iterator<Item = i64> {
        let Self { start, step, .. } = *self;
        (0..self.count).map(move |i| start + i * step)
    }
}

/// Returns the operand that `node` reverses along `axis`, if it does nothing else.
pub fn reversed(graph: &Graph, node: &Node, axis: usize) -> Option<ValueId> {
    reversal(graph, node).filter(|(_, axes)| *axes == [axis]).map(|(source, _)| source)
}

/// Returns the operand that `node` reverses, and the axes in ascending order, if it does nothing
/// else.
pub fn reversal(graph: &Graph, node: &Node) -> Option<(ValueId, Vec<usize>)> {
    let source = node.input(0)?;
    let is_whole = |cut: Cut| {
        let size = graph.ty(source).shape.get(cut.axis).and_then(Dim::as_known);
        let from_last = cut.start == -1 || size.is_some_and(|size| cut.start >= size - 1);
        let to_first = cut.end.is_some_and(|end| end == i64::MIN || size.is_some_and(|n| end < -n));
        (from_last && to_first && cut.step == -1).then_some(cut.axis)
    };
    let mut axes = cuts(graph, node)?.into_iter().map(is_whole).collect::<Option<Vec<_>>>()?;
    axes.sort_unstable();
    Some((source, axes))
}

#[cfg(test)]
mod tests {
    use provenance::Origins;
    use tensor::{DType, Dim, Type};

    use super::{Part, reversal};
    use crate::Graph;
    use crate::text::parse;

    #[test]
    fn starts_are_counted_from_the_front_if_the_size_is_known() {
        for (size, start, expected) in
            [("4", -1, 3), ("4", -9, 0), ("4", 1, 1), ("4", 9, 4), ("N", -1, -1), ("N", 1, 1)]
        {
            let count = if size == "4" { (4 - expected).to_string() } else { "M".to_owned() };
            let text = format!(
                "g (float[{size}] x) => (float[{count}] y) {{
                    b = Constant <value_ints = [{start}]> () e = Constant <value_ints = [9223372036854775807]> ()
                    y = Slice (x, b, e) }}"
            );
            let mut graph = parse(&text, &mut Origins::default()).unwrap();
            let y = graph.block(Graph::MAIN).outputs()[0];
            if size == "N" {
                // The number of elements may be known nevertheless.
                graph.set_type(y, Type::new(DType::F32, [Dim::Known(1)]));
            }
            let part = Part::of(&graph, graph.node(graph.producer(y).unwrap()), y).unwrap();
            assert_eq!(part.start, expected, "{text}");
        }
    }

    #[test]
    fn whole_axes_are_reversed() {
        let beyond = i64::MIN.to_string();
        for (size, start, end, step, expected) in [
            ("4", "-1", &*beyond, "-1", Some(vec![1])),
            ("4", "3", "-5", "-1", Some(vec![1])),
            ("4", "9", "-9", "-1", Some(vec![1])),
            ("N", "-1", &*beyond, "-1", Some(vec![1])),
            ("4", "2", "-5", "-1", None),
            ("4", "3", "-4", "-1", None),
            ("4", "3", "-5", "-2", None),
            ("N", "3", &*beyond, "-1", None),
            ("N", "-1", "-5", "-1", None),
        ] {
            let text = format!(
                "g (float[2,{size}] x) => (float[2,M] y) {{
                    start = Constant <value_ints = [{start}]> () end = Constant <value_ints = [{end}]> ()
                    axis = Constant <value_ints = [1]> () step = Constant <value_ints = [{step}]> ()
                    y = Slice (x, start, end, axis, step) }}"
            );
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let slice = graph.producer(graph.block(Graph::MAIN).outputs()[0]).unwrap();
            let found = reversal(&graph, graph.node(slice)).map(|(_, axes)| axes);
            assert_eq!(found, expected, "{text}");
        }
    }
}
