//! The first argument of rules written in Python.

use std::sync::{Arc, Mutex};

use lower::{Context, Parts};
use onnx::ValueId;
use pipeline::Family;
use provenance::{Diagnostic, Site};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tensor::bounds::same_shape;

use super::loan::{Loan, Refused};
use super::value::Value;
use super::wrong::{Result, Wrong};
use super::{Function, Shared, operand};
use crate::error::raise;
use crate::jax_names::attr;
use crate::read::address;

/// The equation that a rule lowers, and methods that emit nodes.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct LoweringContext {
    pub(super) loan: Arc<Loan>,
    /// The number of the rule's call.
    pub(super) owner: u64,
    pub(super) eqn: Py<PyAny>,
    pub(super) function: Arc<Function>,
    pub(super) shared: Arc<Shared>,
    /// Values whose types were taken from the equation's results: the value, the index of the
    /// result, and the line.
    pub(super) assumed: Mutex<Vec<(ValueId, usize, u32)>>,
}

#[pymethods]
impl LoweringContext {
    /// The name of the primitive.
    #[getter]
    fn primitive<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.eqn.bind(py).getattr(attr::primitive(py))?.getattr(attr::name(py))
    }

    /// The JAX parameters of the equation.
    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.eqn.bind(py).getattr(attr::params(py))
    }

    /// JAX's types of the operands.
    #[getter]
    fn in_avals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        avals(&self.eqn.bind(py).getattr(attr::invars(py))?)
    }

    /// JAX's types of the results.
    #[getter]
    fn out_avals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        avals(&self.eqn.bind(py).getattr(attr::outvars(py))?)
    }

    /// The module that the equation belongs to, such as `blocks.3/attn`.
    #[getter]
    fn scope(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |cx| Ok(cx.scope_path().to_owned()))
    }

    /// Emits a node and returns its result, or a tuple of its `outputs` results.
    #[pyo3(signature = (name, /, *inputs, domain = "", outputs = None, out_types = None, **attrs))]
    #[expect(clippy::too_many_arguments, reason = "what a node consists of")]
    fn op<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        inputs: &Bound<'py, PyTuple>,
        domain: &str,
        outputs: Option<usize>,
        out_types: Option<Bound<'py, PyAny>>,
        attrs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let emitted = self.emit(py, (name, domain), inputs, outputs, out_types.as_ref(), attrs);
        let values = self.or_raise(py, emitted)?;
        match (outputs, values.as_slice()) {
            (None, [one]) => Ok(Bound::new(py, one.clone())?.into_any()),
            _ => Ok(PyTuple::new(py, values)?.into_any()),
        }
    }

    /// Adds a constant: an array, or numbers with a `dtype`.
    #[pyo3(signature = (value, dtype = None))]
    fn constant(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Value> {
        let read = || -> Result<_> {
            let dtype = dtype.map(|dtype| {
                let given = operand::dtype_of(dtype)?;
                given.ok_or_else(|| Wrong::Given(format!("`dtype` cannot be {}", shown(dtype))))
            });
            operand::tensor(value, dtype.transpose()?)
        };
        let tensor = self.or_raise(py, read())?;
        self.with(py, |cx| {
            let ty = tensor.ty();
            if ty.dtype.is_complex() {
                return Err("use `ctx.complex` to make a complex constant from its parts"
                    .to_owned()
                    .into());
            }
            Ok(Value::real_only(cx.constant(tensor), ty, self.owner))
        })
    }

    /// Creates a complex value from two real ones.
    fn complex(&self, py: Python<'_>, real: &Value, imag: &Value) -> PyResult<Value> {
        let join = || -> Result<Value> {
            let (Parts::Real(re), Parts::Real(im)) = (self.own(real)?, self.own(imag)?) else {
                return Err("`ctx.complex` takes two real values".to_owned().into());
            };
            if real.ty != imag.ty {
                let (re, im) = (&real.ty, &imag.ty);
                return Err(format!(
                    "the parts of a complex value must have the same type, but are {re} and {im}"
                )
                .into());
            }
            Ok(Value { parts: Parts::Complex(re, im), ..real.clone() })
        };
        self.or_raise(py, join())
    }

    /// Returns dimensions as a vector of 64-bit integers, computed when the model runs if
    /// necessary.
    fn dims(&self, py: Python<'_>, shape: &Bound<'_, PyAny>) -> PyResult<Value> {
        let dims = self.or_raise(py, operand::dims(shape))?;
        let site = self.site(py)?;
        self.with(py, |cx| {
            let vector = cx.at(site, |cx| cx.dims(&dims)).map_err(Wrong::from)?;
            Ok(Value::real_only(vector, cx.ty(vector).clone(), self.owner))
        })
    }

    /// Inlines a jaxpr among the equation's parameters, called with `inputs`. Returns its results.
    #[pyo3(signature = (jaxpr, /, *inputs))]
    fn inline<'py>(
        &self,
        py: Python<'py>,
        jaxpr: &Bound<'py, PyAny>,
        inputs: Vec<PyRef<'py, Value>>,
    ) -> PyResult<Vec<Value>> {
        let parts = self.or_raise(py, self.given(&inputs))?;
        let known = self.shared.jaxprs.get(&address(jaxpr)).copied().ok_or_else(|| {
            let ty = jaxpr.get_type();
            Wrong::Given(format!("this `{ty}` is not a jaxpr among the equation's parameters"))
        });
        let id = self.or_raise(py, known)?;
        let site = self.site(py)?;
        self.with(py, |cx| {
            let inner = cx.jaxpr(id);
            if inner.inputs.len() != parts.len() {
                let (want, got) = (inner.inputs.len(), parts.len());
                return Err(format!("the jaxpr takes {want} values, not {got}").into());
            }
            for (i, (var, value)) in inner.inputs.iter().zip(&inputs).enumerate() {
                let want = inner.ty(*var);
                let same = want.dtype.is_complex() == value.parts.is_complex()
                    && want.dtype.component() == value.ty.dtype
                    && same_shape(&want.shape, &value.ty.shape);
                if !same {
                    let reason = format!("the jaxpr takes {want} as value {i}, not {}", value.ty);
                    return Err(reason.into());
                }
            }
            let flat: Vec<ValueId> = parts.iter().flat_map(|p| p.flat()).collect();
            let results = cx.at(site, |cx| cx.inline(id, &flat));
            let mut flat = results.map_err(Wrong::from)?.into_iter();
            let results = inner.outputs.iter().map_while(|atom| {
                let first = flat.next()?;
                let complex = inner.atom_ty(atom).dtype.is_complex();
                let parts =
                    if complex { Parts::Complex(first, flat.next()?) } else { Parts::Real(first) };
                Some(self.value(cx, parts))
            });
            Ok(results.collect())
        })
    }

    /// Applies the built-in rule for the primitive to `inputs`.
    #[pyo3(signature = (*inputs))]
    fn built_in(&self, py: Python<'_>, inputs: Vec<PyRef<'_, Value>>) -> PyResult<Vec<Value>> {
        let parts = self.or_raise(py, self.given(&inputs))?;
        self.with(py, |cx| {
            let row = lower::primitive(&cx.eqn().primitive);
            if row.is_some_and(|row| !row.takes_every_equation()) {
                let reason = format!("`{}` has no built-in rule to call", cx.eqn().primitive);
                return Err(reason.into());
            }
            if parts.len() != cx.eqn().inputs.len() {
                let want = cx.eqn().inputs.len();
                return Err(format!("the rule takes {want} values, not {}", parts.len()).into());
            }
            let results = cx.built_in(&parts).map_err(Wrong::from)?;
            Ok(results.into_iter().map(|parts| self.value(cx, parts)).collect())
        })
    }

    /// Raises an `UnsupportedError` at the equation's line in the program.
    #[pyo3(signature = (reason, help = None))]
    fn unsupported(&self, py: Python<'_>, reason: String, help: Option<String>) -> PyResult<()> {
        let code = "unsupported-equation";
        let diagnostic = Diagnostic { code, message: reason, places: Vec::new(), help };
        Err(raise(py, Family::Unsupported, &diagnostic))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("LoweringContext({})", self.primitive(py)?))
    }
}

impl LoweringContext {
    /// Runs `job` with the lent context. Nothing in `job` may call Python.
    pub(super) fn with<T>(
        &self,
        py: Python<'_>,
        job: impl FnOnce(&mut Context<'_>) -> Result<T>,
    ) -> PyResult<T> {
        let done = self.loan.with(job).unwrap_or_else(|refused| {
            Err(Wrong::Given(match refused {
                Refused::Over => "the context was used after its rule returned".to_owned(),
                Refused::Busy => "the context is already in use".to_owned(),
            }))
        });
        self.or_raise(py, done)
    }

    pub(super) fn or_raise<T>(&self, py: Python<'_>, done: Result<T>) -> PyResult<T> {
        done.map_err(|wrong| wrong.raise(py, &self.shared))
    }

    /// Returns the values that `value` consists of, unless it belongs to another call of a rule.
    pub(super) fn own(&self, value: &Value) -> Result<Parts> {
        if value.owner == self.owner {
            Ok(value.parts)
        } else {
            Err(format!("{} belongs to another call of a rule", value.text()).into())
        }
    }

    fn given(&self, values: &[PyRef<'_, Value>]) -> Result<Vec<Parts>> {
        values.iter().map(|value| self.own(value)).collect()
    }

    pub(super) fn value(&self, cx: &Context<'_>, parts: Parts) -> Value {
        Value { parts, ty: cx.ty(parts.re()).clone(), owner: self.owner }
    }

    /// Returns the line of the rule that is being executed.
    pub(super) fn site(&self, py: Python<'_>) -> PyResult<Site> {
        let mut frame = py.import("sys")?.call_method0("_getframe")?;
        while !frame.is_none() {
            if frame.getattr("f_code")?.is(&self.function.code) {
                return Ok(Site::Custom(self.function.file, frame.getattr("f_lineno")?.extract()?));
            }
            frame = frame.getattr("f_back")?;
        }
        Ok(Site::Custom(self.function.file, self.function.line))
    }
}

fn avals<'py>(vars: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let avals = vars.try_iter()?.map(|var| var?.getattr(attr::aval(vars.py())));
    PyTuple::new(vars.py(), avals.collect::<PyResult<Vec<_>>>()?)
}

fn shown(object: &Bound<'_, PyAny>) -> String {
    object.repr().map_or_else(|_| object.get_type().to_string(), |text| text.to_string())
}
