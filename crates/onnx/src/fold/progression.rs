//! Arithmetic progressions: integers that are equally spaced along each axis, such as the indices
//! of `x[::2]`, however many there are.

use tensor::bounds::at_least;
use tensor::{DType, Dim, Tensor};

use super::axis;
use crate::{Graph, Node, ValueId};

/// The largest depth of operands that are followed.
const DEPTH: u32 = 16;

const ONE: Dim = Dim::Known(1);

/// Integers that are equally spaced along each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progression {
    /// The integer at the start of all axes.
    pub first: Dim,
    /// The increment along each axis. It is 0 for an axis of size one.
    pub steps: Vec<i64>,
}

/// Returns the progressions of the vectors in the last axis of `value`: one for each element of a
/// vector, along the other axes. An element that is not a progression is `None`.
pub fn progressions(graph: &Graph, value: ValueId) -> Option<Vec<Option<Progression>>> {
    let mut found = Vec::new();
    elements(graph, value, DEPTH, &mut found)?;
    Some(found)
}

fn elements(
    graph: &Graph,
    value: ValueId,
    depth: u32,
    found: &mut Vec<Option<Progression>>,
) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let shape = &graph.ty(value).shape;
    let (last, before) = shape.split_last()?;
    if *last == ONE {
        let mut one = progression(graph, value, depth);
        if let Some(one) = &mut one {
            one.steps.truncate(before.len());
        }
        found.push(one);
        return Some(());
    }
    if let Some(tensor) = graph.constant(value).filter(|_| graph.value(value).name.is_empty()) {
        let numbers = tensor.to_i64s().filter(|_| before.is_empty())?;
        let one = |number| Progression { first: Dim::Known(number), steps: Vec::new() };
        found.extend(numbers.into_iter().map(one).map(Some));
        return Some(());
    }
    let node = graph.node(graph.producer(value)?);
    if joins_vectors(node, shape.len()) {
        for part in node.inputs.iter().copied().flatten() {
            elements(graph, part, depth, found)?;
        }
        return Some(());
    }
    match node.is("Cast") && counts_places(graph, node.input(0)?) && counts_places(graph, value) {
        true => elements(graph, node.input(0)?, depth, found),
        false => None,
    }
}

/// Returns `true` if a node concatenates vectors along the last of `rank` axes.
fn joins_vectors(node: &Node, rank: usize) -> bool {
    node.is("Concat") && axis(node.int("axis", 0), rank).is_ok_and(|axis| axis + 1 == rank)
}

/// Returns the values that are concatenated along the last axis of `value`, if each has size one
/// there.
pub fn parts_of_vectors(graph: &Graph, value: ValueId) -> Option<Vec<ValueId>> {
    let node = graph.node(graph.producer(value)?);
    let parts: Option<Vec<ValueId>> = node.inputs.iter().copied().collect();
    let is_single = |part: &ValueId| graph.ty(*part).shape.last() == Some(&ONE);
    let joins = joins_vectors(node, graph.ty(value).rank());
    parts.filter(|parts| joins && parts.iter().all(is_single))
}

/// Returns `true` if a value has a type for sizes, so that its numbers are far from overflow.
fn counts_places(graph: &Graph, value: ValueId) -> bool {
    matches!(graph.ty(value).dtype, DType::I32 | DType::I64)
}

fn progression(graph: &Graph, value: ValueId, depth: u32) -> Option<Progression> {
    let depth = depth.checked_sub(1)?;
    if !counts_places(graph, value) {
        return None;
    }
    let shape = &graph.ty(value).shape;
    if let Some(tensor) = graph.constant(value) {
        // A user may change the elements of a parameter.
        return if graph.value(value).name.is_empty() { stored(tensor) } else { None };
    }
    if let Some([first]) = graph.content(value).as_deref() {
        return Some(Progression { first: first.clone(), steps: vec![0; shape.len()] });
    }
    let node = graph.node(graph.producer(value)?);
    if !node.op.domain.is_empty() {
        return None;
    }
    let operand = |index: usize| progression(graph, node.input(index)?, depth);
    let mut found = match node.op.name {
        "Add" => operand(0)?.plus(operand(1)?, 1, shape.len())?,
        "Sub" => operand(0)?.plus(operand(1)?, -1, shape.len())?,
        "Mul" => match (operand(0)?, operand(1)?) {
            (a, b) if a.number().is_some() => b.times(a.number()?)?.with_rank(shape.len())?,
            (a, b) => a.times(b.number()?)?.with_rank(shape.len())?,
        },
        "Cast" | "Identity" => operand(0)?,
        "Expand" => operand(0)?.with_rank(shape.len())?,
        "Range" => {
            let number = |index| <[Dim; 1]>::try_from(graph.content(node.input(index)?)?).ok();
            let ([first], [step]) = (number(0)?, number(2)?);
            Progression { first, steps: vec![step.as_known()?] }
        }
        "Reshape" | "Squeeze" | "Unsqueeze" => moved(graph, node, operand(0)?, shape)?,
        "Slice" => reversed(graph, node, operand(0)?, shape)?,
        // The condition is never true, so the result is the third operand.
        "Where" if is_never_less(graph, node.input(0)?, depth) => {
            operand(2)?.with_rank(shape.len())?
        }
        _ => return None,
    };
    for (step, size) in found.steps.iter_mut().zip(shape) {
        if *size == ONE {
            *step = 0;
        }
    }
    Some(found)
}

/// Returns `true` if `condition` is a comparison `a < b` that is never true: `a` does not decrease,
/// and starts at the number `b` or above.
fn is_never_less(graph: &Graph, condition: ValueId, depth: u32) -> bool {
    let less = graph.producer(condition).map(|id| graph.node(id)).filter(|node| node.is("Less"));
    let operand = |index: usize| progression(graph, less?.input(index)?, depth);
    let (Some(a), Some(b)) = (operand(0), operand(1).and_then(|b| b.number())) else {
        return false;
    };
    a.steps.iter().all(|step| *step >= 0) && at_least(&a.first, b)
}

impl Progression {
    /// Returns the number, if all integers are equal.
    fn number(&self) -> Option<i64> {
        self.first.as_known().filter(|_| self.steps.iter().all(|step| *step == 0))
    }

    /// Adds axes in front, up to `rank`.
    fn with_rank(mut self, rank: usize) -> Option<Self> {
        let added = rank.checked_sub(self.steps.len())?;
        self.steps.splice(0..0, std::iter::repeat_n(0, added));
        Some(self)
    }

    fn times(self, factor: i64) -> Option<Self> {
        let steps =
            self.steps.iter().map(|step| step.checked_mul(factor)).collect::<Option<_>>()?;
        Some(Self { first: product(self.first, factor)?, steps })
    }

    fn plus(self, other: Self, sign: i64, rank: usize) -> Option<Self> {
        let (a, b) = (self.with_rank(rank)?, other.times(sign)?.with_rank(rank)?);
        let steps = a.steps.iter().zip(&b.steps).map(|(a, b)| a.checked_add(*b));
        let steps = steps.collect::<Option<_>>()?;
        let first = match (a.first, b.first) {
            (Dim::Known(a), Dim::Known(b)) => Dim::Known(a.checked_add(b)?),
            (a, b) => a + b,
        };
        Some(Self { first, steps })
    }
}

fn product(dim: Dim, factor: i64) -> Option<Dim> {
    match dim {
        Dim::Known(n) => n.checked_mul(factor).map(Dim::Known),
        dim => Some(dim * Dim::Known(factor)),
    }
}

/// Returns the progression of a constant's elements.
fn stored(tensor: &Tensor) -> Option<Progression> {
    let numbers = tensor.to_i64s()?;
    let (first, shape) = (*numbers.first()?, tensor.shape());
    let mut steps = vec![0; shape.len()];
    let mut step = 0;
    if let (Some(second), Some(along)) = (numbers.get(1), shape.iter().position(|n| *n != 1)) {
        step = second.checked_sub(first)?;
        // A step other than zero is supported along one axis only.
        let is_alone = shape.iter().filter(|n| **n != 1).count() == 1;
        if step != 0 && !is_alone {
            return None;
        }
        steps[along] = step;
    }
    let is = |(i, number): (i64, &i64)| {
        i.checked_mul(step).and_then(|far| first.checked_add(far)) == Some(*number)
    };
    (0..).zip(&numbers).all(is).then_some(Progression { first: Dim::Known(first), steps })
}

/// Returns the progression after axes of size one were added or removed.
fn moved(graph: &Graph, node: &Node, from: Progression, to: &[Dim]) -> Option<Progression> {
    let shape = &graph.ty(node.input(0)?).shape;
    let mut rest = shape.iter().zip(&from.steps).filter(|(size, _)| **size != ONE);
    let step = |size: &Dim| match *size == ONE {
        true => Some(0),
        false => rest.next().filter(|(other, _)| *other == size).map(|(_, step)| *step),
    };
    let steps = to.iter().map(step).collect::<Option<_>>()?;
    rest.next().is_none().then_some(Progression { first: from.first, steps })
}

/// Returns the progression after whole axes were reversed.
fn reversed(graph: &Graph, node: &Node, from: Progression, shape: &[Dim]) -> Option<Progression> {
    let ints = |index| graph.constant(node.input(index)?)?.to_i64s();
    let is_whole = ints(1)?.iter().all(|start| *start == -1)
        && ints(2)?.iter().all(|end| *end == i64::MIN)
        && ints(4)?.iter().all(|step| *step == -1);
    let Progression { mut first, mut steps } = from;
    for along in ints(3).filter(|_| is_whole)? {
        let along = axis(along, shape.len()).ok()?;
        first = first + product(shape[along].clone() - ONE, steps[along])?;
        steps[along] = steps[along].checked_neg()?;
    }
    Some(Progression { first, steps })
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::*;
    use crate::text::parse;

    /// Returns the progressions of the first result of a graph, if all are known.
    fn first(text: &str) -> Option<Vec<(String, Vec<i64>)>> {
        each(text).into_iter().collect()
    }

    fn each(text: &str) -> Vec<Option<(String, Vec<i64>)>> {
        let graph = parse(text, &mut Origins::default()).unwrap();
        let found = progressions(&graph, graph.block(Graph::MAIN).outputs()[0]).unwrap();
        let shown = |one: Progression| (one.first.to_string(), one.steps);
        found.into_iter().map(|one| one.map(shown)).collect()
    }

    const COUNTED: &str = "zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
        two = Constant <value_int = 2> () minus = Constant <value_ints = [-1]> ()
        all = Constant <value_ints = [-9223372036854775808]> () front = Constant <value_ints = [0]> ()
        axis = Constant <value_ints = [1]> ()
        size = Shape <start = 0, end = 1> (x) count = Squeeze (size, front) range = Range (zero, count, one)";

    #[test]
    fn what_counts_is_found() {
        let text = format!(
            "g (float[L,4] x) => (int32[L,1] y) {{ {COUNTED}
                m = Mul (two, range) c = Cast <to = 6> (m) y = Unsqueeze (c, axis) }}"
        );
        assert_eq!(first(&text), Some(vec![("0".to_owned(), vec![2])]));
        let text = format!(
            "g (float[L,4] x) => (int64[L,1] y) {{ {COUNTED}
                last = Sub (count, one) m = Mul (range, two) d = Sub (last, m)
                r = Slice (d, minus, all, front, minus) y = Unsqueeze (r, axis) }}"
        );
        assert_eq!(first(&text), Some(vec![("-L + 1".to_owned(), vec![2])]));
    }

    #[test]
    fn vectors_are_taken_apart() {
        let text = format!(
            "g (float[L,4] x) => (int64[L,3,2] y) {{ {COUNTED}
                shape = Constant <value_ints = [-1, 1, 1]> ()
                target = Constant <value_ints = [1, 3, 1]> ()
                other = Constant <value = int64[3] {{5, 4, 3}}> ()
                columns = Constant <value_ints = [3, 1]> ()
                whole = Concat <axis = 0> (size, columns)
                a = Reshape (range, shape) b = Expand (a, target)
                c = Reshape (other, columns) d = Expand (c, whole)
                y = Concat <axis = 2> (b, d) }}"
        );
        let expected = vec![("0".to_owned(), vec![1, 0]), ("5".to_owned(), vec![0, -1])];
        assert_eq!(first(&text), Some(expected));
    }

    #[test]
    fn elements_are_looked_at_one_by_one() {
        let text = |low: &str, size: &str| {
            format!(
                "g (float[{size},4] x, int64[{size},1] i) => (int64[{size},2] y) {{ {COUNTED}
                    low = Constant <value_int = {low}> ()
                    c = Less (range, low) f = Add (range, count) w = Where (c, f, range)
                    u = Unsqueeze (w, axis) y = Concat <axis = 1> (u, i) }}"
            )
        };
        assert_eq!(each(&text("0", "L")), [Some(("0".to_owned(), vec![1])), None]);
        assert_eq!(each(&text("1", "L")), [None, None]);
        let stored = "g (int64[3,1] i) => (int64[3,2] y) {
            c = Constant <value = int64[3,1] {4, 6, 8}> () y = Concat <axis = 1> (i, c) }";
        assert_eq!(each(stored), [None, Some(("4".to_owned(), vec![2]))]);
    }

    #[test]
    fn what_varies_otherwise_is_not() {
        for text in [
            "g (int64[L,1] x) => (int64[L,1] y) { y = Neg (x) }",
            "g (int8[L,1] x) => (int64[3,1] y) {
                c = Constant <value = int64[3] {0, 1, 3}> () a = Constant <value_ints = [1]> ()
                y = Unsqueeze (c, a) }",
        ] {
            assert_eq!(first(text), None);
        }
    }
}
