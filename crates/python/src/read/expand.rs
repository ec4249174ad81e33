//! Equations that JAX itself expands into others before they are read.

use std::sync::Arc;

use jaxpr::{Param, Params};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::{Reader, Result, address};
use crate::error::ReadError;
use crate::jax_names::{self, attr, class};

impl<'py> Reader<'_, 'py> {
    /// The primitive and the parameters of the expanded equation; `None` if the equation stays as
    /// it is. All equations about PRNG keys are expanded, since a primitive's parameters do not
    /// account for the axis that the keys' integers add.
    pub(super) fn expansion(
        &mut self,
        eqn: &Bound<'py, PyAny>,
        primitive: &Arc<str>,
        operands: &Bound<'py, PyList>,
        results: &Bound<'py, PyList>,
    ) -> Result<Option<(Arc<str>, Params)>> {
        let about_keys = !self.keys.is_empty()
            && operands.iter().chain(results.iter()).any(|v| self.keys.contains(&address(&v)));
        if !about_keys && !jax_names::is_expanded(primitive) {
            return Ok(None);
        }
        let expansions = match &self.expansions {
            Some(known) => known.clone(),
            None => self.expansions.insert(class::expansions(self.py)?.call0()?).clone(),
        };
        let failed = |error: PyErr| ReadError::Expansion {
            primitive: Arc::clone(primitive),
            reason: error.value(self.py).to_string(),
        };
        let jaxpr = expansions.call_method1(attr::of(self.py), (eqn,)).map_err(failed)?;
        if jaxpr.is_none() {
            return Ok(None);
        }
        let jaxpr = Param::Jaxpr(self.jaxpr(&jaxpr)?);
        let (call, param) = jax_names::CALL;
        let name = match jax_names::is_always_expanded(primitive) {
            true => Arc::clone(primitive),
            false => call.into(),
        };
        Ok(Some((name, Params(vec![(param.into(), jaxpr)]))))
    }
}
