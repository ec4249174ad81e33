//! `jax2onnx export`: declared here for help and completions, carried out by Python.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};

use crate::failure::{Failure, Status};

/// Exports a function from a Python file.
///
/// FUNCTION is a name in the file, such as `predict` or `model.encode`. If it ends with `()`, it is
/// called and its result is exported. Instead of a file, you can give the name of a module that
/// Python can import: `package.module:predict`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// The function to export.
    #[arg(value_name = "FILE.py:FUNCTION", value_hint = ValueHint::FilePath)]
    pub function: String,
    /// Type and shape of an argument, one option per argument. Names in the shape are dimensions
    /// that are known only at run time. NAME= makes it a keyword argument.
    #[arg(short, long = "input", value_name = "[NAME=]f32[B,3]")]
    pub inputs: Vec<String>,
    /// Where to write the model. Default: FUNCTION.onnx in the current directory.
    #[arg(short, long, value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Record which line of Python each node came from.
    #[arg(
        long,
        value_name = "LEVEL",
        num_args = 0..=1,
        default_missing_value = "minimal",
        value_parser = PossibleValuesParser::new(["minimal", "full", "sourcemap", "off"]),
    )]
    pub stacktrace: Option<String>,
    /// The ONNX opset.
    #[arg(long)]
    pub opset: Option<i64>,
    /// Where the model is going to run: `onnxruntime`, `onnxruntime-web`, `webgpu`, or `any`.
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Something to take for granted, so that nothing has to guard against it: `indices_in_range`,
    /// `no_nan`, `casts_in_range` or `finite`. The model says so in its metadata.
    #[arg(long, value_name = "NAME")]
    pub assume: Vec<String>,
    /// Compute in `float16` or `bfloat16`, except for sums, norms, exponentials and the last
    /// products, which stay in `float32`; `float16:all` has no exceptions. With PATTERN=, only the
    /// modules, lines (`model.py:30`), functions or parameters that match. The first option that
    /// matches applies.
    #[arg(long, value_name = "[PATTERN=]TYPE")]
    pub compute: Vec<String>,
    /// Store weights in fewer bits: as `float16`, `bfloat16`, `int8` or `int4`, unsigned with a zero
    /// point (`uint4`), or in blocks of a given size (`int4:64`). With PATTERN=, only parameters
    /// whose names match. The first option that matches a name applies; `keep` changes nothing.
    #[arg(long, value_name = "[PATTERN=]FORMAT")]
    pub weights: Vec<String>,
    /// Say which operators were nearly recognised and stay elementary, with line and reason.
    #[arg(long)]
    pub missed: bool,
    /// Also write the program to this file, for a bug report: `convert` makes the model from it
    /// without Python. The values of weights are left out.
    #[arg(long, value_name = "FILE.jaxpr", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// Write the values of weights into the file of --record, too.
    #[arg(long, requires = "record")]
    pub record_weights: bool,
    /// Another option of `to_onnx`, such as `export_mode=web`.
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    pub settings: Vec<String>,
    /// Print nothing on success.
    #[arg(short, long)]
    pub quiet: bool,
}

const EXAMPLES: &str = "\
Types: f16 bf16 f32 f64, i8 … i64, u8 … u64, bool, c64 c128, or those of NumPy.

Examples:
  jax2onnx export model.py:predict --input 'f32[2,3]' --input 'i32[B,16]'
  jax2onnx export model.py:'make_model()' --input 'f32[B,9]' --stacktrace full
  jax2onnx export package.module:fn --input 'x=f32[]' --set export_mode=web";

impl Export {
    /// The standalone binary has no Python.
    pub(super) fn run(&self) -> Result<Status, Failure> {
        Err(Failure::Request(format!(
            "cannot export `{}`: this program comes without Python and JAX\n  \
            help: run `pip install jax2onnx` and use the `jax2onnx` that it installs",
            self.function
        )))
    }
}
