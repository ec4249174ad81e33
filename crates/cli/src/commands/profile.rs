//! `jax2onnx profile`: run time by line, module and operator.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::FxIndexSet;
use crate::excerpt::Excerpts;
use crate::failure::{Failure, Status};
use crate::link::Page;
use crate::model::{Frame, FrameOptions, Frames, Index, Model, Origin};
use crate::profile::{
    Attributed, Profile as Times, Shares, Stacks, Target, Time, annotate, attribute, folded,
    inclusive, links, read, report, share, slowest_first, speedscope,
};
use crate::terminal::Terminal;

/// The number of lines of libraries below a line, unless frames were chosen.
const BELOW: usize = 5;

/// Shows the time per line of Python, module and operator, from an onnxruntime profile.
///
/// Time spent in nodes inside a loop or a branch is attributed to those nodes, not to the loop. If
/// the runtime fused nodes from several lines, each line gets an equal share. Nodes that the
/// runtime added under its own names are listed separately. To attribute those to lines as well,
/// profile the model that the runtime saves with `optimized_model_filepath`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jax2onnx profile model.onnx onnxruntime_profile.json
  jax2onnx profile model.onnx profile.json --skip 1 --annotate model.py
  jax2onnx profile model.onnx profile.json --speedscope > model.speedscope.json
  jax2onnx profile model.onnx profile.json --folded | flamegraph.pl > model.svg")]
pub(crate) struct Profile {
    /// The model file. Its weights are not loaded.
    model: PathBuf,
    /// The profile that onnxruntime wrote, with `enable_profiling` set.
    profile: PathBuf,
    /// The source map, if it is neither in the model nor beside it.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Skip this number of warm-up runs.
    #[arg(long, value_name = "RUNS", default_value_t = 0)]
    skip: usize,
    /// The number of lines, modules and operators to show.
    #[arg(long, value_name = "ROWS", default_value_t = 15)]
    top: usize,
    #[command(flatten)]
    frames: FrameOptions,
    /// Print folded stacks for flame graphs, in nanoseconds over all runs.
    #[arg(long, value_name = "BY", num_args = 0..=1, require_equals = true,
          default_missing_value = "calls", conflicts_with_all = ["speedscope", "annotate", "json"])]
    folded: Option<Stacks>,
    /// Print a speedscope file, in nanoseconds over all runs.
    #[arg(long, conflicts_with_all = ["annotate", "json"])]
    speedscope: bool,
    /// Print this source file with the time of each line in the margin.
    #[arg(long, value_name = "FILE.py", conflicts_with = "json")]
    annotate: Option<String>,
    /// Print links into this page, which `view` wrote for the model.
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["folded", "speedscope", "annotate"])]
    page: Option<String>,
    /// Print JSON: total nanoseconds over all runs, and median nanoseconds per run.
    #[arg(long)]
    json: bool,
}

impl Profile {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let model = Model::open(&self.model, self.map.as_deref())?;
        terminal.remarks(&model.notes())?;
        let index = Index::new(&model);
        let times = read(&self.profile, self.skip)?;
        let attributed = known(&index, &times, &self.profile, terminal)?;
        let shares = share(&index, &attributed, &self.frames.choice(Frames::Library, &index)?);
        let excerpts = Excerpts::new(&model);
        let page = self.page.as_deref().map(Page::new);
        let mut text = terminal.text();
        if self.json {
            let value = self.value(&index, &times, &attributed, &shares, page.as_ref());
            terminal.show_json(&value)?;
            return Ok(Status::Yes);
        }
        if self.speedscope {
            terminal.show_json(&speedscope(&shares, &self.model.display().to_string()))?;
            return Ok(Status::Yes);
        }
        if let Some(which) = self.folded {
            text.lines(&folded(&shares, which));
        } else if let Some(file) = &self.annotate {
            annotate(&mut text, &times, &shares, &excerpts, file)?;
        } else {
            let below = if self.frames.is_given() { self.top } else { BELOW.min(self.top) };
            terminal.remarks(&excerpts.changed())?;
            report(&mut text, &times, &shares, &excerpts, (self.top, below), terminal.width);
            if let Some(page) = &page {
                links(&mut text, &shares, page, self.top);
            }
        }
        terminal.show(&text)?;
        if shares.lines.is_empty() {
            terminal.remark("the model does not record which lines its nodes came from")?;
        }
        Ok(Status::Yes)
    }

    fn value(
        &self,
        index: &Index<'_>,
        times: &Times,
        attributed: &Attributed<'_>,
        shares: &Shares<'_>,
        page: Option<&Page>,
    ) -> serde_json::Value {
        let lines: Vec<_> = slowest_first(&shares.lines)
            .iter()
            .map(|(site, time)| {
                let mut line = json!({
                    "file": site.file, "line": site.line, "function": site.function,
                    "ns": time.ns, "median_ns": time.median,
                });
                let below = shares.below(site);
                if !below.is_empty() {
                    let below = below.iter().map(|below| {
                        json!({
                            "file": below.site.file, "line": below.site.line,
                            "function": below.site.function, "depth": below.depth,
                            "ns": below.time.ns, "median_ns": below.time.median,
                        })
                    });
                    line["below"] = below.collect();
                }
                if let Some(page) = page {
                    line["link"] = json!(page.line(site.whose(), site.line));
                }
                line
            })
            .collect();
        let all = inclusive(&shares.modules);
        let modules: Vec<_> = slowest_first(&all)
            .iter()
            .map(|(scope, time)| {
                let own = shares.modules.get(**scope).copied().unwrap_or_default();
                json!({
                    "module": scope, "ns": time.ns, "own_ns": own.ns,
                    "median_ns": time.median, "own_median_ns": own.median,
                })
            })
            .collect();
        let ops: Vec<_> = slowest_first(&shares.ops)
            .iter()
            .map(|(op, (time, calls))| {
                json!({"op": op, "ns": time.ns, "median_ns": time.median, "calls": calls})
            })
            .collect();
        let kernels: Vec<_> = attributed
            .iter()
            .map(|(kernel, target)| {
                let node = match target {
                    Target::Node(node, ..) => Some(index.nodes[*node].proto.name.as_str()),
                    Target::Exported(node) => {
                        index.model.map.as_ref().and_then(|map| map.node_name(*node))
                    }
                    Target::Unknown => None,
                };
                let origins = target.origins(index);
                let sites = origins.iter().flat_map(Origin::sites).map(Frame::place);
                let sites: FxIndexSet<String> = sites.collect();
                let modules = origins.iter().flat_map(Origin::possible).map(|o| &*o.scope);
                let modules: FxIndexSet<&str> = modules.collect();
                let mut value = json!({
                    "name": kernel.name, "op": kernel.op, "provider": kernel.provider,
                    "calls": kernel.calls, "ns": kernel.time.ns,
                    "median_ns": kernel.time.median, "node": node,
                    "sites": Vec::from_iter(sites), "modules": Vec::from_iter(modules),
                });
                if let (Some(page), Some(node)) = (page, node) {
                    value["link"] = json!(page.node(node));
                }
                value
            })
            .collect();
        let (total, lost) = (times.total(), shares.lost.values().copied().sum::<Time>());
        json!({
            "model": self.model.display().to_string(),
            "profile": self.profile.display().to_string(),
            "runs": times.runs,
            "wall_ns": times.wall,
            "total_ns": total.ns,
            "total_median_ns": total.median,
            "unattributed_ns": lost.ns,
            "unattributed_median_ns": lost.median,
            "lines": lines,
            "modules": modules,
            "ops": ops,
            "kernels": kernels,
        })
    }
}

/// Matches the kernels of a profile with the nodes of the model. Fails if none match, and prints a
/// note if most do not.
pub(crate) fn known<'p>(
    index: &Index<'_>,
    times: &'p Times,
    path: &Path,
    terminal: &mut Terminal<'_>,
) -> Result<Attributed<'p>, Failure> {
    let attributed = attribute(index, times);
    let known = attributed.iter().filter(|(_, target)| *target != Target::Unknown).count();
    let all = times.kernels.len();
    if known == 0 {
        let why = "none of its nodes are in the model; this is the profile of another model";
        return Err(Failure::file(path, why));
    }
    if known < all.div_ceil(2) {
        terminal.remark(&format!(
            "{}: found only {known} of its {all} nodes in the model; is this the profile of another model?",
            path.display(),
        ))?;
    }
    Ok(attributed)
}
