//! The user's choice between one native node and elementary operators, per operator.

use std::collections::BTreeMap;

use onnx::schema::{self, Schema};
use onnx::{Attrs, Op};
use tensor::DType;

use crate::Skip;
use crate::targets::{Right, Row, Target};

/// The form in which an operator is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// One node if the runtime is as exact and at least as fast with it.
    #[default]
    Auto,
    /// One node if ONNX and the runtime have it and the runtime is exact.
    Native,
    /// One node if ONNX and the runtime have it, even if it is inexact, so that it can be measured.
    Measured,
    /// The elementary operators that the operator consists of.
    Elementary,
}

impl Form {
    /// Returns the name of the form.
    pub fn as_str(self) -> &'static str {
        match self {
            Form::Auto => "auto",
            Form::Native => "native",
            Form::Measured => "measured",
            Form::Elementary => "elementary",
        }
    }

    /// Returns `true` if one node was requested.
    pub fn is_native(self) -> bool {
        matches!(self, Form::Native | Form::Measured)
    }

    /// Returns the form with the given name.
    pub fn parse(name: &str) -> Option<Self> {
        let forms = [Form::Auto, Form::Native, Form::Measured, Form::Elementary];
        forms.into_iter().find(|form| form.as_str() == name)
    }
}

/// The key that selects all operators without an entry of their own.
pub const ALL_OPERATORS: &str = "*";

/// The form of every operator.
#[derive(Clone, Debug)]
pub struct Forms {
    /// The opset that the model may use.
    pub opset: i64,
    /// The form of operators that `named` does not list.
    pub default: Form,
    /// The form of single operators, by ONNX name.
    pub named: BTreeMap<String, Form>,
    /// `true` if products may be computed in smaller floats than the graph states.
    pub narrows: bool,
    /// `true` if all numbers are assumed to be finite, so that NaN and infinity need not be
    /// preserved.
    pub finite: bool,
    /// `true` if products between convolutions may become convolutions.
    pub convolves: bool,
    /// The target, whose measurements and kernels decide on [`Form::Auto`].
    pub target: Target,
}

impl Forms {
    /// Returns the default forms for models of the given opset.
    pub fn auto(opset: i64) -> Self {
        Self {
            opset,
            default: Form::Auto,
            named: BTreeMap::new(),
            narrows: false,
            finite: false,
            convolves: true,
            target: Target::default(),
        }
    }

    /// Returns the chosen forms as text, such as `*=elementary Gelu=native`, or `None` if all are
    /// defaults.
    pub fn to_text(&self) -> Option<String> {
        let all = (self.default != Form::Auto).then_some((ALL_OPERATORS, self.default));
        let named = self.named.iter().map(|(op, form)| (op.as_str(), *form));
        let chosen = all.into_iter().chain(named);
        let text = chosen.map(|(op, form)| format!("{op}={}", form.as_str()));
        let text = text.collect::<Vec<_>>().join(" ");
        (!text.is_empty()).then_some(text)
    }

    /// Parses the text that [`Forms::to_text`] writes.
    pub fn parse(text: &str, opset: i64) -> Option<Self> {
        let mut forms = Self::auto(opset);
        for part in text.split_whitespace() {
            let (op, form) = part.split_once('=')?;
            let form = Form::parse(form)?;
            match op {
                ALL_OPERATORS => forms.default = form,
                op => drop(forms.named.insert(op.to_owned(), form)),
            }
        }
        Some(forms)
    }

    /// Returns the opset of the operators that may be recognised if the user fixes none: that of the
    /// target, or a newer one that operators need which the user asks for by name.
    pub fn usable_opset(&self, target: Target) -> i64 {
        let names = super::operators().into_iter();
        let native = names.filter(|op| self.named.get(*op) == Some(&Form::Native));
        let since = native.filter_map(|op| {
            schema::versions(&Op::onnx(op)).iter().map(|version| version.since).min()
        });
        let newest = since.fold(target.opset, i64::max);
        newest.min(target.newest_opset.max(target.opset))
    }

    /// Returns the form of `op`.
    pub fn of(&self, op: &str) -> Form {
        self.named.get(op).copied().unwrap_or(self.default)
    }
}

const REQUESTED: &str = "the elementary form was requested";

/// Checks that the user accepts `op` as one node, and that it is better in the runtime unless the user
/// asked for it.
fn check_choice(forms: &Forms, op: &str, is_better: impl FnOnce() -> bool) -> Result<(), Skip> {
    match forms.of(op) {
        Form::Elementary => Err(REQUESTED.into()),
        Form::Auto if !is_better() => Err("the elementary form is better in the runtime".into()),
        Form::Auto | Form::Native | Form::Measured => Ok(()),
    }
}

/// Checks that the user and the runtime may accept `op` as one node. This check does not need
/// attributes, so it runs before the search.
pub(super) fn check_operator(forms: &Forms, op: &str, dtype: DType) -> Result<(), Skip> {
    let measured = forms.target.measured;
    check_choice(forms, op, || measured.may_be_better(op, timed(op, dtype), forms.finite))
}

/// The contributed operator for attention over a cache.
pub(super) const GROUPED: &str = "GroupQueryAttention";

/// Checks that the user asked for `op`, an operator that is not part of ONNX, by its name, and that
/// the target has it for this type.
pub(crate) fn check_contrib(forms: &Forms, op: &str, dtype: DType) -> Result<(), Skip> {
    if !forms.named.get(op).is_some_and(|form| form.is_native()) {
        return Err("it was not requested".into());
    }
    match forms.target.contributed_types(op).contains(&dtype) {
        true => Ok(()),
        false => {
            Err(Skip::Missed(format!("{} has no such operator for {dtype}", forms.target.title)))
        }
    }
}

/// Returns `true` if `dtype` is an integer type and `op` only compares its operands. Then it is also
/// exact, and as fast as for float32.
fn compares_integers(op: &str, dtype: DType) -> bool {
    op == "Clip" && dtype.is_integer()
}

/// Returns the type whose measurements apply to `op`.
fn timed(op: &str, dtype: DType) -> DType {
    if compares_integers(op, dtype) { DType::F32 } else { dtype }
}

/// Checks that the user, the opset and the runtime accept `op` with `attrs` as one node.
pub(super) fn check_form(
    forms: &Forms,
    op: &'static str,
    variant: &str,
    dtype: DType,
    attrs: &Attrs,
) -> Result<(), Skip> {
    let is_compared = compares_integers(op, dtype);
    if !dtype.is_float() && !is_compared {
        return Err("only floats are recognised".into());
    }
    let measured_type = timed(op, dtype);
    if !forms.target.measured.has(op) {
        return check_unmeasured(forms, op, dtype);
    }
    let measured = forms.target.measured;
    check_choice(forms, op, || measured.is_better(op, variant, measured_type, forms.finite))?;
    if forms.of(op) == Form::Native && !measured.is_exact(op, variant, measured_type) {
        return Err(Skip::Missed("one node is less exact in the runtime".to_owned()));
    }
    let is_fused = forms.target.fused_on_load.contains(&op);
    let opset = if is_fused { schema::NEWEST } else { forms.opset };
    let schema = schema::find(&Op::onnx(op), opset).ok_or(NO_SUCH_OPERATOR)?;
    if attrs.iter().any(|(name, _)| schema.attr(name).is_none()) {
        return Err("the opset has no such attribute".into());
    }
    let is_right = |row: &&Row| !is_compared || row.right == Right::Always;
    let runs = |dtype| has(kernels(forms, schema, attrs).filter(is_right), dtype);
    // Small floats without a kernel are computed in a wider type.
    let small = matches!(dtype, DType::F16 | DType::BF16);
    if runs(dtype) || (small && runs(DType::F32)) {
        return Ok(());
    }
    Err(NO_KERNEL.into())
}

const NO_SUCH_OPERATOR: &str = "the opset has no such operator";
const NO_KERNEL: &str = "the runtime has no kernel for the type";

/// Returns the measured kernels for a node of `schema` with these attributes, or of an older version
/// that it may become.
fn kernels(
    forms: &Forms,
    schema: &'static Schema,
    attrs: &Attrs,
) -> impl Iterator<Item = &'static Row> {
    let kernels = forms.target.measured.kernels;
    forms.target.versions(schema).flat_map(move |schema| kernels.rows(schema, attrs))
}

/// Returns `true` if one of the kernels is for elements of this type.
fn has(mut kernels: impl Iterator<Item = &'static Row>, dtype: DType) -> bool {
    kernels.any(|row| row.types().next().is_some_and(|types| types.contains(dtype)))
}

/// Checks that the user, the opset and the runtime accept `op`, a data-movement operator, as one
/// node. Data movement is always exact, and integers use the measurements for float32.
pub(crate) fn check_movement(
    forms: &Forms,
    op: &'static str,
    variant: &str,
    dtype: DType,
) -> Result<(), Skip> {
    let timed = if dtype.is_float() { dtype } else { DType::F32 };
    let measured = forms.target.measured;
    check_choice(forms, op, || measured.is_better(op, variant, timed, forms.finite))?;
    check_kernel(forms, op, dtype)
}

/// Checks that the user asked for `op`, which no measurement compares with its elementary form, and
/// that the opset and the target have it for elements of this type.
pub(crate) fn check_unmeasured(forms: &Forms, op: &'static str, dtype: DType) -> Result<(), Skip> {
    if !forms.of(op).is_native() {
        return Err(REQUESTED.into());
    }
    let missing = |reason: String| match forms.named.contains_key(op) {
        true => Skip::Missed(reason),
        false => "the opset or the runtime has no such operator".into(),
    };
    let Some(schema) = schema::find(&Op::onnx(op), forms.opset) else {
        let versions = schema::versions(&Op::onnx(op));
        let since = versions.iter().map(|schema| schema.since).min().unwrap_or(forms.opset);
        return Err(missing(format!("it needs opset {since}")));
    };
    let runs = match forms.target.kernels {
        Some(kernels) => has(kernels.rows(schema, &[]), dtype),
        None => schema.types.first().is_some_and(|types| types.allowed.contains(dtype)),
    };
    match runs {
        true => Ok(()),
        false => Err(missing(format!("{} has no kernel for it in {dtype}", forms.target.title))),
    }
}

/// Checks that the opset and the runtime have `op` for elements of this type.
pub(crate) fn check_kernel(forms: &Forms, op: &'static str, dtype: DType) -> Result<(), Skip> {
    let schema = schema::find(&Op::onnx(op), forms.opset).ok_or(NO_SUCH_OPERATOR)?;
    match has(kernels(forms, schema, &Attrs::new()), dtype) {
        true => Ok(()),
        false => Err(NO_KERNEL.into()),
    }
}

/// The operators that `normalization_mode` applies to.
pub const NORMALIZATIONS: &[&str] = &[
    "BatchNormalization",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "RMSNormalization",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_survive_a_round_trip_through_text() {
        assert_eq!(Forms::auto(23).to_text(), None);
        for text in ["*=elementary", "Gelu=native Softmax=auto", "*=native Gelu=elementary"] {
            let forms = Forms::parse(text, 23).unwrap();
            assert_eq!(forms.to_text().as_deref(), Some(text));
        }
        let forms = Forms::parse("*=native Gelu=elementary", 23).unwrap();
        assert_eq!((forms.of("Gelu"), forms.of("Elu")), (Form::Elementary, Form::Native));
        assert!(Forms::parse("Gelu", 23).is_none());
        assert!(Forms::parse("Gelu=fast", 23).is_none());
    }
}
