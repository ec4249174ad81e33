//! Weights that are not in memory: tensors of checkpoints, and arrays that Python fetches while the
//! model is written.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use checkpoint::{Checkpoint, Stored};
use pipeline::Family;
use provenance::Diagnostic;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensor::{DType, Source, Storage, Tensor};

use crate::error::raise;
use crate::read::array::{bytes_of, stored};

/// A weight with known type and shape. Its elements are read while the model is written.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Weight {
    pub(crate) tensor: Tensor,
}

#[pymethods]
impl Weight {
    /// Creates a weight whose elements `fetch` returns, as a NumPy array of that type and shape.
    #[staticmethod]
    fn fetched(py: Python<'_>, dtype: &str, shape: Vec<usize>, fetch: Py<PyAny>) -> PyResult<Self> {
        let dtype = DType::from_numpy_name(dtype)
            .ok_or_else(|| invalid(py, &format!("weights cannot have the type {dtype}")))?;
        let address = fetch.as_ptr().addr();
        let tensor =
            fetched(dtype, &shape, fetch, address).map_err(|problem| invalid(py, &problem))?;
        Ok(Self { tensor })
    }

    /// The sizes of its axes.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.tensor.shape().to_vec()
    }

    /// The NumPy name of its element type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.tensor.dtype().numpy_name()
    }

    /// Returns the weight with its axes in another order.
    fn transposed(&self, py: Python<'_>, axes: Vec<usize>) -> PyResult<Self> {
        let tensor = self.tensor.transposed(&axes);
        Ok(Self { tensor: tensor.map_err(|error| invalid(py, &error.to_string()))? })
    }

    /// Returns the weight with elements of another float type. Errors mention `name`.
    fn converted(&self, py: Python<'_>, dtype: &str, name: &str) -> PyResult<Self> {
        let converted = DType::from_numpy_name(dtype).map(|to| self.tensor.rounded(to, name));
        match converted {
            Some(Ok(tensor)) => Ok(Self { tensor }),
            Some(Err(error)) => Err(invalid(py, &error.to_string())),
            None => Err(invalid(py, &format!("weights cannot have the type {dtype}"))),
        }
    }

    /// Returns a copy of its elements, in row-major order.
    fn bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        match self.tensor.read() {
            Ok(bytes) => Ok(PyBytes::new(py, &bytes)),
            Err(error) => Err(invalid(py, &error.to_string())),
        }
    }
}

/// Creates a tensor whose elements a Python function returns when they are needed. `address` is
/// that of the Python object that owns them.
pub(crate) fn fetched(
    dtype: DType,
    shape: &[usize],
    fetch: Py<PyAny>,
    address: usize,
) -> Result<Tensor, String> {
    let count = shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
    let count = count.filter(|n| n.checked_mul(dtype.bits() as usize).is_some());
    let byte_len = dtype.byte_len(count.ok_or("a weight is too large")?);
    let source = Arc::new(Fetched { fetch, dtype, byte_len, address });
    Tensor::fetched(dtype, shape, source).map_err(|error| error.to_string())
}

struct Fetched {
    fetch: Py<PyAny>,
    dtype: DType,
    byte_len: usize,
    address: usize,
}

impl Source for Fetched {
    fn byte_len(&self) -> usize {
        self.byte_len
    }

    fn address(&self) -> usize {
        self.address
    }

    fn fetch(&self) -> io::Result<Arc<dyn Storage>> {
        Python::attach(|py| {
            let array = self.fetch.bind(py).call0()?;
            Ok(stored(bytes_of(&array)?, self.dtype))
        })
        .map_err(|error: PyErr| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
    }
}

/// The tensors of safetensors files.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Safetensors(Checkpoint);

#[pymethods]
impl Safetensors {
    /// Opens a file, the index of several files, or a folder with either.
    #[new]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| Checkpoint::open(&path));
        opened.map(Self).map_err(|error| invalid(py, &error.to_string()))
    }

    /// Returns the names of all tensors, in alphabetical order.
    fn names(&self) -> Vec<&str> {
        self.0.names().collect()
    }

    /// Returns the tensor with that name, or `None` if it does not exist.
    fn get(&self, py: Python<'_>, name: &str) -> PyResult<Option<Weight>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Stored::Tensor(tensor)) => Ok(Some(Weight { tensor: tensor.clone() })),
            Some(Stored::Unknown(dtype)) => {
                Err(invalid(py, &format!("`{name}` holds elements of an unknown type: {dtype}")))
            }
        }
    }
}

fn invalid(py: Python<'_>, message: &str) -> PyErr {
    let diagnostic = Diagnostic {
        code: "invalid-checkpoint",
        message: message.to_owned(),
        places: vec![],
        help: None,
    };
    raise(py, Family::InvalidInput, &diagnostic)
}
