//! Norms of tensors.

use half::{bf16, f16};

use crate::{DType, Tensor};

/// The magnitude of a tensor's elements. Both norms are infinite or NaN if an element is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norms {
    /// The largest absolute value.
    pub largest: f64,
    /// The square root of the sum of squares.
    pub euclidean: f64,
}

impl Tensor {
    /// Returns the norms of real floating-point types of at least 16 bits. Returns `None` if the
    /// elements are unknown until the tensor is written.
    pub fn norms(&self) -> Option<Norms> {
        let add: fn(&mut Sums, &[u8]) = match self.dtype() {
            DType::F16 => |sums, bytes| sums.add(bytes, |c| f16::from_le_bytes(c).to_f64()),
            DType::BF16 => |sums, bytes| sums.add(bytes, |c| bf16::from_le_bytes(c).to_f64()),
            DType::F32 => |sums, bytes| sums.add(bytes, |c| f64::from(f32::from_le_bytes(c))),
            DType::F64 => |sums, bytes| sums.add(bytes, f64::from_le_bytes),
            _ => return None,
        };
        if !self.is_known() {
            return None;
        }
        let mut sums = Sums::default();
        self.chunks(|bytes| {
            add(&mut sums, bytes);
            Ok(())
        })
        .ok()?;
        Some(sums.norms())
    }
}

/// The number of elements that are processed in parallel.
const LANES: usize = 8;

#[derive(Default)]
struct Sums {
    largest: [f64; LANES],
    squares: [f64; LANES],
}

impl Sums {
    fn add<const N: usize>(&mut self, bytes: &[u8], decode: impl Fn([u8; N]) -> f64) {
        let mut add = |lane: usize, element: [u8; N]| {
            let size = decode(element).abs();
            self.squares[lane] += size * size;
            // One instruction, unlike a maximum that handles NaN on either side.
            if size > self.largest[lane] {
                self.largest[lane] = size;
            }
        };
        let (blocks, rest) = bytes.as_chunks::<N>().0.as_chunks::<LANES>();
        for block in blocks {
            (0..LANES).for_each(|lane| add(lane, block[lane]));
        }
        rest.iter().enumerate().for_each(|(lane, element)| add(lane, *element));
    }

    fn norms(&self) -> Norms {
        let squares: f64 = self.squares.iter().sum();
        let largest = self.largest.iter().copied().fold(0.0, f64::max);
        // The comparisons ignore NaN, a sum does not.
        Norms {
            largest: if squares.is_nan() { f64::NAN } else { largest },
            euclidean: squares.sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn norms(dtype: DType, bytes: &[u8], count: usize) -> Option<Norms> {
        let tensor = Tensor::owned(dtype, &[count], bytes.to_vec());
        tensor.norms()
    }

    fn of(numbers: &[f32]) -> Norms {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        norms(DType::F32, &bytes, numbers.len()).unwrap()
    }

    #[test]
    fn every_element_counts() {
        assert_eq!(of(&[3.0, -4.0]), Norms { largest: 4.0, euclidean: 5.0 });
        assert_eq!(of(&[]), Norms { largest: 0.0, euclidean: 0.0 });
        let mut numbers = vec![1.0; 19];
        numbers[17] = -9.0;
        assert_eq!(of(&numbers), Norms { largest: 9.0, euclidean: 99f64.sqrt() });
    }

    #[test]
    fn non_finite_elements_propagate() {
        assert!(of(&[1.0, f32::NAN, 2.0]).largest.is_nan());
        assert!(of(&[1.0, f32::NAN, 2.0]).euclidean.is_nan());
        assert!(of(&[f32::NEG_INFINITY, 1.0]).largest.is_infinite());
        assert!(of(&[f32::NEG_INFINITY, 1.0]).euclidean.is_infinite());
    }

    #[test]
    fn floats_of_all_widths_are_read() {
        let of_bytes = |dtype, bytes: &[u8]| norms(dtype, bytes, 1).map(|norms| norms.largest);
        assert_eq!(of_bytes(DType::F64, &(-2.5f64).to_le_bytes()), Some(2.5));
        assert_eq!(of_bytes(DType::F16, &f16::from_f32(-2.5).to_le_bytes()), Some(2.5));
        assert_eq!(of_bytes(DType::BF16, &bf16::from_f32(-2.5).to_le_bytes()), Some(2.5));
        assert_eq!(of_bytes(DType::I32, &3i32.to_le_bytes()), None);
    }
}
