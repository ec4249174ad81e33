//! Masks and biases of attention scores in the form that `Attention` accepts.

use onnx::facts::{Comparison, Triangle};
use onnx::{Assumption, Attrs, ValueId};
use tensor::{DType, Dim, Tensor};

use super::{Roles, missed};
use crate::index_vectors::Element;
use crate::movement::{self, Atoms, Layout};
use crate::recognize::found::Found;
use crate::{Match, Skip};

/// The upper bound for the value of masked scores. Below it, their weights are zero.
pub(super) const FAR_BELOW: f64 = -30000.0;

/// The way in which scores are masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Masking {
    Nothing,
    /// Each query attends to the keys up to its own position.
    Causal,
    /// All queries of an example attend to the same number of leading keys.
    Lengths,
    /// A Boolean mask.
    Truth,
    /// A Boolean mask that may hide all keys from a query. Such a query is set to zero and sees all
    /// keys, so that they have equal weights as in JAX.
    Opened,
    /// A mask that is added to the scores.
    Added,
}

/// Determines how a mask or a bias can be passed to `Attention`.
///
/// For a query without visible keys, `Attention` returns zeros. JAX returns the mean of all values
/// if masked scores are finite, and NaN if they are -∞.
pub(super) fn masking(
    found: &Found<'_, '_>,
    roles: &Roles,
    is_masked: bool,
    masks: &[(ValueId, Layout)],
    (q, axes_of_q): (ValueId, &Layout),
) -> Result<Masking, Skip> {
    let (mask, bias) = match masks {
        [] => return Ok(Masking::Nothing),
        [mask] if is_masked => (Some(mask), None),
        [bias] => (None, Some(bias)),
        [mask, bias, ..] => (Some(mask), Some(bias)),
    };
    if let Some((bias, layout)) = bias {
        check_bias(found.m, *bias, layout, roles)?;
    }
    let Some((mask, layout)) = mask else { return Ok(Masking::Added) };
    let fill = found.number("fill").ok_or("masked scores are not replaced by a number")?;
    if fill > FAR_BELOW {
        return Err(missed("masked scores are not far below the others"));
    }
    let seen = match found.m.constant(*mask) {
        Some(mask) => seen(mask, layout, roles),
        None => compared(found.m, *mask, layout, roles),
    };
    let assumptions = found.m.graph().assumptions;
    match (seen, bias) {
        (Seen::Causal, None) => Ok(Masking::Causal),
        (Seen::Unknown, None) if Lengths::of(found.m, *mask, layout, roles).is_some() => {
            Ok(Masking::Lengths)
        }
        (Seen::Some, None) => Ok(Masking::Truth),
        (Seen::Unknown, None) if assumptions.contains(Assumption::VisibleKeys) => {
            Ok(Masking::Truth)
        }
        _ if fill == f64::NEG_INFINITY => Err(missed(
            "a query that sees no keys would get zeros, and gets NaN in JAX: mask with a finite \
             number instead of -inf, or assume `visible_keys`",
        )),
        (_, None) if may_be_half(found.m, q) && Opening::of(layout, roles, axes_of_q).is_some() => {
            Ok(Masking::Opened)
        }
        _ if found.m.ty(q).dtype == DType::F16 => Err(missed(
            "a query that sees no keys would get zeros, and gets a mean in JAX: assume \
                 `visible_keys` if there is none",
        )),
        _ => Ok(Masking::Added),
    }
}

/// Returns `true` if attention can compute in half precision, which has no number that hides keys
/// when it is added to scores.
fn may_be_half(m: &Match<'_>, q: ValueId) -> bool {
    let forms = m.forms();
    let is_half = |x| matches!(m.ty(x).dtype, DType::F16 | DType::BF16);
    forms.target.rounds_once && (forms.narrows || is_half(q) || widened(m, q).is_some_and(is_half))
}

/// Returns the operand of the cast that computes `x`.
fn widened(m: &Match<'_>, x: ValueId) -> Option<ValueId> {
    m.producer(x, &["Cast"])?.input(0)
}

/// The layouts of the flags that tell which queries see a key.
pub(super) struct Opening {
    /// The axis of keys in the mask.
    keys: usize,
    /// The layout of the flags, that of the mask without keys.
    flags: Layout,
    /// The same axes in the layout of the queries.
    in_queries: Layout,
}

impl Opening {
    /// Returns the layouts, if the flags can be broadcast against queries with the axes `axes_of_q`.
    pub(super) fn of(layout: &Layout, roles: &Roles, axes_of_q: &Layout) -> Option<Self> {
        let keys = layout.iter().position(|axis| *axis == roles.keys)?;
        let mut flags = layout.clone();
        flags[keys].clear();
        let known = flags.concat();
        let kept = |axis: &Vec<usize>| {
            let is_known = |atom: &usize| known.contains(atom);
            match (axis.iter().all(is_known), axis.iter().any(is_known)) {
                (true, _) => Some(axis.clone()),
                (false, false) => Some(Vec::new()),
                (false, true) => None,
            }
        };
        let in_queries = axes_of_q.iter().map(kept).collect::<Option<_>>()?;
        Some(Self { keys, flags, in_queries })
    }

    /// Emits the mask in which queries without visible keys see all keys, and the queries with zeros
    /// in place of these.
    pub(super) fn emit(
        &self,
        m: &mut Match<'_>,
        atoms: &Atoms,
        mask: ValueId,
        q: ValueId,
    ) -> Result<(ValueId, ValueId), Skip> {
        let axis = m.i64s(&[self.keys as i64]);
        let sees = m.op("ReduceMax", &[mask, axis], Attrs::new())?;
        let blind = m.op("Not", &[sees], Attrs::new())?;
        let mask = m.op("Or", &[mask, blind], Attrs::new())?;
        let steps = atoms.plan(&self.flags, &self.in_queries);
        let sees = movement::emit(m, sees, &steps.ok_or("the flags cannot be moved")?, &[])?;
        // The cast stays next to the operator that may compute in half precision.
        let x = widened(m, q).unwrap_or(q);
        let zero = m.scalar(m.ty(x).dtype, 0.0)?;
        let shown = m.op("Where", &[sees, x, zero], Attrs::new())?;
        Ok((mask, m.cast(shown, m.ty(q).dtype)?))
    }
}

/// The number of keys that the queries of each example attend to.
pub(super) struct Lengths {
    count: Element,
    /// The batch axis of the mask.
    batch: Option<usize>,
}

impl Lengths {
    /// Reads the lengths from a comparison of key positions with a number. Returns `None` unless
    /// every query attends to at least one key.
    pub(super) fn of(m: &Match<'_>, mask: ValueId, layout: &Layout, roles: &Roles) -> Option<Self> {
        // The first opset whose `Attention` accepts lengths.
        const FIRST: i64 = 24;
        let axes = layout.iter().enumerate().filter(|(_, atoms)| !atoms.is_empty());
        let mut of_keys = axes.clone().filter(|(_, atoms)| **atoms == roles.keys);
        let (keys, _) = of_keys.next().filter(|_| m.forms().opset >= FIRST)?;
        let others: Vec<_> = axes.filter(|(axis, _)| *axis != keys).collect();
        let batch = match others.as_slice() {
            [] => None,
            [(axis, atoms)] if **atoms == roles.batch => Some(*axis),
            _ => return None,
        };
        let Comparison { low, high, strict } = m.facts().comparison(mask)?;
        let (places, count) = (Element::from_form(low)?, Element::from_form(high)?);
        let counts = places.along == [keys] && places.base.is_none() && places.modulo.is_none();
        let is_number = count.along.is_empty() && count.modulo.is_none();
        if !counts || !is_number || !count.is_exact(m.graph()) {
            return None;
        }
        let more = i64::from(!strict).checked_sub(places.first)?;
        let first = count.first.checked_add(more)?;
        let count = Element { first, ..count };
        count.is_at_least(m.graph(), &Dim::Known(1)).then_some(Self { count, batch })
    }

    /// Emits the lengths as an operand of `Attention`.
    pub(super) fn emit(
        &self,
        m: &mut Match<'_>,
        batch: &Dim,
        keys: &Dim,
        like: ValueId,
    ) -> Result<ValueId, Skip> {
        let mut lengths = self.count.for_each(m, self.batch, batch)?;
        if !self.count.is_at_most(m.graph(), keys) {
            let most = m.sizes(std::slice::from_ref(keys), like)?;
            lengths = m.op("Min", &[lengths, most], Attrs::new())?;
        }
        if m.ty(lengths).shape[0] != *batch {
            let sizes = m.sizes(std::slice::from_ref(batch), like)?;
            lengths = m.op("Expand", &[lengths, sizes], Attrs::new())?;
        }
        Ok(lengths)
    }
}

/// Checks that `Attention` does not mistake a bias for a mask of everything. A learned bias stays
/// finite if its elements are replaced.
fn check_bias(m: &Match<'_>, bias: ValueId, layout: &Layout, roles: &Roles) -> Result<(), Skip> {
    let least = m.forms().target.hides_below * 0.99;
    let is_fine = |numbers: &[f64]| numbers.iter().any(|number| *number > least);
    let row = |tensor: &Tensor| match layout.last() == Some(&roles.keys) {
        true => tensor.shape().last().copied().unwrap_or(1).max(1),
        false => 1,
    };
    let fits = if let Some(tensor) = m.graph().tensor(bias) {
        let row = row(tensor);
        tensor.to_f64s().is_some_and(|numbers| numbers.chunks(row).all(is_fine))
    } else {
        let choice = m.producer(bias, &["Where"]);
        choice.is_some_and(|node| {
            [1, 2].into_iter().all(|index| {
                let number = node.input(index).and_then(|value| m.number(value));
                number.is_some_and(|number| number > least)
            })
        })
    };
    match fits {
        true => Ok(()),
        false => Err(missed("the bias may be -inf for all keys, which gives NaN in JAX")),
    }
}

/// The keys that a mask leaves visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Each query sees exactly the keys up to its own position.
    Causal,
    /// Each query sees at least one key.
    Some,
    /// A query may see no key.
    Unknown,
}

/// Classifies a mask that compares positions, for any sequence length.
fn compared(m: &Match<'_>, mask: ValueId, layout: &Layout, roles: &Roles) -> Seen {
    let triangle = m.facts().triangle(mask, &m.ty(mask).shape);
    let is_causal = triangle == Some(Triangle { upper: false, k: 0 });
    match is_causal && is_square(layout, roles) {
        true => Seen::Causal,
        false => Seen::Unknown,
    }
}

/// Returns `true` if a mask has one row per query and one column per key.
fn is_square(layout: &Layout, roles: &Roles) -> bool {
    !roles.queries.is_empty() && layout.concat() == [&*roles.queries, &*roles.keys].concat()
}

fn seen(mask: &Tensor, layout: &Layout, roles: &Roles) -> Seen {
    if layout.last() != Some(&roles.keys) {
        return Seen::Unknown;
    }
    let keys = mask.shape().last().copied().unwrap_or(1).max(1);
    let Some(bytes) = mask.bytes() else { return Seen::Unknown };
    let rows = bytes.chunks(keys);
    let is_causal =
        |(i, row): (usize, &[u8])| row.iter().enumerate().all(|(j, b)| (*b != 0) == (j <= i));
    if is_square(layout, roles) && rows.clone().enumerate().all(is_causal) {
        Seen::Causal
    } else if rows.clone().all(|row| row.contains(&1)) {
        Seen::Some
    } else {
        Seen::Unknown
    }
}

/// Emits the mask in the layout of `Attention`: queries and keys last, batch and heads before them.
pub(super) fn mask_operand(
    m: &mut Match<'_>,
    atoms: &Atoms,
    roles: &Roles,
    masks: &[(ValueId, Layout)],
    masking: Masking,
    dtype: DType,
    q: ValueId,
) -> Result<ValueId, Skip> {
    let all: Vec<usize> = masks.iter().flat_map(|(_, layout)| layout.concat()).collect();
    let heads = roles.heads();
    let lead = [&roles.batch, &heads];
    let has_lead = lead.iter().any(|axis| axis.iter().any(|atom| all.contains(atom)));
    let mut parts = Vec::new();
    for (value, layout) in masks {
        let has = layout.concat();
        let kept = |axis: &Vec<usize>| match axis.iter().any(|atom| has.contains(atom)) {
            true => axis.clone(),
            false => Vec::new(),
        };
        let mut target = vec![kept(&roles.queries), kept(&roles.keys)];
        if has_lead {
            target.splice(0..0, lead.map(kept));
        }
        let steps = atoms.plan(layout, &target).ok_or("the mask cannot be moved")?;
        parts.push(movement::emit(m, *value, &steps, &[])?);
    }
    let mut mask = match (parts.as_slice(), masking) {
        ([mask], Masking::Truth | Masking::Opened) => *mask,
        ([mask], _) if m.ty(*mask).dtype == DType::Bool => {
            let zero = m.scalar(dtype, 0.0)?;
            masked(m, *mask, zero, dtype)?
        }
        ([bias], _) => *bias,
        ([mask, bias], _) => masked(m, *mask, *bias, dtype)?,
        _ => return Err("there is no mask".into()),
    };
    if masking == Masking::Added {
        mask = m.cast(mask, dtype)?;
    }
    let full = atoms.shape(&[roles.queries.clone(), roles.keys.clone()]);
    let shape = m.ty(mask).shape.clone();
    let lead = shape.len().saturating_sub(2);
    if shape[lead..] != full {
        let sizes = [&shape[..lead], &full].concat();
        let sizes = m.sizes(&sizes, q)?;
        mask = m.op("Expand", &[mask, sizes], Attrs::new())?;
    }
    Ok(mask)
}

/// Selects `otherwise` where the mask is true. Elsewhere it writes a number so low that adding
/// scores to it makes no difference.
fn masked(
    m: &mut Match<'_>,
    mask: ValueId,
    otherwise: ValueId,
    dtype: DType,
) -> Result<ValueId, Skip> {
    let fill = m.scalar(dtype, m.forms().target.hides_below * 0.7)?;
    m.op("Where", &[mask, otherwise, fill], Attrs::new())
}
