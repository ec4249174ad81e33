//! The table of primitives, as Python sees it.

use std::collections::HashMap;

use lower::{Control, Expansion, Keys};
use pyo3::prelude::*;

/// A row of the table.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Primitive(&'static lower::Primitive);

#[pymethods]
impl Primitive {
    /// JAX's name of it.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name
    }

    /// The names that the parameter with the jaxpr may have, if it does nothing but call it.
    #[getter]
    fn calls(&self) -> Vec<&'static str> {
        self.0.calls().to_vec()
    }

    /// How its equations run the jaxprs in their parameters, if not once each.
    #[getter]
    fn control(&self) -> Option<&'static str> {
        self.0.control.map(Control::name)
    }

    /// Whether it fills arrays with few numbers.
    #[getter]
    fn fills(&self) -> bool {
        self.0.fills
    }

    /// Why its equations of complex numbers are not lowered; `None` if they are.
    #[getter]
    fn without_complex(&self) -> Option<&'static str> {
        self.0.without_complex()
    }

    /// Why its equations about PRNG keys are not lowered; `None` if they are.
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

/// The primitives that have a lowering rule, in alphabetical order.
#[pyfunction]
pub(crate) fn primitives() -> Vec<Primitive> {
    lower::primitives().iter().map(Primitive).collect()
}

/// The primitives that need more than a model has, and what is known of each.
#[pyfunction]
pub(crate) fn beyond_models() -> HashMap<&'static str, &'static str> {
    lower::BEYOND_MODELS.iter().map(|(name, what)| (*name, what.name())).collect()
}

/// The ways in which the table has JAX expand equations.
#[pyfunction]
pub(crate) fn expansions() -> Vec<&'static str> {
    Expansion::ALL.iter().map(|how| how.name()).collect()
}

/// The ways in which equations run the jaxprs in their parameters.
#[pyfunction]
pub(crate) fn controls() -> Vec<&'static str> {
    Control::ALL.iter().map(|control| control.name()).collect()
}
