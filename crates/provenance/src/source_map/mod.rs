//! The source map: provenance that survives other tools.
//!
//! Runtimes drop the metadata of nodes when they optimise, but keep the model's own metadata and
//! the names of values. The map is therefore a single table beside or inside the model, keyed first
//! by the names of values, then by the names of nodes. `docs/source-map.md` specifies the format.

mod build;
mod lookup;
mod text;

use serde::{Deserialize, Serialize};

pub use build::{MapNode, ReadText, Sources};
pub use lookup::{MapFrame, OtherCall, Source};
pub use text::{SourceMapError, digest};

/// Key of the map in the model's metadata.
pub const SOURCE_MAP: &str = "pkg.jax2onnx.sourcemap";
/// Key of the digest of a map in a separate file.
pub const SOURCE_MAP_DIGEST: &str = "pkg.jax2onnx.sourcemap.digest";

/// The version of the format.
const VERSION: u32 = 1;

/// A table from the names in a model to the lines of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceMap {
    tables: Tables,
    index: lookup::Index,
}

/// The format, field by field. Entries refer to each other by position; -1 means none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Tables {
    version: u32,
    #[serde(deserialize_with = "text::bounded")]
    files: Vec<FileEntry>,
    #[serde(default, deserialize_with = "text::bounded", skip_serializing_if = "Vec::is_empty")]
    edited: Vec<u32>,
    #[serde(deserialize_with = "text::bounded")]
    functions: Vec<String>,
    #[serde(deserialize_with = "text::bounded")]
    frames: Vec<FrameEntry>,
    #[serde(deserialize_with = "text::bounded")]
    stacks: Vec<StackEntry>,
    #[serde(deserialize_with = "text::bounded")]
    scopes: Vec<String>,
    #[serde(deserialize_with = "text::bounded")]
    emitters: Vec<EmitterEntry>,
    #[serde(deserialize_with = "text::bounded")]
    calls: Vec<CallEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "text::bounded")]
    callers: Vec<CallersEntry>,
    #[serde(deserialize_with = "text::bounded")]
    origins: Vec<OriginEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "text::bounded")]
    idle: Vec<IdleEntry>,
    #[serde(deserialize_with = "text::bounded")]
    inputs: Vec<String>,
    #[serde(deserialize_with = "text::bounded")]
    nodes: Vec<NodeEntry>,
}

/// Path, digest of the text, the text itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct FileEntry(String, Option<String>, Option<String>);

/// File, function, line, column, end line, end column, kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct FrameEntry(u32, u32, u32, u32, u32, u32, u8);

/// Frame, the stack of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct StackEntry(u32, i64);

/// Name, stage, file, line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct EmitterEntry(String, String, String, u32);

/// Stack, the enclosing call, the emitter that was lowering the enclosing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct CallEntry(i64, i64, i64);

/// The first call to a function, and its other calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct CallersEntry(u32, Vec<u32>);

/// Call, scope, emitter, the origins that were merged into it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct OriginEntry(i64, u32, u32, Vec<u32>);

/// An origin, and those of the origins merged into it whose operations had no effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct IdleEntry(u32, Vec<u32>);

/// Name, origin, the nodes whose results it reads, and the names of all its results if one of them
/// differs from `<name>_output_<i>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct NodeEntry(String, u32, Vec<u32>, Vec<String>);

/// Returns the default name of a result.
fn default_output(node: &str, index: usize) -> String {
    format!("{node}_output_{index}")
}
