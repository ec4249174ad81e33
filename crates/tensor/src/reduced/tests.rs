use std::sync::Arc;

use half::f16;

use super::block::nearest;
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

/// Returns the largest quantisation error, in units of the block's scale.
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
                let worst = worst(
                    rows,
                    columns,
                    Blocks { dtype, size, scale, layout: BlockLayout::Columns },
                );
                // The error is a whole step if the element of opposite sign is as far from zero as
                // the farthest one.
                let allowed = if is_unsigned(dtype) { 1.01 } else { 1.1 };
                assert!(worst < allowed, "{dtype} {scale} {rows}x{columns}: {worst}");
            }
        }
    }
}

#[test]
fn an_element_far_from_the_others_is_cut_off() {
    let blocks =
        Blocks { dtype: DType::I4, size: 128, scale: DType::F16, layout: BlockLayout::Columns };
    // Multiples of 0.85 times the scale of the whole range, and one element at its end.
    let source = matrix(128, 1, |i, _| if i == 0 { -8.0 } else { 0.85 * (1 + i % 3) as f32 });
    let Quantized { values, scales, .. } = source.quantized(blocks, "w").unwrap();
    assert_eq!(floats(&scales), [f16::from_f32(0.85).to_f32()]);
    assert_eq!(integers(&values)[..4], [-8, 2, 3, 1]);
    // With eight bits, the whole range is kept.
    let blocks = Blocks { dtype: DType::I8, ..blocks };
    let scales = source.quantized(blocks, "w").unwrap().scales;
    assert_eq!(floats(&scales), [8.0 / 128.0]);
}

#[test]
fn integers_belong_to_the_scales_that_are_stored() {
    for scale in [DType::F16, DType::BF16, DType::F32] {
        let blocks = Blocks { dtype: DType::I8, size: 16, scale, layout: BlockLayout::Columns };
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
    let blocks =
        Blocks { dtype: DType::I4, size: 16, scale: DType::F32, layout: BlockLayout::Columns };
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
fn zeros_stay_zero_and_comparatively_tiny_elements_become_zero() {
    let blocks =
        Blocks { dtype: DType::I4, size: 16, scale: DType::F16, layout: BlockLayout::Columns };
    let zero = matrix(16, 2, |_, _| 0.0).quantized(blocks, "w").unwrap();
    assert!(integers(&zero.values).iter().all(|v| *v == 0));
    let tiny = matrix(16, 2, |_, j| [1e-9, 1.0][j]).quantized(blocks, "w").unwrap();
    assert!(floats(&tiny.scales)[0].abs() > 0.0);
    assert!(integers(&tiny.values).iter().step_by(2).all(|v| *v == 0));
}

#[test]
fn weights_of_any_magnitude_have_scales() {
    let magnitude = |largest: f32| matrix(32, 6, |i, j| wave(i, j) * largest);
    for dtype in [DType::I4, DType::U4, DType::I8, DType::U8] {
        for largest in [1e-30, 1e-8, 1e-6, 1.0, 1e9, 1e37] {
            let source = magnitude(largest);
            let found = source.largest_magnitude().unwrap();
            assert!((0.9..1.1).contains(&(found / largest)), "{found}");
            let half = Blocks { dtype, size: 16, scale: DType::F16, layout: BlockLayout::Columns };
            assert_eq!(half.has_scales_for(found), largest == 1.0, "{dtype} {largest}");
            let parts = source.quantized(half, "w").unwrap();
            assert_eq!(parts.values.read().is_ok(), largest == 1.0, "{dtype} {largest}");
            let full = Blocks { scale: DType::F32, ..half };
            assert!(full.has_scales_for(found), "{dtype} {largest}");
            let parts = source.quantized(full, "w").unwrap();
            let (values, scales) = (integers(&parts.values), floats(&parts.scales));
            let zeros = parts.zero_points.map_or(vec![0; scales.len()], |zeros| integers(&zeros));
            for (position, value) in values.into_iter().enumerate() {
                let (i, j) = (position / 6, position % 6);
                let at = i / 16 * 6 + j;
                let back = (value - zeros[at]) as f32 * scales[at];
                let error = (back - wave(i, j) * largest).abs();
                assert!(error <= 1.1 * scales[at].abs(), "{dtype} {largest} {i} {j}");
            }
        }
    }
}

#[test]
fn the_largest_magnitude_is_that_of_all_elements() {
    let source = matrix(70, 300, |i, j| if (i, j) == (69, 299) { -7.5 } else { wave(i, j) });
    assert_eq!(source.largest_magnitude(), Some(7.5));
    assert_eq!(source.transposed(&[1, 0]).unwrap().largest_magnitude(), Some(7.5));
    let half = source.cast(DType::BF16).unwrap();
    assert_eq!(half.cast(DType::F32).unwrap().largest_magnitude(), Some(7.5));
    for bad in [f32::NAN, f32::INFINITY] {
        let source = matrix(70, 300, |i, j| if (i, j) == (3, 5) { bad } else { wave(i, j) });
        assert_eq!(source.largest_magnitude(), Some(f32::INFINITY));
    }
    assert_eq!(Tensor::i64s(&[3]).largest_magnitude(), None);
}

#[test]
fn unrepresentable_elements_are_errors() {
    let blocks =
        Blocks { dtype: DType::I4, size: 16, scale: DType::F16, layout: BlockLayout::Columns };
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
    assert_eq!(problem, "`w` holds 100000, too large for f16; keep it as it is");
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
fn a_transposed_matrix_is_quantized_in_its_own_order() {
    let blocks =
        Blocks { dtype: DType::I8, size: 16, scale: DType::F32, layout: BlockLayout::Columns };
    // The second one is read in chunks that end inside of blocks.
    for (rows, columns) in [(40, 9), (300, 1000)] {
        let there = matrix(rows, columns, wave).quantized(blocks, "w").unwrap();
        let back = matrix(columns, rows, |i, j| wave(j, i)).transposed(&[1, 0]).unwrap();
        let back = back.quantized(blocks, "w").unwrap();
        assert!(there.values.read().unwrap() == back.values.read().unwrap(), "{rows}");
        assert!(there.scales.read().unwrap() == back.scales.read().unwrap(), "{rows}");
    }
}

fn doubles(values: &[f64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Tensor::new(DType::F64, &[values.len()], Arc::new(bytes)).unwrap()
}

#[test]
fn casts_round_to_the_nearest_and_overflow_to_infinity() {
    // Ties round to even; values that round above the largest finite number become infinite.
    let cases: [(DType, &[f32], &[f32]); 2] = [
        (
            DType::BF16,
            &[
                1.003_906_3,
                1.011_718_8,
                3.39e38,
                f32::MAX,
                -f32::MAX,
                f32::MIN_POSITIVE,
                1e-40,
                -0.0,
            ],
            &[
                1.0,
                1.015_625,
                3.389_531_4e38,
                f32::INFINITY,
                f32::NEG_INFINITY,
                f32::MIN_POSITIVE,
                9.183_5e-41,
                -0.0,
            ],
        ),
        (
            DType::F16,
            &[1.000_488_3, 65519.0, 65520.0, -1e9, 6e-8, 2e-8],
            &[1.0, 65504.0, f32::INFINITY, f32::NEG_INFINITY, 5.960_464_5e-8, 0.0],
        ),
    ];
    for (dtype, values, expected) in cases {
        let cast = matrix(1, values.len(), |_, i| values[i]).cast(dtype).unwrap();
        let found = floats(&cast);
        for (found, expected) in found.iter().zip(expected) {
            let near = (found - expected).abs() <= expected.abs() * 1e-4;
            assert!(found == expected || near, "{dtype}: {found} is not {expected}");
            assert_eq!(found.is_sign_negative(), expected.is_sign_negative());
        }
    }
    assert!(floats(&matrix(1, 1, |_, _| f32::NAN).cast(DType::F16).unwrap())[0].is_nan());
    // Rounded once: by way of 32 bits, these would be ties.
    let tie = 1.0 + 1.0 / 2048.0;
    let once = [tie + 1e-12, tie - 1e-12, tie, -tie - 1e-12, 1e300, -0.0, 1e-300, 65_519.999_999];
    let above = 1.0 + 1.0 / 1024.0;
    let expected = [above, 1.0, 1.0, -above, f32::INFINITY, -0.0, 0.0, 65504.0];
    assert_eq!(floats(&doubles(&once).cast(DType::F16).unwrap()), expected);
    assert!(floats(&doubles(&[f64::NAN]).cast(DType::F16).unwrap())[0].is_nan());
    assert!(Tensor::i64s(&[1]).cast(DType::F16).is_err());
}

#[test]
fn casts_are_read_like_other_tensors() {
    let source = matrix(300, 1000, wave);
    let rounded = source.cast(DType::BF16).unwrap();
    assert!(rounded.is_known() && rounded.stored_bytes().is_none());
    assert_eq!((rounded.byte_len(), rounded.source_len()), (600_000, 1_200_000));
    let wide = rounded.cast(DType::F32).unwrap();
    assert_eq!((wide.byte_len(), wide.source_len()), (1_200_000, 1_200_000));
    assert_eq!(floats(&wide), floats(&rounded));
    // In another order: cast first, moved first, and with a reshape in between.
    let moved = |tensor: &Tensor| {
        let apart = tensor.transposed(&[1, 0]).unwrap().reshaped(&[10, 100, 300]).unwrap();
        apart.transposed(&[2, 0, 1]).unwrap()
    };
    let (after, before) = (moved(&rounded), moved(&source).cast(DType::BF16).unwrap());
    assert_eq!(after.shape(), [300, 10, 100]);
    assert!(after.read().unwrap() == before.read().unwrap());
}

struct Far(Vec<u8>);

impl crate::Source for Far {
    fn byte_len(&self) -> usize {
        self.0.len()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn fetch(&self) -> io::Result<Arc<dyn crate::Storage>> {
        Ok(Arc::new(self.0.clone()))
    }
}

#[test]
fn fetched_tensors_are_cast_and_moved_when_read() {
    let near = matrix(4, 6, wave);
    let bytes = near.read().unwrap().into_owned();
    let far = Tensor::fetched(DType::F32, &[4, 6], Arc::new(Far(bytes))).unwrap();
    let moved = |tensor: &Tensor| {
        let cast = tensor.cast(DType::F16).unwrap().transposed(&[1, 0]).unwrap();
        cast.reshaped(&[2, 12]).unwrap().reversed(&[1]).unwrap()
    };
    let moved_far = moved(&far);
    assert!(!moved_far.is_known() && moved_far.bytes().is_none());
    assert!(moved_far.read().unwrap() == moved(&near).read().unwrap());
}

/// Tensors that share a place are written once, so different results must differ in their place.
#[test]
fn blocks_along_other_columns_have_another_place() {
    let tall = matrix(8, 4, wave);
    let wide = tall.reshaped(&[4, 8]).unwrap();
    let blocks =
        Blocks { dtype: DType::I8, size: 4, scale: DType::F32, layout: BlockLayout::Columns };
    let values = |x: &Tensor| x.quantized(blocks, "w").unwrap().values;
    assert_eq!(values(&tall).place(), values(&tall).place());
    assert_ne!(values(&tall).place(), values(&wide).place());
    assert_ne!(integers(&values(&tall)), integers(&values(&wide)));
    // A reshape does not change the bytes of an elementwise cast.
    let half = |x: &Tensor| x.cast(DType::F16).unwrap();
    assert_eq!(half(&tall).place(), half(&wide).place());
}

/// Returns the elements of rows that are stored as halves.
fn of_halves(tensor: &Tensor, is_signed: bool) -> Vec<i32> {
    let bytes = tensor.read().unwrap();
    let number = |nibble: u8| match is_signed && nibble > 7 {
        true => i32::from(nibble) - 16,
        false => i32::from(nibble),
    };
    let rows = bytes.chunks(tensor.shape()[1]);
    rows.flat_map(|row| row.iter().map(|b| b & 15).chain(row.iter().map(|b| b >> 4)))
        .map(number)
        .collect()
}

#[test]
fn blocks_in_rows_are_those_of_the_transposed_matrix() {
    let (rows, columns, size) = (700, 64, 16);
    let source = matrix(rows, columns, wave);
    let turned = source.transposed(&[1, 0]).unwrap();
    for dtype in [DType::I4, DType::U4, DType::I8, DType::U8] {
        let blocks = Blocks { dtype, size, scale: DType::F16, layout: BlockLayout::Halves };
        let found = source.quantized(blocks, "w").unwrap();
        let wanted =
            turned.quantized(Blocks { layout: BlockLayout::Columns, ..blocks }, "w").unwrap();
        let values = match dtype.bits() {
            4 => {
                assert_eq!(found.values.shape(), [rows, columns / 2]);
                of_halves(&found.values, dtype == DType::I4)
            }
            _ => integers(&found.values),
        };
        let scales = floats(&found.scales);
        let zeros = found.zero_points.map(|zeros| integers(&zeros));
        let (turned_values, turned_scales) = (integers(&wanted.values), floats(&wanted.scales));
        let turned_zeros = wanted.zero_points.map(|zeros| integers(&zeros));
        for i in 0..rows {
            for j in 0..columns {
                assert_eq!(values[i * columns + j], turned_values[j * rows + i]);
            }
            for j in 0..columns / size {
                let (at, turned) = (i * (columns / size) + j, j * rows + i);
                assert_eq!(scales[at].to_bits(), turned_scales[turned].to_bits());
                if let (Some(zeros), Some(turned_zeros)) = (&zeros, &turned_zeros) {
                    let shift = if dtype == DType::U4 { 16 } else { 1 };
                    assert_eq!(zeros[at], turned_zeros[turned] * shift);
                }
            }
        }
    }
    let blocks =
        Blocks { dtype: DType::I4, size: 128, scale: DType::F16, layout: BlockLayout::Halves };
    let uneven = source.quantized(blocks, "w").unwrap_err().to_string();
    assert_eq!(uneven, "its rows of 64 elements are not a multiple of the block size");
}

#[test]
fn pairs_are_the_same_integers_in_another_order() {
    let source = matrix(70, 64, wave);
    let halves =
        Blocks { dtype: DType::I4, size: 16, scale: DType::F16, layout: BlockLayout::Halves };
    let pairs = Blocks { layout: BlockLayout::Pairs, ..halves };
    let wanted = source.quantized(halves, "w").unwrap();
    let found = source.quantized(pairs, "w").unwrap();
    assert_eq!(found.values.shape(), [70, 32]);
    let bytes = found.values.read().unwrap();
    let values: Vec<i32> =
        bytes.iter().flat_map(|b| [b & 15, b >> 4]).map(|nibble| i32::from(nibble) - 8).collect();
    assert_eq!(values, of_halves(&wanted.values, true));
    assert_eq!(floats(&found.scales), floats(&wanted.scales));
    assert!(source.quantized(Blocks { dtype: DType::I8, ..pairs }, "w").is_err());
}

#[test]
fn zero_points_of_pairs_start_a_byte_with_each_row() {
    let source = matrix(70, 48, wave);
    let halves =
        Blocks { dtype: DType::U4, size: 16, scale: DType::F16, layout: BlockLayout::Halves };
    let pairs = Blocks { layout: BlockLayout::Pairs, ..halves };
    let wanted = source.quantized(halves, "w").unwrap();
    let found = source.quantized(pairs, "w").unwrap();
    let nibbles = |tensor: &Tensor| -> Vec<i32> {
        let bytes = tensor.read().unwrap();
        bytes.iter().flat_map(|b| [b & 15, b >> 4]).map(i32::from).collect()
    };
    assert_eq!(nibbles(&found.values), of_halves(&wanted.values, false));
    let (zeros, wanted) = (found.zero_points.unwrap(), wanted.zero_points.unwrap());
    assert_eq!((zeros.shape(), zeros.dtype()), (&[70, 2][..], DType::U8));
    let rows = integers(&wanted);
    let rows = rows.chunks(3).flat_map(|row| [row[0] >> 4, row[1] >> 4, row[2] >> 4, 0]);
    assert_eq!(nibbles(&zeros), rows.collect::<Vec<_>>());
}

/// Several threads share a matrix, whatever the order in which its parts are read.
#[test]
fn large_matrices_are_quantised_in_shares() {
    let source = matrix(4096, 513, wave);
    let one =
        |rows: std::ops::Range<usize>| matrix(rows.len(), 513, |i, j| wave(i + rows.start, j));
    let blocks =
        Blocks { dtype: DType::U4, size: 32, scale: DType::F16, layout: BlockLayout::Columns };
    let all = source.quantized(blocks, "w").unwrap();
    let zeros = integers(all.zero_points.as_ref().unwrap());
    let (values, scales) = (integers(&all.values), floats(&all.scales));
    for start in (0..4096).step_by(512) {
        let part = one(start..start + 512).quantized(blocks, "w").unwrap();
        let (from, count) = (start / 32 * 513, 512 / 32 * 513);
        assert_eq!(integers(&part.values), values[start * 513..(start + 512) * 513]);
        assert_eq!(floats(&part.scales), scales[from..from + count]);
        assert_eq!(integers(part.zero_points.as_ref().unwrap()), zeros[from..from + count]);
    }
    // Reading again gives the same.
    assert_eq!(floats(&all.scales), scales);
    assert_eq!(integers(&all.values), values);
}

#[test]
fn multiples_of_a_scale_are_kept() {
    // The farthest element of each block is another multiple of its scale.
    let scale = |i: usize, j: usize| f16::from_f32(0.011 * (1 + j + i / 16) as f32).to_f32();
    let number = |i: usize, j: usize| ((i * 7 + j * 3) % (1 + j)) as f32 - (j / 2) as f32;
    let of = |i: usize, j: usize| number(i, j) * scale(i, j);
    for in_rows in [false, true] {
        let layout = if in_rows { BlockLayout::Halves } else { BlockLayout::Columns };
        let blocks = Blocks { dtype: DType::I4, size: 16, scale: DType::F16, layout };
        let source = match in_rows {
            false => matrix(32, 15, of),
            true => matrix(15, 32, |i, j| of(j, i)),
        };
        let Quantized { values, scales, .. } = source.quantized(blocks, "w").unwrap();
        let scales = floats(&scales);
        let values = if in_rows { of_halves(&values, true) } else { integers(&values) };
        for (at, value) in values.into_iter().enumerate() {
            let (i, j) = if in_rows { (at % 32, at / 32) } else { (at / 15, at % 15) };
            let block = if in_rows { j * 2 + i / 16 } else { i / 16 * 15 + j };
            assert_eq!(value as f32 * scales[block], of(i, j), "{in_rows} {i} {j}");
        }
    }
}

#[test]
fn widened_elements_are_copied_back() {
    let small = matrix(3, 2, wave).rounded(DType::BF16, "w").unwrap();
    let stored = Tensor::new(DType::BF16, &[3, 2], Arc::new(small.read().unwrap().into_owned()));
    let stored = stored.unwrap();
    for wide in [stored.cast(DType::F32).unwrap(), stored.rounded(DType::F32, "w").unwrap()] {
        let wide = wide.transposed(&[1, 0]).unwrap();
        let back = wide.rounded(DType::BF16, "w").unwrap();
        assert!(back.as_reduced().is_none());
        assert_eq!(back, stored.transposed(&[1, 0]).unwrap());
        assert!(wide.rounded(DType::F16, "w").unwrap().as_reduced().is_some());
    }
}

#[test]
fn a_number_that_is_cast_back_is_the_source() {
    let half = Tensor::scalar(DType::F16, 1.5).unwrap();
    let back = half.cast(DType::F32).unwrap().cast(DType::F16).unwrap();
    assert_eq!(back.place(), half.place());
    let other = half.cast(DType::F32).unwrap().cast(DType::BF16).unwrap();
    assert_ne!(other.place(), half.place());
    assert_eq!(other.to_f64s().unwrap(), [1.5]);
}

#[test]
fn the_largest_number_is_finite() {
    let bytes: Vec<u8> = [f32::MAX, 1.0].into_iter().flat_map(f32::to_le_bytes).collect();
    let tensor = Tensor::new(DType::F32, &[2, 1], Arc::new(bytes)).unwrap();
    assert_eq!(tensor.largest_magnitude(), Some(f32::MAX));
    let blocks =
        Blocks { dtype: DType::I8, size: 2, scale: DType::F32, layout: BlockLayout::Columns };
    assert!(tensor.quantized(blocks, "w").unwrap().values.read().is_ok());
}

#[test]
fn scales_have_a_type_and_a_size() {
    let tensor = Tensor::new(DType::F32, &[2, 2], Arc::new(vec![0; 16])).unwrap();
    let blocks =
        Blocks { dtype: DType::I8, size: 2, scale: DType::F32, layout: BlockLayout::Columns };
    let error = |blocks| tensor.quantized(blocks, "w").unwrap_err();
    assert_eq!(error(Blocks { scale: DType::F64, ..blocks }), ReduceError::Format(DType::F64));
    assert_eq!(error(Blocks { size: 0, ..blocks }), ReduceError::Format(DType::F32));
    let pairs = Blocks { layout: BlockLayout::Pairs, ..blocks };
    assert_eq!(error(pairs), ReduceError::Format(DType::I8));
}
