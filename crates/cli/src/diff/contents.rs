//! Compares the contents of tensors without loading them.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Component, Path};

use onnx::proto::{DataLocation, TensorProto};

/// Why contents cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The data is not where a model's data belongs.
    #[error("`{0}` is stored in `{1}`, outside the model's folder")]
    Outside(String, String),
    /// The data cannot be read.
    #[error("cannot read `{0}` from `{1}`: {2}")]
    Io(String, String, io::Error),
}

/// How many bytes are compared at once.
const CHUNK: usize = 1 << 18;

/// A tensor's bytes and their number; none if it is stored in a form without bytes to compare.
type Contents = Option<(Box<dyn Read>, u64)>;

/// Whether two tensors of the same type have the same contents; `None` if that is unknown.
pub(super) fn same(
    a: &TensorProto,
    model_a: &Path,
    b: &TensorProto,
    model_b: &Path,
) -> Result<Option<bool>, Trouble> {
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
    let (Some((mut x, x_len)), Some((mut y, y_len))) =
        (contents(a, model_a)?, contents(b, model_b)?)
    else {
        return Ok(None);
    };
    if x_len != y_len {
        return Ok(Some(false));
    }
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut remaining = x_len;
    while remaining > 0 {
        let now = usize::try_from(remaining).unwrap_or(CHUNK).min(CHUNK);
        let failed = |t: &TensorProto| {
            let name = t.name.clone();
            let place = property(t, "location").unwrap_or_default().to_owned();
            move |error| Trouble::Io(name, place, error)
        };
        x.read_exact(&mut left[..now]).map_err(failed(a))?;
        y.read_exact(&mut right[..now]).map_err(failed(b))?;
        if left[..now] != right[..now] {
            return Ok(Some(false));
        }
        remaining -= now as u64;
    }
    Ok(Some(true))
}

fn property<'t>(tensor: &'t TensorProto, key: &str) -> Option<&'t str> {
    tensor.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str())
}

fn contents(tensor: &TensorProto, model: &Path) -> Result<Contents, Trouble> {
    if tensor.data_location() == DataLocation::External {
        return outside(tensor, model);
    }
    if let Some(raw) = &tensor.raw_data {
        return Ok(in_memory(raw.to_vec()));
    }
    // The fields that store numbers as raw data does.
    let floats = tensor.float_data.iter().flat_map(|f| f.to_le_bytes());
    let doubles = tensor.double_data.iter().flat_map(|f| f.to_le_bytes());
    let longs = tensor.int64_data.iter().flat_map(|i| i.to_le_bytes());
    let bytes: Vec<u8> = floats.chain(doubles).chain(longs).collect();
    let other = !(tensor.int32_data.is_empty()
        && tensor.uint64_data.is_empty()
        && tensor.string_data.is_empty());
    let empty = bytes.is_empty() && !tensor.dims.contains(&0);
    Ok(if other || empty { None } else { in_memory(bytes) })
}

fn in_memory(bytes: Vec<u8>) -> Contents {
    let length = bytes.len() as u64;
    Some((Box::new(io::Cursor::new(bytes)), length))
}

fn outside(tensor: &TensorProto, model: &Path) -> Result<Contents, Trouble> {
    let location = property(tensor, "location").unwrap_or_default();
    let inner = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(location).components().all(inner) {
        return Err(Trouble::Outside(tensor.name.clone(), location.to_owned()));
    }
    // Packed numbers inside the model have no bytes of their own.
    if property(tensor, "field").is_some_and(|field| !matches!(field, "4" | "9" | "10")) {
        return Ok(None);
    }
    let path = match location {
        "" => model.to_owned(),
        location => model.with_file_name(location),
    };
    let open = || {
        let mut file = File::open(&path)?;
        let whole = file.metadata()?.len();
        let number = |key| property(tensor, key).and_then(|text| text.trim().parse::<u64>().ok());
        let offset = number("offset").unwrap_or(0);
        let rest = whole.checked_sub(offset).ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = number("length").unwrap_or(rest);
        if length > rest {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.seek(SeekFrom::Start(offset))?;
        Ok((BufReader::with_capacity(CHUNK, file).take(length), length))
    };
    let (reader, length) = open()
        .map_err(|error| Trouble::Io(tensor.name.clone(), path.display().to_string(), error))?;
    Ok(Some((Box::new(reader), length)))
}
