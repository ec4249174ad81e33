//! Which form operators take: the user's choice.

use std::collections::BTreeMap;

use onnx::{Attrs, Op, schema};
use tensor::DType;

use crate::Skip;
use crate::targets::{Right, Target};

/// How an operator is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As one node where the runtime is as exact and at least as fast that way.
    #[default]
    Auto,
    /// As one node wherever ONNX and the runtime have it, and the runtime is exact that way.
    Native,
    /// As one node wherever ONNX and the runtime have it, however inexact, so that it can be measured.
    Measured,
    /// As the elementary operators that it is made of.
    Elementary,
}

impl Form {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Form::Auto => "auto",
            Form::Native => "native",
            Form::Measured => "measured",
            Form::Elementary => "elementary",
        }
    }

    /// Returns `true` if one node was asked for.
    pub fn is_native(self) -> bool {
        matches!(self, Form::Native | Form::Measured)
    }

    /// The form of that name.
    pub fn parse(name: &str) -> Option<Self> {
        let forms = [Form::Auto, Form::Native, Form::Measured, Form::Elementary];
        forms.into_iter().find(|form| form.as_str() == name)
    }
}

/// What stands for all operators that are not named.
pub const ALL_OPERATORS: &str = "*";

/// The form of every operator.
#[derive(Clone, Debug)]
pub struct Forms {
    /// The opset that the model may use.
    pub opset: i64,
    /// What holds for operators that are not named.
    pub default: Form,
    /// What holds for single operators, by their names in ONNX.
    pub named: BTreeMap<String, Form>,
    /// Whether products may compute in smaller floats than the graph says.
    pub narrows: bool,
    /// Whether all numbers are finite, so that it does not matter what becomes of others.
    pub finite: bool,
    /// Whether products between convolutions may become convolutions.
    pub convolves: bool,
    /// The target, whose measurements and kernels decide on [`Form::Auto`].
    pub target: Target,
}

impl Forms {
    /// The default, for models of the given opset.
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

    /// The forms that were chosen, as text: `*=elementary Gelu=native`; `None` if none was.
    pub fn to_text(&self) -> Option<String> {
        let all = (self.default != Form::Auto).then_some((ALL_OPERATORS, self.default));
        let named = self.named.iter().map(|(op, form)| (op.as_str(), *form));
        let chosen = all.into_iter().chain(named);
        let text = chosen.map(|(op, form)| format!("{op}={}", form.as_str()));
        let text = text.collect::<Vec<_>>().join(" ");
        (!text.is_empty()).then_some(text)
    }

    /// Reads what [`Forms::to_text`] writes.
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

    /// The form of `op`.
    pub fn of(&self, op: &str) -> Form {
        self.named.get(op).copied().unwrap_or(self.default)
    }
}

/// Operators that only compare numbers: they are exact for integers too, and as fast as for float32.
const COMPARISONS: &[&str] = &["Clip"];

/// Whether the user and the runtime may accept `op` as one node, whatever its attributes are: what can be told
/// before it is found.
pub(super) fn check_operator(forms: &Forms, op: &str, dtype: DType) -> Result<(), Skip> {
    match forms.of(op) {
        Form::Elementary => Err(REQUESTED.into()),
        Form::Auto if !forms.target.measured.may_be_better(op, timed(op, dtype), forms.finite) => {
            Err(SLOWER.into())
        }
        Form::Auto | Form::Native | Form::Measured => Ok(()),
    }
}

const REQUESTED: &str = "the elementary form was requested";
const SLOWER: &str = "the elementary form is better in the runtime";
const INEXACT: &str = "one node is less exact in the runtime";

/// Whether `op` only compares numbers of this type, which are integers.
fn compares_integers(op: &str, dtype: DType) -> bool {
    COMPARISONS.contains(&op) && dtype.is_integer()
}

/// The type whose measurements count for `op`.
fn timed(op: &str, dtype: DType) -> DType {
    if compares_integers(op, dtype) { DType::F32 } else { dtype }
}

/// Whether the user, the opset and the runtime accept `op` with `attrs` as one node.
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
    match forms.of(op) {
        Form::Elementary => return Err(REQUESTED.into()),
        Form::Auto
            if !forms.target.measured.is_better(op, variant, measured_type, forms.finite) =>
        {
            return Err(SLOWER.into());
        }
        Form::Native if !forms.target.measured.is_exact(op, variant, measured_type) => {
            return Err(Skip::Missed(INEXACT.to_owned()));
        }
        Form::Auto | Form::Native | Form::Measured => {}
    }
    let missing = "the opset has no such operator";
    let schema = schema::find(&Op::onnx(op), forms.opset).ok_or(missing)?;
    if attrs.iter().any(|(name, _)| schema.attr(name).is_none()) {
        return Err("the opset has no such attribute".into());
    }
    let runs = |dtype| {
        let mut rows = forms.target.measured.kernels.rows(schema, attrs);
        rows.any(|row| {
            let is_right = !is_compared || row.right == Right::Always;
            is_right && row.types().next().is_some_and(|t| t.contains(dtype))
        })
    };
    // Small floats are computed in a wider type where there is no kernel.
    let small = matches!(dtype, DType::F16 | DType::BF16);
    if runs(dtype) || (small && runs(DType::F32)) {
        return Ok(());
    }
    Err("the runtime has no kernel for the type".into())
}

/// Whether the user, the opset and the runtime want `op` as one node, which only moves elements: it is
/// exact, whatever they are. Integers are moved as float32 is.
pub(crate) fn check_movement(
    forms: &Forms,
    op: &'static str,
    variant: &str,
    dtype: DType,
) -> Result<(), Skip> {
    let timed = if dtype.is_float() { dtype } else { DType::F32 };
    match forms.of(op) {
        Form::Elementary => return Err(REQUESTED.into()),
        Form::Auto if !forms.target.measured.is_better(op, variant, timed, forms.finite) => {
            return Err(SLOWER.into());
        }
        Form::Auto | Form::Native | Form::Measured => {}
    }
    check_kernel(forms, op, dtype)
}

/// Whether the opset and the runtime have `op` for elements of this type.
pub(crate) fn check_kernel(forms: &Forms, op: &'static str, dtype: DType) -> Result<(), Skip> {
    let schema =
        schema::find(&Op::onnx(op), forms.opset).ok_or("the opset has no such operator")?;
    let mut rows = forms.target.measured.kernels.rows(schema, &[]);
    match rows.any(|row| row.types().next().is_some_and(|types| types.contains(dtype))) {
        true => Ok(()),
        false => Err("the runtime has no kernel for the type".into()),
    }
}

/// The operators that `normalization_mode` speaks of.
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
    fn forms_read_back_as_they_were_written() {
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
