//! `jax2onnx explain`: from what a runtime says back to the line.

mod findings;
mod report;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::{Failure, Status};
use crate::log::without_colors;
use crate::model::{Index, Model};
use crate::terminal::Terminal;

pub(crate) use findings::explain;
pub(crate) use report::write;

/// No log that a person wants explained comes near this.
const LARGEST: u64 = 1 << 24;

/// Finds the line of Python behind an error of a runtime.
///
/// Takes an error message or a log of onnxruntime, TensorRT or OpenVINO, or the name of a node or a
/// value, and finds the nodes it names, also if the runtime renamed, inlined or fused them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  python serve.py 2>&1 | jax2onnx explain model.onnx
  jax2onnx explain model.onnx serve.log
  jax2onnx explain model.onnx \"Non-zero status code returned while running Add node. Name:'/Add' …\"
  jax2onnx explain model.onnx /blocks.0/attn/q/MatMul/MatMulAddFusion")]
pub(crate) struct Explain {
    /// The model file, as it was exported or as the runtime optimised it. Its weights are not loaded.
    model: PathBuf,
    /// A log file, a message, or the name of a node or a value; standard input if it is left out.
    #[arg(allow_hyphen_values = true)]
    log: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The source map, if it is neither in the model nor beside it.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

impl Explain {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let model = Model::open(&self.model, self.map.as_deref())?;
        for remark in &model.remarks {
            terminal.remark(remark)?;
        }
        let log = self.read(terminal)?;
        let index = Index::new(&model);
        let log = without_colors(&log);
        let explanation = explain(&index, &log);
        if self.json {
            terminal.show_json(&report::json(&index, &explanation))?;
        } else {
            let mut text = terminal.text();
            write(&mut text, &index, &explanation);
            terminal.show(&text)?;
        }
        Ok(if explanation.findings.is_empty() { Status::No } else { Status::Yes })
    }

    fn read(&self, terminal: &mut Terminal<'_>) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        let path = match self.log.as_deref() {
            None | Some("-") => {
                let Some(input) = terminal.input.as_mut() else {
                    let message = "nothing to explain: give a log file, a message or a name";
                    return Err(Failure::Request(message.to_owned()));
                };
                let path = PathBuf::from("standard input");
                input.take(LARGEST).read_to_end(&mut bytes).map_err(|error| (path.clone(), error))
            }
            Some(log) if Path::new(log).is_file() => {
                let path = PathBuf::from(log);
                let file = File::open(&path).map(|file| file.take(LARGEST));
                let read = file.and_then(|mut file| file.read_to_end(&mut bytes));
                read.map_err(|error| (path, error))
            }
            Some(text) => return Ok(text.to_owned()),
        };
        let read = path.map_err(|(path, error)| Failure::Io { path, error })?;
        if read as u64 == LARGEST {
            terminal.remark(&format!("only the first {LARGEST} bytes of the log were read"))?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
