//! Rotary embeddings: the roles of the axes before the features, and tables of cosines and sines
//! with one row per position.

use onnx::operators::{Axes, Operator};
use onnx::{Node, ValueId, attrs};
use tensor::division::product;
use tensor::{DType, Dim};

use super::missed;
use crate::movement::{Movement, reshaped};
use crate::recognize::found::Found;
use crate::recognize::parts::{self, Part};
use crate::recognize::placement::Placement;
use crate::recognize::{Form as OperatorForm, source_of};
use crate::{Match, Skip};

/// The names of the tables, and their repetition of angles.
const TABLES: [(&str, &str, Written); 3] = [
    ("cos", "sin", Written::Once),
    ("cos_twice", "sin_twice", Written::Twice),
    ("each_cos_twice", "each_sin_twice", Written::EachTwice),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Once,
    /// The table is followed by a copy of itself.
    Twice,
    /// Each element is followed by a copy of itself.
    EachTwice,
}

/// A table of cosines or sines.
struct Table {
    value: ValueId,
    placement: Placement,
}

/// Checks a rotary embedding, and arranges its operand as `[batch, positions, heads·features]` or
/// `[batch, heads, positions, features]`, as ONNX requires.
pub(super) fn rotary(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    let mut shape = found.shape()?;
    let pairs = found.has("pair");
    let axis = found.int("axis").or_else(|| found.int("pair"));
    let last = shape.len() as i64 - 1;
    if axis.is_some_and(|axis| axis != -1 && axis != last) {
        return Err("it is concatenated along another axis".into());
    }
    let whole = shape.clone();
    if pairs {
        let two = shape.pop().ok_or("there are no pairs")?;
        let half = shape.pop().ok_or("there are no pairs")?;
        shape.push(half * two);
    }
    let (features, lead) = shape.split_last().ok_or("there is no axis")?;
    let features = features.as_known().ok_or("the number of features is not known")?;
    let x = found.value("x").ok_or("there is no operand")?;
    if !is_same(&found.m.ty(x).shape, &shape) || shape.contains(&Dim::Known(0)) {
        return Err(missed("what is turned is broadcast"));
    }
    let is_measured = found.m.forms().of("RotaryEmbedding") == OperatorForm::Measured;
    if found.dtype()? == DType::BF16 && !is_measured && is_between_casts(found.m, x)? {
        return Err(missed(
            "each step is rounded to bfloat16, and the model computes in more digits",
        ));
    }
    if found.int("turned").is_none() && is_front_of_more(found.m, x)? {
        return Err("it is part of something larger".into());
    }
    let turned = found.int("turned").unwrap_or(features);
    if turned % 2 != 0 {
        return Err("an odd number of features".into());
    }

    let tables = TABLES.into_iter().find(|(cos, _, _)| found.value(cos).is_some());
    let (cos, sin, written) = tables.ok_or("there are no angles")?;
    let cos = table(found, cos, written, turned / 2)?;
    let sin = table(found, sin, written, turned / 2)?;
    let dtype = found.m.ty(cos.value).dtype;
    if found.m.ty(sin.value).dtype != dtype {
        return Err("the tables have different types".into());
    }
    let varies = along(found.m, [&cos, &sin], lead.len())?;
    let form = Form::of(lead, &varies);
    let width =
        |dim: &Dim| dim.as_known().ok_or_else(|| missed("the number of heads is not known"));
    let rows: Vec<Dim> = match form.heads_last {
        true => {
            found.set_attr("heads", width(&form.heads)?);
            let all = form.heads.clone() * Dim::Known(features);
            vec![form.batch.clone(), form.positions.clone(), all]
        }
        false => {
            if let (true, Some(heads)) = (found.has("turned"), form.heads.as_known()) {
                found.set_attr("heads", heads);
            }
            let features = Dim::Known(features);
            vec![form.batch.clone(), form.heads.clone(), form.positions.clone(), features]
        }
    };
    let x = found.m.cast(x, dtype)?;
    let x = reshaped(found.m, x, &rows)?;
    found.set_value("rows", x);
    let half = Dim::Known(turned / 2);
    let one = Dim::Known(1);
    // Looks up rows that all examples share by position.
    let shared = !form.varies_by_batch && form.batch != one;
    let rows = match (shared, form.varies_by_batch) {
        (true, _) => vec![form.positions.clone(), half.clone()],
        (false, true) => vec![form.batch.clone(), form.positions.clone(), half.clone()],
        (false, false) => vec![one, form.positions.clone(), half.clone()],
    };
    for (name, table) in [("cosines", cos), ("sines", sin)] {
        let table = match &form.spread {
            Some((from, to)) => {
                let [from, to] = [from, to].map(|dims| {
                    dims.iter().chain([&form.positions, &half]).cloned().collect::<Vec<_>>()
                });
                let table = reshaped(found.m, table.value, &from)?;
                let sizes = found.m.sizes(&to, x)?;
                found.m.op("Expand", &[table, sizes], attrs! {})?
            }
            None => table.value,
        };
        let table = reshaped(found.m, table, &rows)?;
        found.set_value(name, table);
    }
    if shared {
        let positions = positions(found.m, x, &form)?;
        found.set_value("positions", positions);
    }
    let rotated = found.m.ty(x).shape.clone();
    if rotated != whole {
        found.move_result(vec![Movement::Reshape(rotated, whole)]);
    }
    Ok(())
}

/// Returns `true` if `x` or the root's result is adjacent to a cast from or to a wider float. Then
/// only the rotation computes in bfloat16, and the cast exists for its rounding.
fn is_between_casts(m: &Match<'_>, x: ValueId) -> Result<bool, Skip> {
    let graph = m.graph();
    let is_wide = |value: ValueId| matches!(graph.ty(value).dtype, DType::F32 | DType::F64);
    let source = source_of(graph, x, Node::is_movement);
    let from = m.producer(source, &["Cast"]).and_then(|node| node.input(0));
    let mut uses = graph.value(m.result()?).uses();
    // On targets that round once, the casts around attention go.
    let widened = !m.forms().target.rounds_once
        && uses.any(|place| match place {
            onnx::Use::Operand(id, _) => {
                let node = graph.node(id);
                node.is("Cast") && node.outputs.iter().any(|output| is_wide(*output))
            }
            onnx::Use::Output(..) => false,
        });
    Ok(widened || from.is_some_and(is_wide))
}

/// Returns `true` if a value has these axes, or has the last one split into pairs.
fn is_same(of_x: &[Dim], shape: &[Dim]) -> bool {
    let merged = |front: &[Dim], half: &Dim| [front, &[half.clone() * Dim::Known(2)]].concat();
    of_x == shape
        || matches!(of_x, [front @ .., half, Dim::Known(2)] if merged(front, half) == shape)
}

/// Returns `true` if `x` is a leading slice of the features of another value, and the result is
/// concatenated in front of the remaining ones.
fn is_front_of_more(m: &Match<'_>, x: ValueId) -> Result<bool, Skip> {
    let graph = m.graph();
    let Some(node) = graph.producer(x).map(|id| graph.node(id)) else { return Ok(false) };
    let Some((source, run)) = parts::taken(graph, node, x) else { return Ok(false) };
    let size = graph.ty(source).shape.last().and_then(Dim::as_known).unwrap_or(0);
    let is_front = Part::Front.whole(run, size).is_some();
    let mut reader = m.result()?;
    loop {
        let Some((id, 0)) = graph.value(reader).only_consumer() else { return Ok(false) };
        let node = graph.node(id);
        match (node.op.name, &*node.outputs) {
            ("Reshape", [next]) => reader = *next,
            ("Concat", [all]) => {
                let rank = graph.ty(*all).rank() as i64;
                let axis = node.int("axis", 0);
                return Ok(is_front && (axis == -1 || axis == rank - 1));
            }
            _ => return Ok(false),
        }
    }
}

/// Returns the table called `name`, with one element per pair of features.
fn table(
    found: &mut Found<'_, '_>,
    name: &str,
    written: Written,
    half: i64,
) -> Result<Table, Skip> {
    let (value, placement) = found.placed(name).ok_or("there is no such table")?;
    let mut table = Table { value, placement: placement.clone() };
    // Looks through reshapes of unit axes; the operator needs them elsewhere.
    while let Some(node) = found.m.producer_with(table.value, Operator::is_reshape)
        && let Some(source) = node.input(0)
        && let (from, to) = (&found.m.ty(source).shape, &found.m.ty(table.value).shape)
        && from.last() == to.last()
        && let Some(placement) = table.placement.reshaped(from, to)
    {
        table = Table { value: source, placement };
    }
    if written != Written::Once {
        table.value = once(found.m, table.value, written, 0)?;
    }
    let size = found.m.ty(table.value).shape.last().cloned();
    if size != Some(Dim::Known(half)) {
        return Err(missed("the number of angles differs from that of pairs of features"));
    }
    Ok(table)
}

/// The maximum number of nodes that compute a table.
const STEPS: usize = 8;

/// Returns `table` without its repetition.
fn once(
    m: &mut Match<'_>,
    table: ValueId,
    written: Written,
    steps: usize,
) -> Result<ValueId, Skip> {
    let unknown =
        || missed("the angles of the two features of a pair are not known to be the same");
    let size = m.ty(table).shape.last().and_then(Dim::as_known).ok_or_else(unknown)?;
    let rank = m.ty(table).rank() as i64;
    if steps > STEPS || size % 2 != 0 {
        return Err(unknown());
    }
    if let Some(tensor) = m.constant(table) {
        let elements = tensor.to_f64s().ok_or_else(unknown)?;
        let row = usize::try_from(size).ok().filter(|size| *size > 0).ok_or_else(unknown)?;
        let repeats = elements.chunks(row).all(|row| match written {
            Written::EachTwice => row.chunks(2).all(|pair| pair[0] == pair[1]),
            _ => row[..row.len() / 2] == row[row.len() / 2..],
        });
        return if repeats { slice(m, table, written, size) } else { Err(unknown()) };
    }
    let node =
        m.graph().producer(table).map(|id| m.graph().node(id).clone()).ok_or_else(unknown)?;
    let is_last = |axis: i64| axis == -1 || axis == rank - 1;
    let operand = node.input(0).ok_or_else(unknown)?;
    match node.op.name {
        "Concat" if written == Written::Twice && is_last(node.int("axis", 0)) => {
            match *node.inputs.as_slice() {
                [Some(a), Some(b)] if a == b => Ok(a),
                _ => Err(unknown()),
            }
        }
        name if name == "Cast" || node.operator().axes == Axes::Elementwise => {
            let mut inputs = Vec::new();
            for input in node.inputs.iter().copied() {
                let input = input.ok_or_else(unknown)?;
                let ty = m.ty(input);
                let spread = ty.shape.last().is_none_or(|dim| *dim == Dim::Known(1));
                inputs.push(Some(if spread { input } else { once(m, input, written, steps + 1)? }));
            }
            m.like(&node, inputs)
        }
        "Gather" if m.ty(operand).rank() > 1 && node.int("axis", 0) == 0 => {
            let inner = once(m, operand, written, steps + 1)?;
            m.like(&node, vec![Some(inner), node.input(1)])
        }
        _ if node.is_reshape() => {
            let inner = if m.ty(operand).shape.last() == m.ty(table).shape.last() {
                once(m, operand, written, steps + 1)?
            } else if node.is("Reshape") {
                expanded(m, &node, table, written).ok_or_else(unknown)?
            } else {
                return Err(unknown());
            };
            let mut shape = m.ty(table).shape.clone();
            shape.pop();
            shape.push(Dim::Known(size / 2));
            reshaped(m, inner, &shape)
        }
        _ => Err(unknown()),
    }
}

/// Returns the value that was repeated by expanding a unit axis to two and merging it with its
/// neighbour.
fn expanded(m: &Match<'_>, node: &Node, table: ValueId, written: Written) -> Option<ValueId> {
    let shape = |value| m.ty(value).shape.as_slice();
    let wide = node.input(0)?;
    let single = m.producer(wide, &["Expand"])?.input(0)?;
    let ([front @ .., a, b], (last, others)) = (shape(wide), shape(table).split_last()?) else {
        return None;
    };
    let [before @ .., c, d] = shape(single) else { return None };
    let (one, two) = (Dim::Known(1), Dim::Known(2));
    let fits = match written {
        Written::EachTwice => *b == two && *d == one && a == c,
        _ => *a == two && *c == one && b == d,
    };
    let fits = fits && others == front && before == front && *last == a.clone() * b.clone();
    fits.then_some(single)
}

/// Returns one of every two equal elements.
fn slice(m: &mut Match<'_>, table: ValueId, written: Written, size: i64) -> Result<ValueId, Skip> {
    let (end, step) = if written == Written::Twice { (size / 2, 1) } else { (size, 2) };
    let axis = m.ty(table).rank() as i64 - 1;
    let [start, end, axis, step] = [0, end, axis, step].map(|number| m.i64s(&[number]));
    m.op("Slice", &[table, start, end, axis, step], attrs! {})
}

/// Returns the axes along which the angles vary, among the `rank` axes before the features.
fn along(m: &Match<'_>, tables: [&Table; 2], rank: usize) -> Result<Vec<usize>, Skip> {
    const ANOTHER: Skip = Skip::Because("the angles lie along another axis");
    let of = |table: &Table| {
        let axes = table.placement.axes(&m.ty(table.value).shape);
        let (last, others) = axes.split_last()?;
        let others: Vec<usize> = others.iter().flatten().copied().collect();
        let fits = last.is_none_or(|axis| axis == rank)
            && others.iter().all(|axis| *axis < rank)
            && others.is_sorted();
        fits.then_some(others)
    };
    let [cos, sin] = tables.map(of);
    let (cos, sin) = (cos.ok_or(ANOTHER)?, sin.ok_or(ANOTHER)?);
    match cos == sin {
        true => Ok(cos),
        false => Err("cosines and sines change along different axes".into()),
    }
}

/// The roles of the axes before the features.
struct Form {
    batch: Dim,
    positions: Dim,
    heads: Dim,
    /// `true` if heads come after positions.
    heads_last: bool,
    /// `true` if angles vary within the batch.
    varies_by_batch: bool,
    /// The batch axes of the tables before and after expansion, if some batch axes share angles.
    spread: Option<(Vec<Dim>, Vec<Dim>)>,
}

impl Form {
    /// Derives the roles from `varies`, the axes along which angles vary. The last of them holds
    /// the positions.
    fn of(lead: &[Dim], varies: &[usize]) -> Self {
        let one = Dim::Known(1);
        let Some((&at, before)) = varies.split_last() else {
            // A single position, which may have its own axis.
            let at = lead.iter().position(|dim| *dim == one).unwrap_or(0);
            let (batch, heads) = (product(&lead[..at]), product(&lead[at..]));
            let (heads_last, varies_by_batch, spread) = (true, false, None);
            return Self { batch, positions: one, heads, heads_last, varies_by_batch, spread };
        };
        let heads = product(&lead[at + 1..]);
        let heads_last = heads != one || lead.len() == 1;
        // With heads before positions, the heads are the axes between batch and positions.
        let batch = match before.last() {
            _ if heads_last => &lead[..at],
            Some(last) => &lead[..=*last],
            None => &lead[..usize::from(at > 1)],
        };
        let heads = if heads_last { heads } else { product(&lead[batch.len()..at]) };
        let in_tables = |(axis, dim): (usize, &Dim)| {
            if before.contains(&axis) { dim.clone() } else { one.clone() }
        };
        let in_tables: Vec<Dim> = batch.iter().enumerate().map(in_tables).collect();
        let varies_by_batch = !before.is_empty();
        let spread = (varies_by_batch && in_tables != batch).then(|| (in_tables, batch.to_vec()));
        let (batch, positions) = (product(batch), lead[at].clone());
        Self { batch, positions, heads, heads_last, varies_by_batch, spread }
    }
}

/// Returns `0, 1, 2, …` for each example.
fn positions(m: &mut Match<'_>, x: ValueId, form: &Form) -> Result<ValueId, Skip> {
    let positions = match form.positions.as_known() {
        Some(count) => m.i64s(&(0..count).collect::<Vec<_>>()),
        None => {
            let count = m.sizes(std::slice::from_ref(&form.positions), x)?;
            let axis = m.i64s(&[0]);
            let count = m.op("Squeeze", &[count, axis], attrs! {})?;
            let (start, step) = (m.scalar(DType::I64, 0.0)?, m.scalar(DType::I64, 1.0)?);
            m.op("Range", &[start, count, step], attrs! {})?
        }
    };
    let sizes = m.sizes(&[form.batch.clone(), form.positions.clone()], x)?;
    m.op("Expand", &[positions, sizes], attrs! {})
}
