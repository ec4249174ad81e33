//! Access to the state of Python objects without running their code.

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use pyo3::{PyTypeInfo, intern};
use rustc_hash::FxHashMap;

use crate::read::Address;

/// A cache of information by the type of objects.
pub(crate) struct ByType<T>(FxHashMap<Address, (T, Py<PyType>)>);

impl<T> Default for ByType<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<T: Clone> ByType<T> {
    /// Returns the information about the type of an object. `learn` is called once per type.
    pub(crate) fn of(
        &mut self,
        object: &Bound<'_, PyAny>,
        learn: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let kind = object.get_type_ptr() as Address;
        if let Some((known, _)) = self.0.get(&kind) {
            return Ok(known.clone());
        }
        let found = learn()?;
        // The reference keeps the address valid.
        self.0.insert(kind, (found.clone(), object.get_type().unbind()));
        Ok(found)
    }
}

/// Access to the dictionaries that objects store their attributes in.
#[derive(Debug)]
pub(crate) struct InstanceDict(Py<PyAny>);

impl InstanceDict {
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let get = PyAny::type_object(py).getattr(intern!(py, "__getattribute__"))?;
        Ok(Self(get.unbind()))
    }

    /// Returns the dictionary of an object, if it has one.
    pub(crate) fn of<'py>(
        &self,
        object: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let py = object.py();
        let found = self.0.bind(py).call1((object, intern!(py, "__dict__")));
        Ok(if_assigned(found)?.map(Bound::cast_into).transpose()?)
    }
}

/// Returns the value of an attribute that may not be assigned yet.
pub(crate) fn if_assigned(value: PyResult<Bound<'_, PyAny>>) -> PyResult<Option<Bound<'_, PyAny>>> {
    match value {
        Ok(value) => Ok(Some(value)),
        Err(error) => Python::attach(|py| {
            if error.is_instance_of::<PyAttributeError>(py) { Ok(None) } else { Err(error) }
        }),
    }
}
