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
pub(super) enum ParamKind {
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

fn classify(value: &Bound<'_, PyAny>) -> PyResult<ParamKind> {
    let py = value.py();
    let ty = value.get_type();
    Ok(if value.is_none() {
        ParamKind::None
    } else if value.is_instance(class::python_enum(py)?)?
        || value.is_instance(class::primitive(py)?)?
    {
        ParamKind::Enum
    } else if value.is_instance_of::<PyBool>() {
        ParamKind::Bool
    } else if value.is_instance_of::<PyInt>() {
        ParamKind::Int
    } else if value.is_instance_of::<PyFloat>() {
        ParamKind::Float
    } else if value.is_instance_of::<PyComplex>() {
        ParamKind::Complex
    } else if value.is_instance_of::<PyString>() {
        ParamKind::Str
    } else if value.is_instance_of::<PyTuple>() && value.hasattr(attr::_fields(py))? {
        ParamKind::NamedTuple
    } else if value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PySet>()
        || value.is_instance_of::<PyFrozenSet>()
        || value.is_instance_of::<PyRange>()
    {
        ParamKind::Sequence
    } else if value.is_instance_of::<PyDict>() {
        ParamKind::Mapping
    } else if value.is_instance(class::closed_jaxpr(py)?)?
        || value.is_instance(class::jaxpr(py)?)?
    {
        ParamKind::Jaxpr
    } else if value.is_instance(class::numpy_dtype(py)?)? {
        ParamKind::DType
    } else if value.is_instance(class::numpy_array(py)?)?
        || value.is_instance(class::numpy_scalar(py)?)?
        || value.is_instance(class::jax_array(py)?)?
    {
        ParamKind::Array
    } else if ty.name()?.to_cow()? == DIM_EXPR {
        ParamKind::Dim
    } else if value.hasattr(attr::__dataclass_fields__(py))? {
        ParamKind::Dataclass
    } else {
        ParamKind::Opaque
    })
}

impl<'py> Reader<'_, 'py> {
    pub(super) fn param(&mut self, value: &Bound<'py, PyAny>) -> Result<Param> {
        Ok(match self.kinds.of(value, || classify(value))? {
            ParamKind::None => Param::None,
            ParamKind::Bool => Param::Bool(value.extract()?),
            ParamKind::Int => match (value.extract(), value.extract::<i128>()) {
                (Ok(int), _) => Param::Int(int),
                // The largest unsigned integers do not fit a signed one.
                (Err(_), Ok(int)) => match tensor::Tensor::int_scalar(tensor::DType::U64, int) {
                    Some(tensor) => Param::Tensor(tensor),
                    None => Param::Opaque("int".into()),
                },
                _ => Param::Opaque("int".into()),
            },
            ParamKind::Float => Param::Float(value.extract()?),
            ParamKind::Complex => {
                let value = value.cast::<PyComplex>().map_err(PyErr::from)?;
                Param::Tensor(tensor::Tensor::complex_scalar(value.real(), value.imag()))
            }
            ParamKind::Str => Param::Str(value.extract::<String>()?.into()),
            ParamKind::Enum => {
                Param::Enum(value.getattr(attr::name(self.py))?.extract::<String>()?.into())
            }
            // Nearly all of them are tuples, which give their length faster than iterators.
            ParamKind::Sequence => Param::List(match value.cast_exact::<PyTuple>() {
                Ok(tuple) => tuple.iter().map(|item| self.param(&item)).collect::<Result<_>>()?,
                Err(_) => {
                    value.try_iter()?.map(|item| self.param(&item?)).collect::<Result<_>>()?
                }
            }),
            ParamKind::NamedTuple => {
                let names: Vec<String> = value.getattr(attr::_fields(self.py))?.extract()?;
                self.fields(value, names)?
            }
            ParamKind::Dataclass => {
                let fields = value.getattr(attr::__dataclass_fields__(self.py))?;
                let keys = fields.cast_into::<PyMapping>().map_err(PyErr::from)?.keys()?;
                self.fields(value, keys.extract()?)?
            }
            ParamKind::Mapping => {
                let mut fields = Vec::new();
                for (key, item) in value.cast::<PyDict>().map_err(PyErr::from)?.iter() {
                    fields.push((key.str()?.to_string().into(), self.param(&item)?));
                }
                Param::Fields(fields)
            }
            ParamKind::DType => match self.dtype(value) {
                Ok(dtype) => Param::DType(dtype),
                Err(ReadError::DType(name)) => Param::Opaque(name.into()),
                Err(other) => return Err(other),
            },
            ParamKind::Jaxpr => Param::Jaxpr(self.jaxpr(value)?),
            ParamKind::Array => self.array_param(value)?,
            ParamKind::Dim => Param::Dim(self.dim(value)?),
            ParamKind::Opaque => Param::Opaque(value.get_type().name()?.to_string().into()),
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
