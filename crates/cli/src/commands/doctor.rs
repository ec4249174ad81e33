//! `jax2onnx doctor`: the environment report for bug reports. Python contributes its own part.

use clap::Args;
use serde::Serialize;

use crate::failure::{Failure, Status};
use crate::style::Style;
use crate::terminal::Terminal;

/// Prints versions, the platform and installed packages, for a bug report.
///
/// The report contains no paths, no user name and no host name. Packages are looked up without
/// importing them, so the command works even if an import would fail.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jax2onnx doctor
  jax2onnx doctor --json

The exit status is 1 if something needs attention.")]
pub struct Doctor {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Python's part of the report.
#[derive(Debug, Serialize)]
pub struct PythonReport {
    /// The interpreter and its version.
    pub interpreter: String,
    /// The operating system by Python's name for it, and the C library.
    pub system: String,
    /// The relevant packages with their versions; `None` if a package is not installed.
    pub packages: Vec<(String, Option<String>)>,
    /// The environment variables that affect exports, with their values.
    pub variables: Vec<(String, String)>,
    /// Incompatibilities, in full sentences.
    pub problems: Vec<String>,
}

/// The whole report.
#[derive(Serialize)]
struct Report<'a> {
    version: &'static str,
    build: &'static str,
    platform: String,
    opsets: [i64; 2],
    python: Option<&'a PythonReport>,
}

impl Doctor {
    /// Prints the report. The standalone binary has no Python.
    pub(crate) fn run(
        &self,
        python: Option<&PythonReport>,
        terminal: &mut Terminal<'_>,
    ) -> Result<Status, Failure> {
        let report = Report {
            version: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            opsets: [onnx::schema::OLDEST, onnx::schema::NEWEST],
            python,
        };
        if self.json {
            terminal.show_json(&report)?;
        } else {
            report.show(terminal)?;
        }
        let healthy = python.is_none_or(|python| python.problems.is_empty());
        Ok(if healthy { Status::Yes } else { Status::No })
    }
}

impl Report<'_> {
    fn show(&self, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
        let [oldest, newest] = self.opsets;
        let kind = if self.python.is_some() { "Python package" } else { "standalone program" };
        let system = self.python.map_or("", |python| &python.system);
        let mut rows = vec![
            ("jax2onnx", format!("{} ({kind}, {} build)", self.version, self.build)),
            ("platform", format!("{} {system}", self.platform).trim_end().to_owned()),
            ("opsets", format!("{oldest} to {newest}")),
        ];
        if let Some(python) = self.python {
            rows.push(("python", python.interpreter.clone()));
            for (name, version) in &python.packages {
                rows.push((name, version.clone().unwrap_or_else(|| "not installed".to_owned())));
            }
            for (name, value) in &python.variables {
                rows.push((name, value.clone()));
            }
        }
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let mut text = terminal.text();
        for (name, value) in rows {
            text.styled(Style::Bold, name);
            text.put(&" ".repeat(width - name.len() + 2));
            text.line(&value);
        }
        for problem in self.python.iter().flat_map(|python| &python.problems) {
            text.styled(Style::Red, "problem");
            text.line(&format!(": {problem}"));
        }
        terminal.show(&text)
    }
}
