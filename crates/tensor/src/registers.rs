//! Transposition of small blocks in registers.

/// The bytes of a register.
pub(crate) const REGISTER: usize = 16;

/// Transposes a block of `N` rows. Each row fills a register with `N` elements.
#[inline]
pub(crate) fn transposed<const N: usize>(mut rows: [[u8; REGISTER]; N]) -> [[u8; REGISTER]; N] {
    // Each step interleaves the first half of the rows with the second half.
    for _ in 0..N.trailing_zeros() {
        let mut next = rows;
        for (i, pair) in next.chunks_exact_mut(2).enumerate() {
            pair.copy_from_slice(&interleaved::<N>(rows[i], rows[i + N / 2]));
        }
        rows = next;
    }
    rows
}

/// Returns the elements of `a` and `b` in turn, in two registers.
#[cfg(target_arch = "x86_64")]
#[inline]
fn interleaved<const N: usize>(a: [u8; REGISTER], b: [u8; REGISTER]) -> [[u8; REGISTER]; 2] {
    use std::arch::x86_64::{
        __m128i, _mm_unpackhi_epi8, _mm_unpackhi_epi16, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
        _mm_unpacklo_epi8, _mm_unpacklo_epi16, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    use std::mem::transmute;

    // The compiler moves elements of arrays one by one. All processors of this kind have these
    // instructions.
    #[expect(unsafe_code, reason = "both types are 16 bytes, which may have any value")]
    // SAFETY: as above.
    unsafe {
        let a: __m128i = transmute(a);
        let b: __m128i = transmute(b);
        transmute(match N {
            16 => [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)],
            8 => [_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)],
            4 => [_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)],
            _ => [_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)],
        })
    }
}

#[cfg(not(target_arch = "x86_64"))]
use interleaved_bytes as interleaved;

/// Returns the elements of `a` and `b` in turn, on any processor.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn interleaved_bytes<const N: usize>(a: [u8; REGISTER], b: [u8; REGISTER]) -> [[u8; REGISTER]; 2] {
    let mut both = [[0; REGISTER]; 2];
    let width = REGISTER / N;
    let elements = a.chunks_exact(width).zip(b.chunks_exact(width)).flat_map(|(a, b)| [a, b]);
    for (place, element) in both.as_flattened_mut().chunks_exact_mut(width).zip(elements) {
        place.copy_from_slice(element);
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>() {
        let width = REGISTER / N;
        let mut rows = [[0; REGISTER]; N];
        for (i, byte) in rows.as_flattened_mut().iter_mut().enumerate() {
            *byte = u8::try_from(i).unwrap();
        }
        for (i, row) in transposed(rows).iter().enumerate() {
            for (j, element) in row.chunks_exact(width).enumerate() {
                assert_eq!(element, &rows[j][i * width..(i + 1) * width], "{N}: {i}, {j}");
            }
        }
        let (a, b) = (rows[0], rows[N - 1]);
        assert_eq!(interleaved::<N>(a, b), interleaved_bytes::<N>(a, b), "{N}");
    }

    #[test]
    fn rows_become_columns() {
        check::<16>();
        check::<8>();
        check::<4>();
        check::<2>();
    }
}
