//! What the options in Python can be, and the forms of operators that they choose.

use std::collections::BTreeMap;

use optimize::compute::Precision;
use optimize::weights::Weights;
use optimize::{ALL_OPERATORS, Form, Forms, NORMALIZATIONS};
use pyo3::prelude::*;
use tensor::DType;

/// The form of every operator: what is said of single ones, then of normalisations, then of all.
pub(crate) fn forms(
    operators: &BTreeMap<String, String>,
    normalization: &str,
    opset: i64,
) -> Forms {
    let form = |name: &str| match name {
        "prefer_native" => Form::Native,
        "force_decomposed" => Form::Elementary,
        name => Form::parse(name).unwrap_or_default(),
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

/// Whether weights can be stored in the formats that a text names, such as `int4:64,float16`.
#[pyfunction]
pub(crate) fn is_weight_format(text: &str) -> bool {
    Weights::parse_formats(text).is_some()
}

/// Whether a model can compute in what a text names, such as `float16`.
#[pyfunction]
pub(crate) fn is_precision(text: &str) -> bool {
    Precision::parse(text).is_some()
}

/// The names of what models can be made for.
#[pyfunction]
pub(crate) fn targets() -> Vec<&'static str> {
    pipeline::Target::ALL.into_iter().map(|(name, _)| name).collect()
}

/// The names of what can be assumed.
#[pyfunction]
pub(crate) fn assumptions() -> Vec<&'static str> {
    onnx::Assumption::ALL.into_iter().map(onnx::Assumption::name).collect()
}

/// The names of the operators whose form can be chosen.
#[pyfunction]
pub(crate) fn operators() -> Vec<&'static str> {
    optimize::operators()
}

/// The element types: their names in JAX for short, in numpy and in ONNX, and their codes in ONNX.
#[pyfunction]
pub(crate) fn element_types() -> Vec<(&'static str, &'static str, &'static str, i32)> {
    let row = |d: DType| (d.short_name(), d.numpy_name(), d.onnx_name(), d.onnx_code());
    DType::all().map(row).collect()
}
