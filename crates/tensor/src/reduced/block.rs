//! Quantisation of blocks: integers, scales and zero points.

use half::{bf16, f16};

use super::{Blocks, Part, encode, is_unsigned};
use crate::DType;

/// The rows of a matrix that share their scales.
pub(super) struct Block {
    blocks: Blocks,
    part: Part,
    columns: usize,
    elements: Vec<f32>,
    /// The least and the largest element of each column, where zero counts as an element.
    low: Vec<f32>,
    high: Vec<f32>,
    chosen: Scales,
    /// Candidate scales, compared with the chosen ones.
    tried: Scales,
    /// The integers of one row.
    row: Vec<u8>,
    /// The bytes to hand out.
    out: Vec<u8>,
    packer: Packer,
}

impl Block {
    pub(super) fn new(blocks: Blocks, part: Part, columns: usize) -> Self {
        let elements = Vec::with_capacity(blocks.size * columns);
        let (low, high) = (vec![0.0; columns], vec![0.0; columns]);
        let (chosen, tried) = (Scales::new(columns), Scales::new(columns));
        let packer = Packer { half: None, packs: blocks.dtype.bits() == 4 };
        let (row, out) = (Vec::with_capacity(columns), Vec::new());
        Self { blocks, part, columns, elements, low, high, chosen, tried, row, out, packer }
    }

    /// Takes as many elements as there is room for, and returns the rest.
    pub(super) fn take<'a>(&mut self, elements: &'a [f32]) -> &'a [f32] {
        let room = self.blocks.size * self.columns - self.elements.len();
        let (mine, rest) = elements.split_at(room.min(elements.len()));
        self.elements.extend_from_slice(mine);
        rest
    }

    pub(super) fn is_full(&self) -> bool {
        self.elements.len() == self.blocks.size * self.columns
    }

    /// Returns the bytes of the rows taken so far.
    pub(super) fn reduce(&mut self) -> Result<&[u8], &'static str> {
        self.out.clear();
        self.low.fill(0.0);
        self.high.fill(0.0);
        let mut finite = true;
        for row in self.elements.chunks_exact(self.columns) {
            for ((value, low), high) in row.iter().zip(&mut self.low).zip(&mut self.high) {
                // Comparisons, unlike `min` and `max`, compile to single vector instructions.
                finite &= value.abs() <= f32::MAX;
                *low = if *value < *low { *value } else { *low };
                *high = if *value > *high { *value } else { *high };
            }
        }
        if !finite {
            return Err("holds NaN or infinity");
        }
        self.choose()?;
        let Scales { scales, zeros, .. } = &self.chosen;
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
                            byte((nearest(value / scale) + zero).clamp(least, most))
                        },
                    ));
                    self.packer.put(&self.row, &mut self.out);
                }
            }
        }
        self.elements.clear();
        Ok(&self.out)
    }

    /// Chooses the scales that give the least squared error.
    fn choose(&mut self) -> Result<(), &'static str> {
        if !self.chosen.fill(&self.low, &self.high, 1.0, self.blocks) {
            return Err("has a scale that is too large for its type");
        }
        // With eight bits, all elements are rounded well, and clipping does not pay off.
        if self.blocks.dtype.bits() != 4 {
            return Ok(());
        }
        self.chosen.measure(&self.elements, self.blocks.dtype);
        for part in RANGES {
            // A larger range may need too large a scale even if the whole range does not.
            if self.tried.fill(&self.low, &self.high, *part, self.blocks) {
                self.tried.measure(&self.elements, self.blocks.dtype);
                self.chosen.improve(&self.tried);
            }
        }
        Ok(())
    }

    /// Returns the bytes of the last rows, which may be fewer than a block, including a half-filled
    /// last byte.
    pub(super) fn finish(&mut self) -> Result<&[u8], &'static str> {
        if self.elements.is_empty() {
            self.out.clear();
        } else {
            self.reduce()?;
        }
        self.packer.finish(&mut self.out);
        Ok(&self.out)
    }
}

/// Fractions of a block's range that four-bit integers may span, besides the whole. A smaller range
/// clips the farthest elements and rounds all others more precisely. A larger one reaches an
/// element that is equally far on the other side of zero, where there is one integer less.
const RANGES: &[f32] = &[1.05, 0.95, 0.9, 0.85, 0.8, 0.75];

/// The scales and zero points that map the columns of a block to integers.
struct Scales {
    scales: Vec<f32>,
    zeros: Vec<f32>,
    /// The sum of the squared errors in each column.
    errors: Vec<f32>,
}

impl Scales {
    fn new(columns: usize) -> Self {
        Self { scales: vec![1.0; columns], zeros: vec![0.0; columns], errors: vec![0.0; columns] }
    }

    /// Sets the scales that span a fraction of each column's range. Returns `false` if one is too
    /// large.
    fn fill(&mut self, low: &[f32], high: &[f32], part: f32, blocks: Blocks) -> bool {
        let columns = self.scales.iter_mut().zip(&mut self.zeros);
        for ((scale, zero), (low, high)) in columns.zip(low.iter().zip(high)) {
            match scale_of(low * part, high * part, blocks) {
                Some(found) => (*scale, *zero) = found,
                None => return false,
            }
        }
        true
    }

    fn measure(&mut self, elements: &[f32], dtype: DType) {
        let (least, most) = range(dtype);
        self.errors.fill(0.0);
        for row in elements.chunks_exact(self.scales.len()) {
            let columns = self.scales.iter().zip(&self.zeros).zip(&mut self.errors);
            for (value, ((scale, zero), error)) in row.iter().zip(columns) {
                // Comparisons compile to single vector instructions, and no operand is NaN.
                let number = nearest(value / scale) + zero;
                let number = if number < least { least } else { number };
                let number = if number > most { most } else { number };
                let difference = (number - zero) * scale - value;
                *error += difference * difference;
            }
        }
    }

    /// Adopts the scale of `other` for each column where its error is smaller.
    fn improve(&mut self, other: &Self) {
        for column in 0..self.scales.len() {
            if other.errors[column] < self.errors[column] {
                self.scales[column] = other.scales[column];
                self.zeros[column] = other.zeros[column];
                self.errors[column] = other.errors[column];
            }
        }
    }
}

/// A packer of four-bit integers into bytes, the first into the lower half.
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

/// Returns the least and the largest integer of the type.
fn range(dtype: DType) -> (f32, f32) {
    match dtype {
        DType::I4 => (-8.0, 7.0),
        DType::U4 => (0.0, 15.0),
        DType::I8 => (-128.0, 127.0),
        _ => (0.0, 255.0),
    }
}

/// Returns the scale and the zero point of a block with elements between `low` and `high`, which
/// enclose zero, or `None` if the scale is too large for its type.
fn scale_of(low: f32, high: f32, blocks: Blocks) -> Option<(f32, f32)> {
    let (least, most) = range(blocks.dtype);
    let exact = if is_unsigned(blocks.dtype) {
        (high - low) / most
    } else {
        // The element farthest from zero becomes the least integer, which is farther from zero than
        // the largest. The scale may be negative.
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

/// Rounds to the nearest integer, ties to even, for numbers far below 2²².
pub(super) fn nearest(value: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 · 2²³, where neighbouring floats are integers
    (value + SHIFT) - SHIFT
}

/// Returns a small integer as a byte.
#[expect(clippy::cast_possible_truncation, reason = "clamped to the range of the type")]
fn byte(number: f32) -> u8 {
    (number as i32).to_le_bytes()[0]
}
