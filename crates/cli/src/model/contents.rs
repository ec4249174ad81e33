//! Access to the contents of tensors without loading them.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Component, Path};

use onnx_file::proto::{DataLocation, TensorProto};

use crate::failure::{Failure, without_number};

trait Source: Read + Seek {}
impl<T: Read + Seek> Source for T {}

/// The bytes of a tensor.
pub(crate) struct Contents {
    /// The number of bytes.
    pub(crate) length: u64,
    source: Box<dyn Source>,
    start: u64,
    /// The names of the tensor and its file, for errors.
    names: (String, String),
}

impl Contents {
    /// Opens the bytes of `tensor`, which belongs to the model at `model` and records their
    /// location. Returns `None` if the tensor is stored in a form without bytes.
    pub(crate) fn of(tensor: &TensorProto, model: &Path) -> Result<Option<Self>, Failure> {
        if tensor.data_location() == DataLocation::External {
            return Self::external(tensor, model);
        }
        if let Some(raw) = &tensor.raw_data {
            return Ok(Some(Self::in_memory(tensor, raw.to_vec())));
        }
        // These fields have the same layout as raw data.
        let floats = tensor.float_data.iter().flat_map(|f| f.to_le_bytes());
        let doubles = tensor.double_data.iter().flat_map(|f| f.to_le_bytes());
        let longs = tensor.int64_data.iter().flat_map(|i| i.to_le_bytes());
        let bytes: Vec<u8> = floats.chain(doubles).chain(longs).collect();
        let other = !(tensor.int32_data.is_empty()
            && tensor.uint64_data.is_empty()
            && tensor.string_data.is_empty());
        let empty = bytes.is_empty() && !tensor.dims.contains(&0);
        Ok((!other && !empty).then(|| Self::in_memory(tensor, bytes)))
    }

    /// Reads the bytes at `offset`.
    pub(crate) fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        let place = self.source.seek(SeekFrom::Start(self.start.saturating_add(offset)));
        let read = place.and_then(|_| self.source.read_exact(bytes));
        read.map_err(|error| unreadable(&self.names, &error))
    }

    fn in_memory(tensor: &TensorProto, bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u64;
        let names = (tensor.name.clone(), String::new());
        Self { length, source: Box::new(Cursor::new(bytes)), start: 0, names }
    }

    fn external(tensor: &TensorProto, model: &Path) -> Result<Option<Self>, Failure> {
        let location = location_property(tensor, "location").unwrap_or_default();
        if leaves_folder(location) {
            let name = &tensor.name;
            let why = format!("`{name}` is stored in `{location}`, outside the model's folder");
            return Err(Failure::Request(why));
        }
        // Packed numbers inside the model have no bytes of their own.
        if location_property(tensor, "field")
            .is_some_and(|field| !matches!(field, "4" | "9" | "10"))
        {
            return Ok(None);
        }
        let path = match location {
            "" => model.to_owned(),
            location => model.with_file_name(location),
        };
        let names = (tensor.name.clone(), path.display().to_string());
        let open = || {
            let about = path.metadata()?;
            if !about.is_file() {
                return Err(io::Error::other("it is not a regular file"));
            }
            let (file, whole) = (File::open(&path)?, about.len());
            let number = |key| {
                location_property(tensor, key).and_then(|text| text.trim().parse::<u64>().ok())
            };
            let start = number("offset").unwrap_or(0);
            let rest = whole.checked_sub(start).ok_or(io::ErrorKind::UnexpectedEof)?;
            let length = number("length").unwrap_or(rest);
            if length > rest {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            Ok((file, start, length))
        };
        match open() {
            Ok((file, start, length)) => {
                Ok(Some(Self { length, source: Box::new(file), start, names }))
            }
            Err(error) => Err(unreadable(&names, &error)),
        }
    }
}

/// Creates the failure for contents that cannot be read.
fn unreadable((name, file): &(String, String), error: &io::Error) -> Failure {
    let error = without_number(error);
    Failure::Request(format!("cannot read `{name}` from `{file}`: {error}"))
}

/// Returns `true` if a path in a model is absolute or may lead out of the model's folder.
pub(crate) fn leaves_folder(path: &str) -> bool {
    let is_inner = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !Path::new(path).components().all(is_inner)
}

/// Returns the value of `key` in the location of a tensor's contents outside the model file.
pub(crate) fn location_property<'t>(tensor: &'t TensorProto, key: &str) -> Option<&'t str> {
    tensor.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_in_fields_of_their_own_have_bytes_if_they_look_like_raw_data() {
        let one = TensorProto { dims: vec![1], ..TensorProto::default() };
        let length = |tensor: TensorProto| {
            Contents::of(&tensor, Path::new("")).unwrap().map(|contents| contents.length)
        };
        assert_eq!(length(TensorProto { float_data: vec![1.0], ..one.clone() }), Some(4));
        assert_eq!(length(TensorProto { double_data: vec![1.0], ..one.clone() }), Some(8));
        assert_eq!(length(TensorProto { int64_data: vec![1], ..one.clone() }), Some(8));
        assert_eq!(length(TensorProto { int32_data: vec![1], ..one.clone() }), None);
        assert_eq!(length(TensorProto { uint64_data: vec![1], ..one.clone() }), None);
        let text = TensorProto { string_data: vec!["a".into()], ..one.clone() };
        assert_eq!(length(text), None);
        assert_eq!(length(one.clone()), None, "its elements are missing");
        let both = TensorProto { float_data: vec![1.0], ..one.clone() };
        for other in [
            TensorProto { int32_data: vec![1], ..both.clone() },
            TensorProto { uint64_data: vec![1], ..both.clone() },
            TensorProto { string_data: vec!["a".into()], ..both },
        ] {
            assert_eq!(length(other), None, "elements in two fields");
        }
        assert_eq!(length(TensorProto { dims: vec![2, 0], ..one }), Some(0));
    }
}
