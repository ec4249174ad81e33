//! Casts around a node: the choice of types to compute in, and the emission of the casts.

use onnx::operators::{Algebra, holds};
use onnx::schema::{self, Arity, Binding, Schema, Types};
use onnx::{Builder, Node, NodeId, ValueId, attrs};
use smallvec::SmallVec;
use tensor::{DType, DTypeKind, Type};

use super::Legalizer;
use super::target::Row;

/// The type to compute in for each constraint, if it differs from the node's.
pub(super) type Choice = SmallVec<[Option<DType>; 4]>;

/// Returns the cheapest types to compute `node` in, given the types and casts that the target
/// accepts. Returns the reason if no types are suitable.
pub(super) fn choose(
    schema: &Schema,
    node: &Node,
    binding: &Binding,
    rows: &[Row],
    casts: impl Fn(DType, DType) -> bool,
) -> Result<Choice, String> {
    if rows.is_empty() {
        return Err("it has no kernel at this opset".to_owned());
    }
    let algebra = node.algebra();
    if algebra == Algebra::Fixed {
        return Err("no other element type is known to give the same results".to_owned());
    }
    let is_result = |index| schema.outputs.iter().any(|p| p.types == index);
    let mixed = |index| {
        let params = schema.inputs.iter().chain(schema.outputs);
        params.filter(|p| p.types == index).any(|p| matches!(p.arity, Arity::Mixed(_)))
    };
    let replace = |index, from: DType, allowed: Types| {
        let suits = |to: &DType| {
            let same = if is_result(index) { algebra.carries(from, *to) } else { holds(from, *to) };
            same && casts(from, *to) && (!is_result(index) || casts(*to, from))
        };
        allowed.iter().filter(suits).min_by_key(|to| cost(from, *to))
    };
    let fit = |row: &Row| {
        let mut total = 0;
        let mut choice = Choice::new();
        for (index, (have, allowed)) in binding.types().zip(row).enumerate() {
            if have.is_subset(*allowed) {
                choice.push(None);
                continue;
            }
            let from = have.single().filter(|_| !mixed(index))?;
            let to = replace(index, from, *allowed)?;
            total += cost(from, to);
            choice.push(Some(to));
        }
        Some((total, choice))
    };
    let best = rows.iter().filter_map(fit).min_by_key(|(total, _)| *total);
    best.map(|(_, choice)| choice).ok_or_else(|| {
        let (index, dtype) = culprit(binding, rows);
        let types = taken(rows, index);
        format!("it supports {types}, none of which can replace {dtype}")
    })
}

/// Returns the types that any of the rows accepts at `index`.
fn taken(rows: &[Row], index: usize) -> Types {
    let sets = rows.iter().filter_map(|row| row.get(index));
    sets.fold(Types::NONE, |all, set| all.union(*set))
}

/// Returns the cost of a type. Narrow types are cheap. Among types of equal width, one of the same
/// kind is cheaper. Booleans become unsigned, so that the minimum and maximum of no elements are
/// true and false.
fn cost(from: DType, to: DType) -> u32 {
    let kind = match (from.kind(), to.kind()) {
        (DTypeKind::Bool, DTypeKind::Unsigned) => 0,
        (a, b) if a == b => 0,
        (_, DTypeKind::Float) => 2,
        _ => 1,
    };
    4 * to.bits() + kind
}

/// Returns a type of the node that the target does not support, and its constraint.
pub(super) fn culprit(binding: &Binding, rows: &[Row]) -> (usize, DType) {
    let lacking = |(index, have): (usize, Types)| {
        have.iter().find(|d| !taken(rows, index).contains(*d)).map(|d| (index, d))
    };
    // A combination may be unsupported although each of its types is supported in another one.
    let any = |(index, have): (usize, Types)| have.iter().next().map(|d| (index, d));
    let types = || binding.types().enumerate();
    types().find_map(lacking).or_else(|| types().find_map(any)).unwrap_or((0, DType::F32))
}

/// Makes `id`, which comes before `next`, compute in the chosen types.
pub(super) fn apply(
    work: &mut Legalizer<'_>,
    id: NodeId,
    next: Option<NodeId>,
    schema: &Schema,
    choice: &Choice,
) -> onnx::Result<()> {
    let node = work.graph().node(id).clone();
    let mut made: SmallVec<[(ValueId, DType, ValueId); 4]> = SmallVec::new();
    for (i, input) in node.inputs.iter().enumerate() {
        let to = constraint(schema, &node, i).and_then(|index| choice[index]);
        let (Some(value), Some(to)) = (*input, to) else { continue };
        let known = made.iter().find(|(from, dtype, _)| (*from, *dtype) == (value, to));
        let cast = match known {
            Some((_, _, cast)) => *cast,
            None => convert(&mut work.builder(id), value, to)?,
        };
        made.push((value, to, cast));
        work.edit.set_input(id, i, Some(cast));
    }
    for (i, &output) in node.outputs.iter().enumerate() {
        let Some(to) = schema.output(i).and_then(|param| choice[param.types]) else { continue };
        let ty = work.graph().ty(output).clone();
        let (from, shape) = (ty.dtype, ty.shape);
        work.edit.graph_mut().set_type(output, Type::new(to, shape));
        let result = convert(&mut work.builder_before(id, next), output, from)?;
        work.edit.graph_mut().move_name(output, result);
        work.edit.put_between(output, result);
    }
    work.take_fresh();
    Ok(())
}

/// Returns the constraint of an operand. One that is an attribute at this opset has the constraint of
/// the same name.
fn constraint(schema: &Schema, node: &Node, input: usize) -> Option<usize> {
    if let Some(param) = schema.input(input) {
        return Some(param.types);
    }
    let current = node.schema(schema::NEWEST)?;
    let name = current.types[current.input(input)?.types].name;
    schema.types.iter().position(|constraint| constraint.name == name)
}

/// Emits a cast as in JAX: values out of range of a small float become infinite or NaN.
#[track_caller]
fn convert(builder: &mut Builder<'_>, value: ValueId, to: DType) -> onnx::Result<ValueId> {
    let mut attrs = attrs! { to: to };
    if to.is_float() && to.bits() <= 8 {
        attrs.extend(attrs! { saturate: false });
    }
    builder.op("Cast", &[value], attrs)
}
