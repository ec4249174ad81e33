//! The error contributions of lines and modules, as `verify --json` prints them.

use std::path::Path;

use rustc_hash::FxHashSet;
use serde::Deserialize;
use serde_json::{Value, json};

use super::tables::Tables;
use crate::failure::Failure;
use crate::model::{Index, Origin};
use crate::table::count;

/// The maximum size of the file.
const LARGEST: u64 = 1 << 28;

/// The output of `verify --json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Errors {
    ok: bool,
    message: String,
    #[serde(default)]
    node: String,
    by_line: Vec<Row>,
    by_module: Vec<Row>,
}

/// The contribution of a line or a module. Numbers that are not finite are missing.
#[derive(Debug, Deserialize)]
struct Row {
    place: String,
    values: u64,
    maximum: Option<f64>,
    mean: Option<f64>,
    signal_to_noise: Option<f64>,
}

/// The name that `verify` gives to the model itself.
const WHOLE: &str = "(the model itself)";

impl Errors {
    /// Reads the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        if std::fs::metadata(path).map_err(Failure::io(path))?.len() > LARGEST {
            return Err(Failure::file(path, "it is too large"));
        }
        let bytes = std::fs::read(path).map_err(Failure::io(path))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            Failure::file(path, format!("not the output of `jax2onnx verify --json`: {error}"))
        })
    }

    /// Returns a note if the file belongs to another model.
    pub(crate) fn doubt(&self, index: &Index<'_>, path: &Path) -> Option<String> {
        let mut known: FxHashSet<(String, u32)> = FxHashSet::default();
        for node in 0..index.nodes.len() {
            let origins = index.origins(node);
            let sites = origins.iter().flat_map(Origin::possible).filter_map(|o| o.site.as_ref());
            known.extend(sites.map(|site| (site.file.to_owned(), site.span.line)));
        }
        let lines: Vec<_> = self.by_line.iter().filter_map(|row| place(&row.place)).collect();
        let lost =
            lines.iter().filter(|(file, line, _)| !known.contains(&((*file).to_owned(), *line)));
        let (lost, all) = (lost.count(), lines.len());
        (lost > 0).then(|| {
            let lost = count(lost, "line");
            format!("{}: {lost} of {all} not found in the model", path.display())
        })
    }

    pub(super) fn data(&self, tables: &mut Tables) -> Value {
        let numbers = |row: &Row| json!([row.values, row.maximum, row.mean, row.signal_to_noise]);
        let lines = self.by_line.iter().filter_map(|row| {
            let (file, line, function) = place(&row.place)?;
            Some(json!([tables.file(file, function, true), line, numbers(row)]))
        });
        let lines: Vec<Value> = lines.collect();
        let modules = self.by_module.iter().map(|row| {
            let module = if row.place == WHOLE { "" } else { &row.place };
            json!([module, numbers(row)])
        });
        let modules: Vec<Value> = modules.collect();
        let (node, message) = (&self.node, &self.message);
        json!({ "ok": self.ok, "node": node, "message": message, "lines": lines, "modules": modules })
    }
}

/// Parses `file:line in function`.
fn place(text: &str) -> Option<(&str, u32, &str)> {
    let (place, function) = text.rsplit_once(" in ")?;
    let (file, line) = place.rsplit_once(':')?;
    Some((file, line.parse().ok()?, function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_files_and_lines() {
        assert_eq!(
            place("a in b/c.py:7 in f.<locals>.g"),
            Some(("a in b/c.py", 7, "f.<locals>.g"))
        );
        assert_eq!(place("In [7]:3 in f"), Some(("In [7]", 3, "f")));
        assert_eq!(place("(unknown line)"), None);
    }
}
