//! Reads onnxruntime's profiles: lists of events in Chrome's trace format.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Time;
use crate::failure::Failure;
use crate::table::count;

/// The suffix of events that represent a node.
const KERNEL: &str = "_kernel_time";

/// The execution times of a model's nodes.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// The number of runs, not counting skipped ones.
    pub(crate) runs: u64,
    /// The total wall-clock time of all runs in nanoseconds.
    pub(crate) wall: u64,
    /// The kernels, in order of first appearance.
    pub(crate) kernels: Vec<Kernel>,
}

/// All executions of one node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The node's name in the runtime.
    pub(crate) name: String,
    pub(crate) op: String,
    /// The position that the runtime assigns to the node.
    pub(crate) position: Option<usize>,
    pub(crate) provider: String,
    /// The position of the loop or branch that the kernel ran in. It precedes the kernel.
    pub(crate) inside: Option<usize>,
    /// The position of the kernel that ran directly before this one every time, on the same thread, if
    /// one of its results has the shape of this one's first operand.
    pub(crate) feeder: Option<usize>,
    /// The number of executions.
    pub(crate) calls: u64,
    /// The execution time, excluding nested nodes.
    pub(crate) time: Time,
}

impl Profile {
    /// Returns the total time of all nodes.
    pub(crate) fn total(&self) -> Time {
        self.kernels.iter().map(|kernel| kernel.time).sum()
    }
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    tid: i64,
    #[serde(default)]
    args: Args,
}

#[derive(Default, Deserialize)]
struct Args {
    #[serde(default)]
    op_name: String,
    #[serde(default)]
    provider: String,
    #[serde(default)]
    node_index: Option<String>,
    #[serde(default)]
    input_type_shape: Option<Box<RawValue>>,
    #[serde(default)]
    output_type_shape: Option<Box<RawValue>>,
}

/// The kernel that ran last.
struct Previous {
    position: usize,
    thread: i64,
    inside: Option<usize>,
    shapes: Option<Box<RawValue>>,
}

impl Previous {
    /// Returns `true` if a result has the shape of the first operand of `event`.
    fn may_feed(&self, event: &Event, inside: Option<usize>) -> bool {
        let results = shapes(self.shapes.as_deref());
        let operands = shapes(event.args.input_type_shape.as_deref());
        (self.thread, self.inside) == (event.tid, inside)
            && operands.first().is_some_and(|first| results.contains(first))
    }
}

/// Returns the types and shapes in a list.
fn shapes(list: Option<&RawValue>) -> Vec<&str> {
    let shapes = list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
    Vec::<&RawValue>::into_iter(shapes).map(RawValue::get).collect()
}

/// Reads the profile at `path`, skipping its first `skipped` runs.
pub(crate) fn read(path: &Path, skipped: usize) -> Result<Profile, Failure> {
    let file = File::open(path).map_err(Failure::io(path))?;
    let events: Vec<Event> = serde_json::from_reader(BufReader::with_capacity(1 << 16, file))
        .map_err(|error| Failure::file(path, format!("not an onnxruntime profile: {error}")))?;
    let mut profile = gather(events, skipped).map_err(|why| Failure::file(path, why))?;
    profile.kernels.retain(|kernel| kernel.calls > 0);
    Ok(profile)
}

/// Converts the file's microseconds to nanoseconds. Values that are not durations count as zero.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
fn nanoseconds(microseconds: f64) -> u64 {
    (microseconds.clamp(0.0, 1e12) * 1e3).round() as u64
}

fn gather(events: Vec<Event>, skipped: usize) -> Result<Profile, String> {
    let mut runs: Vec<&Event> = events.iter().filter(|e| e.name == "model_run").collect();
    runs.sort_by(|a, b| a.ts.total_cmp(&b.ts));
    let after = match skipped.checked_sub(1) {
        None => f64::NEG_INFINITY,
        Some(last) if skipped < runs.len() => runs[last].ts + runs[last].dur,
        Some(_) => {
            let (skipped, all) = (count(skipped, "run"), runs.len());
            return Err(format!("cannot skip {skipped}: the profile has only {all}"));
        }
    };
    let counted = runs.iter().filter(|run| run.ts >= after);
    let starts: Vec<f64> = counted.clone().map(|run| run.ts).collect();
    let mut profile = Profile {
        runs: counted.clone().count().max(1) as u64,
        wall: counted.map(|run| nanoseconds(run.dur)).sum(),
        kernels: Vec::new(),
    };
    let is_kernel = |e: &Event| e.cat == "Node" && e.name.ends_with(KERNEL) && e.ts >= after;
    let mut kernels: Vec<Event> = events.into_iter().filter(is_kernel).collect();
    if kernels.is_empty() {
        return Err(
            "it has no node times; was the session created with `enable_profiling`?".to_owned()
        );
    }
    // An event precedes the events that it contains.
    kernels.sort_by(|a, b| {
        (a.tid.cmp(&b.tid)).then(a.ts.total_cmp(&b.ts)).then(b.dur.total_cmp(&a.dur))
    });
    let own = own_times(&kernels);
    let mut known: FxHashMap<(String, String, Option<usize>), usize> = FxHashMap::default();
    let mut merged: Vec<usize> = Vec::with_capacity(kernels.len());
    let mut by_run: Vec<FxHashMap<usize, u64>> = Vec::new();
    let mut previous: Option<Previous> = None;
    for (event, (ns, outer)) in kernels.into_iter().zip(own) {
        let name = event.name[..event.name.len() - KERNEL.len()].to_owned();
        let inside = outer.and_then(|outer| merged.get(outer).copied());
        let feeder = previous.filter(|p| p.may_feed(&event, inside)).map(|p| p.position);
        let key = (name.clone(), event.args.op_name.clone(), inside);
        let shapes = event.args.output_type_shape;
        let at = *known.entry(key).or_insert_with(|| {
            profile.kernels.push(Kernel {
                name,
                op: event.args.op_name,
                position: event.args.node_index.and_then(|index| index.parse().ok()),
                provider: event.args.provider,
                inside,
                feeder,
                calls: 0,
                time: Time::default(),
            });
            by_run.push(FxHashMap::default());
            profile.kernels.len() - 1
        });
        merged.push(at);
        let kernel = &mut profile.kernels[at];
        kernel.calls += 1;
        if kernel.feeder != feeder {
            kernel.feeder = None;
        }
        previous = Some(Previous { position: at, thread: event.tid, inside, shapes });
        let run = starts.partition_point(|start| *start <= event.ts);
        let time = by_run[at].entry(run).or_default();
        *time = time.saturating_add(ns);
    }
    for (kernel, each) in profile.kernels.iter_mut().zip(by_run) {
        kernel.time = Time::of_runs(each.into_values(), profile.runs);
    }
    Ok(profile)
}

/// Returns the time of each event without its nested events, and the enclosing event. If a thread
/// is in two kernels at once, the inner one is in the body of a loop or a branch. `events` must be
/// sorted.
fn own_times(events: &[Event]) -> Vec<(u64, Option<usize>)> {
    let mut own: Vec<(u64, Option<usize>)> =
        events.iter().map(|event| (nanoseconds(event.dur), None)).collect();
    let mut open: Vec<usize> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        while open.last().is_some_and(|outer| {
            let outer = &events[*outer];
            outer.tid != event.tid || outer.ts + outer.dur <= event.ts
        }) {
            open.pop();
        }
        if let Some(&outer) = open.last() {
            own[outer].0 = own[outer].0.saturating_sub(nanoseconds(event.dur));
            own[at].1 = Some(outer);
        }
        open.push(at);
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str, skipped: usize) -> Result<Profile, String> {
        gather(serde_json::from_str(text).unwrap(), skipped)
    }

    const LOOP: &str = r#"[
        {"cat":"Session","name":"model_run","ts":0,"dur":100},
        {"cat":"Node","name":"/Loop_kernel_time","ts":10,"dur":50,"tid":1,"args":{"op_name":"Loop"}},
        {"cat":"Node","name":"/Sin_kernel_time","ts":12,"dur":5,"tid":1,"args":{"op_name":"Sin"}},
        {"cat":"Node","name":"/Sin_kernel_time","ts":20,"dur":6,"tid":1,"args":{"op_name":"Sin"}},
        {"cat":"Node","name":"/Cos_kernel_time","ts":60,"dur":7,"tid":1,"args":{"op_name":"Cos"}},
        {"cat":"Node","name":"/Tan_kernel_time","ts":15,"dur":9,"tid":2,"args":{"op_name":"Tan"}},
        {"cat":"Session","name":"model_run","ts":200,"dur":100},
        {"cat":"Node","name":"/Cos_kernel_time","ts":210,"dur":3,"tid":1,"args":{"op_name":"Cos"}}
    ]"#;

    #[test]
    fn time_inside_a_loop_counts_once() {
        let profile = profile(LOOP, 0).unwrap();
        let times: Vec<_> =
            profile.kernels.iter().map(|k| (&*k.name, k.calls, k.time.ns)).collect();
        let expected =
            [("/Loop", 1, 39_000), ("/Sin", 2, 11_000), ("/Cos", 2, 10_000), ("/Tan", 1, 9_000)];
        assert_eq!(times, expected);
        assert_eq!((profile.runs, profile.wall, profile.total().ns), (2, 200_000, 69_000));
    }

    #[test]
    fn a_kernel_is_fed_by_the_one_directly_before_it() {
        let event = |name: &str, ts: usize, tid: usize, read: &str, result: &str| {
            format!(
                r#"{{"cat":"Node","name":"{name}_kernel_time","ts":{ts},"dur":1,"tid":{tid},"args":
                    {{"input_type_shape":[{read}],"output_type_shape":[{result}]}}}}"#
            )
        };
        let (small, large) = (r#"{"float":[2]}"#, r#"{"float":[4]}"#);
        let shapes = format!("{small},{large}");
        let events = [
            event("a", 0, 1, small, &shapes),
            event("b", 2, 1, large, small),
            event("c", 4, 1, large, large),
            event("d", 6, 2, large, large),
            event("e", 8, 2, "{}", "7"),
            event("a", 10, 1, small, small),
            event("c", 12, 1, small, small),
        ];
        let profile = profile(&format!("[{}]", events.join(",")), 0).unwrap();
        let fed: Vec<_> = profile.kernels.iter().map(|k| (&*k.name, k.feeder)).collect();
        let expected = [("a", None), ("b", Some(0)), ("c", None), ("d", None), ("e", None)];
        assert_eq!(fed, expected);
    }

    #[test]
    fn a_median_is_taken_over_runs() {
        let profile = profile(LOOP, 0).unwrap();
        let medians: Vec<u64> = profile.kernels.iter().map(|kernel| kernel.time.median).collect();
        assert_eq!(medians, [19_500, 5_500, 5_000, 4_500], "three of them ran in one run of two");
        assert_eq!(profile.total().median, medians.iter().sum::<u64>());
    }

    #[test]
    fn the_first_runs_can_be_skipped() {
        let later = profile(LOOP, 1).unwrap();
        assert_eq!((later.runs, later.total().ns), (1, 3_000));
        assert!(profile(LOOP, 2).unwrap_err().contains("the profile has only 2"));
    }

    #[test]
    fn odd_numbers_are_harmless() {
        let text = r#"[{"cat":"Node","name":"_kernel_time","ts":-1e300,"dur":1e300},
                       {"cat":"Node","name":"a_kernel_time","ts":1e300,"dur":-5}]"#;
        let profile = profile(text, 0).unwrap();
        assert_eq!(profile.kernels.len(), 2);
        assert_eq!(profile.kernels[1].time.ns, 0);
    }
}
