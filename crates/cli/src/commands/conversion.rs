//! Options that `export`, `generate-folder` and `reduce` share.

use std::fmt::Display;

use clap::Args;
use clap::builder::PossibleValuesParser;
use pipeline::Target;

use crate::failure::Failure;

/// The option of commands whose model is kept.
#[derive(Args, Debug)]
pub struct Provenance {
    /// Record the line of Python that each node came from. `show`, `view`, `profile` and `explain`
    /// need it. `sourcemap` survives optimisers; without LEVEL it is `minimal`.
    #[arg(
        long,
        visible_alias = "stacktrace",
        value_name = "LEVEL",
        num_args = 0..=1,
        default_missing_value = "minimal",
        value_parser = PossibleValuesParser::new(["minimal", "full", "sourcemap", "off"]),
    )]
    pub provenance: Option<String>,
}

/// Options of the conversion, for every command that converts.
#[derive(Args, Debug)]
pub struct Conversion {
    /// The ONNX opset.
    #[arg(long)]
    pub opset: Option<i64>,
    /// The runtime to export for.
    #[arg(long, value_name = "NAME",
          value_parser = PossibleValuesParser::new(Target::all().map(|target| target.name)))]
    pub target: Option<String>,
    /// Write operators that ONNX has and JAX spells out as one node (`native`) or as several
    /// (`elementary`): `LayerNormalization=native`. Without OPERATOR=, the option applies to all.
    #[arg(long, value_name = "[OPERATOR=]FORM")]
    pub operators: Vec<String>,
    /// Skip runtime guards for a condition you guarantee: `indices_in_range`, `no_nan`,
    /// `casts_in_range`, `finite`, `visible_keys`, `windowed_caches` or `padded_prompts`. The
    /// model's metadata records it.
    #[arg(long, value_name = "NAME")]
    pub assume: Vec<String>,
    /// Compute in `float16` or `bfloat16`. Sums, norms, exponentials and the last products stay in
    /// `float32`, unless you choose `float16:all`. With PATTERN=, the option applies only to
    /// matching modules, lines (`model.py:30`), functions or parameters. The first matching option
    /// wins.
    #[arg(long, visible_alias = "compute", value_name = "[PATTERN=]TYPE")]
    pub compute_dtype: Vec<String>,
    /// Store weights in fewer bits: as `float16`, `bfloat16`, `int8` or `int4`, unsigned with a
    /// zero point (`uint4`), or in blocks of a given size (`int4:64`). With PATTERN=, the option
    /// applies only to parameters with matching names. The first matching option wins; `keep`
    /// leaves weights unchanged.
    #[arg(long, visible_alias = "weights", value_name = "[PATTERN=]FORMAT")]
    pub weight_format: Vec<String>,
    /// Another option of `to_onnx`, by its name there: `--set paths=absolute`.
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    pub settings: Vec<String>,
}

/// Returns the error of a command that the standalone binary cannot run.
pub(super) fn needs_python(verb: &str, subject: &dyn Display, package: &str) -> Failure {
    Failure::Request(format!(
        "cannot {verb} `{subject}`: this program comes without Python and {package}\n  \
        help: install the Python package (`pip install .` in a clone of the repository) and use its `jax2onnx`"
    ))
}
