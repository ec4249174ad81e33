//! `jax2onnx convert`: converts a recorded program to a model without Python.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::thread;

use clap::{Args, ValueHint};
use onnx_file::{Pending, Placement};
use pipeline::{Places, Recording};
use provenance::Origins;

use crate::failure::{Failure, Status};
use crate::outputs::keep_apart;
use crate::table::count;
use crate::terminal::Terminal;

/// Converts a recorded program to a model, without Python or JAX.
///
/// `to_onnx(…, record="model.jaxpr")` and `export --record model.jaxpr` write such a file. If the
/// file contains the weights, the model is byte-for-byte identical to the exported one. Otherwise
/// the weights have made-up values.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jax2onnx convert model.jaxpr -o model.onnx
  jax2onnx convert model.jaxpr -o model.onnx --map model.onnx.map")]
pub(crate) struct Convert {
    /// The recorded program.
    #[arg(value_name = "FILE.jaxpr", value_hint = ValueHint::FilePath)]
    program: PathBuf,
    /// The file to write the model to.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: PathBuf,
    /// Write a single file, regardless of the size of the weights.
    #[arg(long)]
    self_contained: bool,
    /// Write the source map to this file, if the program was exported with one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    map: Option<PathBuf>,
}

/// The maximum total size in bytes of weights without recorded values.
const WEIGHTS: usize = 8 << 30;

/// The stack size of the conversion thread. Jaxprs may nest deeply.
const STACK: usize = 256 << 20;

impl Convert {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let read = || ("the program", self.program.as_path());
        keep_apart(("--out", &self.out), [read()])?;
        if let Some(map) = &self.map {
            keep_apart(("--map", map), [read(), ("the file of `--out`", self.out.as_path())])?;
        }
        let text = fs::read(&self.program).map_err(Failure::io(&self.program))?;
        let text = String::from_utf8(text)
            .map_err(|_| Failure::file(&self.program, "this is not a recorded program"))?;
        let mut recording = Recording::parse(&text, WEIGHTS)
            .map_err(|error| Failure::file(&self.program, error))?;
        drop(text);
        if self.map.is_some() && !recording.options.source_map {
            let why =
                "there is no source map to write: the program was exported without `source_map`";
            return Err(Failure::Request(why.to_owned()));
        }
        if !recording.elided.is_empty() {
            terminal.remark(&made_up(&recording))?;
        }
        let mut origins = Origins::default();
        let converted = on_large_stack(|| {
            let source = |path: &str| fs::read(path).ok().map(provenance::source_text);
            recording.convert(Some(&source), &mut origins)
        })?;
        let converted = match converted {
            Ok(converted) => converted,
            Err(error) => {
                let stacks = &mut recording.stacks;
                let mut places = Places { origins: &origins, stacks, resolve: &|_, _| {} };
                let (family, diagnostic) = places.diagnose(error);
                let line = |path: &str, number: u32| {
                    let text = fs::read(path).ok().map(provenance::source_text)?;
                    text.lines().nth(number.checked_sub(1)? as usize).map(ToOwned::to_owned)
                };
                let text = format!("{}{}", family.class_name(), diagnostic.render(&line));
                let text = crate::style::harmless(&text);
                writeln!(terminal.errors, "{text}").map_err(Failure::Output)?;
                return Ok(Status::No);
            }
        };
        let placement = if self.self_contained { Placement::Inline } else { Placement::Auto };
        let map = match (&self.map, &converted.source_map) {
            (Some(path), Some(map)) => {
                let pending = Pending::write(path, |file| file.write_all(map.as_bytes()));
                Some((path, pending.map_err(Failure::model(path))?))
            }
            _ => None,
        };
        converted.model.save(&self.out, placement).map_err(Failure::model(&self.out))?;
        if let Some((path, pending)) = map {
            pending.finish().map_err(Failure::model(path))?;
        }
        Ok(Status::Yes)
    }
}

/// Returns a note that lists the arrays with made-up values.
fn made_up(recording: &Recording) -> String {
    const NAMED: usize = 3;
    let elided = &recording.elided;
    let text = |(name, ty): &(Option<std::sync::Arc<str>>, tensor::Type)| match name {
        Some(name) => format!("`{name}` {ty}"),
        None => ty.to_string(),
    };
    let mut named: Vec<String> = elided.iter().take(NAMED).map(text).collect();
    if elided.len() > NAMED {
        named.push(format!("{} more", elided.len() - NAMED));
    }
    let have = if elided.len() == 1 { "has" } else { "have" };
    format!(
        "the program was recorded without weights: {} {have} made-up values, so the model's \
         results are meaningless ({})",
        count(elided.len(), "array"),
        named.join(", ")
    )
}

/// Runs `work` on a thread with a large stack. Rules assume that equations have the form that JAX
/// gives them. If one does not, the conversion may panic; the panic is reported as an error.
fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread
            .map_err(|error| Failure::Request(format!("cannot start the conversion: {error}")))?;
        thread.join().map_err(|_| {
            let why = "the conversion failed: either the recorded program is malformed, or this is \
                       a bug in jax2onnx";
            Failure::Request(why.to_owned())
        })
    })
}
