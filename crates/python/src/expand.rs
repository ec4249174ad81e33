//! The step before an equation is read: JAX itself expands equations without a rule, those that
//! their rule does not handle, and those on PRNG keys. The table of primitives decides.

use lower::{Control, Equation, Expands, Expansion, Keys, Primitive, RowLoop};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::error::ReadError;
use crate::jax_names::{SCAN_OPERANDS, SCAN_ROUNDS, attr, class};

/// The treatment of an equation before it is read.
pub(crate) enum Plan {
    /// The equation is preserved, because its rule handles it.
    Stay,
    /// The equation is expanded.
    Expand(Expansion),
    /// The equation is expanded if the predicate holds once it is read.
    ExpandIf(Expansion, fn(&Equation<'_>) -> bool),
}

/// Looks up the treatment of an equation of the primitive `row`.
pub(crate) fn plan(
    row: &Primitive,
    eqn: &Bound<'_, PyAny>,
    about_keys: bool,
) -> Result<Plan, ReadError> {
    if about_keys {
        return match row.keys {
            Keys::PassedOn => Ok(Plan::Stay),
            Keys::Expanded(how) => Ok(Plan::Expand(how)),
            Keys::Never => Err(failed(row.name, "it takes no PRNG keys")),
            Keys::Refused(reason) => Err(failed(row.name, reason)),
        };
    }
    Ok(match row.expands {
        Expands::Never => Plan::Stay,
        Expands::Always(how) => Plan::Expand(how),
        Expands::Where(how, needed) => Plan::ExpandIf(how, needed),
        Expands::RowLoop(how) if row_loop(eqn)?.at_once() => Plan::Expand(how),
        Expands::RowLoop(_) => Plan::Stay,
    })
}

fn failed(primitive: &str, reason: impl Into<String>) -> ReadError {
    ReadError::Expansion { primitive: primitive.into(), reason: reason.into() }
}

/// The expansions of one program. JAX traces each of them once and keeps its jaxpr alive.
#[derive(Default)]
pub(crate) struct Expansions<'py>(Option<Bound<'py, PyAny>>);

impl<'py> Expansions<'py> {
    /// Traces a closed jaxpr that is equivalent to an equation. Returns `None` if JAX has none and
    /// the equation can be preserved.
    pub(crate) fn trace(
        &mut self,
        primitive: &str,
        eqn: &Bound<'py, PyAny>,
        how: Expansion,
    ) -> Result<Option<Bound<'py, PyAny>>, ReadError> {
        let py = eqn.py();
        let known = match &self.0 {
            Some(known) => known,
            None => self.0.insert(class::expansions(py)?.call0()?),
        };
        let jaxpr = known
            .call_method1(attr::of(py), (eqn, how.name()))
            .map_err(|error| failed(primitive, error.value(py).to_string()))?;
        Ok((!jaxpr.is_none()).then_some(jaxpr))
    }
}

/// Describes the iterations of a `scan`.
fn row_loop(eqn: &Bound<'_, PyAny>) -> PyResult<RowLoop> {
    let py = eqn.py();
    let params = eqn.getattr(attr::params(py))?.cast_into::<PyDict>()?;
    let (body, length) = SCAN_ROUNDS;
    let param = |name: &str| params.as_any().get_item(name);
    let (constants, carried) = match params.get_item(SCAN_OPERANDS.0)? {
        Some(tree) => {
            let parts = tree.call_method0(attr::unpack(py))?;
            (parts.get_item(0)?.len()?, parts.get_item(1)?.len()?)
        }
        None => {
            let [constants, carried] = SCAN_OPERANDS.1;
            (param(constants)?.extract()?, param(carried)?.extract()?)
        }
    };
    let operands = eqn.getattr(attr::invars(py))?.len()?;
    Ok(RowLoop {
        length: param(length)?.extract().ok(),
        carried,
        arrays: operands.saturating_sub(constants + carried),
        // This walks through the body, so it is computed only if it is needed.
        bytes: if carried == 0 { bytes(&param(body)?)? } else { None },
    })
}

/// Returns the size of the results of all equations in a jaxpr, see [`RowLoop::bytes`].
fn bytes(jaxpr: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let py = jaxpr.py();
    let open = jaxpr.getattr_opt(attr::jaxpr(py))?.unwrap_or_else(|| jaxpr.clone());
    let mut total = 0u64;
    for eqn in open.getattr(attr::eqns(py))?.try_iter()? {
        let eqn = eqn?;
        let name = eqn.getattr(attr::primitive(py))?.getattr(attr::name(py))?;
        let row = lower::primitive(name.extract()?);
        if row.is_some_and(is_open_ended) || eqn.getattr(attr::effects(py))?.is_truthy()? {
            return Ok(None);
        }
        for var in eqn.getattr(attr::outvars(py))?.try_iter()? {
            let aval = var?.getattr(attr::aval(py))?;
            let Ok(shape) = aval.getattr(attr::shape(py))?.extract::<Vec<u64>>() else {
                return Ok(None);
            };
            let dtype = aval.getattr(attr::dtype(py))?;
            let element: u64 = dtype.getattr(attr::itemsize(py))?.extract()?;
            let array = shape.iter().fold(element, |n, size| n.saturating_mul(*size));
            total = total.saturating_add(array);
        }
        for value in eqn.getattr(attr::params(py))?.call_method0("values")?.try_iter()? {
            for inner in jaxprs(value?)? {
                let Some(more) = bytes(&inner)? else { return Ok(None) };
                total = total.saturating_add(more);
            }
        }
    }
    Ok(Some(total))
}

/// Returns `true` if operands decide which jaxprs an equation runs, or how often.
fn is_open_ended(row: &Primitive) -> bool {
    matches!(row.control, Some(Control::Branches | Control::While))
}

/// Returns the jaxprs that a parameter is or lists.
fn jaxprs<'py>(param: Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = param.py();
    let is_jaxpr = |value: &Bound<'py, PyAny>| -> PyResult<bool> {
        Ok(value.is_instance(class::closed_jaxpr(py)?)? || value.is_instance(class::jaxpr(py)?)?)
    };
    let listed = param.is_instance_of::<PyTuple>() || param.is_instance_of::<PyList>();
    let values = if listed { param.try_iter()?.collect::<PyResult<_>>()? } else { vec![param] };
    let mut found = Vec::new();
    for value in values {
        if is_jaxpr(&value)? {
            found.push(value);
        }
    }
    Ok(found)
}
