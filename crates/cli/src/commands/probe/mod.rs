//! `jax2onnx probe`: values of a model as additional outputs, to be recorded on a device.

mod selection;
mod size;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use rustc_hash::FxHashSet;

use self::selection::{LineRange, Selection};
use self::size::{DimSize, Sizes, parse_bytes};
use crate::FxIndexMap;
use crate::failure::{Failure, Status};
use crate::model::{Index, Model};
use crate::outputs::{check_data_files, keep_apart, weights};
use crate::table::{count, scaled};
use crate::terminal::Terminal;

/// The metadata key with the number of outputs that a model has of its own.
const OWN_OUTPUTS: &str = "pkg.jax2onnx.probe.outputs";

/// The number of nodes with bodies that notes list.
const LISTED: usize = 4;

/// Adds outputs to a model, to compare its values on a device with JAX's.
///
/// Writes a copy of the model in which the values of the given lines, modules or nodes are
/// additional outputs. Without any of these, all values are, the smallest first, as far as they fit
/// the limit. Run the copy where the numbers are wrong, record its inputs and outputs, and compare
/// them with `jax2onnx verify COPY --dump FILE`.
///
/// Names do not change, so the source map still applies. Weights in a separate file stay there. Only
/// values of the main graph can be outputs, not those inside loops, branches and functions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jax2onnx probe model.onnx                          writes model.probe.onnx
  jax2onnx probe model.onnx --line model.py:41 --module blocks.3/attn
  jax2onnx probe model.onnx --limit 1GB --size B=8   sizes for a batch of 8
  jax2onnx probe --recorder js > recorder.mjs        writes dumps in JavaScript
  jax2onnx verify model.probe.onnx --dump run.safetensors --function model.py:f")]
pub(crate) struct Probe {
    /// The model file. Its weights are not loaded.
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "recorder")]
    model: Option<PathBuf>,
    /// The file to write the copy to. Default: `NAME.probe.onnx` beside the model.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
    /// Watch the values of a line, or of several: `model.py:41`, `model.py:41-48`.
    #[arg(long, value_name = "FILE:LINE")]
    line: Vec<LineRange>,
    /// Watch the values of a module and of those inside it: `blocks.3/attn`.
    #[arg(long, value_name = "PATH")]
    module: Vec<String>,
    /// Watch the results of a node. Give its name or the name of a result.
    #[arg(long, value_name = "NAME")]
    node: Vec<String>,
    /// The maximum size of all watched values of one run.
    #[arg(long, value_name = "SIZE", default_value = "64MB", value_parser = parse_bytes)]
    limit: u64,
    /// The size of a symbolic dimension, to compute the sizes of values. Default: 1.
    #[arg(long, value_name = "NAME=NUMBER")]
    size: Vec<DimSize>,
    /// The source map, if it is neither in the model nor beside it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    map: Option<PathBuf>,
    /// Print a program that writes dumps, in this language.
    #[arg(long, value_name = "LANGUAGE", exclusive = true)]
    recorder: Option<Recorder>,
}

/// The language of a recorder.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Recorder {
    /// Python with NumPy.
    Py,
    /// JavaScript, for tensors of onnxruntime-web and onnxruntime-node.
    Js,
    /// C++17, for any runtime.
    Cpp,
}

impl Recorder {
    fn text(self) -> &'static str {
        match self {
            Recorder::Py => include_str!("../../recorders/recorder.py"),
            Recorder::Js => include_str!("../../recorders/recorder.mjs"),
            Recorder::Cpp => include_str!("../../recorders/recorder.hpp"),
        }
    }
}

/// A value that can become an output.
struct Candidate<'m> {
    name: &'m str,
    node: usize,
    bytes: u64,
}

/// The results of nodes, by what can be done with them.
#[derive(Default)]
struct Candidates<'m> {
    fit: Vec<Candidate<'m>>,
    /// Values without a declared type, or with one that a dump cannot hold.
    unfit: Vec<&'m str>,
}

impl Probe {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        if let Some(recorder) = self.recorder {
            let text = recorder.text().as_bytes();
            terminal.output.write_all(text).map_err(Failure::Output)?;
            return Ok(Status::Yes);
        }
        let Some(path) = &self.model else {
            return Err(Failure::Request("no model is given".to_owned()));
        };
        let out = self.out.clone().unwrap_or_else(|| path.with_extension("probe.onnx"));
        let model = Model::open(path, self.map.as_deref())?;
        let index = Index::new(&model);
        self.check_files(path, &out, &model)?;
        let selection = Selection { lines: &self.line, modules: &self.module, nodes: &self.node };
        let all = selection.is_empty();
        let nodes = if all { (0..index.nodes.len()).collect() } else { selection.nodes(&index)? };
        let (main, inner): (Vec<usize>, Vec<usize>) =
            nodes.into_iter().partition(|node| index.nodes[*node].body == 0);
        if main.is_empty() && !inner.is_empty() {
            return Err(Failure::Absent(said_inner(&index, &inner).join("\n")));
        }
        let sizes = Sizes::new(&self.size);
        sizes.check(index.graph)?;
        let Candidates { mut fit, unfit } = candidates(&index, &main, &sizes, all);
        let left_out = self.limited(&index, &mut fit, all)?;
        let bytes: u64 = fit.iter().map(|value| value.bytes).sum();
        let names: FxHashSet<&str> = fit.iter().map(|value| value.name).collect();
        let own = index.graph.output.len().to_string();
        // A copy that already has additional outputs knows how many it had before.
        let metadata: &[_] = match model.property(OWN_OUTPUTS) {
            Some(_) => &[],
            None => &[(OWN_OUTPUTS, own.as_str())],
        };
        let added =
            onnx_file::add_outputs(path, &out, &names, metadata).map_err(Failure::model(&out))?;
        let mut text = terminal.text();
        let (values, shown) = (count(added, "value"), out.display());
        let assumed = sizes.said();
        text.line(&format!(
            "{shown}: {values} as additional outputs, {} per run{assumed}",
            scaled(bytes, "B")
        ));
        if let Some(map) = copy_map(&model, &out)? {
            text.line(&format!("{}: the source map", map.display()));
        }
        terminal.show(&text)?;
        terminal.remarks(&model.notes())?;
        terminal.remarks(&left_out)?;
        if let Some(first) = unfit.first() {
            let n = count(unfit.len(), "value");
            terminal.remark(&format!(
                "{n} cannot be recorded, such as `{first}`: the model declares no type for them, or one \
                 that dumps do not have; `onnx.shape_inference.infer_shapes` adds types"
            ))?;
        }
        terminal.remarks(&said_inner(&index, &inner))?;
        Ok(Status::Yes)
    }

    /// Checks that no file that is read would be overwritten, and that weights stay reachable.
    fn check_files(&self, path: &Path, out: &Path, model: &Model) -> Result<(), Failure> {
        let weights = weights(path)?;
        let mut others = vec![("the model", path)];
        others.extend(weights.iter().map(|path| ("the model's weights", path.as_path())));
        others.extend(model.map_path.iter().map(|path| ("the source map", path.as_path())));
        keep_apart(("--out", out), others)?;
        check_data_files(path, out)
    }

    /// Applies the limit. Returns notes about the values that are left out.
    fn limited(
        &self,
        index: &Index<'_>,
        values: &mut Vec<Candidate<'_>>,
        all: bool,
    ) -> Result<Vec<String>, Failure> {
        let total = values.iter().fold(0_u64, |sum, value| sum.saturating_add(value.bytes));
        if total <= self.limit {
            return Ok(Vec::new());
        }
        // The smallest values leave the fewest nodes between two of them.
        values.sort_by_key(|value| value.bytes);
        let mut sum = 0_u64;
        let mut within = |value: &Candidate<'_>| {
            sum = sum.saturating_add(value.bytes);
            sum <= self.limit
        };
        let kept = values.iter().take_while(|value| within(value)).count();
        let limit = scaled(self.limit, "B");
        if !all || kept == 0 {
            let (n, shown) = (count(values.len(), "value"), scaled(total, "B"));
            let take = if values.len() == 1 { "takes" } else { "take" };
            return Err(Failure::Request(format!(
                "{n} {take} {shown} per run, more than {limit}; watch fewer, or raise `--limit`"
            )));
        }
        let dropped = values.split_off(kept);
        let (Some(first), Some(largest)) = (dropped.first(), dropped.last()) else {
            return Ok(Vec::new());
        };
        let n = count(dropped.len(), "value");
        let place = place(index, largest.node);
        Ok(vec![format!(
            "{n} of {} or more left out, to stay within {limit}; the largest is `{}`, {}{place}; \
             raise `--limit`, or choose lines, modules or nodes",
            scaled(first.bytes, "B"),
            largest.name,
            scaled(largest.bytes, "B"),
        )])
    }
}

/// Returns the results of nodes of the main graph that are not outputs yet.
fn candidates<'m>(index: &Index<'m>, nodes: &[usize], sizes: &Sizes, all: bool) -> Candidates<'m> {
    let outputs: FxHashSet<&str> = index.graph.output.iter().map(|out| out.name.as_str()).collect();
    let declared = index
        .graph
        .value_info
        .iter()
        .filter_map(|value| Some((value.name.as_str(), value.r#type.as_ref()?)));
    let types: rustc_hash::FxHashMap<&str, _> = declared.collect();
    let mut found = Candidates::default();
    for &node in nodes {
        let proto = index.nodes[node].proto;
        if all && proto.op_type == "Constant" {
            continue;
        }
        for name in proto.output.iter().map(String::as_str) {
            if name.is_empty() || outputs.contains(name) {
                continue;
            }
            match types.get(name).and_then(|ty| sizes.bytes(ty)) {
                Some(bytes) => found.fit.push(Candidate { name, node, bytes }),
                None => found.unfit.push(name),
            }
        }
    }
    found
}

/// Returns notes about nodes inside loops, branches and functions, one for each of these.
fn said_inner(index: &Index<'_>, inner: &[usize]) -> Vec<String> {
    // The name and the advice of each, its first node and their number.
    let mut owners: FxIndexMap<(String, &str), (usize, usize)> = FxIndexMap::default();
    for &node in inner.iter().filter(|node| index.nodes[**node].proto.op_type != "Constant") {
        owners.entry(container(index, node)).or_insert((node, 0)).1 += 1;
    }
    let more = owners.len().saturating_sub(LISTED);
    let note = |((name, advice), (first, n)): ((String, &str), (usize, usize))| {
        let (node, at) = (&index.nodes[first].proto.name, place(index, first));
        let which = match n {
            1 => format!("`{node}`{at}"),
            _ => format!("{n} nodes, such as `{node}`{at},"),
        };
        format!(
            "cannot watch {which} inside {name}: only values of the main graph can be outputs; \
             {advice}"
        )
    };
    let mut notes: Vec<String> = owners.into_iter().take(LISTED).map(note).collect();
    if more > 0 {
        notes.push(format!("the same holds for {more} other loops, branches or functions"));
    }
    notes
}

/// Returns the name of the loop, branch or function around a node, and the advice for it.
fn container(index: &Index<'_>, node: usize) -> (String, &'static str) {
    if let Some(function) = index.function(node) {
        let name = format!("the function `{}`", function.name);
        return (name, "export without functions to watch them");
    }
    let owners = std::iter::successors(index.owner(node), |owner| index.owner(*owner));
    let owner = owners.last().unwrap_or(node);
    let proto = index.nodes[owner].proto;
    let kind = if proto.op_type == "If" { "branch" } else { "loop" };
    (format!("the {kind} `{}`{}", proto.name, place(index, owner)), "watch its results")
}

/// Returns the line of a node in parentheses, with a space before; empty if it is unknown.
fn place(index: &Index<'_>, node: usize) -> String {
    let place = index.origin(node).and_then(|origin| origin.place());
    place.map(|place| format!(" ({place})")).unwrap_or_default()
}

/// Copies a source map from a separate file to the name that is looked for beside `out`.
fn copy_map(model: &Model, out: &Path) -> Result<Option<PathBuf>, Failure> {
    let Some(map) = &model.map_path else { return Ok(None) };
    let text = fs::read(map).map_err(Failure::io(map))?;
    let mut beside = out.as_os_str().to_owned();
    beside.push(".map");
    let beside = PathBuf::from(beside);
    onnx_file::replace_file(&beside, |file| file.write_all(&text))
        .map_err(Failure::model(&beside))?;
    Ok(Some(beside))
}
