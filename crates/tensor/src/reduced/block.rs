//! Quantisation of blocks: integers, scales and zero points.

use half::{bf16, f16};

use super::{BlockLayout, Blocks, encode, is_unsigned};
use crate::DType;

/// The bytes of quantised blocks. Zero points take one byte each.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) values: Vec<u8>,
    pub(super) scales: Vec<u8>,
    pub(super) zero_points: Vec<u8>,
    /// The largest magnitude of the elements.
    pub(super) largest: f32,
}

impl Parts {
    /// Appends the bytes of the blocks that follow.
    pub(super) fn append(&mut self, mut other: Self) {
        self.values.append(&mut other.values);
        self.scales.append(&mut other.scales);
        self.zero_points.append(&mut other.zero_points);
        self.largest = self.largest.max(other.largest);
    }
}

/// A quantiser of slabs: rows of a matrix that consist of whole blocks.
pub(super) struct Quantizer {
    blocks: Blocks,
    /// The number of elements in a row of the matrix.
    columns: usize,
    /// The elements of a slab whose blocks run along rows, with one column for each block.
    turned: Vec<f32>,
    /// The least and the largest element of each block, where zero counts as an element.
    low: Vec<f32>,
    high: Vec<f32>,
    chosen: Scales,
    /// Candidate scales, compared with the chosen ones.
    tried: Scales,
    /// The integers of a slab, one byte each.
    bytes: Vec<u8>,
}

impl Quantizer {
    pub(super) fn new(blocks: Blocks, columns: usize) -> Self {
        Self {
            blocks,
            columns,
            turned: Vec::new(),
            low: Vec::new(),
            high: Vec::new(),
            chosen: Scales::default(),
            tried: Scales::default(),
            bytes: Vec::new(),
        }
    }

    /// Returns the number of elements in a slab.
    pub(super) fn slab(blocks: Blocks, columns: usize) -> usize {
        // Enough blocks to fill the vectors of a processor.
        const AT_ONCE: usize = 1 << 14;
        match blocks.in_rows() {
            false => blocks.size * columns,
            true => columns * (AT_ONCE / columns.max(1)).max(1),
        }
    }

    /// Quantises the elements of a slab, or of the rest of a matrix, and appends the bytes.
    pub(super) fn reduce(&mut self, elements: &[f32], out: &mut Parts) -> Result<(), &'static str> {
        if !self.blocks.in_rows() {
            return self.reduce_columns(elements, self.columns, out);
        }
        let (size, mut turned) = (self.blocks.size, std::mem::take(&mut self.turned));
        let count = elements.len() / size;
        turned.clear();
        for i in 0..size {
            turned.extend(elements.iter().skip(i).step_by(size).take(count));
        }
        let done = self.reduce_columns(&turned, count, out);
        self.turned = turned;
        done
    }

    /// Quantises columns, each of which is a block.
    fn reduce_columns(
        &mut self,
        elements: &[f32],
        columns: usize,
        out: &mut Parts,
    ) -> Result<(), &'static str> {
        for bounds in [&mut self.low, &mut self.high] {
            bounds.clear();
            bounds.resize(columns, 0.0);
        }
        let mut finite = true;
        for row in elements.chunks_exact(columns) {
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
        let bounds = self.low.iter().chain(&self.high);
        out.largest = bounds.fold(out.largest, |largest, bound| largest.max(bound.abs()));
        self.choose(elements)?;
        let Scales { scales, zeros, .. } = &self.chosen;
        for scale in scales {
            encode(self.blocks.scale, *scale, &mut out.scales);
        }
        let packs = self.blocks.dtype.bits() == 4;
        if is_unsigned(self.blocks.dtype) {
            out.zero_points.extend(zeros.iter().map(|zero| byte(*zero)));
        }
        let (least, most) = range(self.blocks.dtype);
        self.bytes.clear();
        for row in elements.chunks_exact(columns) {
            self.bytes.extend(row.iter().zip(scales).zip(zeros).map(|((value, scale), zero)| {
                byte((nearest(value / scale) + zero).clamp(least, most))
            }));
        }
        match (self.blocks.in_rows(), packs) {
            (false, false) => out.values.extend_from_slice(&self.bytes),
            (false, true) => out.values.append(&mut packed(&self.bytes)),
            (true, false) => {
                let size = self.blocks.size;
                for block in 0..columns {
                    out.values.extend((0..size).map(|i| self.bytes[i * columns + block]));
                }
            }
            (true, true) => {
                let (size, in_row) = (self.blocks.size, self.columns / self.blocks.size);
                let at = |row: usize, j: usize| {
                    self.bytes[(j % size) * columns + row * in_row + j / size]
                };
                let half = self.columns / 2;
                // Flipping the sign bit of a four-bit integer adds 8.
                let flipped = if is_unsigned(self.blocks.dtype) { 0 } else { 0x88 };
                for row in 0..columns / in_row.max(1) {
                    let bytes = 0..half;
                    match self.blocks.layout {
                        BlockLayout::Pairs => out.values.extend(
                            bytes.map(|j| pack(at(row, 2 * j), at(row, 2 * j + 1)) ^ flipped),
                        ),
                        _ => {
                            out.values.extend(bytes.map(|j| pack(at(row, j), at(row, j + half))));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Chooses the scales that give the least squared error.
    fn choose(&mut self, elements: &[f32]) -> Result<(), &'static str> {
        if !self.chosen.fill(&self.low, &self.high, 1.0, self.blocks) {
            return Err("has a scale that is too large for its type");
        }
        // With eight bits, all elements are rounded well, and clipping does not pay off.
        if self.blocks.dtype.bits() != 4 {
            return Ok(());
        }
        self.chosen.measure(elements, self.blocks.dtype);
        let on_grid = if self.is_on_grid(elements) { ON_GRID } else { &[] };
        for part in RANGES.iter().chain(on_grid) {
            // A larger range may need too large a scale even if the whole range does not.
            if self.tried.fill(&self.low, &self.high, *part, self.blocks) {
                self.tried.measure(elements, self.blocks.dtype);
                self.chosen.improve(&self.tried);
            }
        }
        Ok(())
    }

    /// Returns `true` if the elements of the first block that is not all zero are multiples of a
    /// scale, as in a matrix that was quantised before.
    fn is_on_grid(&self, elements: &[f32]) -> bool {
        let columns = self.low.len();
        let bounds = self.low.iter().zip(&self.high);
        let found = bounds.enumerate().find(|(_, (low, high))| **low != 0.0 || **high != 0.0);
        let Some((column, (low, high))) = found.filter(|_| self.blocks.dtype == DType::I4) else {
            return false;
        };
        let mut block = Scales::default();
        let elements: Vec<f32> = elements.iter().skip(column).step_by(columns).copied().collect();
        [1.0].iter().chain(ON_GRID).any(|part| {
            let fits = block.fill(&[*low], &[*high], *part, self.blocks);
            block.measure(&elements, self.blocks.dtype);
            fits && block.errors == [0.0]
        })
    }
}

/// Packs two four-bit integers into a byte, the first into the lower half.
fn pack(first: u8, second: u8) -> u8 {
    (first & 0xf) | (second << 4)
}

/// Packs pairs of four-bit integers into bytes, the first into the lower half. Slabs have an even
/// number of elements, so only the end of a matrix leaves half a byte.
pub(super) fn packed(bytes: &[u8]) -> Vec<u8> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let pairs = pairs.iter().map(|[first, second]| pack(*first, *second));
    pairs.chain(rest.iter().map(|last| last & 0xf)).collect()
}

/// Fractions of a block's range that four-bit integers may span, besides the whole. A smaller range
/// clips the farthest elements and rounds all others more precisely. A larger one reaches an
/// element that is equally far on the other side of zero, where there is one integer less.
const RANGES: &[f32] = &[1.05, 0.95, 0.9, 0.85, 0.8, 0.75];

/// Fractions of a block's range for multiples of a scale: the farthest element is seven times the
/// scale, six times, and so on.
const ON_GRID: &[f32] = &[8.0 / 7.0, 8.0 / 6.0, 8.0 / 5.0, 2.0, 8.0 / 3.0, 4.0, 8.0];

/// The scales and zero points that map blocks to integers.
#[derive(Default)]
struct Scales {
    scales: Vec<f32>,
    zeros: Vec<f32>,
    /// The sum of the squared errors in each column.
    errors: Vec<f32>,
}

impl Scales {
    /// Sets the scales that span a fraction of each column's range. Returns `false` if one is too
    /// large.
    fn fill(&mut self, low: &[f32], high: &[f32], part: f32, blocks: Blocks) -> bool {
        self.scales.resize(low.len(), 1.0);
        self.zeros.resize(low.len(), 0.0);
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
        self.errors.clear();
        self.errors.resize(self.scales.len(), 0.0);
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

/// Returns the least and the largest integer of the type.
fn range(dtype: DType) -> (f32, f32) {
    match dtype {
        DType::I4 => (-8.0, 7.0),
        DType::U4 => (0.0, 15.0),
        DType::I8 => (-128.0, 127.0),
        _ => (0.0, 255.0),
    }
}

/// Returns the least scale that is stored precisely enough for the largest elements of a weight:
/// to 1 %, so that integers that belong to the rounded scale use the range of their type.
pub(super) fn least_scale(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => f16::MIN_POSITIVE_SUBNORMAL.to_f32() * 64.0,
        _ => f32::MIN_POSITIVE,
    }
}

/// Returns the scale and the zero point of a block with elements between `low` and `high`, which
/// enclose zero, or `None` if the scale is too large for its type.
pub(super) fn scale_of(low: f32, high: f32, blocks: Blocks) -> Option<(f32, f32)> {
    let (least, most) = range(blocks.dtype);
    let exact = if is_unsigned(blocks.dtype) {
        (high - low) / most
    } else {
        // The element farthest from zero becomes the least integer, which is farther from zero than
        // the largest. The scale may be negative.
        (if high > -low { high } else { low }) / least
    };
    let scale = match blocks.scale {
        DType::F16 => f16::from_f32(exact).to_f32(),
        DType::BF16 => bf16::from_f32(exact).to_f32(),
        _ => exact,
    };
    let smallest = match blocks.scale {
        DType::F16 => f16::MIN_POSITIVE_SUBNORMAL.to_f32(),
        _ => f32::MIN_POSITIVE,
    };
    // A runtime that rounds the other operand to integers may compute a multiple of the scale.
    if low == 0.0 && high == 0.0 {
        return Some((smallest, 0.0));
    }
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
