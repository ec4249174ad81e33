//! Weights in fewer bits, computed only while somebody reads them: a quantised model costs no second
//! copy of the weights.

use std::io;

use half::{bf16, f16};

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
    pub(crate) how: How,
}

/// What becomes of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum How {
    /// Every element rounded to a smaller float.
    Rounded(DType),
    Blocks(Blocks, Part),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Values,
    Scales,
    ZeroPoints,
}

impl Tensor {
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
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Ok(()),
            other => Err(ReduceError::NotFloat(other)),
        }
    }
}

fn is_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::U4 | DType::U8)
}

impl Reduced {
    pub(crate) fn byte_len(&self) -> usize {
        match &self.how {
            How::Rounded(dtype) => dtype.byte_len(self.source.len()),
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

/// Rows of a matrix that share their scales.
struct Block {
    blocks: Blocks,
    part: Part,
    columns: usize,
    elements: Vec<f32>,
    low: Vec<f32>,
    high: Vec<f32>,
    /// The integers of a row.
    row: Vec<u8>,
    /// The bytes to hand out.
    out: Vec<u8>,
    packer: Packer,
}

impl Block {
    fn new(blocks: Blocks, part: Part, columns: usize) -> Self {
        let elements = Vec::with_capacity(blocks.size * columns);
        let (low, high) = (vec![0.0; columns], vec![0.0; columns]);
        let packer = Packer { half: None, packs: blocks.dtype.bits() == 4 };
        let (row, out) = (Vec::with_capacity(columns), Vec::new());
        Self { blocks, part, columns, elements, low, high, row, out, packer }
    }

    /// Takes as many elements as there is room for, and returns the others.
    fn take<'a>(&mut self, elements: &'a [f32]) -> &'a [f32] {
        let room = self.blocks.size * self.columns - self.elements.len();
        let (mine, rest) = elements.split_at(room.min(elements.len()));
        self.elements.extend_from_slice(mine);
        rest
    }

    fn is_full(&self) -> bool {
        self.elements.len() == self.blocks.size * self.columns
    }

    /// The bytes of the rows so far.
    fn reduce(&mut self) -> Result<&[u8], &'static str> {
        self.out.clear();
        self.low.fill(0.0);
        self.high.fill(0.0);
        let mut finite = true;
        for row in self.elements.chunks_exact(self.columns) {
            for ((value, low), high) in row.iter().zip(&mut self.low).zip(&mut self.high) {
                // Comparisons, unlike `min` and `max`, are single instructions on several numbers.
                finite &= value.abs() <= f32::MAX;
                *low = if *value < *low { *value } else { *low };
                *high = if *value > *high { *value } else { *high };
            }
        }
        if !finite {
            return Err("holds NaN or infinity");
        }
        // From here on, `low` holds the scales and `high` the zero points.
        for (low, high) in self.low.iter_mut().zip(&mut self.high) {
            let Some((scale, zero)) = scale_of(*low, *high, self.blocks) else {
                return Err("has a scale that is too large for its type");
            };
            (*low, *high) = (scale, zero);
        }
        let (scales, zeros) = (&self.low, &self.high);
        match self.part {
            Part::Scales => {
                for scale in scales {
                    encode(self.blocks.scale, *scale, &mut self.out);
                }
            }
            Part::ZeroPoints => {
                self.row.clear();
                self.row.extend(zeros.iter().map(|zero| byte(*zero)));
                self.packer.put(&self.row, &mut self.out);
            }
            Part::Values => {
                let (least, most) = range(self.blocks.dtype);
                for row in self.elements.chunks_exact(self.columns) {
                    self.row.clear();
                    self.row.extend(row.iter().zip(scales).zip(zeros).map(
                        |((value, scale), zero)| {
                            let number = nearest(value / scale) + zero;
                            byte(number.clamp(least, most))
                        },
                    ));
                    self.packer.put(&self.row, &mut self.out);
                }
            }
        }
        self.elements.clear();
        Ok(&self.out)
    }

    /// The bytes of the last rows, which may be fewer than a block, and of what is half a byte.
    fn finish(&mut self) -> Result<&[u8], &'static str> {
        if self.elements.is_empty() {
            self.out.clear();
        } else {
            self.reduce()?;
        }
        self.packer.finish(&mut self.out);
        Ok(&self.out)
    }
}

/// Puts integers of four bits into bytes, the first into the lower half.
struct Packer {
    packs: bool,
    half: Option<u8>,
}

impl Packer {
    fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if !self.packs {
            out.extend_from_slice(bytes);
            return;
        }
        let mut bytes = bytes;
        if let (Some(first), Some((second, rest))) = (self.half, bytes.split_first()) {
            out.push(first | (second << 4));
            (self.half, bytes) = (None, rest);
        }
        let (pairs, rest) = bytes.as_chunks::<2>();
        out.extend(pairs.iter().map(|[first, second]| (first & 0xf) | (second << 4)));
        if let [last] = rest {
            self.half = Some(last & 0xf);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend(self.half.take());
    }
}

/// The least and the largest of the integers.
fn range(dtype: DType) -> (f32, f32) {
    match dtype {
        DType::I4 => (-8.0, 7.0),
        DType::U4 => (0.0, 15.0),
        DType::I8 => (-128.0, 127.0),
        _ => (0.0, 255.0),
    }
}

/// The scale and the zero point of a block whose elements lie between `low` and `high`, which
/// enclose zero; `None` if the scale is too large for its type.
fn scale_of(low: f32, high: f32, blocks: Blocks) -> Option<(f32, f32)> {
    let (least, most) = range(blocks.dtype);
    let exact = if is_unsigned(blocks.dtype) {
        (high - low) / most
    } else {
        // The element that is farthest from zero becomes the least integer, which is farther from
        // zero than the largest. The scale may be negative.
        (if high > -low { high } else { low }) / least
    };
    if exact == 0.0 && low == 0.0 && high == 0.0 {
        return Some((1.0, 0.0));
    }
    let scale = match blocks.scale {
        DType::F16 => f16::from_f32(exact).to_f32(),
        DType::BF16 => bf16::from_f32(exact).to_f32(),
        _ => exact,
    };
    let smallest = match blocks.scale {
        DType::F16 => f16::MIN_POSITIVE_SUBNORMAL.to_f32(),
        _ => f32::MIN_POSITIVE,
    };
    let scale = if scale.abs() < smallest { smallest.copysign(scale) } else { scale };
    if !scale.is_finite() {
        return None;
    }
    let zero = if is_unsigned(blocks.dtype) { nearest(-low / scale).min(most) } else { 0.0 };
    Some((scale, zero))
}

/// The nearest integer, of two the even one, for numbers far below 2²².
fn nearest(value: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 · 2²³: its neighbours are integers
    (value + SHIFT) - SHIFT
}

/// A small integer as a byte.
#[expect(clippy::cast_possible_truncation, reason = "clamped to the range of the type")]
fn byte(number: f32) -> u8 {
    (number as i32).to_le_bytes()[0]
}

/// Appends a number as `dtype`, and returns what it became.
fn encode(dtype: DType, value: f32, out: &mut Vec<u8>) -> f32 {
    match dtype {
        DType::F16 => {
            let half = f16::from_f32(value);
            out.extend_from_slice(&half.to_le_bytes());
            half.to_f32()
        }
        DType::BF16 => {
            let half = bf16::from_f32(value);
            out.extend_from_slice(&half.to_le_bytes());
            half.to_f32()
        }
        _ => {
            out.extend_from_slice(&value.to_le_bytes());
            value
        }
    }
}

/// The elements in `bytes`, instead of what was in `floats`.
fn decode(dtype: DType, bytes: &[u8], floats: &mut Vec<f32>) {
    floats.clear();
    #[expect(clippy::cast_possible_truncation, reason = "they are rounded further anyway")]
    match dtype {
        DType::F16 => {
            floats.extend(bytes.as_chunks().0.iter().map(|c| f16::from_le_bytes(*c).to_f32()));
        }
        DType::BF16 => {
            floats.extend(
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|c| f32::from_bits(u32::from(u16::from_le_bytes(*c)) << 16)),
            );
        }
        DType::F64 => {
            floats.extend(bytes.as_chunks().0.iter().map(|c| f64::from_le_bytes(*c) as f32));
        }
        _ => floats.extend(bytes.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn matrix(rows: usize, columns: usize, of: impl Fn(usize, usize) -> f32) -> Tensor {
        let elements = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
        let bytes: Vec<u8> = elements.flat_map(|(i, j)| of(i, j).to_le_bytes()).collect();
        Tensor::new(DType::F32, &[rows, columns], Arc::new(bytes)).unwrap()
    }

    fn wave(i: usize, j: usize) -> f32 {
        ((i * 37 + j * 101) % 193) as f32 / 100.0 - 0.9
    }

    fn integers(tensor: &Tensor) -> Vec<i32> {
        let bytes = tensor.read().unwrap();
        let sign = |byte: u8, bits: u32| {
            let shift = 32 - bits;
            (i32::from(byte) << shift) >> shift
        };
        match tensor.dtype() {
            DType::I4 => {
                let halves = bytes.iter().flat_map(|b| [sign(b & 15, 4), sign(b >> 4, 4)]);
                halves.take(tensor.len()).collect()
            }
            DType::U4 => {
                let halves = bytes.iter().flat_map(|b| [i32::from(b & 15), i32::from(b >> 4)]);
                halves.take(tensor.len()).collect()
            }
            DType::I8 => bytes.iter().map(|b| sign(*b, 8)).collect(),
            _ => bytes.iter().map(|b| i32::from(*b)).collect(),
        }
    }

    fn floats(tensor: &Tensor) -> Vec<f32> {
        let mut floats = Vec::new();
        decode(tensor.dtype(), &tensor.read().unwrap(), &mut floats);
        floats
    }

    /// The largest difference from the elements, in scales of their blocks.
    fn worst(rows: usize, columns: usize, blocks: Blocks) -> f32 {
        let source = matrix(rows, columns, wave);
        let Quantized { values, scales, zero_points } = source.quantized(blocks, "w").unwrap();
        let (values, scales) = (integers(&values), floats(&scales));
        let zeros = zero_points.map_or(vec![0; scales.len()], |zeros| integers(&zeros));
        let mut worst = 0f32;
        for i in 0..rows {
            for j in 0..columns {
                let at = i / blocks.size * columns + j;
                let back = (values[i * columns + j] - zeros[at]) as f32 * scales[at];
                worst = worst.max((back - wave(i, j)).abs() / scales[at].abs());
            }
        }
        worst
    }

    #[test]
    fn elements_are_near() {
        for dtype in [DType::I4, DType::U4, DType::I8, DType::U8] {
            for scale in [DType::F16, DType::BF16, DType::F32] {
                for (rows, columns, size) in [(64, 6, 16), (50, 7, 16), (3, 5, 32), (1, 1, 32)] {
                    let worst = worst(rows, columns, Blocks { dtype, size, scale });
                    // One step where the sign opposite to the farthest element is just as far.
                    let allowed = if is_unsigned(dtype) { 1.01 } else { 1.1 };
                    assert!(worst < allowed, "{dtype} {scale} {rows}x{columns}: {worst}");
                }
            }
        }
    }

    #[test]
    fn integers_belong_to_the_scales_that_are_stored() {
        for scale in [DType::F16, DType::BF16, DType::F32] {
            let blocks = Blocks { dtype: DType::I8, size: 16, scale };
            let parts = matrix(50, 7, wave).quantized(blocks, "w").unwrap();
            let (values, scales) = (integers(&parts.values), floats(&parts.scales));
            for (position, value) in values.into_iter().enumerate() {
                let (i, j) = (position / 7, position % 7);
                let exact = nearest(wave(i, j) / scales[i / 16 * 7 + j]).clamp(-128.0, 127.0);
                assert_eq!(value as f32, exact, "{scale} {i} {j}");
            }
        }
    }

    #[test]
    fn all_levels_are_used() {
        let blocks = Blocks { dtype: DType::I4, size: 16, scale: DType::F32 };
        let line = matrix(16, 1, |i, _| i as f32 - 8.0);
        let Quantized { values, scales, .. } = line.quantized(blocks, "w").unwrap();
        assert_eq!(floats(&scales), [1.0]);
        assert_eq!(integers(&values), (-8..8).collect::<Vec<_>>());
        let turned = matrix(16, 1, |i, _| 8.0 - i as f32).quantized(blocks, "w").unwrap();
        assert_eq!(floats(&turned.scales), [-1.0]);
        assert_eq!(integers(&turned.values), (-8..8).collect::<Vec<_>>());
        let blocks = Blocks { dtype: DType::U4, ..blocks };
        let shifted = matrix(16, 1, |i, _| i as f32 - 3.0).quantized(blocks, "w").unwrap();
        assert_eq!(integers(shifted.zero_points.as_ref().unwrap()), [3]);
        assert_eq!(integers(&shifted.values), (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn zeros_stay_zeros_and_what_is_tiny_stays_small() {
        let blocks = Blocks { dtype: DType::I4, size: 16, scale: DType::F16 };
        let zero = matrix(16, 2, |_, _| 0.0).quantized(blocks, "w").unwrap();
        assert!(integers(&zero.values).iter().all(|v| *v == 0));
        let tiny = matrix(16, 1, |_, _| 1e-9).quantized(blocks, "w").unwrap();
        assert!(floats(&tiny.scales)[0].abs() > 0.0);
        assert!(integers(&tiny.values).iter().all(|v| *v == 0));
    }

    #[test]
    fn what_cannot_be_held_is_an_error() {
        let blocks = Blocks { dtype: DType::I4, size: 16, scale: DType::F16 };
        for (bad, problem) in [
            (f32::NAN, "`layer.w` holds NaN or infinity; keep it as it is"),
            (f32::INFINITY, "`layer.w` holds NaN or infinity; keep it as it is"),
            (1e9, "`layer.w` has a scale that is too large for its type; keep it as it is"),
        ] {
            let source = matrix(3, 2, |i, j| if (i, j) == (1, 1) { bad } else { 1.0 });
            let parts = source.quantized(blocks, "layer.w").unwrap();
            assert_eq!(parts.values.read().unwrap_err().to_string(), problem);
            assert_eq!(parts.scales.read().unwrap_err().to_string(), problem);
        }
        let large = matrix(1, 1, |_, _| 1e5).rounded(DType::F16, "w").unwrap();
        let problem = large.read().unwrap_err().to_string();
        assert_eq!(problem, "`w` holds 100000, too much for f16; keep it as it is");
        let infinite = matrix(1, 1, |_, _| f32::INFINITY).rounded(DType::F16, "w").unwrap();
        assert_eq!(floats(&infinite), [f32::INFINITY]);
    }

    #[test]
    fn floats_are_rounded() {
        let source = matrix(2, 2, |i, j| 1.0 + (i * 2 + j) as f32 / 4096.0);
        let half = source.rounded(DType::F16, "w").unwrap();
        assert_eq!(floats(&half), [1.0, 1.0, 1.0, 1.0 + 1.0 / 1024.0]);
        assert_eq!(half.bytes(), None);
        assert!(Tensor::i64s(&[1]).rounded(DType::F16, "w").is_err());
    }

    #[test]
    fn a_transposed_matrix_is_reduced_in_its_own_order() {
        let blocks = Blocks { dtype: DType::I8, size: 16, scale: DType::F32 };
        // The second is read in pieces, which end inside of blocks.
        for (rows, columns) in [(40, 9), (300, 1000)] {
            let there = matrix(rows, columns, wave).quantized(blocks, "w").unwrap();
            let back = matrix(columns, rows, |i, j| wave(j, i)).transposed(&[1, 0]).unwrap();
            let back = back.quantized(blocks, "w").unwrap();
            assert!(there.values.read().unwrap() == back.values.read().unwrap(), "{rows}");
            assert!(there.scales.read().unwrap() == back.scales.read().unwrap(), "{rows}");
        }
    }
}
