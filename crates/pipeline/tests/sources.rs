//! No step loses where a node came from: all that a model computed before a step has its source in the model after it.
//!
//! Every node of the programs in `filetests/` and of those that show bugs of runtimes gets a module of its own. Then
//! all steps run one after the other.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use onnx::{BlockId, Graph, NodeId, ValueId};
use optimize::Target;
use optimize::legalize::{avoid_bugs, legalize, legalize_outputs, required_opset, spell};
use optimize::{Forms, Options};
use pipeline::Recording;
use provenance::{OriginId, Origins};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/filetests");
const BUGS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../optimize/src/targets/onnxruntime/bugs/programs");

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

/// The graph of a file as text; `None` if its program is refused.
fn lowered(path: &Path) -> Option<Graph> {
    let text = fs::read_to_string(path).unwrap();
    let mut origins = Origins::default();
    if path.extension().is_some_and(|extension| extension == "onnxtxt") {
        return Some(onnx::text::parse(&text, &mut origins).unwrap());
    }
    let recording = Recording::parse(&text, 1 << 20).ok()?;
    let (program, boundary) = (&recording.program, &recording.boundary);
    Some(lower::lower(program, boundary, &lower::Options::default(), &mut origins).ok()?.graph)
}

/// The same graph, each node in a module of its own; `None` if its text leaves out the elements of a constant.
fn with_modules(mut graph: Graph, origins: &mut Origins) -> Option<Graph> {
    for (i, id) in graph.all_nodes().into_iter().enumerate() {
        let name = format!("/n{i}/{}", graph.node(id).op.name);
        graph.set_node_name(id, name);
    }
    onnx::text::parse(&onnx::text::print(&graph), origins).ok()
}

/// The sources of an origin.
fn sources(origins: &Origins, origin: OriginId) -> impl Iterator<Item = &str> {
    let scope = |id: &OriginId| origins.scope_path(origins.get(*id).scope);
    std::iter::once(scope(&origin)).chain(origins.get(origin).also.iter().map(scope))
}

/// The sources of the nodes that compute what the model returns.
fn needed(graph: &Graph, origins: &Origins) -> BTreeSet<String> {
    let (mut values, mut blocks) = (Vec::<ValueId>::new(), vec![Graph::MAIN]);
    let (mut seen, mut found) = (BTreeSet::<NodeId>::new(), BTreeSet::new());
    let mut entered = BTreeSet::<BlockId>::new();
    loop {
        if let Some(block) = blocks.pop() {
            if entered.insert(block) {
                values.extend(graph.block(block).outputs());
            }
        } else if let Some(value) = values.pop() {
            let Some(id) = graph.producer(value).filter(|id| seen.insert(*id)) else { continue };
            let node = graph.node(id);
            found.extend(sources(origins, node.origin).map(str::to_owned));
            values.extend(node.inputs.iter().flatten());
            blocks.extend(node.blocks());
            blocks.extend(graph.functions.iter().filter(|f| f.op == node.op).map(|f| f.body));
        } else {
            return found;
        }
    }
}

/// The programs that compute what nothing reads: branches that are never taken, and state that only its own next
/// iteration reads. They are listed by the beginnings of their names.
const WITH_DEAD_CODE: [&str; 4] = ["cond.known", "eig.", "schur.", "svd.complex."];

type Step = fn(&mut Graph, &mut Origins, i64, Target) -> Result<(), String>;

fn optimized(graph: &mut Graph, origins: &mut Origins, opset: i64) -> Result<(), String> {
    let options = Options { forms: Forms::auto(opset), ..Options::default() };
    optimize::optimize(graph, origins, &options).map(drop).map_err(|error| error.to_string())
}

/// The steps after lowering.
const STEPS: [(&str, Step); 6] = [
    ("optimize", |graph, origins, opset, _| optimized(graph, origins, opset)),
    ("legalize", |graph, origins, opset, target| {
        legalize(graph, origins, opset, target).map_err(|error| error.to_string())
    }),
    ("avoid_bugs", |graph, origins, opset, target| {
        let forms = Forms::auto(opset);
        avoid_bugs(graph, origins, opset, target, &forms).map_err(|error| error.to_string())
    }),
    ("spell", |graph, origins, opset, _| {
        spell(graph, origins, opset).map_err(|error| error.to_string())
    }),
    ("seal_outputs", |graph, origins, _, _| {
        onnx::seal_outputs(graph, origins, &[]).map_err(|error| error.to_string())
    }),
    ("legalize_outputs", |graph, origins, opset, target| {
        legalize_outputs(graph, origins, opset, target).map_err(|error| error.to_string())
    }),
];

/// Runs all steps, and returns what is lost by which of them. A step that refuses the model is the last one.
fn lost(graph: &mut Graph, origins: &mut Origins, opset: i64, target: Target) -> Vec<String> {
    let mut lost = Vec::new();
    for (name, step) in STEPS {
        let before = needed(graph, origins);
        if step(graph, origins, opset, target).is_err() {
            break;
        }
        let nodes = graph.all_nodes().into_iter();
        let after: BTreeSet<&str> =
            nodes.flat_map(|id| sources(origins, graph.node(id).origin)).collect();
        let gone = before.iter().filter(|source| !after.contains(source.as_str()));
        lost.extend(gone.map(|source| format!("{name} loses {source}")));
    }
    lost
}

#[test]
fn no_step_loses_a_source() {
    let (mut all, mut models) = (Vec::new(), 0);
    for path in files(Path::new(FILES)).into_iter().chain(files(Path::new(BUGS))) {
        let name = path.file_name().unwrap().to_string_lossy();
        if WITH_DEAD_CODE.iter().any(|beginning| name.starts_with(beginning)) {
            continue;
        }
        let Some(graph) = lowered(&path) else { continue };
        for (target, opset) in [(Target::default(), None), (Target::any(), Some(17))] {
            let mut origins = Origins::default();
            let Some(mut graph) = with_modules(graph.clone(), &mut origins) else { continue };
            let Some(opset) = opset.or_else(|| required_opset(&graph, target).ok()) else {
                continue;
            };
            models += 1;
            let lost = lost(&mut graph, &mut origins, opset, target);
            all.extend(lost.into_iter().map(|lost| format!("{name}, opset {opset}: {lost}")));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(models > 900, "only {models} models were looked at");
}
