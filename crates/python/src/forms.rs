//! The values of Python's options, and the forms of operators that they select.

use std::collections::BTreeMap;

use optimize::compute::Precision;
use optimize::weights::Weights;
use optimize::{ALL_OPERATORS, Form, Forms, NORMALIZATIONS};
use pyo3::prelude::*;
use tensor::DType;

/// Returns the form of every operator: settings for single operators first, then for
/// normalisations, then for all.
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

/// Returns `true` if a text names storage formats of weights, such as `int4:64,float16`.
#[pyfunction]
pub(crate) fn is_weight_format(text: &str) -> bool {
    Weights::parse_formats(text).is_some()
}

/// Returns `true` if a text names a precision that models can compute in, such as `float16`.
#[pyfunction]
pub(crate) fn is_precision(text: &str) -> bool {
    Precision::parse(text).is_some()
}

/// A target: its runtime and the versions that it loads.
#[pyclass(frozen, get_all, module = "jax2onnx._core")]
pub(crate) struct Target {
    runtime: &'static str,
    lowest_opset: i64,
    newest_opset: i64,
    newest_ir_version: i64,
}

/// Returns all targets by their names, in alphabetical order.
#[pyfunction]
pub(crate) fn targets() -> BTreeMap<&'static str, Target> {
    let described = |target: pipeline::Target| Target {
        runtime: target.runtime,
        lowest_opset: target.lowest_opset,
        newest_opset: target.newest_opset,
        newest_ir_version: target.newest_ir_version,
    };
    pipeline::Target::all().map(|target| (target.name, described(target))).collect()
}

/// Returns the name of a target's provider in onnxruntime-genai, or `None` for the CPU.
#[pyfunction]
pub(crate) fn provider(target: &str) -> Option<&'static str> {
    pipeline::Target::find(target)?.provider
}

/// Returns the types in which a target has a contributed operator.
#[pyfunction]
pub(crate) fn contributed_types(target: &str, op: &str) -> Vec<&'static str> {
    let types = pipeline::Target::find(target).map(|target| target.contributed_types(op));
    types.unwrap_or_default().iter().map(|dtype| dtype.numpy_name()).collect()
}

/// Returns the names of all assumptions.
#[pyfunction]
pub(crate) fn assumptions() -> Vec<&'static str> {
    onnx::Assumption::ALL.into_iter().map(onnx::Assumption::name).collect()
}

/// Returns the names of the operators whose form can be chosen.
#[pyfunction]
pub(crate) fn operators() -> Vec<&'static str> {
    optimize::operators()
}

/// Returns the element types: their short names in JAX, their names in NumPy and in ONNX, and their
/// ONNX codes.
#[pyfunction]
pub(crate) fn element_types() -> Vec<(&'static str, &'static str, &'static str, i32)> {
    let row = |d: DType| (d.short_name(), d.numpy_name(), d.onnx_name(), d.onnx_code());
    DType::all().map(row).collect()
}
