//! Numbers that a mask hides: `Where` with a constant on one side, and what hides the same by adding.

use onnx::{Attrs, Node, Use, ValueId};
use tensor::Tensor;

use crate::recognize::Form;
use crate::triangle::Triangle;
use crate::{Match, Skip};

/// A `Where` that shows some elements of a tensor and puts a constant in place of the others.
pub(super) struct Masked {
    pub(super) mask: ValueId,
    pub(super) x: ValueId,
    /// Whether the mask holds for what is shown, not for what is hidden.
    pub(super) is_shown: bool,
    /// What stands for what is hidden.
    pub(super) fill: f64,
}

impl Masked {
    /// What the root is, if its mask changes no shape.
    pub(super) fn at(m: &Match<'_>) -> Result<Self, Skip> {
        let (mask, yes, no) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
        let number = |value| m.constant(value).and_then(Tensor::splat);
        let (x, is_shown, fill) = match (number(yes), number(no)) {
            (None, Some(fill)) => (yes, true, fill),
            (Some(fill), None) => (no, false, fill),
            _ => return Err("it is not a choice between numbers and a constant".into()),
        };
        if m.ty(x) != m.ty(m.result()?) {
            return Err("what is masked is broadcast".into());
        }
        Ok(Self { mask, x, is_shown, fill })
    }
}

/// What is added instead of a choice, if that is a constant or smaller than what it is added to.
pub(super) fn added(m: &mut Match<'_>, masked: &Masked) -> Result<ValueId, Skip> {
    let Masked { mask, x, is_shown, .. } = *masked;
    if m.constant(mask).is_none() && m.ty(mask).shape == m.ty(x).shape {
        return Err("the mask is as large as what it hides".into());
    }
    let zero = m.scalar(m.ty(x).dtype, 0.0)?;
    let hidden = m.operand(if is_shown { 2 } else { 1 })?;
    let sides = if is_shown { [mask, zero, hidden] } else { [mask, hidden, zero] };
    m.op("Where", &sides, Attrs::new())
}

/// Whether every row of the last axis has an element that is shown, whatever the sizes are.
pub(super) fn shows_some_of_each_row(m: &Match<'_>, masked: &Masked) -> bool {
    let Masked { mask, x, is_shown, .. } = *masked;
    if let Some(stored) = m.constant(mask) {
        let columns = stored.shape().last().copied().unwrap_or(1).max(1);
        let shows = |row: &[u8]| row.iter().any(|truth| (*truth != 0) == is_shown);
        return stored.bytes().is_some_and(|bytes| bytes.chunks(columns).all(shows));
    }
    let Some(triangle) = Triangle::of(m.graph(), mask, &m.ty(x).shape) else { return false };
    let shown = if is_shown { triangle } else { triangle.complement() };
    // The first column belongs to every row.
    !shown.upper && shown.k >= 0
}

/// The softmax that alone reads the root, if both stay elementary operators.
pub(super) fn softmax<'m>(m: &'m Match<'_>) -> Result<&'m Node, Skip> {
    let graph = m.graph();
    let mut uses = graph.value(m.result()?).uses();
    let node = match (uses.next(), uses.next()) {
        (Some(Use::Operand(node, _)), None) => graph.node(node),
        _ => return Err("what is masked is read more than once".into()),
    };
    if !["LogSoftmax", "Softmax"].iter().any(|op| node.is(op)) {
        return Err("what is masked is read by something else than a softmax".into());
    }
    match m.forms().of("Attention") {
        Form::Native | Form::Measured => Err("attention may become one node".into()),
        Form::Auto | Form::Elementary => Ok(node),
    }
}
