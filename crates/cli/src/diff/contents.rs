//! Comparison of tensor contents without loading them.

use std::path::Path;

use onnx_file::proto::{DataLocation, TensorProto};

use crate::failure::Failure;
use crate::model::Contents;

/// The number of bytes compared at once.
const CHUNK: usize = 1 << 18;

/// Returns `true` if two tensors of the same type have the same contents; `None` if that is
/// unknown.
pub(super) fn same(
    a: &TensorProto,
    model_a: &Path,
    b: &TensorProto,
    model_b: &Path,
) -> Result<Option<bool>, Failure> {
    if a.data_location() == DataLocation::Default && a.data_location == b.data_location {
        let plain = |t: &TensorProto| TensorProto {
            name: String::new(),
            doc_string: String::new(),
            metadata_props: Vec::new(),
            ..t.clone()
        };
        if plain(a) == plain(b) {
            return Ok(Some(true));
        }
    }
    let (Some(mut x), Some(mut y)) = (Contents::of(a, model_a)?, Contents::of(b, model_b)?) else {
        return Ok(None);
    };
    if x.length != y.length {
        return Ok(Some(false));
    }
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut done = 0;
    while done < x.length {
        let now = usize::try_from(x.length - done).unwrap_or(CHUNK).min(CHUNK);
        x.read(done, &mut left[..now])?;
        y.read(done, &mut right[..now])?;
        if left[..now] != right[..now] {
            return Ok(Some(false));
        }
        done += now as u64;
    }
    Ok(Some(true))
}
