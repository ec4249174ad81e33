//! Attention over a cache → `GroupQueryAttention`, a contributed operator. The node updates the
//! cache, applies the causal mask and rotates queries and keys. It reads only the used part of a
//! buffer, and writes into the buffer if past and present are the same memory.

use onnx::schema::CONTRIB;
use onnx::{Assumption, Attr, Graph, NodeId, Op, Use, ValueId, attrs};
use tensor::bounds::{at_least, same};
use tensor::{DType, Dim, Type};

use super::masks::FAR_BELOW;
use super::rotated::Rotation;
use super::sinks::sinks;
use super::{Operand, Scores, missed, scale};
use crate::movement::{self, AxisMap, Chain, Layout, reshaped, transposed};
use crate::recognize::found::Found;
use crate::rewrites::round_once;
use crate::rewrites::write_into_buffers::Run;
use crate::{Match, Skip};

const ONE: Dim = Dim::Known(1);

/// The kernel computes in vectors of this many features.
const VECTOR: i64 = 8;

/// The cached keys or values of a layer, and their update.
struct Cache {
    /// The node that appends or writes the new elements.
    update: NodeId,
    past: ValueId,
    new: ValueId,
    /// The shape of `new`, with the axes of the cache.
    shape: Vec<Dim>,
    /// The axes of the cache in the order batch, heads, length, features.
    order: AxisMap,
    /// The number of tokens before the new ones.
    position: Dim,
    /// `true` if new elements are appended, and `false` if they are written into a buffer.
    grows: bool,
}

impl Cache {
    /// Returns the cache that `operand` is after its update. Its features are the atoms `features`.
    fn of(
        m: &Match<'_>,
        scores: &Scores,
        operand: &Operand,
        features: &[usize],
    ) -> Result<Self, Skip> {
        const OTHERWISE: &str =
            "its keys or values are not a cache that the new ones are appended to or written into";
        let roles = &scores.plan.roles;
        let axes = [&roles.batch, &roles.shared_heads, &roles.keys, features];
        let order = order(scores.atoms.layout(operand.view), &axes).ok_or_else(|| {
            missed("the axes of its cache are not batch, heads, length and features")
        })?;
        let graph = m.graph();
        let update = graph.producer(operand.source).ok_or_else(|| missed(OTHERWISE))?;
        let node = graph.node(update);
        let length = order.sources()[2];
        let input = |index: usize| node.input(index).ok_or(Skip::Because("an operand is missing"));
        if node.block() != m.root().block() {
            return Err(missed(OTHERWISE));
        }
        match node.op.name {
            "Concat" if node.inputs.len() == 2 => {
                let axis = onnx::fold::axis(node.int("axis", 0), order.rank())?;
                let (past, new) = (input(0)?, input(1)?);
                if axis != length {
                    return Err(missed(OTHERWISE));
                }
                let position = m.ty(past).shape[length].clone();
                let shape = m.ty(new).shape.clone();
                Ok(Self { update, past, new, shape, order, position, grows: true })
            }
            "ScatterND" if node.string("reduction", "none") == "none" => {
                let (past, new) = (input(0)?, input(2)?);
                let run = Run::of(m, past, input(1)?)
                    .map_err(|_| missed("the positions in its cache are computed otherwise"))?;
                if run.axis != length || run.start.modulo.is_some() {
                    return Err(missed("its cache is a ring or is written along another axis"));
                }
                let base = match &run.start.base {
                    None => Some(Dim::Known(0)),
                    Some(base) => m.facts().unpadded_progression(base.value).and_then(|found| {
                        found.steps.iter().all(|step| *step == 0).then_some(found.first)
                    }),
                };
                let base = base.ok_or_else(|| {
                    missed("its cache is not known to be written after the tokens so far")
                })?;
                let position = base + Dim::Known(run.start.first);
                let mut shape = m.ty(past).shape.clone();
                shape[length] = run.count.clone();
                Ok(Self { update, past, new, shape, order, position, grows: false })
            }
            _ => Err(missed(OTHERWISE)),
        }
    }

    /// Returns the number of new tokens.
    fn count(&self) -> &Dim {
        &self.shape[self.order.sources()[2]]
    }

    /// Emits the new elements as `[batch, length, heads·features]`.
    fn flat(&self, m: &mut Match<'_>, new: ValueId) -> Result<ValueId, Skip> {
        let new = reshaped(m, new, &self.shape)?;
        let [batch, heads, length, features] = [0, 1, 2, 3].map(|at| self.order.sources()[at]);
        let new = transposed(m, new, AxisMap::permutation(vec![batch, length, heads, features]))?;
        let size = |axis: usize| self.shape[axis].clone();
        reshaped(m, new, &[size(batch), size(length), size(heads) * size(features)])
    }

    /// Returns the type of the updated cache with its axes in order.
    fn present(&self, m: &Match<'_>, operand: &Operand) -> Type {
        let ty = m.ty(operand.source);
        Type::new(ty.dtype, self.order.apply(&ty.shape))
    }
}

/// Returns the axis of `layout` for each of `axes`. Unit axes have no atoms.
fn order(layout: &Layout, axes: &[&[usize]]) -> Option<AxisMap> {
    let find = |atoms: &&[usize]| layout.iter().position(|axis| axis == atoms);
    let mut units = (0..layout.len()).filter(|axis| layout[*axis].is_empty());
    let axis = |atoms: &&[usize]| if atoms.is_empty() { units.next() } else { find(atoms) };
    let order = axes.iter().map(axis).collect::<Option<_>>()?;
    (layout.len() == axes.len()).then_some(AxisMap::permutation(order))
}

/// Replaces attention over a cache, and returns its result.
pub(in crate::recognize) fn grouped(found: &mut Found<'_, '_>) -> Result<ValueId, Skip> {
    let (cap, scale) = (found.number("cap"), scale(found)?);
    let scores = Scores::of(found)?;
    let roles = &scores.plan.roles;
    let keys = Cache::of(found.m, &scores, &scores.k, &roles.features)?;
    let values = Cache::of(found.m, &scores, &scores.v, &roles.values)?;
    let count = keys.count().clone();
    let of_queries = scores.atoms.size(&roles.queries);
    let is_same = same(&keys.position, &values.position)
        && same(&count, values.count())
        && keys.grows == values.grows
        && same(&of_queries, &count);
    if !is_same {
        return Err(missed("its queries, keys and values are not of the same new tokens"));
    }
    let window = window(found, &scores, &keys)?;
    let sizes = [&roles.features, &roles.values].map(|axis| scores.atoms.size(axis));
    let features = sizes[0].as_known();
    let features = features.filter(|size| size % VECTOR == 0 && sizes[0] == sizes[1]);
    let features = features.ok_or_else(|| {
        missed("the operator needs heads of equal sizes, in multiples of 8 features")
    })?;
    let (of_queries, of_keys) = roles.count_heads(&scores.atoms)?;
    let dtype = found.m.ty(scores.q.source).dtype;
    let operands = [keys.past, keys.new, values.past, values.new];
    if operands.iter().any(|value| found.m.ty(*value).dtype != dtype) {
        return Err(missed("its queries, keys and values have different types"));
    }
    let movements = [("k", scores.product), ("v", found.m.id())];
    for ((name, product), cache) in movements.into_iter().zip([&keys, &values]) {
        check_uses(found, name, product, cache.update)?;
    }

    let sinks = sinks(found, &scores)?;
    let m = &mut *found.m;
    let sinks = match sinks {
        Some(sinks) if m.ty(sinks).dtype != dtype => {
            if !round_once::is_small(m, sinks, dtype) {
                return Err(missed("its sinks have more digits than its queries"));
            }
            Some(round_once::narrowed(m, sinks, dtype)?)
        }
        sinks => sinks,
    };
    let layouts = roles.layouts(true);
    let steps = scores.atoms.plan(scores.atoms.layout(scores.q.view), &layouts[0]);
    let steps = steps.ok_or("the queries cannot be moved")?;
    let after = scores.atoms.plan(&layouts[3], scores.atoms.layout(scores.result));
    let after = after.ok_or("the result cannot be moved")?;
    let total = keys.position.clone() + count.clone();
    let rotation = Rotation::of(m, scores.q.source, keys.new, &keys.position, &count, features)?;
    let (query, key, tables) = match &rotation {
        Some(found) => (found.query, found.key, [Some(found.cos), Some(found.sin)]),
        None => (scores.q.source, keys.new, [None, None]),
    };
    let query = movement::emit(m, query, &steps, &[])?;
    let (key, value) = (keys.flat(m, key)?, values.flat(m, values.new)?);
    let past_key = transposed(m, keys.past, keys.order.clone())?;
    let past_value = transposed(m, values.past, values.order.clone())?;
    let (last, all) = lengths(m, &keys, &total, query)?;
    let operands = [query, key, value, past_key, past_value, last, all].map(Some);
    let mut inputs: Vec<_> =
        operands.into_iter().chain(tables).chain([None, None, sinks]).collect();
    inputs.truncate(inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
    let mut attrs = attrs! { num_heads: of_queries, kv_num_heads: of_keys };
    // `cap · tanh(scale · inverse_cap · scores)`
    let inverse = found.number("inverse_cap").unwrap_or(1.0);
    let scale = cap.map_or(scale, |cap| scale * inverse * cap);
    #[expect(clippy::cast_possible_truncation, reason = "attributes are 32-bit floats")]
    {
        attrs.push(("scale", Attr::Float(scale as f32)));
        attrs.extend(cap.map(|cap| ("softcap", Attr::Float(cap as f32))));
    }
    if let Some(window) = window {
        attrs.push(("local_window_size", Attr::Int(window)));
        // A buffer for fewer tokens than the window holds is a whole one. Buffers that the function
        // writes into have its length.
        let is_windowed = found.m.graph().assumptions.contains(Assumption::WindowedCaches)
            && keys.grows
            && !at_least(&(Dim::Known(window) - total.clone()), 0);
        attrs.extend(is_windowed.then_some(("sliding_window_cache", Attr::Int(1))));
    }
    if let Some(rotation) = &rotation {
        attrs.push(("do_rotary", Attr::Int(1)));
        attrs.extend(rotation.interleaved.then_some(("rotary_interleaved", Attr::Int(1))));
    }
    let m = &mut *found.m;
    let result = m.ty(query).clone();
    let types = vec![result, keys.present(m, &scores.k), values.present(m, &scores.v)];
    let op = Op { domain: CONTRIB, name: "GroupQueryAttention" };
    let outputs = m.op_typed(op, inputs, attrs, types);
    let &[result, present_key, present_value] = outputs.as_slice() else {
        return Err("the node has three results".into());
    };
    for (cache, present) in [(&keys, present_key), (&values, present_value)] {
        let present = transposed(m, present, cache.order.inverse())?;
        m.replace_too(cache.update, present);
    }
    movement::emit(m, result, &after, &[])
}

/// Emits the index of the last token of each example, and the number of all tokens of the longest one.
fn lengths(
    m: &mut Match<'_>,
    keys: &Cache,
    total: &Dim,
    query: ValueId,
) -> Result<(ValueId, ValueId), Skip> {
    let length = keys.order.sources()[2] as i64;
    let all = match m.sizes(std::slice::from_ref(total), query) {
        Ok(all) => all,
        Err(_) if keys.grows => {
            let range = || attrs! { start: length, end: length + 1 };
            let past = m.op("Shape", &[keys.past], range())?;
            let new = m.op("Shape", &[keys.new], range())?;
            m.op("Add", &[past, new], attrs! {})?
        }
        Err(reason) => return Err(reason),
    };
    // The runtime computes known sizes when it loads a model, and takes the result of a cast for 64-bit
    // integers, which the operator refuses. It stops at the cast of a scalar.
    let axis = m.i64s(&[0]);
    let total = m.op("Squeeze", &[all, axis], attrs! {})?;
    let total = m.op("Cast", &[total], attrs! { to: DType::I32 })?;
    let all = m.op("Cast", &[all], attrs! { to: DType::I32 })?;
    let one = m.scalar(DType::I32, 1.0)?;
    if let Some(mask) = m.graph().mask_of_padding() {
        if m.root().block() != Graph::MAIN {
            return Err(missed("it is in a loop or a function, and prompts may be padded"));
        }
        let mask = m.op("Cast", &[mask], attrs! { to: DType::I32 })?;
        let axis = m.i64s(&[1]);
        let count = m.op("ReduceSum", &[mask, axis], attrs! { keepdims: 0 })?;
        return Ok((m.op("Sub", &[count, one], attrs! {})?, total));
    }
    let mut last = m.op("Sub", &[all, one], attrs! {})?;
    let batch = m.ty(query).shape[0].clone();
    if batch != ONE {
        let sizes = m.sizes(&[batch], query)?;
        last = m.op("Expand", &[last, sizes], attrs! {})?;
    }
    Ok((last, total))
}

/// Checks that the updated cache is read by the product and returned, and not used otherwise: the new
/// node comes after other readers.
fn check_uses(
    found: &Found<'_, '_>,
    name: &str,
    product: NodeId,
    update: NodeId,
) -> Result<(), Skip> {
    let graph = found.m.graph();
    let value = found.value(name).ok_or("an operand is missing")?;
    let chain = Chain::to(found.m, value).nodes;
    let is_returned = |place: Use| matches!(place, Use::Output(..));
    let is_own = |id: NodeId| id == product || chain.contains(&id);
    let uses = |id| graph.node(id).outputs.iter().flat_map(|v| graph.value(*v).uses());
    let fits = |place: Use| match place {
        Use::Output(..) => true,
        Use::Operand(id, _) => {
            is_own(id) || graph.node(id).is_movement() && uses(id).all(is_returned)
        }
    };
    let is_only_own =
        |id: &NodeId| uses(*id).all(|place| matches!(place, Use::Operand(id, _) if is_own(id)));
    let updated = graph.node(update).outputs.first().copied();
    let after = chain.iter().position(|id| graph.node(*id).input(0) == updated);
    let chain = &chain[after.unwrap_or(chain.len())..];
    match uses(update).all(fits) && chain.iter().all(is_only_own) {
        true => Ok(()),
        false => Err(missed("its cache is also used elsewhere")),
    }
}

/// Checks that each token sees itself and the tokens before it, and returns the number of tokens that
/// it sees at most.
fn window(found: &Found<'_, '_>, scores: &Scores, keys: &Cache) -> Result<Option<i64>, Skip> {
    let (m, roles) = (&*found.m, &scores.plan.roles);
    let count = keys.count();
    let (mask, layout) = match scores.masks.as_slice() {
        [] if keys.grows && *count == ONE => return Ok(None),
        [] => {
            return Err(missed(
                "it has no mask, so tokens see later ones or unused parts of a buffer",
            ));
        }
        [one] => one,
        _ => return Err(missed("it has both a mask and a bias")),
    };
    let unknown = || missed("its mask is not known to compare positions of queries and keys");
    let (mask, fill) = match scores.is_masked {
        true => (*mask, found.number("fill")),
        false => {
            let choice = m.producer(*mask, &["Where"]);
            let choice = choice.ok_or_else(|| missed("its scores have a bias"))?;
            let number = |index| m.constant(choice.input(index)?)?.splat();
            let truth = choice.input(0).filter(|truth| m.ty(*truth).shape == m.ty(*mask).shape);
            if number(1) != Some(0.0) {
                return Err(missed("its scores have a bias"));
            }
            (truth.ok_or_else(unknown)?, number(2))
        }
    };
    if fill.is_none_or(|fill| fill > FAR_BELOW) {
        return Err(missed("masked scores are not far below the others"));
    }
    let of_keys = layout.iter().position(|axis| *axis == roles.keys).ok_or_else(unknown)?;
    let of_queries = layout.iter().position(|axis| *axis == roles.queries);
    let of_queries = of_queries.filter(|_| !roles.queries.is_empty());
    let (mut is_causal, mut window) = (keys.grows && *count == ONE, None);
    for space in m.facts().half_spaces(mask).ok_or_else(unknown)? {
        let step = |axis: usize| space.steps[axis];
        let others =
            (0..space.steps.len()).filter(|axis| *axis != of_keys && Some(*axis) != of_queries);
        let along = of_queries.map_or(0, step);
        let has_step = |wanted: i64| along == wanted || *count == ONE;
        if others.into_iter().any(|axis| step(axis) != 0) {
            return Err(unknown());
        }
        let first = space.first.clone();
        match step(of_keys) {
            // Keys up to the query.
            -1 if has_step(1) && same(&first, &keys.position) => is_causal = true,
            // Keys up to a limit that no query reaches.
            -1 if along >= 0
                && at_least(&(first.clone() - keys.position.clone() - count.clone() + ONE), 0) => {}
            // Keys from a number of tokens before the query on.
            1 if has_step(-1) => {
                let size = (first + keys.position.clone() + ONE).as_known();
                let size = size.filter(|size| *size >= 1).ok_or_else(unknown)?;
                window = Some(window.map_or(size, |other: i64| other.min(size)));
            }
            // Keys from the beginning on, or from before it.
            1 if along == 0 && at_least(&first, 0) => {}
            0 if along >= 0 && at_least(&first, 0) => {}
            _ => return Err(unknown()),
        }
    }
    match is_causal {
        true => Ok(window),
        false => Err(missed("its mask does not hide later tokens")),
    }
}
