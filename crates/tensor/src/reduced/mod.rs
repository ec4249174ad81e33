//! Weights in another type, computed only while they are read, so a quantised model needs no second
//! copy of the weights.

mod block;
pub(crate) mod floats;
#[cfg(test)]
mod tests;

use std::io;

use self::block::Block;
use self::floats::{convert, decode, encode, is_float};
use crate::{DType, Tensor, TensorError};

/// The block-wise quantisation of a matrix to small integers. A block consists of neighbours in a
/// column. They share a scale, and a zero point if the integers are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// The integer type. Signed integers are multiples of the scale, unsigned ones count from a
    /// zero point.
    pub dtype: DType,
    /// The number of elements that share a scale.
    pub size: usize,
    /// The element type of scales.
    pub scale: DType,
}

/// A matrix quantised in blocks. An element is about `(values[i, j] - zero_point) * scale`, with
/// the zero point and scale at `[i / size, j]`.
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
    /// The format does not exist.
    #[error("{0} is not a type for smaller weights")]
    Format(DType),
    /// The sizes are inconsistent.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

pub(crate) struct Reduced {
    pub(crate) source: Tensor,
    /// The name of the tensor in errors.
    name: String,
    how: How,
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
        self.check_float()?;
        if !is_float(dtype) {
            return Err(ReduceError::Format(dtype));
        }
        let reduced = Reduced { source: self.clone(), name: String::new(), how: How::Cast(dtype) };
        Ok(Tensor::reduced(dtype, self.shape(), reduced)?)
    }

    /// Rounds the elements to `float16`, `bfloat16` or `float32`. Reading fails if an element is
    /// too large; the error mentions `name`.
    pub fn rounded(&self, dtype: DType, name: &str) -> Result<Tensor, ReduceError> {
        self.check_float()?;
        if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32) {
            return Err(ReduceError::Format(dtype));
        }
        let (source, name) = (self.clone(), name.to_owned());
        let reduced = Reduced { source, name, how: How::Rounded(dtype) };
        Ok(Tensor::reduced(dtype, self.shape(), reduced)?)
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
        let of_blocks = [rows.div_ceil(blocks.size), columns];
        let part = |part: Part, dtype: DType, shape: &[usize]| {
            let how = How::Blocks(blocks, part);
            let reduced = Reduced { source: self.clone(), name: name.to_owned(), how };
            Tensor::reduced(dtype, shape, reduced)
        };
        Ok(Quantized {
            values: part(Part::Values, blocks.dtype, &[rows, columns])?,
            scales: part(Part::Scales, blocks.scale, &of_blocks)?,
            zero_points: match is_unsigned(blocks.dtype) {
                true => Some(part(Part::ZeroPoints, blocks.dtype, &of_blocks)?),
                false => None,
            },
        })
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

impl Reduced {
    /// Applies the same conversion to another source, if it is elementwise.
    pub(crate) fn of(&self, source: Tensor) -> Option<Self> {
        match self.how {
            How::Cast(_) | How::Rounded(_) => {
                Some(Self { source, name: self.name.clone(), how: self.how })
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

    pub(crate) fn byte_len(&self) -> usize {
        match &self.how {
            How::Cast(dtype) | How::Rounded(dtype) => dtype.byte_len(self.source.len()),
            How::Blocks(blocks, part) => {
                let count = match (part, self.source.shape()) {
                    (Part::Scales | Part::ZeroPoints, [rows, columns]) => {
                        rows.div_ceil(blocks.size) * columns
                    }
                    _ => self.source.len(),
                };
                part.dtype(blocks).byte_len(count)
            }
        }
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
            How::Blocks(blocks, part) => {
                let columns = self.source.shape().last().copied().unwrap_or(0);
                let mut block = Block::new(*blocks, *part, columns);
                self.source.chunks(|chunk| {
                    decode(dtype, chunk, &mut floats);
                    let mut rest = &*floats;
                    while !rest.is_empty() {
                        rest = block.take(rest);
                        if block.is_full() {
                            each(block.reduce().map_err(|problem| self.error(problem))?)?;
                        }
                    }
                    Ok(())
                })?;
                each(block.finish().map_err(|problem| self.error(problem))?)
            }
        }
    }

    fn error(&self, problem: &str) -> io::Error {
        let problem = format!("`{}` {problem}; keep it as it is", self.name);
        io::Error::new(io::ErrorKind::InvalidData, problem)
    }
}

impl Part {
    fn dtype(self, blocks: &Blocks) -> DType {
        if self == Part::Scales { blocks.scale } else { blocks.dtype }
    }
}
