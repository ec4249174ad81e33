//! Converts the operands, attributes and types that rules pass.

use std::sync::Arc;

use onnx::schema::{self, Arity, AttrKind, Schema};
use onnx::{Attr, Op};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use tensor::{DType, Dim, Shape, Tensor, Type};

use super::value::Value;
use super::wrong::Result;
use crate::jax_names::{attr, class};

/// An operand of an operator.
pub(super) enum Operand<'py> {
    /// An optional one that is omitted.
    Nothing,
    Value(Value),
    Array(Tensor),
    /// Numbers whose element type follows from the operator.
    Numbers(Bound<'py, PyAny>),
}

impl<'py> Operand<'py> {
    pub(super) fn new(object: &Bound<'py, PyAny>) -> Result<Self> {
        if object.is_none() {
            return Ok(Operand::Nothing);
        }
        if let Ok(value) = object.cast::<Value>() {
            return Ok(Operand::Value(value.get().clone()));
        }
        let plain = object.is_instance_of::<PyBool>()
            || object.is_instance_of::<PyInt>()
            || object.is_instance_of::<PyFloat>()
            || object.is_instance_of::<PyList>()
            || object.is_instance_of::<PyTuple>();
        if plain {
            return Ok(Operand::Numbers(object.clone()));
        }
        if is_array(object)? {
            return Ok(Operand::Array(tensor(object, None)?));
        }
        let ty = object.get_type().name()?.to_string();
        Err(format!("an operand must be a value, an array, numbers or None, not `{ty}`").into())
    }

    fn dtype(&self) -> Option<DType> {
        match self {
            Operand::Value(value) => Some(value.ty.dtype),
            Operand::Array(tensor) => Some(tensor.dtype()),
            Operand::Nothing | Operand::Numbers(_) => None,
        }
    }
}

/// Returns the element type of the numbers at `index` among `operands`: that of the operands that
/// must have the same type, or the only one that the operator accepts there.
pub(super) fn numbers_dtype(op: &Op, operands: &[Operand<'_>], index: usize) -> Option<DType> {
    let schema = schema::versions(op).last()?;
    let param = schema.input(index)?;
    let alike = |(i, operand): (usize, &Operand<'_>)| {
        let other = schema.input(i)?;
        let bound = other.types == param.types && !matches!(other.arity, Arity::Mixed(_));
        operand.dtype().filter(|_| bound)
    };
    let bound = operands.iter().enumerate().find_map(alike);
    bound.or_else(|| schema.types[param.types].allowed.single())
}

fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    Ok(object.is_instance(class::numpy_array(py)?)?
        || object.is_instance(class::numpy_scalar(py)?)?
        || object.is_instance(class::jax_array(py)?)?)
}

/// Copies an array or numbers. Fails if a fraction would become an integer.
pub(super) fn tensor(object: &Bound<'_, PyAny>, dtype: Option<DType>) -> Result<Tensor> {
    let py = object.py();
    let numpy = py.import("numpy")?;
    let mut array = numpy.call_method1(attr::asarray(py), (object,))?;
    let found: String = array.getattr(attr::dtype(py))?.getattr(attr::name(py))?.extract()?;
    let found = DType::from_numpy_name(&found)
        .ok_or_else(|| format!("the element type `{found}` does not exist in ONNX"))?;
    let dtype = dtype.unwrap_or(found);
    if dtype != found {
        let count: usize = array.getattr("size")?.extract()?;
        if found.is_float() && !dtype.is_float() && !dtype.is_complex() && count > 0 {
            return Err(format!("{} is not of type {dtype}", object.repr()?).into());
        }
        array = array.call_method1("astype", (dtype.numpy_name(),))?;
    }
    if dtype.bits() < 8 {
        return Err(format!("constants of type {dtype} are not supported").into());
    }
    let shape: Vec<usize> = array.getattr(attr::shape(py))?.extract()?;
    let bytes: Vec<u8> = array.call_method0("tobytes")?.extract()?;
    Tensor::new(dtype, &shape, Arc::new(bytes)).map_err(|error| error.to_string().into())
}

/// Converts the attribute `name` of `op`. Its kind follows from the operator if it is ONNX's own,
/// and otherwise from its Python type.
pub(super) fn attribute(op: &Op, name: &str, value: &Bound<'_, PyAny>) -> Result<Attr> {
    let versions = schema::versions(op);
    let Some(latest) = versions.last() else { return by_type(name, value) };
    let Some(spec) = versions.iter().rev().find_map(|schema| schema.attr(name)) else {
        return Err(format!("`{}` has no attribute `{name}`{}", op.name, its(latest)).into());
    };
    let as_kind = || -> PyResult<Option<Attr>> {
        Ok(match spec.kind {
            AttrKind::Int => match dtype_of(value)? {
                Some(dtype) => Some(Attr::from(dtype)),
                None => value.extract().ok().map(Attr::Int),
            },
            AttrKind::Float => value.extract().ok().map(Attr::Float),
            AttrKind::String => value.extract::<String>().ok().map(|s| Attr::String(s.into())),
            AttrKind::Ints => value.extract().ok().map(Attr::Ints),
            AttrKind::Floats => value.extract().ok().map(Attr::Floats),
            AttrKind::Strings => value.extract::<Vec<String>>().ok().map(strings),
            AttrKind::Tensor | AttrKind::Graph | AttrKind::Other => None,
        })
    };
    match (as_kind()?, spec.kind) {
        (Some(attr), _) => Ok(attr),
        (None, AttrKind::Tensor) => Ok(Attr::Tensor(tensor(value, None)?)),
        (None, AttrKind::Graph) => {
            Err("rules cannot emit operators with subgraphs".to_owned().into())
        }
        (None, kind) => {
            let shown = value.repr()?;
            Err(format!("the attribute `{name}` of `{}` is {kind:?}, not {shown}", op.name).into())
        }
    }
}

fn its(schema: &Schema) -> String {
    let names: Vec<String> = schema.attrs.iter().map(|spec| format!("`{}`", spec.name)).collect();
    if names.is_empty() {
        " or any other".to_owned()
    } else {
        format!("; it has {}", names.join(", "))
    }
}

fn strings(texts: Vec<String>) -> Attr {
    Attr::Strings(texts.into_iter().map(Into::into).collect())
}

fn by_type(name: &str, value: &Bound<'_, PyAny>) -> Result<Attr> {
    if let Some(dtype) = dtype_of(value)? {
        return Ok(Attr::from(dtype));
    }
    if is_array(value)? {
        return Ok(Attr::Tensor(tensor(value, None)?));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Attr::String(text.to_string().into()));
    }
    let attr = if value.is_instance_of::<PyInt>() {
        value.extract().ok().map(Attr::Int)
    } else if value.is_instance_of::<PyFloat>() {
        value.extract().ok().map(Attr::Float)
    } else if let Ok(texts) = value.extract::<Vec<String>>() {
        (!texts.is_empty()).then(|| strings(texts))
    } else if let Ok(ints) = value.extract().map(Attr::Ints) {
        Some(ints)
    } else {
        value.extract().ok().map(Attr::Floats)
    };
    attr.ok_or_else(|| {
        let shown = value.repr().map(|r| r.to_string()).unwrap_or_default();
        format!("the attribute `{name}` cannot be {shown}; pass an integer, a number, a string, an array or a list").into()
    })
}

/// Returns the element type that an object represents, such as `np.dtype("int64")` or `jnp.int64`.
pub(super) fn dtype_of(object: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    let py = object.py();
    let is_type = object.is_instance_of::<PyType>();
    if !is_type && !object.is_instance(class::numpy_dtype(py)?)? {
        return Ok(None);
    }
    let dtype = py.import("numpy")?.call_method1(attr::dtype(py), (object,))?;
    let name: String = dtype.getattr(attr::name(py))?.extract()?;
    Ok(DType::from_numpy_name(&name))
}

/// Returns the type of an object with a shape and an element type.
pub(super) fn type_of(object: &Bound<'_, PyAny>) -> Result<Type> {
    let py = object.py();
    if let Ok(value) = object.cast::<Value>() {
        return Ok(value.get().ty.clone());
    }
    let parts = (object.getattr_opt(attr::shape(py))?, object.getattr_opt(attr::dtype(py))?);
    let (Some(shape), Some(dtype)) = parts else {
        let shown = object.repr()?;
        return Err(format!("a type must have a shape and a dtype, but {shown} does not").into());
    };
    let name: String = match dtype.getattr_opt(attr::name(py))? {
        Some(name) => name.extract()?,
        None => dtype.str()?.to_string(),
    };
    let dtype = DType::from_numpy_name(&name)
        .ok_or_else(|| format!("the element type `{name}` does not exist in ONNX"))?;
    Ok(Type::new(dtype, dims(&shape)?))
}

/// Parses dimensions: integers, or expressions such as JAX's `2*B`.
pub(super) fn dims(shape: &Bound<'_, PyAny>) -> Result<Shape> {
    let dim = |dim: PyResult<Bound<'_, PyAny>>| -> Result<Dim> {
        let dim = dim?;
        if let Ok(known) = dim.extract::<i64>() {
            return Ok(Dim::Known(known));
        }
        let text = dim.str()?.to_string();
        Dim::parse(&text).map_err(|error| error.to_string().into())
    };
    shape.try_iter()?.map(dim).collect()
}
