//! Attention: infers the roles of the axes. `masks.rs` converts the masks.
//!
//! Axes are identified by their use. Batch and heads occur in queries, keys and values. Features
//! are reduced by the first product and keys by the second. Axes that occur only in queries are
//! query positions, or heads that share keys.

mod grouped;
mod masks;
mod rotated;
mod sinks;

use onnx::{Graph, NodeId, ValueId, fold};
use tensor::{DType, Dim};

use super::missed;
use crate::movement::{self, Atoms, Chain, Layout, Movement};
use crate::recognize::choice::Form;
use crate::recognize::found::Found;
use crate::{Match, Skip};
pub(in crate::recognize) use grouped::grouped;
use masks::{Lengths, Masking, Opening, mask_operand, masking};

/// An operand of a product, together with its layout changes.
struct Operand {
    source: ValueId,
    /// The view of its axes before the layout changes.
    view: usize,
    /// The view of its axes after the layout changes.
    moved: usize,
}

/// The axes of attention, each a list of atoms.
#[derive(Clone, Debug)]
struct Roles {
    batch: Vec<usize>,
    /// The heads of keys and values.
    shared_heads: Vec<usize>,
    /// The query heads that share one head of keys and values.
    groups: Vec<usize>,
    queries: Vec<usize>,
    keys: Vec<usize>,
    features: Vec<usize>,
    values: Vec<usize>,
}

/// The layouts of the operands and the result, in the order query, key, value, result.
struct Plan {
    roles: Roles,
    /// `true` if heads are part of the last axis.
    is_flat: bool,
    layouts: [Layout; 4],
    steps: [Vec<Movement>; 3],
}

/// Attention scores: the operands of both products, the masks, and the roles of all axes.
struct Scores {
    atoms: Atoms,
    q: Operand,
    k: Operand,
    v: Operand,
    result: usize,
    plan: Plan,
    /// The mask, the bias, or both.
    masks: Vec<(ValueId, Layout)>,
    is_masked: bool,
    /// The product of queries and keys.
    product: NodeId,
    /// The nodes between the two products.
    between: Vec<NodeId>,
    /// The axes of the operand of the softmax, without a sink.
    normalized: Layout,
}

pub(super) fn attention(found: &mut Found<'_, '_>) -> Result<(), Skip> {
    if found.value("weights_after").is_some() {
        return Err(missed(
            "its weights are masked or scaled after the softmax; a mask on the scores before it would be a part of the node",
        ));
    }
    if found.number("cap").is_some() {
        return Err(missed(
            "its scores are capped by tanh; attention with capped scores stays several nodes",
        ));
    }
    let scale = scale(found)?;
    let Scores { atoms, mut q, k, v, result, plan, mut masks, is_masked, .. } = Scores::of(found)?;
    let dtype = found.m.ty(q.source).dtype;
    if found.m.ty(k.source).dtype != dtype {
        return Err("queries and keys have different types".into());
    }
    let forms = found.m.forms();
    let small = rounded_from(found, [&q, &k, &v]).filter(|_| forms.target.rounds_once);
    let computed = if forms.narrows { DType::F16 } else { small.unwrap_or(dtype) };
    let is_slower = |case| forms.target.measured.is_slower("Attention", case, computed);
    let cases = plan.roles.cases(&atoms);
    if forms.of("Attention") == Form::Auto && cases.into_iter().any(is_slower) {
        return Err("the elementary form is faster in the runtime".into());
    }
    let queries = (q.source, atoms.layout(q.view));
    let masking = masking(found, &plan.roles, is_masked, &masks, queries)?;
    if let (Masking::Opened, [(mask, layout)]) = (masking, masks.as_mut_slice()) {
        let opening = Opening::of(layout, &plan.roles, queries.1).ok_or("the mask has no keys")?;
        (*mask, q.source) = opening.emit(found.m, &atoms, *mask, q.source)?;
    }
    let operands = [("query", &q), ("key", &k), ("value", &v)];
    for ((name, operand), steps) in operands.into_iter().zip(&plan.steps) {
        let value = movement::emit(found.m, operand.source, steps, &[])?;
        let value = found.m.cast(value, dtype)?;
        found.set_value(name, value);
    }
    if masking == Masking::Causal {
        found.set_attr("causal", true);
    } else if masking == Masking::Lengths {
        let (mask, layout) = masks.first().ok_or("there is no mask")?;
        let lengths = Lengths::of(found.m, *mask, layout, &plan.roles);
        let lengths = lengths.ok_or("there are no lengths")?;
        let [batch, keys] = [&plan.roles.batch, &plan.roles.keys].map(|axis| atoms.size(axis));
        let value = lengths.emit(found.m, &batch, &keys, k.source)?;
        found.set_value("lengths", value);
    } else if masking != Masking::Nothing {
        let value = mask_operand(found.m, &atoms, &plan.roles, &masks, masking, dtype, q.source)?;
        found.set_value("mask_or_bias", value);
    }
    if plan.is_flat {
        let (of_queries, of_keys) = plan.roles.count_heads(&atoms)?;
        found.set_attr("kv_heads", of_keys);
        found.set_attr("heads", of_queries);
    }
    #[expect(clippy::cast_possible_truncation, reason = "attributes are 32-bit floats")]
    found.set_attr("scale", scale as f32);
    let after = atoms.plan(&plan.layouts[3], atoms.layout(result));
    found.move_result(after.ok_or("the result cannot be moved")?);
    Ok(())
}

/// Returns the type that all operands were widened from. Attention is computed in this type if the target
/// accumulates in float32.
fn rounded_from(found: &Found<'_, '_>, operands: [&Operand; 3]) -> Option<DType> {
    let before = |operand: &Operand| {
        let cast = found.m.producer(operand.source, &["Cast"])?;
        Some(found.m.ty(cast.input(0)?).dtype)
    };
    let [q, k, v] = operands.map(|operand| (before(operand), found.m.ty(operand.source).dtype));
    let small = q.0.filter(|small| matches!(small, DType::F16 | DType::BF16))?;
    [k, v].iter().all(|(before, own)| *before == Some(small) || *own == small).then_some(small)
}

/// Returns the factor of the scores, which must be positive.
fn scale(found: &Found<'_, '_>) -> Result<f64, Skip> {
    let scale = found.number("scale").unwrap_or(1.0);
    if scale <= 0.0 || !scale.is_finite() {
        return Err(missed("the scale is not positive"));
    }
    Ok(scale)
}

impl Scores {
    fn of(found: &Found<'_, '_>) -> Result<Self, Skip> {
        let value = |name| found.value(name).ok_or(Skip::Because("an operand is missing"));
        let (q, k, v) = (value("q")?, value("k")?, value("v")?);
        let (left, right) = (found.m.operand(0)?, found.m.operand(1)?);
        let weights = if right == v { left } else { right };
        let graph = found.m.graph();
        let is_product = |value| found.m.producer(value, &["MatMul"]).is_some();
        let (scores, between) = climb(graph, weights, found.value("bias"), is_product)?;
        let product = graph.producer(scores).ok_or(OTHERWISE)?;
        let first = graph.node(product).input(0).ok_or("an operand is missing")?;
        let (_, mut before) = climb(graph, first, None, |value| value == q)?;
        before.retain(|id| graph.node(*id).is_movement());

        let mut atoms = Atoms::default();
        let mut q = operand(found.m, &mut atoms, q, &before)?;
        let mut k = operand(found.m, &mut atoms, k, &[])?;
        let mut scores = atoms.product(q.moved, k.moved)?;
        let (mut mask_view, mut bias_view, mut softmax_view) = (None, None, None);
        for id in &between {
            let node = graph.node(*id);
            if node.is_movement() {
                atoms.follow(scores, graph, &[*id])?;
            }
            // A mask may have a higher rank than the scores of a single query. Broadcasting then
            // prepends unit axes to the scores.
            let rank = node.outputs.first().map_or(0, |output| graph.ty(*output).rank());
            let layout = atoms.layout(scores);
            if let Some(more) = rank.checked_sub(layout.len()).filter(|more| *more > 0) {
                let layout = [vec![Vec::new(); more], layout.clone()].concat();
                scores = atoms.view(layout);
            }
            let here = match node.op.name {
                "Where" => &mut mask_view,
                "Add" => &mut bias_view,
                "Softmax" => &mut softmax_view,
                _ => continue,
            };
            *here = Some(atoms.view(atoms.layout(scores).clone()));
        }
        let v = operand(found.m, &mut atoms, v, &[])?;
        let result = match weights == left {
            true => atoms.product(scores, v.moved)?,
            false => atoms.product(v.moved, scores)?,
        };
        let of = |view| atoms.layout(view).concat();
        let (in_scores, in_result) = (of(scores), of(result));
        let summed: Vec<usize> =
            in_scores.iter().copied().filter(|atom| !in_result.contains(atom)).collect();
        if contains_all(&of(q.view), &summed) {
            std::mem::swap(&mut q, &mut k);
        }

        let softmax = softmax_view.ok_or("there is no softmax")?;
        let normalized = atoms.layout(softmax).clone();
        let axis = found.int("axis").ok_or("there is no axis")?;
        let axis = fold::axis(axis, normalized.len())?;
        if !same_atoms(&normalized[axis], &summed) || summed.is_empty() {
            return Err("the weights are not those of keys".into());
        }

        let mask = found.value("mask").zip(mask_view);
        let bias = found.value("bias").zip(bias_view);
        let masks: Vec<(ValueId, Layout)> = [mask, bias]
            .into_iter()
            .flatten()
            .map(|(value, view)| Ok((value, broadcast(found.m, value, atoms.layout(view))?)))
            .collect::<Result<_, Skip>>()?;
        let in_masks: Vec<Vec<usize>> = masks.iter().map(|(_, layout)| layout.concat()).collect();
        let at_the_end = end(found.m, &mut atoms, result)?;
        let plan = best_plan(&atoms, [&q, &k, &v], result, at_the_end, &summed, &in_masks)?;
        let is_masked = mask.is_some();
        Ok(Self { atoms, q, k, v, result, plan, masks, is_masked, product, between, normalized })
    }
}

const OTHERWISE: Skip = Skip::Because("it is computed otherwise");

/// Returns the closest upstream value that satisfies `is_end`, and the nodes after it in order of
/// execution. Operands that are masks, constants or `bias` are not followed.
fn climb(
    graph: &Graph,
    mut value: ValueId,
    bias: Option<ValueId>,
    is_end: impl Fn(ValueId) -> bool,
) -> Result<(ValueId, Vec<NodeId>), Skip> {
    let is_followed = |value: &ValueId| Some(*value) != bias && graph.tensor(*value).is_none();
    let mut between = Vec::new();
    while !is_end(value) {
        let id = graph.producer(value).ok_or(OTHERWISE)?;
        let node = graph.node(id);
        between.push(id);
        let next = match node.op.name {
            "Where" => node.input(1),
            "Add" | "Div" | "Mul" => node.inputs.iter().copied().flatten().find(is_followed),
            _ => node.input(0),
        };
        value = next.ok_or(OTHERWISE)?;
    }
    between.reverse();
    Ok((value, between))
}

/// Finds the most upstream source of `value` from which its axes can be tracked, and applies the
/// data movement in `more` to it.
fn operand(
    m: &Match<'_>,
    atoms: &mut Atoms,
    value: ValueId,
    more: &[NodeId],
) -> Result<Operand, Skip> {
    let chain = Chain::to(m, value);
    let mut nodes = chain.nodes.as_slice();
    let mut source = chain.source;
    loop {
        let view = atoms.add(&m.ty(source).shape)?;
        let moved = atoms.view(atoms.layout(view).clone());
        match (atoms.follow(moved, m.graph(), nodes), nodes) {
            (Ok(()), _) => {
                atoms.follow(moved, m.graph(), more)?;
                return Ok(Operand { source, view, moved });
            }
            (Err(_), [first, rest @ ..]) => {
                let outputs = &m.graph().node(*first).outputs;
                source = *outputs.first().ok_or("a movement has one result")?;
                nodes = rest;
            }
            (Err(reason), []) => return Err(reason),
        }
    }
}

/// Returns the axes of a value that is broadcast against `against`.
fn broadcast(m: &Match<'_>, value: ValueId, against: &Layout) -> Result<Layout, Skip> {
    let shape = &m.ty(value).shape;
    let skipped = against.len().checked_sub(shape.len()).ok_or("a mask has more axes")?;
    let axes = shape.iter().zip(&against[skipped..]);
    let axis = |(dim, axis): (&Dim, &Vec<usize>)| match *dim == Dim::Known(1) {
        true => Vec::new(),
        false => axis.clone(),
    };
    Ok(axes.map(axis).collect())
}

/// Returns the axes of the result after all data movement that follows it.
fn end(m: &Match<'_>, atoms: &mut Atoms, result: usize) -> Result<usize, Skip> {
    let graph = m.graph();
    let (mut value, mut nodes) = (m.result()?, Vec::new());
    while let Some((id, 0)) = graph.value(value).only_consumer() {
        let node = graph.node(id);
        match &*node.outputs {
            [next] if node.is_movement() && node.block() == m.root().block() => value = *next,
            _ => break,
        }
        nodes.push(id);
    }
    let view = atoms.view(atoms.layout(result).clone());
    match atoms.follow(view, graph, &nodes) {
        Ok(()) => Ok(view),
        Err(_) => Ok(result),
    }
}

fn contains_all(atoms: &[usize], wanted: &[usize]) -> bool {
    wanted.iter().all(|atom| atoms.contains(atom))
}

fn same_atoms(a: &[usize], b: &[usize]) -> bool {
    a.len() == b.len() && contains_all(a, b)
}

/// Assigns roles to all axes, and chooses the cheapest layout.
fn best_plan(
    atoms: &Atoms,
    [q, k, v]: [&Operand; 3],
    result: usize,
    end: usize,
    keys: &[usize],
    in_masks: &[Vec<usize>],
) -> Result<Plan, Skip> {
    let of = |view: usize| atoms.layout(view).concat();
    let (in_q, in_k, in_v, in_result) = (of(q.view), of(k.view), of(v.view), of(result));
    let only = |atoms: &[usize], keep: &dyn Fn(&usize) -> bool| -> Vec<usize> {
        atoms.iter().copied().filter(keep).collect()
    };
    let features = only(&in_q, &|atom| in_k.contains(atom) && !in_result.contains(atom));
    let shared = only(&in_q, &|atom| in_k.contains(atom) && in_result.contains(atom));
    let rows = only(&in_q, &|atom| !in_k.contains(atom));
    let keys = only(&in_k, &|atom| keys.contains(atom));
    let values = only(&in_v, &|atom| !in_k.contains(atom));
    let fits = same_atoms(&in_k, &[&*shared, &*keys, &*features].concat())
        && same_atoms(&in_v, &[&*shared, &*keys, &*values].concat())
        && same_atoms(&in_result, &[&*shared, &*rows, &*values].concat());
    if !fits {
        return Err(missed("queries, keys and values do not have the same heads"));
    }
    let mut best: Option<((bool, u64, bool), Plan)> = None;
    for first in 0..=shared.len() {
        for (start, count) in runs(rows.len()) {
            let queries = rows[start..start + count].to_vec();
            let roles = Roles {
                batch: shared[..first].to_vec(),
                shared_heads: shared[first..].to_vec(),
                groups: only(&rows, &|atom| !queries.contains(atom)),
                queries,
                keys: keys.clone(),
                features: features.clone(),
                values: values.clone(),
            };
            if !in_masks.iter().all(|atoms| roles.can_be_masked(atoms)) {
                continue;
            }
            for is_flat in [true, false] {
                if is_flat && roles.count_heads(atoms).is_err() {
                    continue;
                }
                let layouts = roles.layouts(is_flat);
                let plan = |i: usize, operand: &Operand| {
                    atoms.plan(atoms.layout(operand.view), &layouts[i])
                };
                let after = atoms.plan(&layouts[3], atoms.layout(end));
                let (Some(q), Some(k), Some(v), Some(after)) =
                    (plan(0, q), plan(1, k), plan(2, v), after)
                else {
                    continue;
                };
                let steps = [q, k, v];
                let has_groups = atoms.size(&roles.groups).as_known().is_some();
                let cost =
                    steps.iter().chain([&after]).map(|s| movement::cost::of_plan(s, false)).sum();
                // With one head of keys, a number of queries could pass for that of groups, so a
                // known number comes first. At equal cost, prefers a single batch axis.
                let rank = (!has_groups, cost, first != 1);
                if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                    let roles = roles.clone();
                    best = Some((rank, Plan { roles, is_flat, layouts, steps }));
                }
            }
        }
    }
    let (_, plan) = best.ok_or_else(|| missed("the mask is not one of queries and keys"))?;
    Ok(plan)
}

/// Returns all contiguous runs in `count` items as pairs of start and length, including the empty
/// run.
fn runs(count: usize) -> Vec<(usize, usize)> {
    let all = (0..count).flat_map(|start| (1..=count - start).map(move |n| (start, n)));
    all.chain([(0, 0)]).collect()
}

impl Roles {
    fn heads(&self) -> Vec<usize> {
        [&*self.shared_heads, &*self.groups].concat()
    }

    /// Returns `true` if a mask can have these atoms: for each of batch, heads, queries and keys,
    /// all of its atoms or none.
    fn can_be_masked(&self, atoms: &[usize]) -> bool {
        let heads = self.heads();
        let all_or_none = |axis: &[usize]| {
            contains_all(atoms, axis) || !axis.iter().any(|atom| atoms.contains(atom))
        };
        let known = [&*self.batch, &*heads, &*self.queries, &*self.keys].concat();
        contains_all(&known, atoms)
            && [&*self.batch, &*heads, &*self.queries, &*self.keys].into_iter().all(all_or_none)
    }

    /// Returns the numbers of heads of queries and of keys.
    fn count_heads(&self, atoms: &Atoms) -> Result<(i64, i64), Skip> {
        let count = |heads: &[usize]| {
            let size = atoms.size(heads).as_known();
            size.ok_or_else(|| missed("the number of heads is not known"))
        };
        let of_keys = count(&self.shared_heads)?;
        Ok((of_keys * count(&self.groups)?, of_keys))
    }

    /// Returns the special cases that are measured by themselves.
    fn cases(&self, atoms: &Atoms) -> Vec<&'static str> {
        let is_one = atoms.size(&self.queries) == Dim::Known(1);
        let is_shared = !self.groups.is_empty();
        let cases = [(is_one, "one query"), (is_shared, "shared heads")];
        cases.into_iter().filter_map(|(holds, case)| holds.then_some(case)).collect()
    }

    fn layouts(&self, is_flat: bool) -> [Layout; 4] {
        let heads = self.heads();
        let layout = |heads: &[usize], length: &[usize], size: &[usize]| -> Layout {
            let (batch, length) = (self.batch.clone(), length.to_vec());
            match is_flat {
                true => vec![batch, length, [heads, size].concat()],
                false => vec![batch, heads.to_vec(), length, size.to_vec()],
            }
        };
        [
            layout(&heads, &self.queries, &self.features),
            layout(&self.shared_heads, &self.keys, &self.features),
            layout(&self.shared_heads, &self.keys, &self.values),
            layout(&heads, &self.queries, &self.values),
        ]
    }
}
