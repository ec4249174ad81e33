//! The table of primitives, for Python.

use std::collections::HashMap;

use lower::{Control, Expansion, Keys};
use pyo3::prelude::*;

/// A row of the table.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Primitive(&'static lower::Primitive);

#[pymethods]
impl Primitive {
    /// JAX's name of the primitive.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name
    }

    /// The possible names of the parameter with the jaxpr, if the primitive only calls it.
    #[getter]
    fn calls(&self) -> Vec<&'static str> {
        self.0.calls().to_vec()
    }

    /// The way that its equations run the jaxprs in their parameters, if not once each.
    #[getter]
    fn control(&self) -> Option<&'static str> {
        self.0.control.map(Control::name)
    }

    /// `True` if it fills arrays with few numbers.
    #[getter]
    fn fills(&self) -> bool {
        self.0.fills
    }

    /// The reason that its equations on complex numbers are not lowered, or `None` if they are.
    #[getter]
    fn without_complex(&self) -> Option<&'static str> {
        self.0.without_complex()
    }

    /// The reason that its equations on PRNG keys are not lowered, or `None` if they are.
    #[getter]
    fn without_keys(&self) -> Option<&'static str> {
        match self.0.keys {
            Keys::PassedOn | Keys::Expanded(_) => None,
            Keys::Never => Some("JAX has none"),
            Keys::Refused(reason) => Some(reason),
        }
    }

    fn __repr__(&self) -> String {
        format!("Primitive({})", self.0.name)
    }
}

/// Returns the primitives that have a lowering rule, in alphabetical order.
#[pyfunction]
pub(crate) fn primitives() -> Vec<Primitive> {
    lower::primitives().iter().map(Primitive).collect()
}

/// Returns the primitives that need more than a model has, with the kind of each.
#[pyfunction]
pub(crate) fn beyond_models() -> HashMap<&'static str, &'static str> {
    lower::BEYOND_MODELS.iter().map(|(name, what)| (*name, what.name())).collect()
}

/// Returns the names of the expansions that the table refers to.
#[pyfunction]
pub(crate) fn expansions() -> Vec<&'static str> {
    Expansion::ALL.iter().map(|how| how.name()).collect()
}

/// Returns the ways that equations run the jaxprs in their parameters.
#[pyfunction]
pub(crate) fn controls() -> Vec<&'static str> {
    Control::ALL.iter().map(|control| control.name()).collect()
}
