//! Immutable tensors whose bytes may be owned elsewhere.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::moved::{Axis, Moved};
use crate::reduced::Reduced;
use crate::storage::{Held, MemoryLocation, Source, Storage};
use crate::{DType, Dim, Type};

/// An error in tensor data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The number of bytes does not match the type.
    #[error("a {dtype} tensor of shape {shape:?} needs {expected} bytes, but got {actual}")]
    Length {
        /// Element type.
        dtype: DType,
        /// Shape.
        shape: Vec<usize>,
        /// The number of bytes that type and shape need.
        expected: usize,
        /// The number of bytes given.
        actual: usize,
    },
    /// The element count overflows.
    #[error("a tensor of shape {0:?} is too large")]
    TooLarge(Vec<usize>),
    /// The view is out of bounds or not byte-aligned.
    #[error("the elements of a {0} cannot be read in that order")]
    Order(Type),
}

/// An immutable tensor: element type, static shape and shared bytes. Cloning shares the bytes.
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Arc<[usize]>,
    data: Data,
}

#[derive(Clone)]
enum Data {
    Stored(Held),
    /// A strided view, put in order when it is read.
    Moved(Arc<Moved>),
    /// A conversion, computed when it is read.
    Reduced(Arc<Reduced>),
    /// Tensors that follow each other.
    Concatenated(Arc<[Tensor]>),
}

impl Data {
    fn byte_len(&self) -> usize {
        match self {
            Data::Stored(place) => place.byte_len(),
            Data::Moved(moved) => moved.byte_len(),
            Data::Reduced(reduced) => reduced.byte_len,
            Data::Concatenated(parts) => parts.iter().map(Tensor::byte_len).sum(),
        }
    }
}

/// The number of bytes that are handed out at a time.
const PIECE: usize = 8 << 20;

impl Tensor {
    /// Creates a tensor over `data`, checked against type and shape.
    pub fn new(dtype: DType, shape: &[usize], data: Arc<dyn Storage>) -> Result<Self, TensorError> {
        Self::over(dtype, shape, Data::Stored(Held::Here(data)))
    }

    /// Creates a tensor whose elements are fetched only when it is written, and unknown before.
    pub fn fetched(
        dtype: DType,
        shape: &[usize],
        source: Arc<dyn Source>,
    ) -> Result<Self, TensorError> {
        Self::over(dtype, shape, Data::Stored(Held::Away(source)))
    }

    pub(crate) fn reduced(
        dtype: DType,
        shape: &[usize],
        reduced: Reduced,
    ) -> Result<Self, TensorError> {
        Self::over(dtype, shape, Data::Reduced(Arc::new(reduced)))
    }

    fn over(dtype: DType, shape: &[usize], data: Data) -> Result<Self, TensorError> {
        let count = shape
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .filter(|n| n.checked_mul(dtype.bits() as usize).is_some())
            .ok_or_else(|| TensorError::TooLarge(shape.to_vec()))?;
        let (expected, actual) = (dtype.byte_len(count), data.byte_len());
        if expected != actual {
            return Err(TensorError::Length { dtype, shape: shape.to_vec(), expected, actual });
        }
        Ok(Self { dtype, shape: shape.into(), data })
    }

    pub(crate) fn owned(dtype: DType, shape: &[usize], bytes: Vec<u8>) -> Self {
        Self { dtype, shape: shape.into(), data: Data::Stored(Held::Here(Arc::new(bytes))) }
    }

    /// Concatenates tensors along the first axis. Their elements are read one tensor after the other.
    pub fn concatenated(&self, others: &[Tensor]) -> Result<Self, TensorError> {
        let wrong = |part: &Tensor| TensorError::Order(part.ty());
        let (&first, rest) = self.shape.split_first().ok_or_else(|| wrong(self))?;
        let mut rows = first;
        for part in others {
            let fits = part.dtype == self.dtype && part.shape.get(1..) == Some(rest);
            if !fits || !self.dtype.bits().is_multiple_of(8) {
                return Err(wrong(part));
            }
            rows += part.shape[0];
        }
        let parts = std::iter::once(self).chain(others).cloned().collect();
        Self::over(self.dtype, &[&[rows], rest].concat(), Data::Concatenated(parts))
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns `true` if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the raw bytes, little-endian and in C order. They are copied if the tensor's order
    /// or type differs from its storage. Returns `None` if they are fetched or reduced only when
    /// the tensor is written.
    pub fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        match &self.data {
            Data::Stored(place) => place.here().map(|storage| Cow::Borrowed(storage.bytes())),
            _ if self.is_known() => self.read().ok(),
            _ => None,
        }
    }

    /// Returns `true` if the elements, in whatever order, are known before the tensor is written.
    pub fn is_known(&self) -> bool {
        match &self.data {
            Data::Stored(place) => place.here().is_some(),
            Data::Moved(moved) => moved.source.here().is_some(),
            Data::Reduced(reduced) => reduced.is_known(),
            Data::Concatenated(parts) => parts.iter().all(Tensor::is_known),
        }
    }

    /// Returns the raw bytes without a copy, unless they are in another order, converted or not in
    /// memory.
    pub fn stored_bytes(&self) -> Option<&[u8]> {
        match &self.data {
            Data::Stored(place) => place.here().map(|storage| storage.bytes()),
            _ => None,
        }
    }

    /// Returns `true` if the raw bytes can be read without taking more memory.
    pub fn is_in_memory(&self) -> bool {
        match &self.data {
            Data::Stored(place) => place.here().is_some_and(|storage| !storage.is_mapped()),
            _ => false,
        }
    }

    /// Returns the number of raw bytes.
    pub fn byte_len(&self) -> usize {
        self.data.byte_len()
    }

    /// Returns the number of raw bytes of the source array, in its own type.
    pub fn source_len(&self) -> usize {
        match &self.data {
            Data::Stored(_) | Data::Moved(_) => self.byte_len(),
            Data::Reduced(reduced) => reduced.source.source_len(),
            Data::Concatenated(parts) => parts.iter().map(Tensor::source_len).sum(),
        }
    }

    /// Reads the raw bytes, and fetches or computes them if necessary.
    pub fn read(&self) -> io::Result<Cow<'_, [u8]>> {
        if let Some(stored) = self.stored_bytes() {
            return Ok(Cow::Borrowed(stored));
        }
        let mut bytes = Vec::with_capacity(self.byte_len());
        self.chunks(|chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(Cow::Owned(bytes))
    }

    /// Passes the raw bytes to `each`, one chunk at a time. A tensor that is reordered or converted
    /// is never held in memory as a whole.
    pub fn chunks(&self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match &self.data {
            Data::Stored(place) => in_storage_order(place, each),
            Data::Moved(moved) => moved.chunks(each),
            Data::Reduced(reduced) => reduced.chunks(&mut each),
            Data::Concatenated(parts) => {
                // Not generic in `each`, which would nest without an end.
                let each: &mut dyn FnMut(&[u8]) -> io::Result<()> = &mut each;
                parts.iter().try_for_each(|part| part.chunks(&mut *each))
            }
        }
    }

    /// Passes the raw bytes to `each` like [`Tensor::chunks`], with the elements in the order that
    /// is the fastest to read.
    pub(crate) fn chunks_in_any_order(
        &self,
        each: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        match &self.data {
            Data::Moved(moved) => in_storage_order(&moved.source, each),
            _ => self.chunks(each),
        }
    }

    /// Returns the conversion that computes the elements, if there is one.
    pub(crate) fn as_reduced(&self) -> Option<&Reduced> {
        match &self.data {
            Data::Reduced(reduced) => Some(reduced),
            _ => None,
        }
    }

    /// Returns the address of the elements. Tensors of one type at one address are equal.
    pub fn address(&self) -> usize {
        match &self.data {
            Data::Stored(Held::Here(storage)) => storage.bytes().as_ptr().addr(),
            Data::Stored(Held::Away(source)) => source.address(),
            Data::Moved(moved) => Arc::as_ptr(moved).addr(),
            Data::Reduced(reduced) => Arc::as_ptr(reduced).addr(),
            Data::Concatenated(parts) => Arc::as_ptr(parts).addr(),
        }
    }

    /// Returns the location of the elements, and the order that they are read in.
    pub fn place(&self) -> MemoryLocation {
        match &self.data {
            Data::Stored(held) => held.place(),
            Data::Moved(moved) => moved.source.place().in_order(moved.axes.clone(), moved.start),
            Data::Reduced(reduced) => reduced.source.place().then(reduced.step()),
            Data::Concatenated(parts) => {
                MemoryLocation::concatenated(parts.iter().map(Tensor::place).collect())
            }
        }
    }

    /// Returns a view with the axes permuted by `perm`. Elements are reordered only when they are
    /// read.
    pub fn transposed(&self, perm: &[usize]) -> Result<Self, TensorError> {
        let mut seen = vec![false; self.shape.len()];
        for &axis in perm {
            *seen.get_mut(axis).ok_or_else(|| TensorError::Order(self.ty()))? = true;
        }
        if perm.len() != seen.len() || seen.contains(&false) {
            return Err(TensorError::Order(self.ty()));
        }
        self.moved(|axes, start| (perm.iter().map(|&axis| axes[axis]).collect(), start))
    }

    /// Returns a view with the `flipped` axes reversed, read like [`Tensor::transposed`].
    pub fn reversed(&self, flipped: &[usize]) -> Result<Self, TensorError> {
        self.moved(|mut axes, mut start| {
            for (i, axis) in axes.iter_mut().enumerate() {
                if flipped.contains(&i) && axis.size > 0 {
                    start += (axis.size - 1).cast_signed() * axis.stride;
                    axis.stride = -axis.stride;
                }
            }
            (axes, start)
        })
    }

    /// Returns a view of the same elements in another order.
    fn moved(
        &self,
        order: impl FnOnce(Vec<Axis>, isize) -> (Vec<Axis>, isize),
    ) -> Result<Self, TensorError> {
        let bits = self.dtype.bits();
        if !bits.is_multiple_of(8) {
            return Err(TensorError::Order(self.ty()));
        }
        let (source, axes, start) = match &self.data {
            Data::Reduced(reduced) => {
                let source = reduced.source.reshaped(&self.shape)?.moved(order)?;
                let shape = source.shape().to_vec();
                let moved = reduced.of(source).ok_or_else(|| TensorError::Order(self.ty()))?;
                return Self::reduced(self.dtype, &shape, moved);
            }
            Data::Moved(moved)
                if moved.axes.iter().map(|a| a.size).eq(self.shape.iter().copied()) =>
            {
                (moved.source.clone(), moved.axes.clone(), moved.start.cast_signed())
            }
            Data::Stored(place) => (place.clone(), self.dense(), 0),
            // Reshaped after a move: the elements are put in order once, now or when they are fetched.
            Data::Moved(_) => {
                let held = match self.bytes() {
                    Some(bytes) => Held::Here(Arc::new(bytes.into_owned())),
                    None => Held::Away(Arc::new(InOrder(self.clone()))),
                };
                (held, self.dense(), 0)
            }
            // The copy is large, so it exists only while it is read.
            Data::Concatenated(_) => (Held::Away(Arc::new(InOrder(self.clone()))), self.dense(), 0),
        };
        let (axes, start) = order(axes, start);
        let start = usize::try_from(start).map_err(|_| TensorError::Order(self.ty()))?;
        let shape: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
        let moved = Moved { source, width: bits as usize / 8, axes, start };
        Self::over(self.dtype, &shape, Data::Moved(Arc::new(moved)))
    }

    /// Returns the axes of a contiguous tensor in C order.
    fn dense(&self) -> Vec<Axis> {
        let mut stride = 1;
        let axis = |&size: &usize| {
            let axis = Axis { size, stride };
            stride *= size.cast_signed();
            axis
        };
        let mut axes: Vec<Axis> = self.shape.iter().rev().map(axis).collect();
        axes.reverse();
        axes
    }

    /// Returns the type, with every dimension known.
    pub fn ty(&self) -> Type {
        Type::new(self.dtype, self.shape.iter().map(|&d| Dim::from(d)).collect::<Vec<_>>())
    }

    /// Returns the real and the imaginary part of a complex tensor, which stores them interleaved.
    pub fn parts(&self) -> Option<(Self, Self)> {
        if !self.dtype.is_complex() {
            return None;
        }
        let dtype = self.dtype.component();
        let width = dtype.bits() as usize / 8;
        let bytes = self.bytes()?;
        let part = |first: usize| {
            let chunks = bytes.chunks_exact(width).skip(first).step_by(2);
            Self::owned(dtype, &self.shape, chunks.flatten().copied().collect())
        };
        Some((part(0), part(1)))
    }

    /// Returns the same bytes with another shape of equally many elements.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self, TensorError> {
        Self::over(self.dtype, shape, self.data.clone())
    }

    /// Returns the elements with the opposite sign, for real floating-point types of at least 16 bits.
    pub fn negated(&self) -> Option<Self> {
        if let Data::Reduced(reduced) = &self.data {
            let negated = reduced.of(reduced.source.negated()?)?;
            return Self::over(self.dtype, &self.shape, Data::Reduced(Arc::new(negated))).ok();
        }
        let width = match self.dtype {
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => self.dtype.bits() as usize / 8,
            _ => return None,
        };
        let mut bytes = self.bytes()?.into_owned();
        for last in bytes.iter_mut().skip(width - 1).step_by(width) {
            *last ^= 0x80;
        }
        Some(Self::owned(self.dtype, &self.shape, bytes))
    }
}

fn in_storage_order(held: &Held, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let storage = held.open()?;
    let bytes = storage.bytes();
    for start in (0..bytes.len()).step_by(PIECE) {
        let piece = start..bytes.len().min(start + PIECE);
        storage.prepare(piece.clone());
        each(&bytes[piece.clone()])?;
        storage.release(piece);
    }
    Ok(())
}

/// A source that delivers a tensor's elements in the tensor's own order.
struct InOrder(Tensor);

impl Source for InOrder {
    fn byte_len(&self) -> usize {
        self.0.byte_len()
    }

    fn address(&self) -> usize {
        self.0.address()
    }

    fn fetch(&self) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(self.0.read()?.into_owned()))
    }
}

impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && (self.address() == other.address()
                || self.bytes().is_some_and(|bytes| other.bytes() == Some(bytes)))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}, {} bytes)", self.ty(), self.byte_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_checked() {
        let err = Tensor::new(DType::F32, &[2], Arc::new(vec![0u8; 7])).unwrap_err();
        assert_eq!(err.to_string(), "a f32 tensor of shape [2] needs 8 bytes, but got 7");
        let huge = Tensor::new(DType::F32, &[usize::MAX, 2], Arc::new(Vec::new()));
        assert!(matches!(huge, Err(TensorError::TooLarge(_))));
    }

    #[test]
    fn complex_numbers_have_parts() {
        let (re, im) = Tensor::complex_scalar(1.5, -2.0).parts().unwrap();
        assert_eq!((re.dtype(), re.to_f64s().unwrap()), (DType::F64, vec![1.5]));
        assert_eq!(im.to_f64s().unwrap(), [-2.0]);
        assert_eq!(re.parts(), None);
    }

    #[test]
    fn elements_are_put_in_order_when_read() {
        let x = Tensor::i64s(&[1, 2, 3, 4, 5, 6]).reshaped(&[2, 3]).unwrap();
        let t = x.transposed(&[1, 0]).unwrap();
        assert_eq!(t.shape(), [3, 2]);
        assert_eq!(t.to_i64s().unwrap(), [1, 4, 2, 5, 3, 6]);
        assert_eq!(t.stored_bytes(), None);
        assert_eq!(t.reversed(&[0]).unwrap().to_i64s().unwrap(), [3, 6, 2, 5, 1, 4]);
        assert_eq!(t.transposed(&[1, 0]).unwrap(), x);
        let flat = t.reshaped(&[6]).unwrap();
        assert_eq!(flat.reversed(&[0]).unwrap().to_i64s().unwrap(), [6, 3, 5, 2, 4, 1]);
        assert!(x.transposed(&[0, 0]).is_err() && x.transposed(&[0]).is_err());
    }

    #[test]
    fn concatenated_tensors_are_read_one_after_the_other() {
        let x = Tensor::i64s(&[1, 2, 3, 4]).reshaped(&[2, 2]).unwrap();
        let y = Tensor::i64s(&[5, 6]).reshaped(&[1, 2]).unwrap();
        let both = x.transposed(&[1, 0]).unwrap().concatenated(std::slice::from_ref(&y)).unwrap();
        assert_eq!((both.shape(), both.byte_len()), (&[3, 2][..], 48));
        assert_eq!(both.to_i64s().unwrap(), [1, 3, 2, 4, 5, 6]);
        // It is put in order when it is read.
        let moved = both.transposed(&[1, 0]).unwrap();
        let wanted = Tensor::i64s(&[1, 2, 5, 3, 4, 6]);
        assert!(!moved.is_known() && moved.read().unwrap() == wanted.read().unwrap());
        let place = |other: &Tensor| x.concatenated(std::slice::from_ref(other)).unwrap().place();
        assert!(place(&y) == place(&y.clone()) && place(&y) != place(&x) && place(&y) != x.place());
        let flat = y.reshaped(&[2]).unwrap();
        assert!(x.concatenated(std::slice::from_ref(&flat)).is_err());
    }

    fn numbers(shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        let bytes = (0..count).flat_map(|n| (n as f32).to_le_bytes()).collect();
        Tensor::owned(DType::F32, shape, bytes)
    }

    #[test]
    fn only_tensors_of_one_type_and_row_are_concatenated() {
        let whole = numbers(&[2, 3]).concatenated(&[numbers(&[1, 3])]).unwrap();
        assert_eq!(whole.to_f64s().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 1.0, 2.0]);
        let bytes = Tensor::owned(DType::I32, &[1, 3], vec![0; 12]);
        assert!(numbers(&[2, 3]).concatenated(&[bytes]).is_err());
        assert!(numbers(&[2, 3]).concatenated(&[numbers(&[3, 2])]).is_err());
        assert!(numbers(&[]).concatenated(&[numbers(&[])]).is_err());
        let nibbles = Tensor::owned(DType::I4, &[1, 2], vec![0]);
        assert!(nibbles.concatenated(std::slice::from_ref(&nibbles)).is_err());
    }

    #[test]
    fn views_are_described_by_their_source() {
        let (one, other) = (numbers(&[2, 3]), numbers(&[2, 3]));
        let twice = |tensor: &Tensor| tensor.transposed(&[1, 0]).unwrap().reversed(&[0]).unwrap();
        assert_eq!(twice(&one).place(), twice(&one).place());
        assert_ne!(twice(&one).place(), twice(&other).place());
        let both = |tensor: &Tensor| tensor.concatenated(std::slice::from_ref(&one)).unwrap();
        let (joined, apart) = (both(&one), both(&other));
        assert_eq!(twice(&joined).place(), twice(&joined).place());
        assert_ne!(twice(&joined).place(), twice(&apart).place());
        assert!(one.is_in_memory() && !twice(&one).is_in_memory());
        assert_eq!(format!("{one:?}"), "Tensor(f32[2,3], 24 bytes)");
    }

    #[test]
    fn nothing_is_reversed_along_an_axis_without_elements() {
        let none = numbers(&[0, 2]);
        assert!(none.is_empty() && !numbers(&[1]).is_empty() && !numbers(&[]).is_empty());
        assert_eq!(none.reversed(&[0]).unwrap().shape(), [0, 2]);
    }
}
