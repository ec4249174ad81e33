//! `jax2onnx node-data`: lines, modules and times of nodes as colours in Model Explorer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

use super::profile::known;
use crate::failure::{Failure, Status};
use crate::model::{BodyKind, Index, Model};
use crate::profile::{Target, Time, read};
use crate::terminal::Terminal;

/// Prints colours of nodes for Google's Model Explorer, by line, module, rule or time.
///
/// The output is Model Explorer's format for node data. Its graphs and nodes have the names that the
/// adapter `model-explorer-onnx` gives them. Load the file with "Add per-node data" in Model Explorer,
/// or in Python with `config.add_node_data_from_path`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jax2onnx node-data model.onnx > lines.json
  jax2onnx node-data model.onnx --by module > modules.json
  jax2onnx node-data model.onnx --by time --profile profile.json > times.json")]
pub(crate) struct NodeData {
    /// The model file. Its weights are not loaded.
    #[arg(value_hint = ValueHint::FilePath)]
    model: PathBuf,
    /// The property of nodes to show.
    #[arg(long, value_enum, default_value_t = By::Line)]
    by: By,
    /// An onnxruntime profile, for `--by time`.
    #[arg(long, value_name = "FILE.json", required_if_eq("by", "time"), value_hint = ValueHint::FilePath)]
    profile: Option<PathBuf>,
    /// Skip this number of warm-up runs of the profile.
    #[arg(long, value_name = "RUNS", default_value_t = 0, requires = "profile")]
    skip: usize,
    /// The source map, if it is neither in the model nor beside it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    map: Option<PathBuf>,
}

/// The property of nodes that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// The line of the user's code.
    Line,
    /// The module instance.
    Module,
    /// The rule that emitted the node.
    Rule,
    /// The median time per run in microseconds, from a profile.
    Time,
}

impl By {
    fn title(self) -> &'static str {
        match self {
            By::Line => "line",
            By::Module => "module",
            By::Rule => "rule",
            By::Time => "µs per run",
        }
    }
}

impl NodeData {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let model = Model::open(&self.model, self.map.as_deref())?;
        terminal.remarks(&model.notes())?;
        let index = Index::new(&model);
        let values = match &self.profile {
            Some(path) if self.by == By::Time => {
                let profile = read(path, self.skip)?;
                let attributed = known(&index, &profile, path, terminal)?;
                let mut times: FxHashMap<usize, Time> = FxHashMap::default();
                for (kernel, target) in &attributed {
                    if let Target::Node(node, ..) = target {
                        *times.entry(*node).or_default() += kernel.time;
                    }
                }
                times.into_iter().map(|(node, time)| (node, time_value(time))).collect()
            }
            _ => self.texts(&index),
        };
        if values.is_empty() {
            let path = self.model.display();
            return Err(Failure::Absent(format!("{path}: no node has a {}", self.by.title())));
        }
        terminal.show_json(&self.graphs(&index, &values))?;
        Ok(Status::Yes)
    }

    /// Returns the values of nodes with a text, and a colour for each distinct one.
    fn texts(&self, index: &Index<'_>) -> FxHashMap<usize, Value> {
        let mut colors: FxHashMap<String, String> = FxHashMap::default();
        let mut found = FxHashMap::default();
        for node in 0..index.nodes.len() {
            let origin = index.origin(node);
            let text = match self.by {
                By::Line => origin.and_then(|origin| origin.place()),
                By::Rule => origin.map(|origin| origin.rule).filter(|rule| !rule.is_empty()),
                _ => Some(index.scope(node).into_owned()).filter(|scope| !scope.is_empty()),
            };
            if let Some(text) = text {
                let number = colors.len();
                let color = colors.entry(text.clone()).or_insert_with(|| color(number)).clone();
                found.insert(node, json!({ "value": text, "bgColor": color }));
            }
        }
        found
    }

    /// Returns the values by graph and node, as Model Explorer's ONNX adapter names them.
    fn graphs(&self, index: &Index<'_>, values: &FxHashMap<usize, Value>) -> Value {
        let mut graphs: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        let mut sizes = vec![0_usize; index.bodies.len()];
        for (position, node) in index.nodes.iter().enumerate() {
            let number = sizes[node.body];
            sizes[node.body] += 1;
            if let Some(value) = values.get(&position) {
                let (graph, name) = identity(index, position, number);
                graphs.entry(graph).or_default().insert(name, value.clone());
            }
        }
        let data = graphs.into_iter().map(|(name, results)| {
            let mut graph = json!({ "name": self.by.title(), "results": results });
            if self.by == By::Time {
                let stops = [(0, "#ffffff"), (1, "#e34a33")];
                let stops = stops.map(|(stop, color)| json!({ "stop": stop, "bgColor": color }));
                graph["gradient"] = json!(stops);
            }
            (name, graph)
        });
        Value::Object(data.collect())
    }
}

/// Returns the names of a node and its graph in Model Explorer. `number` is the node's position in
/// its graph.
fn identity(index: &Index<'_>, node: usize, number: usize) -> (String, String) {
    let body = index.nodes[node].body;
    let mut name = index.nodes[node].proto.name.clone();
    if name.is_empty() {
        name = format!("<node_{number}>");
    }
    // Branches are shown in the graph around them.
    let (mut at, mut branches) = (body, Vec::new());
    while let BodyKind::Inner(owner, attribute) = index.bodies[at].kind {
        let proto = index.nodes[owner].proto;
        if proto.op_type != "If" {
            break;
        }
        branches.push(format!("{}/{attribute}/", proto.name));
        at = index.nodes[owner].body;
    }
    (graph_name(index, at), branches.into_iter().rev().chain([name]).collect())
}

/// Returns the name of a graph in Model Explorer.
fn graph_name(index: &Index<'_>, body: usize) -> String {
    match index.bodies[body].kind {
        BodyKind::Main if index.graph.name.is_empty() => "<main>".to_owned(),
        BodyKind::Main => index.graph.name.clone(),
        BodyKind::Inner(node, attribute) => {
            format!("{}/{attribute}", index.nodes[node].proto.name)
        }
        BodyKind::Function(function) => {
            let name = format!("[function]{}::{}", function.domain, function.name);
            match function.overload.as_str() {
                "" => name,
                overload => format!("{name}::{overload}"),
            }
        }
    }
}

/// Returns a time in microseconds.
fn time_value(time: Time) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "a time is far below 2^53 nanoseconds")]
    let microseconds = time.median as f64 / 1000.0;
    json!({ "value": microseconds })
}

/// Returns the light colour with a number. Hues of successive numbers are far apart.
fn color(number: usize) -> String {
    /// The golden angle in degrees, which spreads any number of hues evenly.
    const ANGLE: usize = 137;
    let hue = number.wrapping_mul(ANGLE) % 360;
    // The channels of a hue rise and fall linearly, a third of the circle apart.
    let channel = |shift: usize| {
        let at = (hue + shift) % 360;
        let distance = at.min(360 - at);
        let strength = 120_usize.saturating_sub(distance).min(60) * 100 / 60;
        155 + strength
    };
    format!("#{:02x}{:02x}{:02x}", channel(0), channel(240), channel(120))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_light_and_distinct() {
        let colors: Vec<String> = (0..12).map(color).collect();
        assert_eq!(colors[0], "#ff9b9b");
        let distinct: std::collections::BTreeSet<&String> = colors.iter().collect();
        assert_eq!(distinct.len(), colors.len(), "{colors:?}");
    }
}
