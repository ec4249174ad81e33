//! Which operators become one node: from the options in Python to those of the optimiser.

use std::collections::BTreeMap;

use optimize::{Form, Forms, NORMALIZATIONS};
use pyo3::prelude::*;

/// What stands for all operators that are not named.
const ALL_OPERATORS: &str = "*";

/// Key of the chosen forms in the model's metadata.
pub(crate) const FORMS: &str = "pkg.jax2onnx.operators";

/// The form of every operator: what is said of single ones, then of normalisations, then of all.
pub(crate) fn forms(
    operators: &BTreeMap<String, String>,
    normalization: &str,
    opset: i64,
) -> Forms {
    let form = |name: &str| match name {
        "native" | "prefer_native" => Form::Native,
        "elementary" | "force_decomposed" => Form::Elementary,
        _ => Form::Auto,
    };
    let mut forms = Forms::auto(opset);
    forms.default = operators.get(ALL_OPERATORS).map_or(Form::Auto, |name| form(name));
    if normalization != "auto" {
        let named = NORMALIZATIONS.iter().map(|op| ((*op).to_owned(), form(normalization)));
        forms.named.extend(named);
    }
    let named = operators.iter().filter(|(op, _)| *op != ALL_OPERATORS);
    forms.named.extend(named.map(|(op, name)| (op.clone(), form(name))));
    forms
}

/// The forms that were chosen, as text: `*=elementary Gelu=native`; `None` if none was.
pub(crate) fn written(forms: &Forms) -> Option<String> {
    let all = std::iter::once((ALL_OPERATORS, &forms.default));
    let named = forms.named.iter().map(|(op, form)| (op.as_str(), form));
    let is_chosen = |(op, form): &(&str, &Form)| *op != ALL_OPERATORS || **form != Form::Auto;
    let chosen = all.chain(named).filter(is_chosen).map(|(op, form)| match form {
        Form::Auto => format!("{op}=auto"),
        Form::Native => format!("{op}=native"),
        Form::Elementary => format!("{op}=elementary"),
    });
    let text = chosen.collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// The names of the operators whose form can be chosen.
#[pyfunction]
pub(crate) fn operators() -> Vec<&'static str> {
    optimize::operators()
}
