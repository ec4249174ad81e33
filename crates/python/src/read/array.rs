//! Arrays: views of JAX's or NumPy's memory.

use std::sync::Arc;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use tensor::{DType, Storage, Tensor, Type};

use super::{Element, Reader, Result, address};
use crate::error::ReadError;
use crate::jax_names::{RANDOM, attr};
use crate::weight::{Weight, fetched};

/// The bytes of an array. The buffer holds a reference to the array, which does not change: JAX's
/// arrays are immutable, and NumPy arrays that a traced function closes over are only read.
pub(crate) struct ArrayBytes(PyUntypedBuffer);

impl Storage for ArrayBytes {
    fn bytes(&self) -> &[u8] {
        let (data, len) = (self.0.buf_ptr().cast::<u8>(), self.0.len_bytes());
        if len == 0 {
            return &[];
        }
        #[expect(unsafe_code, reason = "the buffer is contiguous, `len` long and alive")]
        // SAFETY: the buffer protocol guarantees `len` readable bytes at `data` until release, and
        // `self` owns the buffer. It was checked to be C-contiguous when it was created.
        unsafe {
            std::slice::from_raw_parts(data, len)
        }
    }
}

impl<'py> Reader<'_, 'py> {
    /// Reads an array that a jaxpr holds. The same object gives the same tensor.
    pub(super) fn array(&mut self, array: &Bound<'py, PyAny>) -> Result<Tensor> {
        if let Some(known) = self.arrays.get(&address(array)) {
            return Ok(known.clone());
        }
        if let Ok(weight) = array.cast::<Weight>() {
            return Ok(weight.get().tensor.clone());
        }
        let element = match array.getattr_opt(attr::dtype(self.py))? {
            Some(dtype) => Some(self.element(&dtype)?),
            None => None,
        };
        let tensor = match element {
            Some(Element { dtype, axes }) if axes.is_empty() => {
                if let Some(tensor) = as_it_lies(array, dtype) {
                    tensor
                } else if let Some(tensor) = self.elsewhere(array, dtype)? {
                    tensor
                } else {
                    self.view(array, Some(dtype))?
                }
            }
            Some(Element { dtype, .. }) => {
                let random = self.py.import(RANDOM)?;
                let integers = random.call_method1(attr::key_data(self.py), (array,))?;
                self.view(&integers, Some(dtype))?
            }
            None => self.view(array, None)?,
        };
        self.arrays.insert(address(array), tensor.clone());
        Ok(tensor)
    }

    /// Reads a constant of a jaxpr. JAX may keep a NumPy array with a wider type than its variable.
    pub(super) fn constant(&mut self, array: &Bound<'py, PyAny>, ty: &Type) -> Result<Tensor> {
        let tensor = self.array(array)?;
        if tensor.dtype() == ty.dtype { Ok(tensor) } else { self.view(array, Some(ty.dtype)) }
    }

    /// Reads a literal, which gets the type of its variable.
    pub(super) fn literal(&mut self, value: &Bound<'py, PyAny>, ty: &Type) -> Result<Tensor> {
        if ty.shape.is_empty()
            && let Some(tensor) = scalar(value, ty.dtype)
        {
            return Ok(tensor);
        }
        if let Some(dtype) = value.getattr_opt(attr::dtype(self.py))?
            && let Element { dtype, axes } = self.element(&dtype)?
            && dtype == ty.dtype
            && axes.is_empty()
        {
            // An array without axes does not expose its memory.
            let item = match ty.shape.is_empty() {
                true => value.getattr_opt(attr::item(self.py))?,
                false => None,
            };
            let found = match item {
                Some(item) => scalar(&item.call0()?, dtype),
                None => as_it_lies(value, dtype),
            };
            if let Some(tensor) = found {
                return Ok(tensor);
            }
        }
        self.view(value, Some(ty.dtype))
    }

    fn view(&mut self, array: &Bound<'py, PyAny>, dtype: Option<DType>) -> Result<Tensor> {
        let py = self.py;
        let numpy = py.import("numpy")?;
        let mut plain = numpy.call_method1(attr::asarray(py), (array,))?;
        let found = self.dtype(&plain.getattr(attr::dtype(py))?)?;
        let dtype = dtype.unwrap_or(found);
        if dtype != found {
            plain = numpy.call_method1(attr::asarray(py), (array, dtype.numpy_name()))?;
        }
        let shape: Vec<usize> = plain.getattr(attr::shape(py))?.extract()?;
        let bytes = bytes_of(&plain)?;
        let tensor = Tensor::new(dtype, &shape, stored(bytes, dtype));
        tensor.map_err(|error| ReadError::Malformed(error.to_string()))
    }

    /// Creates a tensor for a large array that is not in the memory of this machine, or not
    /// contiguous. It is copied while the model is written, one array at a time.
    fn elsewhere(&self, array: &Bound<'py, PyAny>, dtype: DType) -> Result<Option<Tensor>> {
        let py = self.py;
        let bytes = array.getattr_opt(attr::nbytes(py))?;
        if !bytes.is_some_and(|bytes| bytes.extract::<usize>().is_ok_and(|bytes| bytes >= LARGE)) {
            return Ok(None);
        }
        let fetch = py.import(DEVICES)?.call_method1("fetch_of", (array,))?;
        if fetch.is_none() {
            return Ok(None);
        }
        let shape: Vec<usize> = array.getattr(attr::shape(py))?.extract()?;
        fetched(dtype, &shape, fetch.unbind(), address(array))
            .map(Some)
            .map_err(ReadError::Malformed)
    }
}

/// Reads a Python number, including those number types of JAX and NumPy that are subclasses.
fn scalar(value: &Bound<'_, PyAny>, dtype: DType) -> Option<Tensor> {
    if let Ok(value) = value.cast::<PyFloat>() {
        return Tensor::scalar(dtype, value.value());
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Tensor::scalar(dtype, f64::from(u8::from(value.is_true())));
    }
    let value = value.cast::<PyInt>().ok()?;
    Tensor::int_scalar(dtype, value.extract().ok()?)
}

/// Reads an array that exposes its memory, without NumPy, because a model has thousands of them.
fn as_it_lies(array: &Bound<'_, PyAny>, dtype: DType) -> Option<Tensor> {
    let buffer = PyUntypedBuffer::get(array).ok()?;
    let is_swapped = matches!(buffer.format().to_bytes().first(), Some(b'>' | b'!'));
    if !buffer.is_c_contiguous() || is_swapped {
        return None;
    }
    let shape = buffer.shape().to_vec();
    Tensor::new(dtype, &shape, stored(ArrayBytes(buffer), dtype)).ok()
}

/// The module that knows the devices of arrays.
const DEVICES: &str = "jax2onnx._export.devices";

/// The minimum size of arrays that are fetched later. Smaller ones are read at once, because their
/// elements may affect the graph.
const LARGE: usize = 1 << 16;

/// Returns the bytes of a NumPy array in C order.
pub(crate) fn bytes_of(array: &Bound<'_, PyAny>) -> PyResult<ArrayBytes> {
    let py = array.py();
    let numpy = py.import("numpy")?;
    let flat = numpy.call_method1(attr::ascontiguousarray(py), (array,))?;
    let flat = flat.call_method1(attr::reshape(py), (-1,))?;
    let bytes = flat.call_method1(attr::view(py), ("uint8",))?;
    let buffer = PyUntypedBuffer::get(&bytes)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("NumPy returned a strided view"));
    }
    Ok(ArrayBytes(buffer))
}

/// Returns the elements in ONNX's storage format.
pub(crate) fn stored(bytes: ArrayBytes, dtype: DType) -> Arc<dyn Storage> {
    match dtype.bits() {
        bits @ 1..8 => Arc::new(packed(bytes.bytes(), bits)),
        _ => Arc::new(bytes),
    }
}

/// Packs elements of one byte each into ONNX's format for smaller types, the first in the lowest
/// bits.
fn packed(elements: &[u8], bits: u32) -> Vec<u8> {
    let mask = (1u8 << bits) - 1;
    let each = elements.chunks(8 / bits as usize);
    each.map(|together| {
        together.iter().rev().fold(0, |byte, element| (byte << bits) | (element & mask))
    })
    .collect()
}
