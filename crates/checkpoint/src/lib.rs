//! Weights in safetensors files: a single file, or several with an index. Files are mapped into
//! memory, so a checkpoint may be larger than the memory.

mod header;
mod mapped;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use tensor::Tensor;

use header::Entry;
use mapped::{Mapped, Slice, regular};

/// An error while reading a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file does not have the format that its name promises.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// A description of the problem.
        problem: String,
    },
}

/// The tensors of a checkpoint, by name.
#[derive(Debug, Default)]
pub struct Checkpoint {
    tensors: BTreeMap<String, Stored>,
}

/// An entry of a checkpoint.
#[derive(Debug)]
pub enum Stored {
    /// A tensor.
    Tensor(Tensor),
    /// A tensor whose element type, which has this name, does not exist in ONNX.
    Unknown(String),
}

/// The index of a checkpoint in several files.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The largest index that is read.
const LARGEST_INDEX: u64 = 100 << 20;

impl Checkpoint {
    /// Opens a safetensors file, the index of several files, or a folder with either.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if path.is_dir() {
            return Self::folder(path);
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Self::index(path),
            _ => Self::files(std::slice::from_ref(&path.to_owned())),
        }
    }

    /// Returns the names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Returns the tensor with that name.
    pub fn get(&self, name: &str) -> Option<&Stored> {
        self.tensors.get(name)
    }

    fn folder(folder: &Path) -> Result<Self, Error> {
        let entries = fs::read_dir(folder).map_err(|source| io_error(folder, source))?;
        let (mut files, mut indices) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = entry.map_err(|source| io_error(folder, source))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.ends_with(".safetensors.index.json") {
                indices.push(path);
            } else if name.ends_with(".safetensors") {
                files.push(path);
            }
        }
        files.sort_unstable();
        match (indices.as_slice(), files.is_empty()) {
            ([index], _) => Self::index(index),
            ([_, _, ..], _) => Err(malformed(folder, "there are several indices in this folder")),
            ([], true) => Err(malformed(folder, "there are no safetensors files in this folder")),
            ([], false) => Self::files(&files),
        }
    }

    fn index(path: &Path) -> Result<Self, Error> {
        let failed = |source| io_error(path, source);
        let size = regular(path).map_err(failed)?.len();
        if size > LARGEST_INDEX {
            return Err(malformed(path, "the index is larger than 100 MiB"));
        }
        let text = fs::read(path).map_err(failed)?;
        let index: Index = serde_json::from_slice(&text)
            .map_err(|error| malformed(path, &format!("not an index of safetensors: {error}")))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let names: BTreeSet<&String> = index.weight_map.values().collect();
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let mut parts = Path::new(name).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                let problem = format!("`{name}` is not the name of a file in the same folder");
                return Err(malformed(path, &problem));
            }
            files.push(folder.join(name));
        }
        let mut all = Self::files(&files)?;
        if let Some(name) = index.weight_map.keys().find(|name| !all.tensors.contains_key(*name)) {
            let file = &index.weight_map[name];
            return Err(malformed(path, &format!("`{name}` should be in `{file}`, but is not")));
        }
        all.tensors.retain(|name, _| index.weight_map.contains_key(name));
        Ok(all)
    }

    fn files(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut all = Self::default();
        for path in paths {
            let mapped = Arc::new(Mapped::open(path).map_err(|source| io_error(path, source))?);
            let entries =
                header::read(mapped.bytes()).map_err(|problem| malformed(path, &problem))?;
            for (name, entry) in entries {
                let stored = tensor(&mapped, entry)
                    .map_err(|problem| malformed(path, &format!("`{name}`: {problem}")))?;
                if all.tensors.contains_key(&name) {
                    let problem = format!("`{name}` is in another file of the checkpoint, too");
                    return Err(malformed(path, &problem));
                }
                all.tensors.insert(name, stored);
            }
        }
        Ok(all)
    }
}

fn tensor(mapped: &Arc<Mapped>, entry: Entry) -> Result<Stored, String> {
    let Entry { dtype, shape, range } = entry;
    let dtype = match dtype {
        Ok(dtype) => dtype,
        Err(unknown) => return Ok(Stored::Unknown(unknown)),
    };
    let slice = Arc::new(Slice::new(Arc::clone(mapped), range));
    let tensor = Tensor::new(dtype, &shape, slice).map_err(|error| error.to_string())?;
    Ok(Stored::Tensor(tensor))
}

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}

fn malformed(path: &Path, problem: &str) -> Error {
    Error::Malformed { path: path.to_owned(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests;
