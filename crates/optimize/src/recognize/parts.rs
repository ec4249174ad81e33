//! Parts of the last axis of a value: halves, every second element, leading elements and the rest.

use onnx::{Graph, Node, ValueId, fold};

/// A part of a whole. The whole is the last axis or its leading elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    FirstHalf,
    SecondHalf,
    /// Every second element, starting with the first.
    Even,
    /// Every second element, starting with the second.
    Odd,
    /// The whole itself.
    Front,
    /// The elements after the whole.
    Rest,
}

impl Part {
    /// Returns the part that patterns call `name`.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "first_half" => Part::FirstHalf,
            "second_half" => Part::SecondHalf,
            "even" => Part::Even,
            "odd" => Part::Odd,
            "front" => Part::Front,
            "rest" => Part::Rest,
            _ => return None,
        })
    }

    /// Returns the size of the whole that contains `run` as this part, along an axis of `size`
    /// elements.
    pub(super) fn whole(self, run: Run, size: i64) -> Option<i64> {
        let Run { start, step, count } = run;
        let (expected, whole) = match self {
            Part::FirstHalf => ((0, 1), 2 * count),
            Part::SecondHalf => ((count, 1), 2 * count),
            Part::Even => ((0, 2), 2 * count),
            Part::Odd => ((1, 2), 2 * count),
            Part::Front => ((0, 1), count),
            Part::Rest => ((size - count, 1), size - count),
        };
        ((start, step) == expected && count > 0 && whole <= size).then_some(whole)
    }
}

/// Evenly spaced elements of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: i64,
    pub(super) step: i64,
    pub(super) count: i64,
}

impl Run {
    /// Returns the run with these indices, if they are evenly spaced.
    fn of(places: &[i64]) -> Option<Self> {
        let (start, count) = (*places.first()?, i64::try_from(places.len()).ok()?);
        let step = places.get(1).map_or(1, |second| second - start);
        let fits = step > 0 && places.windows(2).all(|pair| pair[1] - pair[0] == step);
        fits.then_some(Self { start, step, count })
    }

    /// Returns this run as a run of the outer value, where `outer` is a run of another value.
    pub(super) fn within(self, outer: Run) -> Run {
        let start = outer.start + self.start * outer.step;
        Run { start, step: self.step * outer.step, count: self.count }
    }
}

/// If `node` extracts `value` from the last axis of its operand, returns the operand and the
/// extracted elements.
pub(super) fn taken(graph: &Graph, node: &Node, value: ValueId) -> Option<(ValueId, Run)> {
    let source = node.input(0)?;
    let shape = &graph.ty(source).shape;
    shape.last()?.as_known()?;
    let last = shape.len() - 1;
    if node.is("Gather") && fold::axis(node.int("axis", 0), shape.len()) == Ok(last) {
        let indices = graph.constant(node.input(1)?).filter(|indices| indices.shape().len() == 1);
        let run = Run::of(&indices?.to_i64s()?)?;
        return (run.start >= 0).then_some((source, run));
    }
    let onnx::Part { axis, start, step, count, .. } = onnx::Part::of(graph, node, value)?;
    (axis == last).then_some((source, Run { start, step, count }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_distinguished() {
        let run = |start, step, count| Run { start, step, count };
        assert_eq!(Part::FirstHalf.whole(run(0, 1, 4), 8), Some(8));
        assert_eq!(Part::FirstHalf.whole(run(0, 1, 3), 8), Some(6));
        assert_eq!(Part::FirstHalf.whole(run(0, 1, 5), 8), None);
        assert_eq!(Part::SecondHalf.whole(run(3, 1, 3), 8), Some(6));
        assert_eq!(Part::SecondHalf.whole(run(4, 1, 3), 8), None);
        assert_eq!(Part::Odd.whole(run(1, 2, 4), 8), Some(8));
        assert_eq!(Part::Even.whole(run(1, 2, 4), 8), None);
        assert_eq!(Part::Rest.whole(run(6, 1, 2), 8), Some(6));
        assert_eq!(Part::Rest.whole(run(5, 1, 2), 8), None);
        assert_eq!(Run::of(&[1, 3, 5]), Some(run(1, 2, 3)));
        assert_eq!(Run::of(&[1, 3, 4]), None);
        assert_eq!(Run::of(&[3, 1]), None);
        assert_eq!(run(1, 2, 2).within(run(4, 1, 4)), run(5, 2, 2));
    }
}
