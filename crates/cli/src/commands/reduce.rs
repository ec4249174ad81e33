//! `jax2onnx reduce`: declared here for help and completions, implemented in Python.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::conversion::Conversion;

/// Reduces a program whose model is wrong to a few lines.
///
/// PROGRAM is a file that `record` wrote, or FILE.py:FUNCTION as for `export`. Equations, outputs,
/// iterations, sizes and numbers are removed as long as the check fails in the same way. The result
/// is a short program in JAX, its model, and a verdict: a lowering rule, a rewrite, the runtime or
/// the program itself.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Reduce {
    /// The program to reduce.
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::FilePath)]
    pub program: String,
    /// The type and shape of an argument, one option per argument, as for `export`.
    #[arg(short = 'i', long = "input", value_name = "[NAME=]f32[B,3]")]
    pub specs: Vec<String>,
    /// The values of the inputs, by name or in order. Without this option, they are random and
    /// symbolic dimensions are 2.
    #[arg(long = "inputs", value_name = "FILE.npz", value_hint = ValueHint::FilePath)]
    pub values: Option<PathBuf>,
    /// The failure to preserve: `differs` from JAX, `nan`, `error`, `crash` (each run has its own
    /// process), `rewrite:NAME` (the optimiser applies it) or `slower:FACTOR` (than JAX). Default: an
    /// error if there is one, or else a difference.
    #[arg(long, value_name = "CHECK")]
    pub check: Option<String>,
    /// The relative tolerance for floats. Default: depends on the element type.
    #[arg(long)]
    pub rtol: Option<f64>,
    /// The absolute tolerance for floats. Default: depends on the element type.
    #[arg(long)]
    pub atol: Option<f64>,
    /// The options of the conversion.
    #[command(flatten)]
    pub conversion: Conversion,
    /// Trace the function with 64-bit types enabled.
    #[arg(long)]
    pub x64: bool,
    /// The folder for the program, its recording, the model and the inputs.
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// The time limit of the search.
    #[arg(long, default_value_t = 120.0)]
    pub seconds: f64,
    /// Print JSON.
    #[arg(long = "json")]
    pub as_json: bool,
}

const EXAMPLES: &str = "\
Examples:
  jax2onnx reduce model.jaxpr -o reduced
  jax2onnx reduce model.py:predict --inputs x.npz --rtol 1e-4
  jax2onnx reduce model.py:predict -i 'f32[2,3]' --check rewrite:layer_norm";
