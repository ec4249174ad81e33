//! Strided views of tensors. Elements are reordered only while they are read, so a transposed
//! weight needs no second copy.

use std::io;

use crate::registers::{REGISTER, transposed};
use crate::storage::Held;

/// The number of bytes that are reordered at a time. A run of elements in the source is the longer,
/// the larger the chunk is, and the chunk should fit into the caches.
const CHUNK: usize = 4 << 20;

/// A view of all or some elements of a storage, read with strides.
#[derive(Clone)]
pub(crate) struct Moved {
    pub(crate) source: Held,
    /// The bytes of one element.
    pub(crate) width: usize,
    /// The axes, outermost first, in the order that elements are read in.
    pub(crate) axes: Vec<Axis>,
    /// The position of the first element in the storage, in elements.
    pub(crate) start: usize,
}

/// An axis along which elements are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Axis {
    pub(crate) size: usize,
    /// The distance between neighbours in the storage, in elements.
    pub(crate) stride: isize,
}

impl Moved {
    pub(crate) fn byte_len(&self) -> usize {
        self.axes.iter().map(|axis| axis.size).product::<usize>() * self.width
    }

    /// Passes all bytes to `each` in order, one chunk at a time.
    pub(crate) fn chunks(&self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if self.byte_len() == 0 {
            return Ok(());
        }
        let storage = self.source.open()?;
        storage.prepare(0..storage.bytes().len());
        let done = self.chunks_of(storage.bytes(), &mut each);
        storage.release(0..storage.bytes().len());
        done
    }

    fn chunks_of(
        &self,
        source: &[u8],
        each: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let axes: Vec<Axis> = self.axes.iter().copied().filter(|axis| axis.size != 1).collect();
        // The innermost axes that fit into one chunk.
        let (mut inner, mut split) = (self.width, axes.len());
        while split > 0 && inner.saturating_mul(axes[split - 1].size) <= CHUNK {
            split -= 1;
            inner *= axes[split].size;
        }
        let start = self.start.cast_signed();
        let (outer, whole) = axes.split_at(split);
        let Some((cut, walked)) = outer.split_last() else {
            let mut all = vec![0; inner];
            copy(source, &mut all, whole, start, self.width);
            return each(&all);
        };
        let steps = (CHUNK / inner).clamp(1, cut.size);
        let mut buffer = vec![0; inner * steps];
        let mut outcome = Ok(());
        walk(walked, start, &mut |start| {
            for at in (0..cut.size).step_by(steps) {
                if outcome.is_err() {
                    return;
                }
                let size = steps.min(cut.size - at);
                let mut block = vec![Axis { size, ..*cut }];
                block.extend_from_slice(whole);
                let piece = &mut buffer[..inner * size];
                copy(source, piece, &block, start + at.cast_signed() * cut.stride, self.width);
                outcome = each(piece);
            }
        });
        outcome
    }
}

/// Calls `at` with the position of every element along `axes`.
fn walk(axes: &[Axis], start: isize, at: &mut impl FnMut(isize)) {
    match axes.split_first() {
        None => at(start),
        Some((axis, rest)) => {
            for i in 0..axis.size {
                walk(rest, start + i.cast_signed() * axis.stride, at);
            }
        }
    }
}

/// Copies the elements along `axes` into `target`, in order. Reads follow the order of the source,
/// so that contiguous elements are read together.
fn copy(source: &[u8], target: &mut [u8], axes: &[Axis], start: isize, width: usize) {
    let mut step = width;
    let mut both: Vec<(Axis, usize)> = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        both.push((*axis, step));
        step *= axis.size;
    }
    both.sort_by_key(|(axis, _)| std::cmp::Reverse(axis.stride.unsigned_abs()));
    match width {
        1 => scatter::<1, 16>(source, target, &both, start, 0),
        2 => scatter::<2, 8>(source, target, &both, start, 0),
        4 => scatter::<4, 4>(source, target, &both, start, 0),
        8 => scatter::<8, 2>(source, target, &both, start, 0),
        _ => scatter::<16, 1>(source, target, &both, start, 0),
    }
}

/// Copies elements along `axes`; `from` counts elements of the source, `to` bytes of the target.
/// `N` elements of `W` bytes fill a register.
fn scatter<const W: usize, const N: usize>(
    source: &[u8],
    target: &mut [u8],
    axes: &[(Axis, usize)],
    from: isize,
    to: usize,
) {
    match axes {
        [] => put::<W>(source, target, from, to),
        [(axis, step)] => {
            let (mut from, mut to) = (from, to);
            for _ in 0..axis.size {
                put::<W>(source, target, from, to);
                from += axis.stride;
                to += step;
            }
        }
        [(across, step), along] if *step == W && along.0.stride == 1 => {
            tiles::<W, N>(source, target, *across, *along, from, to);
        }
        [(axis, step), rest @ ..] => {
            for i in 0..axis.size {
                let from = from + i.cast_signed() * axis.stride;
                scatter::<W, N>(source, target, rest, from, to + i * step);
            }
        }
    }
}

/// The contiguous bytes of a target row that are written together: whole cache lines.
const LINE: usize = 128;
/// The contiguous bytes of the source that are read together.
const RUN: usize = 512;
/// The distance between runs in a tile. A power of two would put them all at the same place of the
/// caches.
const PITCH: usize = RUN + 64;

/// Transposes in tiles. Elements are contiguous along `along` in the source, and along `across` in
/// the target.
///
/// Each tile is read into a buffer that fits into the fastest cache. Rows of the source and of the
/// target are often a power of two apart, so that only a few of them fit into a cache at the same
/// time.
fn tiles<const W: usize, const N: usize>(
    source: &[u8],
    target: &mut [u8],
    across: Axis,
    (along, step): (Axis, usize),
    from: isize,
    to: usize,
) {
    let mut tile = [0; LINE * PITCH];
    for row in (0..along.size).step_by(RUN / W) {
        let rows = (RUN / W).min(along.size - row);
        for column in (0..across.size).step_by(LINE / W) {
            let columns = (LINE / W).min(across.size - column);
            for (j, place) in tile.chunks_exact_mut(PITCH).take(columns).enumerate() {
                let at = (column + j).cast_signed() * across.stride + row.cast_signed();
                let first = (from + at).cast_unsigned().wrapping_mul(W);
                if let Some(run) = source.get(first..first.wrapping_add(rows * W)) {
                    place[..rows * W].copy_from_slice(run);
                }
            }
            let at = to + row * step + column * W;
            let target = target.get_mut(at..).unwrap_or_default();
            let (whole_rows, whole_columns) = (rows - rows % N, columns - columns % N);
            for i in (0..whole_rows).step_by(N) {
                for j in (0..whole_columns).step_by(N) {
                    turn_block::<W, N>(
                        &tile[j * PITCH + i * W..],
                        &mut target[i * step + j * W..],
                        step,
                    );
                }
            }
            for i in 0..rows {
                let first = if i < whole_rows { whole_columns } else { 0 };
                for j in first..columns {
                    let (from, to) = (j * PITCH + i * W, i * step + j * W);
                    target[to..to + W].copy_from_slice(&tile[from..from + W]);
                }
            }
        }
    }
}

/// Transposes a block of `N` times `N` elements, with rows `step` bytes apart in the target.
#[inline]
fn turn_block<const W: usize, const N: usize>(tile: &[u8], target: &mut [u8], step: usize) {
    let rows = std::array::from_fn(|k| {
        let mut row = [0; REGISTER];
        row.copy_from_slice(&tile[k * PITCH..k * PITCH + REGISTER]);
        row
    });
    for (k, row) in transposed::<N>(rows).iter().enumerate() {
        target[k * step..k * step + REGISTER].copy_from_slice(row);
    }
}

#[inline]
fn put<const W: usize>(source: &[u8], target: &mut [u8], from: isize, to: usize) {
    let (elements, _) = source.as_chunks::<W>();
    if let (Some(element), Some(place)) =
        (elements.get(from.cast_unsigned()), target.get_mut(to..to + W))
    {
        place.copy_from_slice(element);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Returns the elements as plain nested loops read them.
    fn plainly(moved: &Moved) -> Vec<u8> {
        let (mut bytes, source) = (Vec::new(), moved.source.open().unwrap());
        walk(&moved.axes, moved.start.cast_signed(), &mut |at| {
            let at = at.cast_unsigned() * moved.width;
            bytes.extend_from_slice(&source.bytes()[at..at + moved.width]);
        });
        bytes
    }

    fn check(width: usize, start: usize, axes: &[(usize, isize)]) {
        let length = 3 << 20;
        let source: Vec<u8> =
            (0..length).map(|i: usize| (i * 7 + i / 251).to_le_bytes()[0]).collect();
        let axes = axes.iter().map(|&(size, stride)| Axis { size, stride }).collect();
        let moved = Moved { source: Held::Here(Arc::new(source)), width, axes, start };
        let (mut bytes, mut largest) = (Vec::new(), 0);
        let done = moved.chunks(|chunk| {
            largest = largest.max(chunk.len());
            bytes.extend_from_slice(chunk);
            Ok(())
        });
        done.unwrap();
        assert_eq!(bytes.len(), moved.byte_len());
        assert!(bytes == plainly(&moved), "{:?}", moved.axes);
        assert!(largest <= CHUNK, "{largest}");
    }

    #[test]
    fn elements_are_read_in_order() {
        check(4, 0, &[]);
        check(4, 5, &[(1, 9)]);
        check(4, 0, &[(3, 1), (2, 3)]);
        check(2, 11, &[(2, -6), (3, -1), (2, 3)]);
        check(16, 0, &[(5, 1), (4, 5)]);
        check(4, 0, &[(0, 1), (4, 5)]);
    }

    #[test]
    fn large_views_are_read_in_chunks() {
        check(4, 0, &[(512, 1), (128, 512), (3, 3 * 65536), (3, 65536)]);
        check(4, 0, &[(2, 1), (390_000, 2)]);
        check(1, 0, &[(1, 0), (1_500_000, 2), (2, 1)]);
        check(8, 0, &[(600, 1), (600, 600)]);
        // Transposed: edges of tiles, and a batch of them.
        check(2, 3, &[(300, 1), (131, 300)]);
        check(1, 0, &[(129, 1), (65, 129)]);
        check(4, 0, &[(3, 700 * 70), (700, 1), (70, 700)]);
        check(2, 700 * 69, &[(700, 1), (70, -700)]);
        check(16, 0, &[(50, 1), (43, 50)]);
        // More than one chunk along the axes that do not fit into one.
        check(4, 0, &[(5, 3), (1 << 19, 1)]);
        check(4, 50, &[(2, 100), (5, 3), (1 << 19, 1)]);
        check(4, 100, &[(3, -7), (1 << 20, 0)]);
    }
}
