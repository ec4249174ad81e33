//! Values, as rules use them.

use lower::Parts;
use onnx::ValueId;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor::{DType, Dim, Type};

/// A value of the model under construction.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(super) parts: Parts,
    /// The type of its parts.
    pub(super) ty: Type,
    /// The number of the rule's call that it belongs to.
    pub(super) owner: u64,
}

impl Value {
    pub(super) fn real_only(value: ValueId, ty: Type, owner: u64) -> Self {
        Self { parts: Parts::Real(value), ty, owner }
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}", if self.parts.is_complex() { "complex " } else { "" }, self.ty)
    }
}

#[pymethods]
impl Value {
    /// The shape: an integer, or a string such as `2*B`, for each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let dims = self.ty.shape.iter().map(|dim| match dim {
            Dim::Known(size) => Ok(size.into_pyobject(py)?.into_any()),
            Dim::Symbolic(_) => Ok(dim.to_string().into_pyobject(py)?.into_any()),
        });
        PyTuple::new(py, dims.collect::<PyResult<Vec<_>>>()?)
    }

    /// The element type as a NumPy dtype.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let name = match (self.parts.is_complex(), self.ty.dtype) {
            (false, dtype) => dtype.numpy_name(),
            (true, DType::F64) => "complex128",
            (true, _) => "complex64",
        };
        py.import("numpy")?.call_method1("dtype", (name,))
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.ty.rank()
    }

    /// `True` for a complex value, which is two values, since ONNX has no complex numbers.
    #[getter]
    fn is_complex(&self) -> bool {
        self.parts.is_complex()
    }

    /// The real part, or the value itself if it is real.
    #[getter]
    fn real(&self) -> Self {
        Self { parts: Parts::Real(self.parts.re()), ..self.clone() }
    }

    /// The imaginary part, or `None` for a real value.
    #[getter]
    fn imag(&self) -> Option<Self> {
        match self.parts {
            Parts::Real(_) => None,
            Parts::Complex(_, im) => Some(Self { parts: Parts::Real(im), ..self.clone() }),
        }
    }

    fn __repr__(&self) -> String {
        format!("Value({})", self.text())
    }
}
