//! Recorded programs as plain Python data, for running them with JAX again.

use std::sync::Arc;

use jaxpr::text::{self, Document};
use jaxpr::{Atom, Eqn, Jaxpr, Param, Params};
use pipeline::Family;
use provenance::{Diagnostic, FrameKind, StackId, Stacks};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tensor::{Dim, Shape, Tensor, Type};

use crate::error::raise;

/// The maximum total size in bytes of arrays without recorded values.
const LIMIT: usize = 8 << 30;

/// Parses the text that `record` writes. Values that have no type in Python are pairs of their kind
/// and their contents. Sequences are lists.
#[pyfunction]
pub(crate) fn read_recording<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
    let Document { header, program, stacks, elided, external, .. } = text::parse(text, LIMIT)
        .map_err(|error| {
            let diagnostic = Diagnostic {
                code: "invalid-recording",
                message: error.to_string(),
                places: vec![],
                help: None,
            };
            raise(py, Family::InvalidInput, &diagnostic)
        })?;
    let found = PyDict::new(py);
    found.set_item("header", fields(py, &header.0)?)?;
    found.set_item("main", program.main.map(|main| main.0))?;
    let jaxprs = program.jaxprs.iter().map(|one| jaxpr(py, one, &stacks));
    found.set_item("jaxprs", jaxprs.collect::<PyResult<Vec<_>>>()?)?;
    found.set_item("constraints", program.constraints.texts().collect::<Vec<_>>())?;
    let elided = elided.iter().map(|(name, ty)| Ok((name.as_deref(), type_of(py, ty)?)));
    found.set_item("elided", elided.collect::<PyResult<Vec<_>>>()?)?;
    found.set_item("external", external.iter().map(|name| &**name).collect::<Vec<_>>())?;
    Ok(found)
}

fn jaxpr<'py>(py: Python<'py>, one: &Jaxpr, stacks: &Stacks) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    let types = one.vars.iter().map(|ty| type_of(py, ty));
    found.set_item("types", types.collect::<PyResult<Vec<_>>>()?)?;
    let consts = one
        .consts
        .iter()
        .map(|(var, constant)| Ok((var.0, array(py, &constant.tensor)?, constant.name.as_deref())));
    found.set_item("consts", consts.collect::<PyResult<Vec<_>>>()?)?;
    found.set_item("inputs", one.inputs.iter().map(|var| var.0).collect::<Vec<_>>())?;
    let eqns = one.eqns.iter().map(|eqn| equation(py, eqn, stacks));
    found.set_item("eqns", eqns.collect::<PyResult<Vec<_>>>()?)?;
    let outputs = one.outputs.iter().map(|atom| operand(py, atom));
    found.set_item("outputs", outputs.collect::<PyResult<Vec<_>>>()?)?;
    Ok(found)
}

fn equation<'py>(py: Python<'py>, eqn: &Eqn, stacks: &Stacks) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("primitive", &*eqn.primitive)?;
    let inputs = eqn.inputs.iter().map(|atom| operand(py, atom));
    found.set_item("inputs", inputs.collect::<PyResult<Vec<_>>>()?)?;
    found.set_item("outputs", eqn.outputs.iter().map(|var| var.0).collect::<Vec<_>>())?;
    found.set_item("params", params(py, &eqn.params)?)?;
    found.set_item("scope", &*eqn.scope)?;
    found.set_item("line", eqn.stack.and_then(|stack| line(stacks, stack)))?;
    Ok(found)
}

/// Returns the file, the line and the function of the innermost frame in the user's code.
fn line(stacks: &Stacks, stack: StackId) -> Option<(String, u32, String)> {
    let frame = stacks.frames(stack).find(|frame| frame.kind == FrameKind::User)?;
    Some((frame.file.to_string(), frame.span.line, frame.function.to_string()))
}

fn operand<'py>(py: Python<'py>, atom: &Atom) -> PyResult<Bound<'py, PyAny>> {
    match atom {
        Atom::Var(var) => Ok(var.0.into_pyobject(py)?.into_any()),
        Atom::Literal(tensor) => array(py, tensor),
    }
}

fn array<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyBytes::new(py, &tensor.read()?);
    let contents = (tensor.dtype().numpy_name(), tensor.shape().to_vec(), bytes);
    Ok(("array", contents).into_pyobject(py)?.into_any())
}

fn type_of<'py>(py: Python<'py>, ty: &Type) -> PyResult<Bound<'py, PyAny>> {
    let shape = shape(py, &ty.shape)?;
    Ok((ty.dtype.numpy_name(), shape).into_pyobject(py)?.into_any())
}

fn shape<'py>(py: Python<'py>, shape: &Shape) -> PyResult<Bound<'py, PyList>> {
    let dims = shape.iter().map(|dim| size(py, dim)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, dims)
}

/// Returns a dimension as an integer, or as its text if it is symbolic.
fn size<'py>(py: Python<'py>, dim: &Dim) -> PyResult<Bound<'py, PyAny>> {
    match dim {
        Dim::Known(size) => Ok(size.into_pyobject(py)?.into_any()),
        symbolic => Ok(("dim", symbolic.to_string()).into_pyobject(py)?.into_any()),
    }
}

fn params<'py>(py: Python<'py>, params: &Params) -> PyResult<Bound<'py, PyDict>> {
    fields(py, &params.0)
}

fn fields<'py>(py: Python<'py>, fields: &[(Arc<str>, Param)]) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    for (name, value) in fields {
        found.set_item(&**name, param(py, value)?)?;
    }
    Ok(found)
}

fn param<'py>(py: Python<'py>, value: &Param) -> PyResult<Bound<'py, PyAny>> {
    let tagged = |kind: &str, text: &str| Ok((kind, text).into_pyobject(py)?.into_any());
    match value {
        Param::None => Ok(py.None().into_bound(py)),
        Param::Bool(value) => Ok(value.into_pyobject(py)?.to_owned().into_any()),
        Param::Int(value) => Ok(value.into_pyobject(py)?.into_any()),
        Param::Float(value) => Ok(value.into_pyobject(py)?.into_any()),
        Param::Str(value) => Ok((&**value).into_pyobject(py)?.into_any()),
        Param::Enum(value) => tagged("enum", value),
        Param::DType(value) => tagged("dtype", value.numpy_name()),
        Param::Opaque(value) => tagged("opaque", value),
        Param::Dim(value) => size(py, value),
        Param::Jaxpr(value) => Ok(("jaxpr", value.0).into_pyobject(py)?.into_any()),
        Param::Tensor(value) => array(py, value),
        Param::Fields(inner) => Ok(fields(py, inner)?.into_any()),
        Param::List(items) => {
            let items = items.iter().map(|item| param(py, item)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, items)?.into_any())
        }
    }
}
