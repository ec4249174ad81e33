//! Parameters of equations.

use jaxpr::Param;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyComplex, PyComplexMethods, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyMapping,
    PyRange, PySet, PyString, PyTuple,
};

use super::{Reader, Result};
use crate::error::ReadError;
use crate::jax_names::{DIM_EXPR, attr, class};

/// The conversion of objects of one Python type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    None,
    Bool,
    Int,
    Float,
    Complex,
    Str,
    Sequence,
    NamedTuple,
    Dataclass,
    Mapping,
    DType,
    Enum,
    Jaxpr,
    Array,
    Dim,
    Opaque,
}

fn classify(value: &Bound<'_, PyAny>) -> PyResult<Kind> {
    let py = value.py();
    let ty = value.get_type();
    Ok(if value.is_none() {
        Kind::None
    } else if value.is_instance(class::python_enum(py)?)?
        || value.is_instance(class::primitive(py)?)?
    {
        Kind::Enum
    } else if value.is_instance_of::<PyBool>() {
        Kind::Bool
    } else if value.is_instance_of::<PyInt>() {
        Kind::Int
    } else if value.is_instance_of::<PyFloat>() {
        Kind::Float
    } else if value.is_instance_of::<PyComplex>() {
        Kind::Complex
    } else if value.is_instance_of::<PyString>() {
        Kind::Str
    } else if value.is_instance_of::<PyTuple>() && value.hasattr(attr::_fields(py))? {
        Kind::NamedTuple
    } else if value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PySet>()
        || value.is_instance_of::<PyFrozenSet>()
        || value.is_instance_of::<PyRange>()
    {
        Kind::Sequence
    } else if value.is_instance_of::<PyDict>() {
        Kind::Mapping
    } else if value.is_instance(class::closed_jaxpr(py)?)?
        || value.is_instance(class::jaxpr(py)?)?
    {
        Kind::Jaxpr
    } else if value.is_instance(class::numpy_dtype(py)?)? {
        Kind::DType
    } else if value.is_instance(class::numpy_array(py)?)?
        || value.is_instance(class::numpy_scalar(py)?)?
        || value.is_instance(class::jax_array(py)?)?
    {
        Kind::Array
    } else if ty.name()?.to_cow()? == DIM_EXPR {
        Kind::Dim
    } else if value.hasattr(attr::__dataclass_fields__(py))? {
        Kind::Dataclass
    } else {
        Kind::Opaque
    })
}

impl<'py> Reader<'_, 'py> {
    pub(super) fn param(&mut self, value: &Bound<'py, PyAny>) -> Result<Param> {
        Ok(match self.kinds.of(value, || classify(value))? {
            Kind::None => Param::None,
            Kind::Bool => Param::Bool(value.extract()?),
            Kind::Int => match (value.extract(), value.extract::<i128>()) {
                (Ok(int), _) => Param::Int(int),
                // The largest unsigned integers do not fit a signed one.
                (Err(_), Ok(int)) => match tensor::Tensor::int_scalar(tensor::DType::U64, int) {
                    Some(tensor) => Param::Tensor(tensor),
                    None => Param::Opaque("int".into()),
                },
                _ => Param::Opaque("int".into()),
            },
            Kind::Float => Param::Float(value.extract()?),
            Kind::Complex => {
                let value = value.cast::<PyComplex>().map_err(PyErr::from)?;
                Param::Tensor(tensor::Tensor::complex_scalar(value.real(), value.imag()))
            }
            Kind::Str => Param::Str(value.extract::<String>()?.into()),
            Kind::Enum => {
                Param::Enum(value.getattr(attr::name(self.py))?.extract::<String>()?.into())
            }
            // Nearly all of them are tuples, which give their length faster than iterators.
            Kind::Sequence => Param::List(match value.cast_exact::<PyTuple>() {
                Ok(tuple) => tuple.iter().map(|item| self.param(&item)).collect::<Result<_>>()?,
                Err(_) => {
                    value.try_iter()?.map(|item| self.param(&item?)).collect::<Result<_>>()?
                }
            }),
            Kind::NamedTuple => {
                let names: Vec<String> = value.getattr(attr::_fields(self.py))?.extract()?;
                self.fields(value, names)?
            }
            Kind::Dataclass => {
                let fields = value.getattr(attr::__dataclass_fields__(self.py))?;
                let keys = fields.cast_into::<PyMapping>().map_err(PyErr::from)?.keys()?;
                self.fields(value, keys.extract()?)?
            }
            Kind::Mapping => {
                let mut fields = Vec::new();
                for (key, item) in value.cast::<PyDict>().map_err(PyErr::from)?.iter() {
                    fields.push((key.str()?.to_string().into(), self.param(&item)?));
                }
                Param::Fields(fields)
            }
            Kind::DType => match self.dtype(value) {
                Ok(dtype) => Param::DType(dtype),
                Err(ReadError::DType(name)) => Param::Opaque(name.into()),
                Err(other) => return Err(other),
            },
            Kind::Jaxpr => Param::Jaxpr(self.jaxpr(value)?),
            Kind::Array => self.array_param(value)?,
            Kind::Dim => Param::Dim(self.dim(value)?),
            Kind::Opaque => Param::Opaque(value.get_type().name()?.to_string().into()),
        })
    }

    fn fields(&mut self, value: &Bound<'py, PyAny>, names: Vec<String>) -> Result<Param> {
        let fields = names.into_iter().map(|name| {
            let field = self.param(&value.getattr(name.as_str())?)?;
            Ok((name.into(), field))
        });
        Ok(Param::Fields(fields.collect::<Result<_>>()?))
    }

    /// Reads an array. A NumPy scalar is read as a number, since JAX sometimes uses them in place
    /// of Python's.
    fn array_param(&mut self, value: &Bound<'py, PyAny>) -> Result<Param> {
        let tensor = self.array(value)?;
        if tensor.shape().is_empty() {
            if tensor.dtype() == tensor::DType::Bool {
                return Ok(Param::Bool(tensor.stored_bytes() == Some(&[1])));
            }
            if let Some([int]) = tensor.to_i64s().as_deref() {
                return Ok(Param::Int(*int));
            }
            if let Some([float]) = tensor.to_f64s().as_deref() {
                return Ok(Param::Float(*float));
            }
        }
        Ok(Param::Tensor(tensor))
    }
}
