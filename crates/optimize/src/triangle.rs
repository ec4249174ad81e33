//! Truth values that form a triangle: they say which elements of a matrix lie on one side of a diagonal,
//! as a causal mask does.

use onnx::{Graph, Node, Producer, ValueId};
use tensor::{Dim, Tensor};

/// How deep the operands of a mask are followed.
const DEPTH: u32 = 8;

/// Where the truth values of the last two axes hold: on the diagonal `k` places right of the main one,
/// and on one side of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Triangle {
    pub(crate) upper: bool,
    pub(crate) k: i64,
}

impl Triangle {
    /// The triangle that `mask` is for every matrix of the shape `[…, rows, columns]`.
    pub(crate) fn of(graph: &Graph, mask: ValueId, matrices: &[Dim]) -> Option<Self> {
        let shape = &graph.ty(mask).shape;
        let (lead, matrix) = shape.split_at_checked(shape.len().checked_sub(2)?)?;
        let is_one = |dim: &Dim| *dim == Dim::Known(1);
        if !matrices.ends_with(matrix) || !lead.iter().all(is_one) {
            return None;
        }
        match graph.value(mask).producer() {
            Producer::Constant(tensor) if graph.value(mask).name.is_empty() => stored(tensor),
            _ => compared(graph, mask, DEPTH),
        }
    }

    /// Where the truth values do not hold.
    pub(crate) fn complement(self) -> Self {
        match self.upper {
            true => Self { upper: false, k: self.k - 1 },
            false => Self { upper: true, k: self.k + 1 },
        }
    }

    fn has(self, row: usize, column: usize) -> bool {
        let place = column as i64 - row as i64;
        if self.upper { place >= self.k } else { place <= self.k }
    }
}

/// The triangle that a constant is, if it is neither empty nor everything.
fn stored(mask: &Tensor) -> Option<Triangle> {
    let columns = *mask.shape().last()?;
    let bytes = mask.bytes().filter(|bytes| columns > 0 && !bytes.is_empty())?;
    let rows = || bytes.chunks(columns).enumerate();
    // The first row that has both says where the diagonal is.
    let (row, both) = rows().find(|(_, row)| row.contains(&0) && row.contains(&1))?;
    let upper = both[0] == 0;
    let change = both.iter().position(|truth| (*truth != 0) == upper)?;
    let first = if upper { change } else { change - 1 };
    let triangle = Triangle { upper, k: first as i64 - row as i64 };
    let agrees = |(i, row): (usize, &[u8])| {
        row.iter().enumerate().all(|(j, truth)| (*truth != 0) == triangle.has(i, j))
    };
    rows().all(agrees).then_some(triangle)
}

/// The triangle of a comparison of row numbers with column numbers.
fn compared(graph: &Graph, mask: ValueId, depth: u32) -> Option<Triangle> {
    let node = graph.node(graph.producer(mask)?);
    let depth = depth.checked_sub(1)?;
    if node.is("Not") {
        return compared(graph, node.input(0)?, depth).map(Triangle::complement);
    }
    let (a, b) = (numbered(graph, node.input(0)?, depth)?, numbered(graph, node.input(1)?, depth)?);
    // `column + difference` compared with `row`, or the other way round.
    let (rows_first, k) = match (a.axis, b.axis) {
        (1, 0) => (true, a.first.checked_sub(b.first)?),
        (0, 1) => (false, b.first.checked_sub(a.first)?),
        _ => return None,
    };
    let (lower, strict) = match node.op.name {
        "GreaterOrEqual" => (rows_first, false),
        "Greater" => (rows_first, true),
        "LessOrEqual" => (!rows_first, false),
        "Less" => (!rows_first, true),
        _ => return None,
    };
    let by = i64::from(strict);
    Some(if lower {
        Triangle { upper: false, k: k - by }
    } else {
        Triangle { upper: true, k: k + by }
    })
}

/// Integers that count along one axis and are the same along all others.
struct Numbered {
    /// The axis, counted from the last one.
    axis: usize,
    /// The number at the beginning.
    first: i64,
}

fn numbered(graph: &Graph, value: ValueId, depth: u32) -> Option<Numbered> {
    let depth = depth.checked_sub(1)?;
    let shape = &graph.ty(value).shape;
    if let Some(tensor) = graph.constant(value) {
        let numbers = tensor.to_i64s()?;
        let first = *numbers.first()?;
        let counts = numbers.iter().zip(first..).all(|(number, count)| *number == count);
        return Some(Numbered { axis: only_axis(shape)?, first }).filter(|_| counts);
    }
    let node = graph.node(graph.producer(value)?);
    let scalar = |index| match *graph.constant(node.input(index)?)?.to_i64s()? {
        [number] => Some(number),
        _ => None,
    };
    match node.op.name {
        "Range" => (scalar(2)? == 1).then_some(Numbered { axis: 0, first: scalar(0)? }),
        "Cast" if graph.ty(value).dtype.is_integer() => numbered(graph, node.input(0)?, depth),
        "Add" | "Sub" => {
            let of = |x, by| Some((numbered(graph, node.input(x)?, depth)?, scalar(by)?));
            let (numbers, by) = of(0, 1).or_else(|| of(1, 0).filter(|_| node.is("Add")))?;
            let by = if node.is("Sub") { by.checked_neg()? } else { by };
            Some(Numbered { first: numbers.first.checked_add(by)?, ..numbers })
        }
        // What is repeated along further axes is aligned with the last one.
        "Expand" => numbered(graph, node.input(0)?, depth),
        "Reshape" | "Squeeze" | "Unsqueeze" => moved(graph, node, shape, depth),
        _ => None,
    }
}

/// The numbers after a change of shape that only adds or removes axes of size one.
fn moved(graph: &Graph, node: &Node, shape: &[Dim], depth: u32) -> Option<Numbered> {
    let x = node.input(0)?;
    let (before, after) = (only_axis(&graph.ty(x).shape)?, only_axis(shape)?);
    let numbers = numbered(graph, x, depth)?;
    (numbers.axis == before).then_some(Numbered { axis: after, ..numbers })
}

/// The only axis that may have more than one element, counted from the last one.
fn only_axis(shape: &[Dim]) -> Option<usize> {
    let mut axes = shape.iter().rev().enumerate().filter(|(_, dim)| **dim != Dim::Known(1));
    let (axis, _) = axes.next()?;
    axes.next().is_none().then_some(axis)
}
