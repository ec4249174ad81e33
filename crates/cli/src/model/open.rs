//! Opens a model without its weights, together with its source map.

use std::io::Read;
use std::path::{Path, PathBuf};

use onnx_file::proto::{ModelProto, StringStringEntryProto};
use provenance::{CALLSITE, SOURCE_MAP, SOURCE_MAP_DIGEST, SourceMap, SourceMapError, digest};

use crate::failure::Failure;

/// The maximum size of a map file, far beyond that of any real model.
const LARGEST_MAP: u64 = 1 << 28;

/// The producer that this project writes into its models.
const PRODUCER: &str = "jax2onnx";

/// A model and its source map.
#[derive(Debug)]
pub(crate) struct Model {
    /// The file, unless the model was read from memory.
    pub(crate) path: Option<PathBuf>,
    /// The model without its weights.
    pub(crate) proto: ModelProto,
    /// The source map, if it is inside the model or beside it.
    pub(crate) map: Option<SourceMap>,
    /// The file that the map was read from, if it is outside the model.
    pub(crate) map_path: Option<PathBuf>,
    /// Notes about the map: it is missing, damaged or belongs to another export.
    pub(crate) remarks: Vec<String>,
}

/// Advice for models that record no lines.
pub(crate) const RECORDING: &str = "export it with `jax2onnx export --provenance sourcemap`, or in Python with `jax2onnx.export` \
     or to_onnx(…, stacktrace_metadata=\"sourcemap\")";

impl Model {
    /// Opens the model file at `path` with the map file `map`, or else with the map inside the
    /// model or beside it.
    pub(crate) fn open(path: &Path, map: Option<&Path>) -> Result<Self, Failure> {
        Self::with_map(path, onnx_file::skim_file(path), map)
    }

    /// Opens a model like [`Model::open`]. Its tensors also record the location of their contents
    /// in the file.
    pub(crate) fn open_located(path: &Path, map: Option<&Path>) -> Result<Self, Failure> {
        Self::with_map(path, onnx_file::skim_located(path), map)
    }

    fn with_map(
        path: &Path,
        proto: onnx_file::Result<ModelProto>,
        map: Option<&Path>,
    ) -> Result<Self, Failure> {
        let mut model = Self::without_map(Some(path), proto.map_err(Failure::model(path))?);
        match map {
            Some(map) => model.use_map(map)?,
            None => model.find_map("pass it with --map"),
        }
        Ok(model)
    }

    /// Opens the model file at `path` with the map inside it or beside it.
    pub(crate) fn open_alone(path: &Path) -> Result<Self, Failure> {
        let proto = onnx_file::skim_located(path).map_err(Failure::model(path))?;
        let mut model = Self::without_map(Some(path), proto);
        model.find_map(&format!("copy it to {}.map", path.display()));
        Ok(model)
    }

    /// Returns all notes about the model: those about its map, or one if this project exported it
    /// without sources.
    pub(crate) fn notes(&self) -> Vec<String> {
        let ours = self.proto.producer_name == PRODUCER;
        if !ours || self.map.is_some() || !self.remarks.is_empty() || self.has_call_sites() {
            return self.remarks.clone();
        }
        let name = self.path.as_deref().map(|path| format!("{}: ", path.display()));
        vec![format!("{}{}", name.unwrap_or_default(), Self::unrecorded())]
    }

    /// Returns the message about a model without lines of Python.
    pub(crate) fn unrecorded() -> String {
        format!(
            "the model does not record the lines of Python that its nodes came from; {RECORDING}"
        )
    }

    /// Returns `true` if a node records its call site, or if there are no nodes.
    fn has_call_sites(&self) -> bool {
        let graph = self.proto.graph.iter().flat_map(|graph| &graph.node);
        let functions = self.proto.functions.iter().flat_map(|function| &function.node);
        let mut nodes = graph.chain(functions).peekable();
        let site = |entry: &StringStringEntryProto| entry.key == CALLSITE;
        nodes.peek().is_none() || nodes.any(|node| node.metadata_props.iter().any(site))
    }

    /// Reads a model from memory.
    pub(crate) fn from_bytes(bytes: &[u8]) -> onnx_file::Result<Self> {
        let proto = onnx_file::skim(bytes)?;
        let mut model = Self::without_map(None, proto);
        model.find_map("");
        Ok(model)
    }

    fn without_map(path: Option<&Path>, proto: ModelProto) -> Self {
        let path = path.map(Path::to_owned);
        Self { path, proto, map: None, map_path: None, remarks: vec![] }
    }

    /// Uses the map file at `path`, unless it belongs to another export. If an export was
    /// interrupted or is still running, the map may have a temporary name.
    fn use_map(&mut self, file: &Path) -> Result<(), Failure> {
        let next = onnx_file::next_name(file);
        let of_model = |key| property(&self.proto.metadata_props, key);
        let inside = || of_model(SOURCE_MAP).map(|text| digest(text.as_bytes()));
        let wanted = of_model(SOURCE_MAP_DIGEST).map(str::to_owned).or_else(inside);
        let is_other =
            |text: &str| wanted.as_ref().is_some_and(|wanted| *wanted != digest(text.as_bytes()));
        let (mut path, mut text) = match read_map(file) {
            Err(_) if next.is_file() => (next.as_path(), read_map(&next)?),
            text => (file, text?),
        };
        if is_other(&text) && next.is_file() {
            (path, text) = (&next, read_map(&next)?);
        }
        if is_other(&text) {
            return Err(Failure::file(file, "this source map belongs to another export"));
        }
        self.map_path = Some(path.to_owned());
        self.map = Some(SourceMap::parse(&text).map_err(|error| Failure::file(path, error))?);
        Ok(())
    }

    /// Looks for the map; `help` is the advice for a map in another location.
    fn find_map(&mut self, help: &str) {
        if let Some(text) = property(&self.proto.metadata_props, SOURCE_MAP) {
            match SourceMap::parse(text) {
                Ok(map) => self.map = Some(map),
                Err(error) => {
                    self.remarks.push(format!("cannot read the model's source map: {error}"));
                }
            }
            return;
        }
        if property(&self.proto.metadata_props, SOURCE_MAP_DIGEST).is_none() {
            return;
        }
        let Some(path) = &self.path else { return };
        let mut beside = path.clone().into_os_string();
        beside.push(".map");
        let candidates = [PathBuf::from(beside), path.with_extension("map")];
        let exists = |path: &&PathBuf| path.is_file() || onnx_file::next_name(path).is_file();
        let Some(map) = candidates.iter().find(exists) else {
            let remark =
                format!("the model's source map is a separate file that was not found; {help}");
            return self.remarks.push(remark);
        };
        if let Err(failure) = self.use_map(map) {
            self.remarks.push(failure.to_string());
        }
    }
}

/// Reads the source map inside a model file or beside it, or else returns why there is none.
pub fn source_map_of(path: &Path) -> onnx_file::Result<Result<SourceMap, String>> {
    let mut model = Model::without_map(Some(path), onnx_file::skim_file(path)?);
    model.find_map("pass the map file");
    let reason = model.remarks.pop();
    Ok(model.map.ok_or_else(|| reason.unwrap_or_else(|| "the model has no source map".to_owned())))
}

fn read_map(path: &Path) -> Result<String, Failure> {
    let mut bytes = vec![];
    let file = onnx_file::open_regular(path).map_err(Failure::io(path))?;
    file.take(LARGEST_MAP).read_to_end(&mut bytes).map_err(Failure::io(path))?;
    let error = SourceMapError::Malformed("it is not text".to_owned());
    String::from_utf8(bytes).map_err(|_| Failure::file(path, error))
}

impl Model {
    /// Returns the value of `key` in the model's metadata.
    pub(crate) fn property(&self, key: &str) -> Option<&str> {
        property(&self.proto.metadata_props, key)
    }
}

/// Returns the value of `key` in the metadata.
pub(super) fn property<'a>(props: &'a [StringStringEntryProto], key: &str) -> Option<&'a str> {
    props.iter().find(|prop| prop.key == key).map(|prop| prop.value.as_str())
}
