//! Weights in another type, computed only while they are read, so a quantised model needs no second
//! copy of the weights.

mod block;
pub(crate) mod floats;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, Mutex};

use self::block::{Parts, Quantizer, packed};
use self::floats::{convert, decode, encode, is_float};
use crate::{DType, Tensor, TensorError};

/// The block-wise quantisation of a matrix to small integers. A block consists of neighbours in a
/// column or in a row. They share a scale, and a zero point if the integers are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// The integer type. Signed integers are multiples of the scale, unsigned ones count from a
    /// zero point.
    pub dtype: DType,
    /// The number of elements that share a scale.
    pub size: usize,
    /// The element type of scales.
    pub scale: DType,
    /// The direction of blocks, and the order of integers.
    pub layout: BlockLayout,
}

/// The direction of blocks in a matrix, and the order of their integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockLayout {
    /// Blocks run along columns.
    Columns,
    /// Blocks run along rows. Rows of four-bit integers are stored as bytes, so that operators that
    /// move only whole bytes can select rows: the lower halves of the bytes hold the first half of
    /// a row, and the upper halves the second. Zero points are in the upper halves.
    Halves,
    /// Blocks of four-bit integers run along rows. A byte holds two neighbours, the first in its
    /// lower half, and 8 is added to signed integers. So do the bytes of zero points, and each row
    /// starts with a new byte.
    Pairs,
}

/// A matrix quantised in blocks. An element is about `(values[i, j] - zero_point) * scale`, with
/// the zero point and scale at `[i / size, j]`, or at `[i, j / size]` if blocks run along rows.
#[derive(Clone, Debug)]
pub struct Quantized {
    /// One integer for each element.
    pub values: Tensor,
    /// One scale for each block.
    pub scales: Tensor,
    /// One zero point for each block, for unsigned integers.
    pub zero_points: Option<Tensor>,
}

/// The reason that a tensor cannot be stored in fewer bits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReduceError {
    /// The elements are not floats.
    #[error("it holds {0}")]
    NotFloat(DType),
    /// The tensor is not a matrix.
    #[error("it has {0} axes instead of two")]
    NotMatrix(usize),
    /// The rows do not consist of whole blocks.
    #[error("its rows of {0} elements are not a multiple of the block size")]
    Uneven(usize),
    /// The format does not exist.
    #[error("{0} is not a type for smaller weights")]
    Format(DType),
    /// The sizes are inconsistent.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// The least number of bytes that a thread quantises.
const SHARE: usize = 1 << 20;

/// The number of bytes that are decoded at a time, so that the floats stay in the cache.
const CACHED: usize = 1 << 15;

pub(crate) struct Reduced {
    pub(crate) source: Tensor,
    /// The name of the tensor in errors.
    name: String,
    how: How,
    /// The number of bytes of the result.
    pub(crate) byte_len: usize,
    /// The scales and zero points that were found while the integers were read. They are usually
    /// read next, and are not computed again then.
    later: Arc<Mutex<Option<Parts>>>,
}

/// The conversion applied to the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum How {
    /// A cast to another float type, where elements that are too large become infinite.
    Cast(DType),
    /// A cast to a smaller float type, where elements that are too large are an error.
    Rounded(DType),
    Blocks(Blocks, Part),
}

/// A conversion, independent of the elements' values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Conversion {
    /// The element type of the source.
    from: DType,
    /// The shape of the source, if it matters: blocks run along columns.
    sizes: Option<Vec<usize>>,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Values,
    Scales,
    ZeroPoints,
}

impl Tensor {
    /// Casts the elements to another float type like JAX: rounded to nearest, and infinite if they
    /// are too large. They are computed whenever they are read.
    pub fn cast(&self, dtype: DType) -> Result<Tensor, ReduceError> {
        self.converted(How::Cast(dtype), dtype, is_float(dtype), "")
    }

    /// Rounds the elements to `float16`, `bfloat16` or `float32`. Reading fails if an element is
    /// too large; the error mentions `name`.
    pub fn rounded(&self, dtype: DType, name: &str) -> Result<Tensor, ReduceError> {
        let is_allowed = matches!(dtype, DType::F16 | DType::BF16 | DType::F32);
        self.converted(How::Rounded(dtype), dtype, is_allowed, name)
    }

    fn converted(
        &self,
        how: How,
        to: DType,
        is_allowed: bool,
        name: &str,
    ) -> Result<Tensor, ReduceError> {
        self.check_float()?;
        if !is_allowed {
            return Err(ReduceError::Format(to));
        }
        if let Some(source) = self.widened_from().filter(|source| source.dtype() == to) {
            return Ok(source);
        }
        let reduced = Reduced::elementwise(self.clone(), name.to_owned(), how, to);
        Ok(Tensor::reduced(to, self.shape(), reduced)?)
    }

    /// Returns the elements before they were cast or rounded to another float type.
    pub fn cast_from(&self) -> Option<Tensor> {
        let is_elementwise = |how: How| matches!(how, How::Cast(_) | How::Rounded(_));
        let reduced = self.as_reduced().filter(|reduced| is_elementwise(reduced.how))?;
        reduced.source.reshaped(self.shape()).ok()
    }

    /// Returns the elements in the smaller float type that they were cast from without loss.
    pub fn widened_from(&self) -> Option<Tensor> {
        self.cast_from().filter(|source| match (source.dtype(), self.dtype()) {
            (DType::F16 | DType::BF16, DType::F32 | DType::F64) => true,
            (from, to) => (from, to) == (DType::F32, DType::F64),
        })
    }

    /// Quantises a matrix to small integers. Errors mention `name`.
    pub fn quantized(&self, blocks: Blocks, name: &str) -> Result<Quantized, ReduceError> {
        self.check_float()?;
        let &[rows, columns] = self.shape() else {
            return Err(ReduceError::NotMatrix(self.shape().len()));
        };
        if !matches!(blocks.dtype, DType::I4 | DType::U4 | DType::I8 | DType::U8) {
            return Err(ReduceError::Format(blocks.dtype));
        }
        if !matches!(blocks.scale, DType::F16 | DType::BF16 | DType::F32) || blocks.size == 0 {
            return Err(ReduceError::Format(blocks.scale));
        }
        if blocks.layout == BlockLayout::Pairs && blocks.dtype.bits() != 4 {
            return Err(ReduceError::Format(blocks.dtype));
        }
        let of_values = [rows, if blocks.in_bytes() { columns / 2 } else { columns }];
        let of_blocks = match blocks.in_rows() {
            true if !columns.is_multiple_of(blocks.size) || !blocks.size.is_multiple_of(2) => {
                return Err(ReduceError::Uneven(columns));
            }
            true => [rows, columns / blocks.size],
            false => [rows.div_ceil(blocks.size), columns],
        };
        let later = Arc::new(Mutex::new(None));
        let part = |part: Part, shape: &[usize]| {
            let how = How::Blocks(blocks, part);
            let (source, name, later) = (self.clone(), name.to_owned(), Arc::clone(&later));
            let (dtype, count) = (part.dtype(&blocks), shape.iter().product());
            let reduced = Reduced { source, name, how, byte_len: dtype.byte_len(count), later };
            Tensor::reduced(dtype, shape, reduced)
        };
        Ok(Quantized {
            values: part(Part::Values, &of_values)?,
            scales: part(Part::Scales, &of_blocks)?,
            zero_points: match is_unsigned(blocks.dtype) {
                true => {
                    let [outer, inner] = of_blocks;
                    let is_packed = blocks.layout == BlockLayout::Pairs;
                    let inner = if is_packed { inner.div_ceil(2) } else { inner };
                    Some(part(Part::ZeroPoints, &[outer, inner])?)
                }
                false => None,
            },
        })
    }

    /// Returns the largest magnitude of the elements, or infinity if one is infinite or NaN. Returns
    /// `None` if the elements are only known when they are written, or are no floats.
    pub fn largest_magnitude(&self) -> Option<f32> {
        if !self.is_known() || !is_float(self.dtype()) {
            return None;
        }
        if let Some(source) = self.widened_from() {
            return source.largest_magnitude();
        }
        let (mut largest, mut finite, mut floats) = (0f32, true, Vec::new());
        let read = self.chunks_in_any_order(|chunk| {
            for chunk in chunk.chunks(CACHED) {
                decode(self.dtype(), chunk, &mut floats);
                for value in &floats {
                    // Comparisons, unlike `max`, compile to single vector instructions.
                    finite &= value.abs() <= f32::MAX;
                    largest = if value.abs() > largest { value.abs() } else { largest };
                }
            }
            Ok(())
        });
        read.ok().map(|()| if finite { largest } else { f32::INFINITY })
    }

    fn check_float(&self) -> Result<(), ReduceError> {
        match self.dtype() {
            float if is_float(float) => Ok(()),
            other => Err(ReduceError::NotFloat(other)),
        }
    }
}

fn is_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::U4 | DType::U8)
}

impl Blocks {
    /// Returns `true` if the scales of elements up to `largest` are finite in their type, and
    /// precise enough for the blocks with the largest elements.
    pub fn has_scales_for(&self, largest: f32) -> bool {
        let scale = block::scale_of(-largest, largest, *self).map(|(scale, _)| scale.abs());
        largest == 0.0 || scale.is_some_and(|scale| scale >= block::least_scale(self.scale))
    }

    fn in_rows(&self) -> bool {
        self.layout != BlockLayout::Columns
    }

    /// Returns `true` if a byte of the stored type holds two elements of a row.
    fn in_bytes(&self) -> bool {
        self.in_rows() && self.dtype.bits() == 4
    }
}

impl Reduced {
    fn elementwise(source: Tensor, name: String, how: How, to: DType) -> Self {
        let byte_len = to.byte_len(source.len());
        Self { source, name, how, byte_len, later: Arc::default() }
    }

    /// Applies the same conversion to another source, if it is elementwise.
    pub(crate) fn of(&self, source: Tensor) -> Option<Self> {
        match self.how {
            How::Cast(to) | How::Rounded(to) => {
                Some(Self::elementwise(source, self.name.clone(), self.how, to))
            }
            How::Blocks(..) => None,
        }
    }

    /// Returns the conversion, without its source.
    pub(crate) fn step(&self) -> Conversion {
        let sizes = match self.how {
            How::Blocks(..) => Some(self.source.shape().to_vec()),
            How::Cast(_) | How::Rounded(_) => None,
        };
        Conversion { from: self.source.dtype(), sizes, how: self.how }
    }

    /// Returns `true` if the elements are available before the tensor is written.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.how, How::Cast(_)) && self.source.is_known()
    }

    /// Passes all bytes to `each` in order, one chunk at a time.
    pub(crate) fn chunks(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let (dtype, mut floats) = (self.source.dtype(), Vec::new());
        match &self.how {
            How::Cast(to) => {
                let mut cast = Vec::new();
                self.source.chunks(|chunk| {
                    cast.clear();
                    convert(dtype, *to, chunk, &mut cast);
                    each(&cast)
                })
            }
            How::Rounded(to) => {
                let mut rounded = Vec::new();
                self.source.chunks(|chunk| {
                    decode(dtype, chunk, &mut floats);
                    rounded.clear();
                    for value in &floats {
                        if !encode(*to, *value, &mut rounded).is_finite() && value.is_finite() {
                            return Err(self.error(&format!("holds {value}, too large for {to}")));
                        }
                    }
                    each(&rounded)
                })
            }
            How::Blocks(blocks, part) => self.blocks(*blocks, *part, each),
        }
    }

    /// Quantises the blocks and passes the bytes of one part to `each`.
    fn blocks(
        &self,
        blocks: Blocks,
        part: Part,
        each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut rest = Parts::default();
        if part == Part::Values {
            self.slabs(blocks, |mut parts| {
                let values = std::mem::take(&mut parts.values);
                rest.append(parts);
                each(&values)
            })?;
            if let Ok(mut later) = self.later.lock() {
                *later = Some(rest);
            }
            return Ok(());
        }
        // Each part is taken once, so that it does not stay in memory.
        if let Ok(mut later) = self.later.lock()
            && let Some(later) = later.as_mut()
        {
            match part {
                Part::Scales => rest.scales = std::mem::take(&mut later.scales),
                _ => rest.zero_points = std::mem::take(&mut later.zero_points),
            }
        }
        if rest.scales.is_empty() && rest.zero_points.is_empty() {
            self.slabs(blocks, |mut parts| {
                parts.values.clear();
                rest.append(parts);
                Ok(())
            })?;
        }
        if part == Part::Scales {
            return each(&rest.scales);
        }
        let zeros = match blocks.dtype.bits() {
            4 if blocks.layout == BlockLayout::Pairs => {
                let columns = self.source.shape().last().copied().unwrap_or(0);
                let rows = rest.zero_points.chunks((columns / blocks.size).max(1));
                rows.flat_map(packed).collect()
            }
            4 if blocks.in_rows() => rest.zero_points.iter().map(|zero| zero << 4).collect(),
            4 => packed(&rest.zero_points),
            _ => rest.zero_points,
        };
        each(&zeros)
    }

    /// Quantises slabs on all cores, and passes their bytes to `each` in order.
    fn slabs(
        &self,
        blocks: Blocks,
        mut each: impl FnMut(Parts) -> io::Result<()>,
    ) -> io::Result<()> {
        let dtype = self.source.dtype();
        let columns = self.source.shape().last().copied().unwrap_or(0);
        let slab = dtype.byte_len(Quantizer::slab(blocks, columns)).max(1);
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // The bytes of a thread's share. Starting a thread takes less time than a tenth of that.
        let share = SHARE.div_ceil(slab) * slab;
        let reduce = |bytes: &[u8]| {
            let (mut quantizer, mut floats) = (Quantizer::new(blocks, columns), Vec::new());
            let mut parts = Parts::default();
            for slab in bytes.chunks(slab) {
                decode(dtype, slab, &mut floats);
                quantizer.reduce(&floats, &mut parts)?;
            }
            Ok(parts)
        };
        let mut largest = 0f32;
        let mut reduce_all = |bytes: &[u8]| -> io::Result<()> {
            let parts: Vec<Result<Parts, &'static str>> = std::thread::scope(|scope| {
                let mut shares = bytes.chunks(share);
                let first = shares.next().unwrap_or_default();
                let others: Vec<_> = shares.map(|bytes| scope.spawn(|| reduce(bytes))).collect();
                let mut parts = vec![reduce(first)];
                let failed = |_| Err("could not be quantised");
                parts.extend(others.into_iter().map(|other| other.join().unwrap_or_else(failed)));
                parts
            });
            for parts in parts {
                let parts = parts.map_err(|problem| self.error(problem))?;
                largest = largest.max(parts.largest);
                each(parts)?;
            }
            Ok(())
        };
        let room = share * threads;
        let mut batch: Vec<u8> = Vec::with_capacity(room.min(dtype.byte_len(self.source.len())));
        self.source.chunks(|chunk| {
            let mut chunk = chunk;
            while !chunk.is_empty() {
                let (mine, rest) = chunk.split_at(chunk.len().min(room - batch.len()));
                batch.extend_from_slice(mine);
                chunk = rest;
                if batch.len() == room {
                    reduce_all(&batch)?;
                    batch.clear();
                }
            }
            Ok(())
        })?;
        if !batch.is_empty() {
            reduce_all(&batch)?;
        }
        match blocks.has_scales_for(largest) {
            true => Ok(()),
            false => Err(self.error("has scales that are too small for their type")),
        }
    }

    fn error(&self, problem: &str) -> io::Error {
        let problem = format!("`{}` {problem}; keep it as it is", self.name);
        io::Error::new(io::ErrorKind::InvalidData, problem)
    }
}

impl Part {
    fn dtype(self, blocks: &Blocks) -> DType {
        match self {
            Part::Scales => blocks.scale,
            Part::Values | Part::ZeroPoints if blocks.in_bytes() => DType::U8,
            Part::Values | Part::ZeroPoints => blocks.dtype,
        }
    }
}
