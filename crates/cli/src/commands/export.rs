//! `jax2onnx export`: declared here for help and completions, implemented in Python.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};

use super::conversion::{Conversion, Provenance};

/// Exports a function from a Python file.
///
/// FUNCTION is a name in the file, such as `predict` or `model.encode`. If it ends with `()`, it is
/// called and its result is exported. Instead of a file, you can give the name of an importable
/// module: `package.module:predict`. A file that `jax.export` serialized is exported as it is, with
/// the inputs that it records.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// The function to export.
    #[arg(value_name = "FILE.py:FUNCTION", value_hint = ValueHint::FilePath)]
    pub function: String,
    /// The type and shape of an argument, one option per argument. Names in the shape are
    /// dimensions that are known only at run time. NAME= makes it a keyword argument.
    #[arg(short, long = "input", value_name = "[NAME=]f32[B,3]")]
    pub inputs: Vec<String>,
    /// The names of the outputs, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub outputs: Vec<String>,
    /// The file to write the model to. Default: FUNCTION.onnx in the current directory.
    #[arg(
        short,
        long = "output",
        visible_alias = "output-path",
        value_name = "FILE",
        value_hint = ValueHint::FilePath
    )]
    pub output_path: Option<PathBuf>,
    /// Put the weights in a file beside the model (`true`), into the model (`false`), or beside it
    /// only if they are large (`auto`).
    #[arg(long, value_parser = PossibleValuesParser::new(["true", "false", "auto"]))]
    pub external_data: Option<String>,
    /// Compare the model with the function on random inputs, with symbolic dimensions of 2, and
    /// write it only if they agree. Needs onnxruntime.
    #[arg(long)]
    pub check: bool,
    /// The recorded lines.
    #[command(flatten)]
    pub provenance: Provenance,
    /// The options of the conversion.
    #[command(flatten)]
    pub conversion: Conversion,
    /// The safetensors file, or the folder of a checkpoint, with the values of abstract parameters.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub checkpoint: Option<PathBuf>,
    /// List the operators that were nearly recognised and remain decomposed, with lines and
    /// reasons.
    #[arg(long)]
    pub missed: bool,
    /// Also write the program to this file, for a bug report. `convert` turns it into the model
    /// without Python. The values of weights are omitted.
    #[arg(long, value_name = "FILE.jaxpr", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// Include the values of weights in the file given by --record.
    #[arg(long, requires = "record")]
    pub record_weights: bool,
    /// Trace the function with 64-bit types enabled.
    #[arg(long)]
    pub x64: bool,
    /// The calls that become ONNX functions.
    #[arg(long, value_parser = PossibleValuesParser::new(["decorated", "modules"]))]
    pub onnx_functions: Option<String>,
    /// The treatment of layers in training mode, which draw random numbers or normalise by the
    /// batch.
    #[arg(long, value_parser = PossibleValuesParser::new(["warn", "error", "allow"]))]
    pub training: Option<String>,
    /// The name of the model's graph.
    #[arg(long)]
    pub name: Option<String>,
    /// Print nothing on success.
    #[arg(short, long)]
    pub quiet: bool,
}

const EXAMPLES: &str = "\
Types: f16 bf16 f32 f64, i8 … i64, u8 … u64, bool, c64 c128, or NumPy's names.

Examples:
  jax2onnx export model.py:predict -i 'f32[2,3]' --provenance sourcemap
  jax2onnx export src/pkg/model.py:'load()' -i 'f32[B,9]' --opset 18 --check
  jax2onnx export package.module:fn --input 'x=f32[]' --set source_map=fn.map";
