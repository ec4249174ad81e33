//! The header of a safetensors file: the length of a JSON text, the text, then the elements.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
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

/// The entries of a header in the order of the text, each under another name.
struct Entries(Vec<(String, Written)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Distinct;
        impl<'de> Visitor<'de> for Distinct {
            type Value = Entries;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries, M::Error> {
                let mut names = BTreeSet::new();
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !names.insert(name.clone()) {
                        return Err(M::Error::custom(format!("`{name}` is there twice")));
                    }
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let written = map.next_value();
                    let named = |error| M::Error::custom(format!("`{name}`: {error}"));
                    entries.push((name.clone(), written.map_err(named)?));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Distinct)
    }
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
    let Entries(entries) = serde_json::from_slice(text)
        .map_err(|error| format!("not a safetensors file: its header is wrong: {error}"))?;
    check_ranges(&entries, elements.len())?;
    let entry = |(name, written): (String, Written)| {
        let (first, end) = written.data_offsets;
        let dtype = dtype(&written.dtype).ok_or(written.dtype);
        (name, Entry { dtype, shape: written.shape, range: start + first..start + end })
    };
    Ok(entries.into_iter().map(entry).collect())
}

/// Fails unless every byte of the elements belongs to exactly one tensor, as the format requires.
fn check_ranges(entries: &[(String, Written)], len: usize) -> Result<(), String> {
    let mut ranges = Vec::with_capacity(entries.len());
    for (name, written) in entries {
        let (first, end) = written.data_offsets;
        if first > end || end > len {
            return Err(format!("`{name}` is outside of the file"));
        }
        if first < end {
            ranges.push((first, end, name.as_str()));
        }
    }
    ranges.sort_unstable();
    let mut before = (0, "");
    for (first, end, name) in ranges {
        if first < before.0 {
            return Err(format!("`{}` and `{name}` share bytes", before.1));
        }
        check_gap(before.0, first)?;
        before = (end, name);
    }
    check_gap(before.0, len)
}

fn check_gap(from: usize, to: usize) -> Result<(), String> {
    match to - from {
        0 => Ok(()),
        gap => Err(format!(
            "{gap} bytes of elements belong to no tensor, from byte {from}: the header does not fit \
             the file"
        )),
    }
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
