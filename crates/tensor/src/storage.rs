//! Where the bytes of tensors are: in memory of a NumPy array or a mapped file, or elsewhere until they
//! are needed.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::moved::Axis;
use crate::reduced::Step;

/// Owner of a tensor's bytes: little-endian and in C order, like ONNX's `raw_data`.
pub trait Storage: Send + Sync {
    /// All bytes of the tensor.
    fn bytes(&self) -> &[u8];

    /// Whether reading takes memory that can be given back, as with a mapped file.
    fn is_mapped(&self) -> bool {
        false
    }

    /// Some bytes were read for the time being, so that memory may be given back.
    fn release(&self, _read: Range<usize>) {}
}

/// A tensor's bytes that are elsewhere until they are needed, such as on an accelerator.
pub trait Source: Send + Sync {
    /// The number of bytes.
    fn byte_len(&self) -> usize;

    /// Which they are: the same for two sources of the same bytes, while both exist.
    fn address(&self) -> usize;

    /// Brings them here. Whoever asks lets go of them before asking for those of another tensor.
    fn fetch(&self) -> io::Result<Arc<dyn Storage>>;
}

/// Where bytes are.
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

    /// The bytes, brought here if need be.
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

    /// Where they are, read as they lie.
    pub(crate) fn place(&self) -> Place {
        match self {
            Held::Here(storage) => Place::of_bytes(storage.bytes()),
            Held::Away(source) => Place {
                address: source.address(),
                bytes: source.byte_len(),
                order: Vec::new(),
                start: 0,
                computed: Vec::new(),
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

/// Where elements are in memory, and how they are read. As long as both exist, what has the same
/// place has the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    address: usize,
    bytes: usize,
    order: Vec<Axis>,
    start: usize,
    /// What is computed from the elements, the first step first.
    computed: Vec<Step>,
}

impl Place {
    /// The place of bytes that are read as they lie.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let address = bytes.as_ptr().addr();
        Self { address, bytes: bytes.len(), order: Vec::new(), start: 0, computed: Vec::new() }
    }

    /// The place of the same bytes, read in another order.
    pub(crate) fn in_order(self, order: Vec<Axis>, start: usize) -> Self {
        Self { order, start, ..self }
    }

    /// The place of what is computed from the elements.
    pub(crate) fn then(mut self, step: Step) -> Self {
        self.computed.push(step);
        self
    }
}
