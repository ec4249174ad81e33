//! Weights in another type, computed only while somebody reads them: a quantised model costs no second
//! copy of the weights.

mod block;
pub(crate) mod floats;
#[cfg(test)]
mod tests;

use std::io;

use self::block::Block;
use self::floats::{convert, decode, encode, is_float};
use crate::{DType, Tensor, TensorError};

/// How the elements of a matrix become small integers: those of a block, which are neighbours in a
/// column, share a scale, and a zero point if the integers are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// The integers: signed ones are multiples of the scale, unsigned ones count from a zero point.
    pub dtype: DType,
    /// How many elements share a scale.
    pub size: usize,
    /// The element type of scales.
    pub scale: DType,
}

/// A matrix in blocks. `values[i, j]` less its zero point, times its scale, is about the element;
/// both are those at `[i / size, j]`.
#[derive(Clone, Debug)]
pub struct Quantized {
    /// One integer for each element.
    pub values: Tensor,
    /// One scale for each block.
    pub scales: Tensor,
    /// One zero point for each block, for unsigned integers.
    pub zero_points: Option<Tensor>,
}

/// Why a tensor cannot be stored in fewer bits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReduceError {
    /// It does not hold numbers that can be rounded.
    #[error("it holds {0}")]
    NotFloat(DType),
    /// It is not a matrix.
    #[error("it has {0} axes instead of two")]
    NotMatrix(usize),
    /// There is no such format.
    #[error("{0} is not a type for smaller weights")]
    Format(DType),
    /// The sizes do not work out.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

pub(crate) struct Reduced {
    pub(crate) source: Tensor,
    /// What the elements are called, for errors.
    name: String,
    how: How,
}

/// What becomes of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum How {
    /// Every element as another float, infinite if it is too large.
    Cast(DType),
    /// Every element rounded to a smaller float, where it must not be too large.
    Rounded(DType),
    Blocks(Blocks, Part),
}

/// What the elements of an array become, whatever they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    /// The type that the bytes of the array are read in.
    from: DType,
    /// The sizes of the array, if they matter: blocks lie in columns.
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
    /// The elements as floats of another type, as JAX casts them: rounded to the nearest, infinite if they are
    /// too large. They are computed whenever they are read.
    pub fn cast(&self, dtype: DType) -> Result<Tensor, ReduceError> {
        self.check_float()?;
        if !is_float(dtype) {
            return Err(ReduceError::Format(dtype));
        }
        let reduced = Reduced { source: self.clone(), name: String::new(), how: How::Cast(dtype) };
        Ok(Tensor::reduced(dtype, self.shape(), reduced)?)
    }

    /// The elements as `float16`, `bfloat16` or `float32`. `name` is what errors call the tensor: one
    /// that holds numbers which are too large is an error when it is read.
    pub fn rounded(&self, dtype: DType, name: &str) -> Result<Tensor, ReduceError> {
        self.check_float()?;
        if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32) {
            return Err(ReduceError::Format(dtype));
        }
        let (source, name) = (self.clone(), name.to_owned());
        let reduced = Reduced { source, name, how: How::Rounded(dtype) };
        Ok(Tensor::reduced(dtype, self.shape(), reduced)?)
    }

    /// A matrix as small integers. `name` is what errors call it.
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
    /// The same of other elements, if each of them is computed from one.
    pub(crate) fn of(&self, source: Tensor) -> Option<Self> {
        match self.how {
            How::Cast(_) | How::Rounded(_) => {
                Some(Self { source, name: self.name.clone(), how: self.how })
            }
            How::Blocks(..) => None,
        }
    }

    /// What is done to the elements.
    pub(crate) fn step(&self) -> Step {
        let sizes = match self.how {
            How::Blocks(..) => Some(self.source.shape().to_vec()),
            How::Cast(_) | How::Rounded(_) => None,
        };
        Step { from: self.source.dtype(), sizes, how: self.how }
    }

    /// Whether somebody may ask for the elements before they are written.
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

    /// Hands out all bytes in order, a piece at a time.
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
                            return Err(self.error(&format!("holds {value}, too much for {to}")));
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
