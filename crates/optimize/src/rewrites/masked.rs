//! Masked numbers: `Where` with a constant branch, and the equivalent addition of a mask.

use onnx::{Attrs, Node, ValueId};

use crate::recognize::Form;
use crate::{Match, Skip};

/// A `Where` that keeps some elements of a tensor and replaces the others by a constant.
pub(super) struct Masked {
    pub(super) mask: ValueId,
    pub(super) x: ValueId,
    /// `true` if the mask is true for visible elements, `false` if it is true for hidden ones.
    pub(super) is_shown: bool,
    /// The number that replaces hidden elements.
    pub(super) fill: f64,
}

impl Masked {
    /// Reads the root, if the mask does not broadcast the operand.
    pub(super) fn at(m: &Match<'_>) -> Result<Self, Skip> {
        let (mask, yes, no) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
        let (x, is_shown, fill) = match (m.number(yes), m.number(no)) {
            (None, Some(fill)) => (yes, true, fill),
            (Some(fill), None) => (no, false, fill),
            _ => return Err("it is not a choice between numbers and a constant".into()),
        };
        Skip::when(m.ty(x) != m.ty(m.result()?), "what is masked is broadcast")?;
        Ok(Self { mask, x, is_shown, fill })
    }
}

/// Emits the addend that replaces the choice, if it is a constant or smaller than the masked
/// operand.
pub(super) fn added(m: &mut Match<'_>, masked: &Masked) -> Result<ValueId, Skip> {
    let Masked { mask, x, is_shown, .. } = *masked;
    if m.constant(mask).is_none() && m.ty(mask).shape == m.ty(x).shape {
        return Err("the mask is as large as the scores".into());
    }
    let zero = m.scalar(m.ty(x).dtype, 0.0)?;
    let hidden = m.operand(if is_shown { 2 } else { 1 })?;
    let sides = if is_shown { [mask, zero, hidden] } else { [mask, hidden, zero] };
    m.op("Where", &sides, Attrs::new())
}

/// Returns `true` if every row of the last axis has a visible element, for all sizes.
pub(super) fn shows_some_of_each_row(m: &Match<'_>, masked: &Masked) -> bool {
    let Masked { mask, x, is_shown, .. } = *masked;
    if let Some(stored) = m.constant(mask) {
        let columns = stored.shape().last().copied().unwrap_or(1).max(1);
        let shows = |row: &[u8]| row.iter().any(|truth| (*truth != 0) == is_shown);
        return stored.bytes().is_some_and(|bytes| bytes.chunks(columns).all(shows));
    }
    let Some(triangle) = m.facts().triangle(mask, &m.ty(x).shape) else { return false };
    let shown = if is_shown { triangle } else { triangle.complement() };
    // The first column is visible in every row.
    !shown.upper && shown.k >= 0
}

/// Returns the softmax that is the only consumer of the root, if both remain elementary operators.
pub(super) fn softmax<'m>(m: &'m Match<'_>) -> Result<&'m Node, Skip> {
    let reader = m.graph().only_reader(m.result()?);
    let node = reader.ok_or("the masked value has several consumers")?;
    if !["LogSoftmax", "Softmax"].iter().any(|op| node.is(op)) {
        return Err("the consumer of the masked value is not a softmax".into());
    }
    match m.forms().of("Attention") {
        Form::Native | Form::Measured => Err("attention may become one node".into()),
        Form::Auto | Form::Elementary => Ok(node),
    }
}
