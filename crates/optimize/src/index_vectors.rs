//! Integers that stand for places, such as the index vectors of `ScatterND`: each is a number that counts along axes,
//! plus a value that is the same along them.

use onnx::{Attrs, Graph, Node, ValueId, attrs, fold};
use tensor::{DType, Dim, Tensor};

use crate::movement::{self, Step};
use crate::ranges::Range;
use crate::{Match, Skip};

/// How deep the operands of indices are followed.
const DEPTH: u32 = 16;

const ONE: Dim = Dim::Known(1);

/// One element of all index vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    /// The number that is always added.
    pub(crate) first: i64,
    /// The axes of the indices along which it counts, in steps of one.
    pub(crate) along: Vec<usize>,
    /// What is computed.
    pub(crate) base: Option<Base>,
    /// What the sum of all this is taken modulo, if it counts.
    pub(crate) modulo: Option<i64>,
}

/// A computed part of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) value: ValueId,
    /// The axis of the indices that each axis of the value is; `None` for those of size one.
    pub(crate) axes: Vec<Option<usize>>,
}

/// What an axis of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// This axis of the indices.
    Axis(usize),
    /// The elements of vectors.
    Vector,
    /// An axis of size one.
    Any,
}

impl Element {
    /// The element at `index` of the vectors in the last axis of `indices`; `None` if it is computed
    /// in another way.
    pub(crate) fn of(graph: &Graph, indices: ValueId, index: usize) -> Option<Self> {
        let rank = graph.ty(indices).rank();
        let places: Vec<Place> = (0..rank)
            .map(|axis| if axis + 1 == rank { Place::Vector } else { Place::Axis(axis) })
            .collect();
        element(graph, indices, &places, index, DEPTH)
    }

    /// Whether it is proved to be `low` or more, apart from what it counts.
    pub(crate) fn is_at_least(&self, graph: &Graph, low: &Dim) -> bool {
        self.range(graph).is_at_least(&(low.clone() - Dim::Known(self.first)))
    }

    /// Whether it is proved to be `high` or less, apart from what it counts.
    pub(crate) fn is_at_most(&self, graph: &Graph, high: &Dim) -> bool {
        self.range(graph).is_at_most(&(high.clone() - Dim::Known(self.first)))
    }

    /// Whether the sum is proved not to wrap around in the type of what is computed.
    pub(crate) fn is_exact(&self, graph: &Graph) -> bool {
        let Some(base) = &self.base else { return true };
        let range = graph.ty(base.value).dtype.int_range();
        let Some((low, high)) = range else { return false };
        let bound = |n: i128| i64::try_from(n).ok().map(Dim::Known);
        let is_within =
            |low: Dim, high: Dim| self.is_at_least(graph, &low) && self.is_at_most(graph, &high);
        self.first == 0 || bound(low).zip(bound(high)).is_some_and(|(a, b)| is_within(a, b))
    }

    fn range(&self, graph: &Graph) -> Range {
        match &self.base {
            None => Range { low: Some(Dim::Known(0)), high: Some(Dim::Known(0)) },
            Some(base) => Range::of(graph, base.value),
        }
    }

    /// A vector of what it is for each of `size` examples, which are counted `along` an axis of the indices, or
    /// of one number if it is the same for all.
    pub(crate) fn for_each(
        &self,
        m: &mut Match<'_>,
        along: Option<usize>,
        size: &Dim,
    ) -> Result<ValueId, Skip> {
        let Some(Base { value, axes }) = &self.base else { return Ok(m.i64s(&[self.first])) };
        let mut at = *value;
        if axes.iter().flatten().any(|axis| Some(*axis) != along) {
            return Err("it differs within an example of the batch".into());
        }
        if m.ty(at).dtype != DType::I64 {
            at = m.op("Cast", &[at], attrs! { to: DType::I64 })?;
        }
        let is_same = axes.iter().all(Option::is_none);
        let size = if is_same { ONE } else { size.clone() };
        at = reshaped(m, at, &[size])?;
        if self.first != 0 {
            let first = m.i64s(&[self.first]);
            at = m.op("Add", &[at, first], Attrs::new())?;
        }
        Ok(at)
    }

    /// The number that it always is.
    fn number(&self) -> Option<i64> {
        let is_number = self.along.is_empty() && self.base.is_none() && self.modulo.is_none();
        is_number.then_some(self.first)
    }

    fn plus(mut self, other: Self) -> Option<Self> {
        let counts_again = other.along.iter().any(|axis| self.along.contains(axis));
        if counts_again || self.modulo.is_some() || other.modulo.is_some() {
            return None;
        }
        self.base = match (self.base, other.base) {
            (Some(_), Some(_)) => return None,
            (a, b) => a.or(b),
        };
        self.first = self.first.checked_add(other.first)?;
        self.along.extend(other.along);
        self.along.sort_unstable();
        Some(self)
    }
}

/// A comparison of integers, and its operands in terms of the axes of its result.
pub(crate) struct Comparison {
    pub(crate) op: &'static str,
    pub(crate) left: Element,
    pub(crate) right: Element,
}

impl Comparison {
    /// What `mask` is the result of.
    pub(crate) fn of(graph: &Graph, mask: ValueId) -> Option<Self> {
        let mut places: Vec<Place> = (0..graph.ty(mask).rank()).map(Place::Axis).collect();
        let mut value = mask;
        for _ in 0..DEPTH {
            let node = graph.node(graph.producer(value)?);
            let from = node.input(0)?;
            let shape = &graph.ty(value).shape;
            places = match node.op.name {
                "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" => {
                    let of = |index| element(graph, node.input(index)?, &places, 0, DEPTH);
                    let is_integer = graph.ty(from).dtype.is_integer();
                    let (left, right) = (of(0)?, of(1)?);
                    return is_integer.then_some(Self { op: node.op.name, left, right });
                }
                "Expand" => places.split_off(places.len() - graph.ty(from).rank()),
                "Reshape" | "Squeeze" | "Unsqueeze" => {
                    moved(&places, &graph.ty(from).shape, shape)?
                }
                _ => return None,
            };
            value = from;
        }
        None
    }
}

fn element(
    graph: &Graph,
    value: ValueId,
    places: &[Place],
    index: usize,
    depth: u32,
) -> Option<Element> {
    let depth = depth.checked_sub(1)?;
    let shape = &graph.ty(value).shape;
    // Operands of fewer axes are aligned with the last ones.
    let places = places.get(places.len().checked_sub(shape.len())?..)?;
    if let Some(tensor) = graph.constant(value).filter(|_| graph.value(value).name.is_empty()) {
        return stored(tensor, places, index);
    }
    let as_base = || base(graph, value, places);
    let Some(id) = graph.producer(value) else { return as_base() };
    let node = graph.node(id);
    if !node.op.domain.is_empty() {
        return as_base();
    }
    let operand = |i: usize| element(graph, node.input(i)?, places, index, depth);
    let found = match node.op.name {
        "Add" if counts_sizes(graph.ty(value).dtype) => {
            operand(0).zip(operand(1)).and_then(|(a, b)| a.plus(b))
        }
        "Cast" if keeps_numbers(graph, node, graph.ty(value).dtype) => operand(0),
        "Concat" => concatenated(graph, node, places, index, depth),
        "Expand" => operand(0),
        "Gather" => picked(graph, node, places, depth),
        "Max" | "Min" => operand(0).zip(operand(1)).and_then(|(a, b)| {
            let (a, b) = (a.number()?, b.number()?);
            let first = if node.is("Max") { a.max(b) } else { a.min(b) };
            Some(Element { first, ..Element::default() })
        }),
        "Mod" => modulo(graph, node).and_then(|by| {
            let counted = operand(0).filter(|sum| sum.modulo.is_none() && !sum.along.is_empty())?;
            Some(Element { modulo: Some(by), ..counted })
        }),
        "Mul" => selected(graph, node, places, index, depth),
        "Range" => counted(graph, node, places),
        _ if node.is_reshape() => {
            let from = node.input(0)?;
            moved(places, &graph.ty(from).shape, shape)
                .and_then(|places| element(graph, from, &places, index, depth))
        }
        _ => None,
    };
    found.or_else(as_base)
}

/// Whether places are counted in a type, so that they are far from where it wraps around: sums in smaller
/// ones do that.
fn counts_sizes(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

/// Whether a `Cast` gives the integers that it gets.
fn keeps_numbers(graph: &Graph, cast: &Node, to: DType) -> bool {
    let Some(from) = cast.input(0) else { return false };
    let (Some(narrow), Some(wide)) = (graph.ty(from).dtype.int_range(), to.int_range()) else {
        return false;
    };
    (wide.0 <= narrow.0 && narrow.1 <= wide.1) || Range::of(graph, from).fits(to)
}

/// Something that is computed, if it is one number for each vector.
fn base(graph: &Graph, value: ValueId, places: &[Place]) -> Option<Element> {
    let axes = places.iter().zip(&graph.ty(value).shape).map(|(place, size)| match place {
        _ if *size == ONE => Some(None),
        Place::Axis(axis) => Some(Some(*axis)),
        Place::Vector | Place::Any => None,
    });
    let axes = axes.collect::<Option<Vec<_>>>()?;
    Some(Element { base: Some(Base { value, axes }), ..Element::default() })
}

/// The numbers of a constant, if they count along axes or are all the same.
fn stored(tensor: &Tensor, places: &[Place], index: usize) -> Option<Element> {
    let (numbers, shape) = (tensor.to_i64s()?, tensor.shape());
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let is_vector = |axis: &usize| places[*axis] == Place::Vector && shape[*axis] > 1;
    let start = (0..shape.len()).find(is_vector).map_or(0, |axis| index * strides[axis]);
    let first = *numbers.get(start)?;
    let mut along = Vec::new();
    let mut axes = Vec::new();
    for axis in (0..shape.len()).filter(|axis| shape[*axis] > 1 && !is_vector(axis)) {
        let step = numbers.get(start + strides[axis])?.checked_sub(first)?;
        match (step, places[axis]) {
            (0, _) => {}
            (1, Place::Axis(place)) => along.push(place),
            _ => return None,
        }
        axes.push((shape[axis], strides[axis], step));
    }
    // Every number has to be what the first steps say.
    let mut expected = vec![(start, first)];
    for (size, stride, step) in axes {
        let steps = |(at, number): (usize, i64)| {
            (0..size).map(move |i| (at + i * stride, number + step * i as i64))
        };
        expected = expected.into_iter().flat_map(steps).collect();
    }
    let fits = expected.into_iter().all(|(at, number)| numbers.get(at) == Some(&number));
    fits.then_some(Element { first, along, ..Element::default() })
}

/// A part of vectors.
fn concatenated(
    graph: &Graph,
    node: &Node,
    places: &[Place],
    index: usize,
    depth: u32,
) -> Option<Element> {
    let axis = fold::axis(node.int("axis", 0), places.len()).ok()?;
    if places.get(axis) != Some(&Place::Vector) {
        return None;
    }
    let mut before = 0;
    for part in node.inputs.iter().copied().flatten() {
        let size = usize::try_from(graph.ty(part).shape.get(axis)?.as_known()?).ok()?;
        if index < before + size {
            return element(graph, part, places, index - before, depth);
        }
        before += size;
    }
    None
}

/// One element of vectors, if it is always the same number.
fn picked(graph: &Graph, node: &Node, places: &[Place], depth: u32) -> Option<Element> {
    let (vectors, index) = (node.input(0)?, graph.constant(node.input(1)?)?);
    let rank = graph.ty(vectors).rank();
    let axis = fold::axis(node.int("axis", 0), rank).ok()?;
    let (&[index], &[_]) = (index.to_i64s()?.as_slice(), index.shape()) else { return None };
    if axis + 1 != rank || places.len() != rank {
        return None;
    }
    let mut places = places.to_vec();
    places[axis] = Place::Vector;
    let found = element(graph, vectors, &places, usize::try_from(index).ok()?, depth)?;
    found.number().map(|_| found)
}

/// A product with a vector of zeros and ones, which puts numbers into one element.
fn selected(
    graph: &Graph,
    node: &Node,
    places: &[Place],
    index: usize,
    depth: u32,
) -> Option<Element> {
    let by = graph.constant(node.input(1)?)?.to_i64s()?;
    if *places.last()? != Place::Vector || graph.ty(node.input(1)?).rank() != 1 {
        return None;
    }
    match *by.get(index)? {
        0 => Some(Element::default()),
        1 => element(graph, node.input(0)?, places, index, depth),
        _ => None,
    }
}

/// The positive number that a remainder, rounded down, is of.
fn modulo(graph: &Graph, node: &Node) -> Option<i64> {
    let by = graph.constant(node.input(1)?)?.to_i64s()?;
    let (&[by], 0) = (by.as_slice(), node.int("fmod", 0)) else { return None };
    (by > 0).then_some(by)
}

fn counted(graph: &Graph, node: &Node, places: &[Place]) -> Option<Element> {
    let scalar = |index| match *graph.constant(node.input(index)?)?.to_i64s()? {
        [number] => Some(number),
        _ => None,
    };
    match (scalar(2)?, places) {
        (1, &[Place::Axis(axis)]) => {
            Some(Element { first: scalar(0)?, along: vec![axis], ..Element::default() })
        }
        _ => None,
    }
}

/// What the axes of a value are before a change of shape that only adds or removes axes of size one.
fn moved(places: &[Place], from: &[Dim], to: &[Dim]) -> Option<Vec<Place>> {
    let mut rest = to.iter().zip(places).filter(|(size, _)| **size != ONE);
    let place = |size: &Dim| match *size == ONE {
        true => Some(Place::Any),
        false => rest.next().filter(|(other, _)| *other == size).map(|(_, place)| *place),
    };
    let places = from.iter().map(place).collect::<Option<Vec<_>>>()?;
    rest.next().is_none().then_some(places)
}

/// The value with more or fewer axes of size one.
pub(crate) fn reshaped(m: &mut Match<'_>, value: ValueId, to: &[Dim]) -> Result<ValueId, Skip> {
    let from = m.ty(value).shape.clone();
    if from == to {
        return Ok(value);
    }
    movement::emit(m, value, &[Step::Reshape(from, to.to_vec())], &[])
}
