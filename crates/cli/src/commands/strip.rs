//! `jax2onnx strip`: removes provenance from a model before it is shipped.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use onnx_file::Pending;
use provenance::{
    CALLSITE, JAX_TRACEBACK, PLUGIN, SOURCE_MAP, SOURCE_MAP_DIGEST, STACKTRACE, SourceMap, digest,
};

use crate::failure::{Failure, Status};
use crate::model::RECORDING;
use crate::outputs::{check_data_files, keep_apart, weights};
use crate::terminal::Terminal;

/// The prefix of every metadata key of this project.
const OURS: &str = "pkg.jax2onnx.";

/// Removes provenance from a model before it is shipped.
///
/// Removes all jax2onnx metadata from the model, its nodes, graphs and functions. The rest of the
/// file, including names, is unchanged. Weights are copied without being loaded. Weights in a
/// separate file are not copied, so such a model can only be written to a folder that already
/// contains them.
///
/// With --map, the source map moves to a separate file and the model keeps only its digest, which
/// reveals nothing. `explain` and the other commands find the map if it is beside the model.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jax2onnx strip model.onnx                      writes model.stripped.onnx
  jax2onnx strip model.onnx -o shipped.onnx --map shipped.onnx.map
  jax2onnx strip model.onnx -o model.onnx --keep callsite")]
pub(crate) struct Strip {
    /// The model file.
    model: PathBuf,
    /// The file to write the result to. It may be the model itself. Default: `NAME.stripped.onnx`
    /// beside the model.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The metadata to keep, separated by commas.
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    keep: Vec<Key>,
    /// Move the source map to this file.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

/// A kind of metadata that can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Key {
    /// The user's function and line.
    Callsite,
    /// The rule that emitted the node.
    Plugin,
    /// The stack of the rule and of the call that started the export.
    Stacktrace,
    /// The stack of the equation.
    JaxTraceback,
    /// The model's source map, or the digest of a map in a separate file.
    Sourcemap,
}

impl Key {
    fn name(self) -> &'static str {
        match self {
            Key::Callsite => CALLSITE,
            Key::Plugin => PLUGIN,
            Key::Stacktrace => STACKTRACE,
            Key::JaxTraceback => JAX_TRACEBACK,
            Key::Sourcemap => SOURCE_MAP,
        }
    }
}

impl Strip {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        if self.map.is_some() && self.keep.contains(&Key::Sourcemap) {
            let why = "`--keep sourcemap` keeps the source map in the model and \
            `--map` moves it out; choose one";
            return Err(Failure::Request(why.to_owned()));
        }
        let model = onnx_file::skim_file(&self.model).map_err(Failure::model(&self.model))?;
        let out = &self.out.clone().unwrap_or_else(|| self.model.with_extension("stripped.onnx"));
        self.check_outputs(out)?;
        check_data_files(&self.model, out)?;
        let (mut digest_of_map, mut pending) = (None, None);
        if let Some(path) = &self.map {
            let text = model.metadata_props.iter().find(|prop| prop.key == SOURCE_MAP);
            let text = text.ok_or_else(|| self.no_map(&model.metadata_props))?.value.as_str();
            SourceMap::parse(text).map_err(|error| Failure::file(&self.model, error))?;
            // Write the map first: a model that is replaced in place no longer has it.
            let map = Pending::write(path, |file| file.write_all(text.as_bytes()))
                .map_err(Failure::model(path))?;
            pending = Some((path, map));
            digest_of_map = Some(digest(text.as_bytes()));
        }
        let kept: Vec<&str> = self.keep.iter().map(|key| key.name()).collect();
        // If the map is already a separate file, the digest identifies it.
        let kept_map = kept.contains(&SOURCE_MAP);
        let drop = |key: &str| {
            key.starts_with(OURS) && !kept.contains(&key) && !(kept_map && key == SOURCE_MAP_DIGEST)
        };
        let add: Vec<_> = digest_of_map.iter().map(|d| (SOURCE_MAP_DIGEST, d.as_str())).collect();
        let stripped =
            onnx_file::strip_file(&self.model, out, &drop, &add).map_err(Failure::model(out))?;
        if let Some((path, map)) = pending {
            map.finish().map_err(Failure::model(path))?;
        }
        let (entries, bytes) = (stripped.entries, stripped.bytes);
        let s = if entries == 1 { "y" } else { "ies" };
        let mut text = terminal.text();
        text.line(&format!("{}: removed {entries} metadata entr{s}, {bytes} bytes", out.display()));
        if let Some(map) = &self.map {
            text.line(&format!("{}: the source map", map.display()));
        }
        terminal.show(&text)?;
        Ok(Status::Yes)
    }

    /// Checks that no file other than the model itself is overwritten.
    fn check_outputs(&self, out: &Path) -> Result<(), Failure> {
        let weights = weights(&self.model)?;
        let weights = || weights.iter().map(|path| ("the model's weights", path.as_path()));
        keep_apart(("--out", out), weights())?;
        if out.metadata().is_ok_and(|about| about.len() > 0) && onnx_file::skim_file(out).is_err() {
            let why =
                "`--out` would overwrite a file that is not an ONNX model; choose another file";
            return Err(Failure::file(out, why));
        }
        let Some(map) = &self.map else { return Ok(()) };
        let models = [("the model", self.model.as_path()), ("the file given as `--out`", out)];
        keep_apart(("--map", map), models.into_iter().chain(weights()))
    }

    fn no_map(&self, props: &[onnx_file::proto::StringStringEntryProto]) -> Failure {
        if props.iter().any(|prop| prop.key == SOURCE_MAP_DIGEST) {
            Failure::file(&self.model, "its source map is already a separate file")
        } else {
            Failure::file(&self.model, format!("the model has no source map; {RECORDING}"))
        }
    }
}
