//! The header of a safetensors file: the length of a JSON text, the text, then the elements.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use tensor::DType;

/// The largest header that the format allows.
const LARGEST: u64 = 100_000_000;

/// The entry of one tensor in the header.
pub(crate) struct Entry {
    /// The element type, or its name if it is unknown here.
    pub(crate) dtype: Result<DType, String>,
    pub(crate) shape: Vec<usize>,
    /// The position of the elements in the file, in bytes.
    pub(crate) range: Range<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// Reads the header and returns every tensor of the file.
pub(crate) fn read(file: &[u8]) -> Result<Vec<(String, Entry)>, String> {
    let (length, rest) = file.split_first_chunk().ok_or("too short for a safetensors file")?;
    let length = u64::from_le_bytes(*length);
    let text = usize::try_from(length).ok().filter(|_| length <= LARGEST);
    let Some((text, elements)) = text.and_then(|text| rest.split_at_checked(text)) else {
        return Err("not a safetensors file: its header is longer than the file".to_owned());
    };
    let start = file.len() - elements.len();
    let mut entries: BTreeMap<String, serde_json::Value> = serde_json::from_slice(text)
        .map_err(|error| format!("not a safetensors file: its header is wrong: {error}"))?;
    entries.remove("__metadata__");
    let entry = |(name, value): (String, serde_json::Value)| {
        let written: Written =
            serde_json::from_value(value).map_err(|error| format!("`{name}`: {error}"))?;
        let (first, end) = written.data_offsets;
        if first > end || end > elements.len() {
            return Err(format!("`{name}` is outside of the file"));
        }
        let dtype = dtype(&written.dtype).ok_or(written.dtype);
        let range = start + first..start + end;
        Ok((name, Entry { dtype, shape: written.shape, range }))
    };
    entries.into_iter().map(entry).collect()
}

fn dtype(name: &str) -> Option<DType> {
    Some(match name {
        "BOOL" => DType::Bool,
        "U8" => DType::U8,
        "I8" => DType::I8,
        "U16" => DType::U16,
        "I16" => DType::I16,
        "U32" => DType::U32,
        "I32" => DType::I32,
        "U64" => DType::U64,
        "I64" => DType::I64,
        "F8_E4M3" => DType::F8E4M3FN,
        "F8_E5M2" => DType::F8E5M2,
        "F8_E8M0" => DType::F8E8M0FNU,
        "F16" => DType::F16,
        "BF16" => DType::BF16,
        "F32" => DType::F32,
        "F64" => DType::F64,
        _ => return None,
    })
}
