//! Storage of tensor bytes: the memory of a NumPy array, a mapped file, or a source that is fetched
//! on demand.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::moved::Axis;
use crate::reduced::Conversion;

/// Owner of a tensor's bytes: little-endian and in C order, like ONNX's `raw_data`.
pub trait Storage: Send + Sync {
    /// Returns all bytes of the tensor.
    fn bytes(&self) -> &[u8];

    /// Returns `true` if reading takes memory that can be given back, as with a mapped file.
    fn is_mapped(&self) -> bool {
        false
    }

    /// Announces that some bytes are read next, so that they may be loaded together.
    fn prepare(&self, _read: Range<usize>) {}

    /// Announces that some bytes are no longer needed for now, so that their memory may be given
    /// back.
    fn release(&self, _read: Range<usize>) {}
}

/// A source of tensor bytes that are fetched on demand, such as from an accelerator.
pub trait Source: Send + Sync {
    /// Returns the number of bytes.
    fn byte_len(&self) -> usize;

    /// Returns an identity: equal for two sources of the same bytes, while both exist.
    fn address(&self) -> usize;

    /// Fetches the bytes. Callers drop them before they fetch those of another tensor.
    fn fetch(&self) -> io::Result<Arc<dyn Storage>>;
}

/// Bytes in memory, or a source of them.
#[derive(Clone)]
pub(crate) enum Held {
    Here(Arc<dyn Storage>),
    Away(Arc<dyn Source>),
}

impl Held {
    pub(crate) fn byte_len(&self) -> usize {
        match self {
            Held::Here(storage) => storage.bytes().len(),
            Held::Away(source) => source.byte_len(),
        }
    }

    /// Returns the bytes, fetched if necessary.
    pub(crate) fn open(&self) -> io::Result<Arc<dyn Storage>> {
        let storage = match self {
            Held::Here(storage) => return Ok(Arc::clone(storage)),
            Held::Away(source) => source.fetch()?,
        };
        let (expected, actual) = (self.byte_len(), storage.bytes().len());
        if actual != expected {
            let problem = format!("a tensor of {expected} bytes arrived as {actual} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(storage)
    }

    /// Returns the place of the bytes, read in their stored order.
    pub(crate) fn place(&self) -> MemoryLocation {
        match self {
            Held::Here(storage) => MemoryLocation::of_bytes(storage.bytes()),
            Held::Away(source) => MemoryLocation {
                address: source.address(),
                bytes: source.byte_len(),
                ..MemoryLocation::default()
            },
        }
    }

    pub(crate) fn here(&self) -> Option<&Arc<dyn Storage>> {
        match self {
            Held::Here(storage) => Some(storage),
            Held::Away(_) => None,
        }
    }
}

impl Storage for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// The location of elements in memory, and the way they are read. While both exist, two tensors
/// with the same place have the same bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoryLocation {
    address: usize,
    bytes: usize,
    order: Vec<Axis>,
    start: usize,
    /// The conversions applied to the elements, in order.
    computed: Vec<Conversion>,
    /// The locations of concatenated tensors, if there are several.
    parts: Vec<MemoryLocation>,
}

impl MemoryLocation {
    /// Returns the place of bytes that are read in their stored order.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let address = bytes.as_ptr().addr();
        Self { address, bytes: bytes.len(), ..Self::default() }
    }

    /// Returns the place of elements that are read one part after the other.
    pub(crate) fn concatenated(parts: Vec<Self>) -> Self {
        Self { parts, ..Self::default() }
    }

    /// Returns the place of the same bytes, read in another order.
    pub(crate) fn in_order(self, order: Vec<Axis>, start: usize) -> Self {
        Self { order, start, ..self }
    }

    /// Returns the place of elements that `step` computes from these.
    pub(crate) fn then(mut self, step: Conversion) -> Self {
        self.computed.push(step);
        self
    }
}
