//! Orders functions for building. Callees come first, because types flow from a function to its
//! callers.

use rustc_hash::FxHashMap;

use super::syntax::{Argument, Body, FunctionText};
use tokens::{Read, fail};

/// Returns the positions of `functions`, callees before callers. Fails if a function calls itself.
pub(super) fn callees_first(functions: &[FunctionText]) -> Read<Vec<usize>> {
    let names = functions.iter().enumerate();
    let names: FxHashMap<_, _> =
        names.map(|(i, f)| ((f.domain.as_str(), f.body.name.as_str()), i)).collect();
    let mut callers = vec![Vec::new(); functions.len()];
    let mut missing = vec![0usize; functions.len()];
    for (caller, function) in functions.iter().enumerate() {
        let mut callees = Vec::new();
        collect_calls(&function.body, &names, &mut callees);
        for callee in callees {
            callers[callee].push(caller);
            missing[caller] += 1;
        }
    }
    let mut order: Vec<usize> = (0..functions.len()).filter(|&i| missing[i] == 0).collect();
    let mut done = 0;
    while let Some(&callee) = order.get(done) {
        done += 1;
        for &caller in &callers[callee] {
            missing[caller] -= 1;
            if missing[caller] == 0 {
                order.push(caller);
            }
        }
    }
    match missing.iter().position(|&n| n > 0) {
        Some(stuck) => fail(functions[stuck].at, "the function calls itself"),
        None => Ok(order),
    }
}

/// Appends the functions that `body` calls. Subgraphs nest no deeper than the parser allows.
fn collect_calls(body: &Body, names: &FxHashMap<(&str, &str), usize>, calls: &mut Vec<usize>) {
    for node in &body.nodes {
        calls.extend(names.get(&(node.domain.as_str(), node.op.as_str())));
        for (_, argument) in &node.attrs {
            match argument {
                Argument::Plain(_) => {}
                Argument::Graph(body) => collect_calls(body, names, calls),
            }
        }
    }
}
