//! Reads models from bytes and files.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use prost::Message;
use prost::bytes::Bytes;

use crate::error::invalid;
use crate::proto::ModelProto;
use crate::{Error, Result};

/// Reads a model. Its tensors refer to `bytes`; external data is not read.
pub fn read(bytes: impl Into<Bytes>) -> Result<ModelProto> {
    let bytes = bytes.into();
    if bytes.is_empty() {
        return Err(Error::Read("it is empty".to_owned()));
    }
    complete(ModelProto::decode(bytes).map_err(|e| Error::Read(format!("cut short? {e}")))?)
}

/// Returns the model if it has the required fields.
pub(crate) fn complete(model: ModelProto) -> Result<ModelProto> {
    // Almost any text is valid protobuf with unknown fields, so check for the required ones.
    let missing = if model.graph.is_none() {
        "graph"
    } else if model.ir_version == 0 {
        "IR version"
    } else if model.ir_version >= 3 && model.opset_import.is_empty() {
        "operator set"
    } else {
        return Ok(model);
    };
    Err(Error::Read(format!("it has no {missing}")))
}

/// Opens a regular file. Fails for anything else, because opening a pipe would wait for a writer.
pub fn open_regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    File::open(path)
}

/// Reads a model file. External data is not read.
pub fn read_file(path: &Path) -> Result<ModelProto> {
    let mut content = Vec::new();
    let done = open_regular(path).and_then(|mut file| file.read_to_end(&mut content));
    done.map_err(Error::at(path))?;
    read(content)
}
