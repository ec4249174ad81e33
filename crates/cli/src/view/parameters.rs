//! The parameters of a model: their sizes and the distribution of their values.
//!
//! Large tensors are sampled in blocks of elements at regular intervals, so that the time depends
//! on the number of tensors rather than on their size.

use std::path::Path;
use std::sync::Arc;

use onnx_file::proto::{GraphProto, TensorProto};
use serde_json::{Value, json};
use tensor::{DType, Tensor};

use crate::model::{Contents, Index, tensor_text};

/// The maximum number of elements read from all tensors.
const ALL: u64 = 1 << 26;
/// The maximum number of elements read from one tensor.
const MOST: u64 = 1 << 17;
/// The number of consecutive elements in a sample block.
const BLOCK: u64 = 1 << 10;
/// The number of bars of a histogram.
const BARS: usize = 24;

/// Builds a row per parameter: name, type, elements, bytes and statistics. `string` interns a text
/// and returns its position.
pub(super) fn parameters(
    index: &Index<'_>,
    string: &mut dyn FnMut(&str) -> usize,
) -> (Vec<Value>, Vec<String>) {
    let tensors = all(index);
    let share = (ALL / (tensors.len() as u64).max(1)).clamp(BLOCK, MOST);
    let mut missing: Vec<String> = Vec::new();
    let mut row = |tensor: &&TensorProto| {
        let count = count(tensor);
        let dtype = DType::from_onnx_code(tensor.data_type);
        let bytes = dtype.zip(count).map(|(dtype, count)| byte_len(dtype, count));
        let numbers = match (index.model.path.as_deref(), dtype.zip(count)) {
            (Some(path), Some((dtype, count))) => match sample(tensor, path, dtype, count, share) {
                Ok(numbers) => numbers,
                Err(why) => {
                    missing.push(why);
                    None
                }
            },
            _ => None,
        };
        let about = numbers.as_deref().map(describe);
        let (name, ty) = (string(&tensor.name), string(&tensor_text(tensor)));
        json!([name, ty, count, bytes, about])
    };
    let rows = tensors.iter().map(&mut row).collect();
    (rows, missing)
}

/// Returns the tensors of the main graph and of subgraphs.
fn all<'m>(index: &Index<'m>) -> Vec<&'m TensorProto> {
    let inner = index.nodes.iter().flat_map(|node| &node.proto.attribute);
    let inner =
        inner.flat_map(|attribute| attribute.g.as_deref().into_iter().chain(&attribute.graphs));
    let graphs = std::iter::once(index.graph).chain(inner);
    graphs.flat_map(|graph: &GraphProto| &graph.initializer).collect()
}

fn count(tensor: &TensorProto) -> Option<u64> {
    let mut dims = tensor.dims.iter().map(|dim| u64::try_from(*dim).ok());
    dims.try_fold(1_u64, |count, dim| count.checked_mul(dim?))
}

fn byte_len(dtype: DType, count: u64) -> u64 {
    let bits = u128::from(count) * u128::from(dtype.bits());
    u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
}

/// Samples at most about `most` numbers of a tensor. Returns `None` if its type has no numbers, or
/// if they are stored in an unsupported form.
fn sample(
    tensor: &TensorProto,
    model: &Path,
    dtype: DType,
    count: u64,
    most: u64,
) -> Result<Option<Vec<f64>>, String> {
    // Packed elements are not byte-aligned, but blocks of them are.
    let readable = dtype.is_float() || dtype.is_integer() || dtype == DType::Bool;
    if !readable || count == 0 {
        return Ok(None);
    }
    let contents = Contents::of(tensor, model).map_err(|trouble| trouble.to_string())?;
    let Some(mut contents) = contents.filter(|found| found.length == byte_len(dtype, count)) else {
        return Ok(None);
    };
    let (blocks, size) = if count <= most { (1, count) } else { (most / BLOCK, BLOCK) };
    let mut numbers = Vec::new();
    for block in 0..blocks {
        // The first and the last block are the first and the last of the tensor.
        let first = if blocks == 1 { 0 } else { (count - size) / (blocks - 1) * block };
        let first = first / 8 * 8;
        let (Ok(length), Ok(elements)) =
            (usize::try_from(byte_len(dtype, size)), usize::try_from(size))
        else {
            return Ok(None);
        };
        let mut bytes = vec![0; length];
        contents.read(byte_len(dtype, first), &mut bytes).map_err(|trouble| trouble.to_string())?;
        let Some(mut found) = decoded(dtype, elements, bytes) else { return Ok(None) };
        numbers.append(&mut found);
    }
    Ok(Some(numbers))
}

#[expect(clippy::cast_precision_loss, reason = "a histogram of rounded numbers is as good")]
fn decoded(dtype: DType, elements: usize, bytes: Vec<u8>) -> Option<Vec<f64>> {
    if dtype == DType::Bool {
        return Some(bytes.iter().map(|byte| f64::from(u8::from(*byte != 0))).collect());
    }
    let tensor = Tensor::new(dtype, &[elements], Arc::new(bytes)).ok()?;
    tensor.to_f64s().or_else(|| Some(tensor.to_ints()?.iter().map(|int| *int as f64).collect()))
}

/// Computes the number of values read, their mean, standard deviation, minimum and maximum, the
/// number of values that are not finite, and a histogram from the minimum to the maximum.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "bars are counted from zero, and casts saturate"
)]
fn describe(numbers: &[f64]) -> Value {
    let finite: Vec<f64> = numbers.iter().copied().filter(|number| number.is_finite()).collect();
    let count = finite.len().max(1) as f64;
    let (low, high) = finite
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), n| (low.min(*n), high.max(*n)));
    let mean = finite.iter().map(|number| number / count).sum::<f64>();
    let squares = finite.iter().map(|number| (number - mean).powi(2) / count).sum::<f64>();
    let mut bars = [0_u32; BARS];
    let scale = BARS as f64 / (high - low).max(f64::MIN_POSITIVE);
    for number in &finite {
        bars[(((number - low) * scale) as usize).min(BARS - 1)] += 1;
    }
    let strange = numbers.len() - finite.len();
    json!([numbers.len(), mean, squares.sqrt(), low, high, strange, bars])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dtype: DType, dims: &[i64], bytes: Vec<u8>) -> TensorProto {
        TensorProto {
            dims: dims.to_vec(),
            data_type: dtype.onnx_code(),
            raw_data: Some(bytes.into()),
            ..Default::default()
        }
    }

    fn numbers(dtype: DType, dims: &[i64], bytes: Vec<u8>, most: u64) -> Option<Vec<f64>> {
        let tensor = tensor(dtype, dims, bytes);
        sample(&tensor, Path::new(""), dtype, count(&tensor).unwrap(), most).unwrap()
    }

    #[test]
    fn small_tensors_are_read_whole_and_large_ones_in_blocks() {
        let all: Vec<f32> = (0_u16..50_000).chain(0..50_000).map(f32::from).collect();
        let bytes: Vec<u8> = all.iter().flat_map(|n| n.to_le_bytes()).collect();
        let whole = numbers(DType::F32, &[100, 1000], bytes.clone(), MOST).unwrap();
        assert_eq!(whole.len(), 100_000);
        let some = numbers(DType::F32, &[100_000], bytes, 8 * BLOCK).unwrap();
        assert_eq!(some.len(), 8 * 1024);
        assert_eq!((some[0], some[1]), (0.0, 1.0));
        assert!(some[8191] > 49_000.0, "the last block is near the end: {}", some[8191]);
    }

    #[test]
    fn every_type_with_numbers_is_read() {
        assert_eq!(numbers(DType::I8, &[2], vec![255, 3], MOST), Some(vec![-1.0, 3.0]));
        assert_eq!(numbers(DType::Bool, &[2], vec![0, 1], MOST), Some(vec![0.0, 1.0]));
        assert_eq!(numbers(DType::F16, &[1], vec![0, 0x3c], MOST), Some(vec![1.0]));
        assert_eq!(numbers(DType::F32, &[2], vec![0; 7], MOST), None, "a byte is missing");
        assert_eq!(numbers(DType::F32, &[0], vec![], MOST), None);
    }

    #[test]
    fn numbers_are_described() {
        let about = describe(&[1.0, 3.0, f64::NAN]);
        assert_eq!(about[0], 3);
        assert_eq!((&about[1], &about[2]), (&json!(2.0), &json!(1.0)));
        assert_eq!((&about[3], &about[4], &about[5]), (&json!(1.0), &json!(3.0), &json!(1)));
        assert_eq!((&about[6][0], &about[6][BARS - 1]), (&json!(1), &json!(1)));
        assert_eq!(describe(&[f64::INFINITY])[1], 0.0);
        assert_eq!(describe(&[7.0, 7.0])[6][0], 2);
        let vast = describe(&[f64::MAX, -f64::MAX]);
        assert_eq!(vast[1], 0.0, "sums do not overflow");
    }
}
