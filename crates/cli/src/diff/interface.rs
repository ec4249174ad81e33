//! Opsets, inputs and outputs of two models, and their correspondence.

use std::collections::BTreeSet;

use onnx_file::proto::ValueInfoProto;
use rustc_hash::FxHashMap;

use super::side::Side;
use crate::model::type_text;

/// For each input or output of the first model, its position in the second.
pub(super) type Places = Vec<Option<usize>>;

/// Matches inputs or outputs. If both lists have the same names, values are matched by name, as in
/// runtimes; otherwise by position.
pub(super) fn places(old: &[ValueInfoProto], new: &[ValueInfoProto]) -> Places {
    let known: FxHashMap<&str, usize> =
        new.iter().enumerate().map(|(at, value)| (value.name.as_str(), at)).collect();
    let named: Places = old.iter().map(|value| known.get(value.name.as_str()).copied()).collect();
    let mut hit = vec![false; new.len()];
    named.iter().flatten().for_each(|at| hit[*at] = true);
    if old.len() == new.len() && hit.iter().all(|hit| *hit) {
        return named;
    }
    (0..old.len()).map(|at| (at < new.len()).then_some(at)).collect()
}

/// Describes the differences in opsets, IR version, inputs and outputs.
pub(super) fn interface(
    a: &Side<'_>,
    b: &Side<'_>,
    inputs: &Places,
    outputs: &Places,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut entry = |what: &str, old: Option<String>, new: Option<String>| {
        if old != new {
            let text = |side: Option<String>| side.unwrap_or_else(|| "none".to_owned());
            found.push(format!("{what}: {} → {}", text(old), text(new)));
        }
    };
    let (x, y) = (&a.index.model.proto, &b.index.model.proto);
    entry("IR version", Some(x.ir_version.to_string()), Some(y.ir_version.to_string()));
    let version = |model: &onnx_file::proto::ModelProto, domain: &str| {
        let found = model.opset_import.iter().find(|set| set.domain == domain);
        found.map(|set| set.version.to_string())
    };
    let sets = x.opset_import.iter().chain(&y.opset_import);
    for domain in sets.map(|set| set.domain.as_str()).collect::<BTreeSet<_>>() {
        let name = if domain.is_empty() { "opset".to_owned() } else { format!("opset {domain}") };
        entry(&name, version(x, domain), version(y, domain));
    }
    let lists = [
        ("input", &a.index.graph.input, &b.index.graph.input, inputs),
        ("output", &a.index.graph.output, &b.index.graph.output, outputs),
    ];
    for (what, old, new, places) in lists {
        let in_order = |(at, place): (usize, &Option<usize>)| place.is_none_or(|to| to == at);
        if !places.iter().enumerate().all(in_order) {
            let names = |list: &[ValueInfoProto]| {
                list.iter().map(|value| value.name.as_str()).collect::<Vec<_>>().join(", ")
            };
            entry(&format!("order of {what}s"), Some(names(old)), Some(names(new)));
        }
        for (at, place) in places.iter().enumerate() {
            let (old, new) = (text(old.get(at)), text(place.and_then(|place| new.get(place))));
            entry(&format!("{what} {at}"), old, new);
        }
        for (at, value) in new.iter().enumerate().skip(old.len()) {
            entry(&format!("{what} {at}"), None, text(Some(value)));
        }
    }
    found
}

/// Formats the name and type of an input or output.
fn text(value: Option<&ValueInfoProto>) -> Option<String> {
    let value = value?;
    let ty = value.r#type.as_ref().map_or("?".to_owned(), type_text);
    Some(format!("{}: {ty}", value.name))
}
