//! Profiles for flame graphs: folded stacks and speedscope files.

use serde_json::{Value, json};

use super::share::{Shares, Times};
use crate::FxIndexSet;

/// The kind of stack in a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stacks {
    /// Stacks of function calls.
    Calls,
    /// Stacks of nested modules.
    Modules,
}

/// Formats folded stacks, one per line: frames, outermost first, then nanoseconds.
pub(crate) fn folded(shares: &Shares<'_>, which: Stacks) -> String {
    let times = &shares.stacks[which as usize];
    let mut lines: Vec<String> = sorted(times)
        .into_iter()
        .map(|(stack, ns)| {
            let frames = stack.iter().map(|frame| frame.replace([';', '\n', '\r'], " "));
            format!("{} {ns}\n", frames.collect::<Vec<_>>().join(";"))
        })
        .collect();
    lines.sort_unstable();
    lines.concat()
}

/// Builds a speedscope file with two profiles: by call and by module.
pub(crate) fn speedscope(shares: &Shares<'_>, name: &str) -> Value {
    let mut frames: FxIndexSet<&String> = FxIndexSet::default();
    let mut profiles = Vec::new();
    for (times, title) in shares.stacks.iter().zip(["by call", "by module"]) {
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for (stack, ns) in sorted(times) {
            let stack = stack.iter().map(|frame| frames.insert_full(frame).0);
            samples.push(stack.collect::<Vec<usize>>());
            weights.push(ns);
        }
        profiles.push(json!({
            "type": "sampled",
            "name": title,
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": weights.iter().sum::<u64>(),
            "samples": samples,
            "weights": weights,
        }));
    }
    let frames: Vec<Value> = frames.iter().map(|frame| json!({ "name": frame })).collect();
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "exporter": concat!("jax2onnx ", env!("CARGO_PKG_VERSION")),
        "shared": { "frames": frames },
        "profiles": profiles,
    })
}

fn sorted(times: &Times<Vec<String>>) -> Vec<(&Vec<String>, u64)> {
    let mut all: Vec<_> = times.iter().map(|(stack, time)| (stack, time.ns)).collect();
    all.sort_unstable();
    all
}
