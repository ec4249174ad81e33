//! The values of a program's equations, for comparing a model with JAX value by value.

use std::sync::{Mutex, PoisonError};

use onnx::{Graph, Producer, ValueId};
use pipeline::Places;
use provenance::{CallId, Diagnostic, Emitter, Origins, ScopeId, Stacks};
use pyo3::prelude::*;
use tensor::{DType, Type};

use crate::read::LoadedTexts;

/// An equation that was lowered into the main graph.
#[derive(Debug)]
pub(crate) struct Entry {
    caller: Option<u32>,
    made_by: Vec<Option<(u32, u32)>>,
    values: Vec<Vec<Value>>,
    rule: String,
    call: CallId,
    scope: ScopeId,
}

/// A value of the finished graph: its name, and the emitter of the node that computes it, if any.
#[derive(Debug)]
struct Value {
    name: String,
    emitter: Option<Emitter>,
}

/// Returns the recorded equations, with those values of their results that still exist.
pub(crate) fn entries(results: &lower::Results, graph: &Graph, origins: &Origins) -> Vec<Entry> {
    let entry = |eqn: &lower::EqnResult| Entry {
        caller: eqn.caller,
        made_by: eqn.made_by.clone(),
        values: eqn
            .values
            .iter()
            .zip(&eqn.types)
            .map(|(parts, ty)| {
                // For a complex value, both parts or none.
                let found: Option<Vec<Value>> =
                    parts.flat().map(|value| find(value, ty, graph, origins)).collect();
                found.unwrap_or_default()
            })
            .collect(),
        rule: eqn.rule.1.of(eqn.rule.0),
        call: eqn.call,
        scope: eqn.scope,
    };
    results.0.iter().map(entry).collect()
}

/// Returns a value in the finished graph, or `None` if it is gone or has another type.
fn find(value: ValueId, ty: &Type, graph: &Graph, origins: &Origins) -> Option<Value> {
    let found = graph.replacement(value);
    let new = graph.ty(found);
    let (before, after) = (ty.dtype.component(), new.dtype);
    // A model may compute in smaller floats than the program.
    let is_rounded = before == DType::F32 && matches!(after, DType::F16 | DType::BF16);
    if before != after && !is_rounded || ty.rank() != new.rank() {
        return None;
    }
    let emitter = match graph.value(found).producer() {
        Producer::Node(node, _) if graph.node(*node).block() == Graph::MAIN => {
            Some(origins.get(graph.node(*node).origin).emitter)
        }
        Producer::Input(Graph::MAIN) | Producer::Constant(_) | Producer::Parameter(_) => None,
        Producer::Node(..) | Producer::Input(_) | Producer::Removed => return None,
    };
    let name = graph.value(found).name.clone();
    (!name.is_empty()).then_some(Value { name, emitter })
}

/// The values of a program's equations.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Results {
    entries: Vec<Entry>,
    origins: Origins,
    stacks: Mutex<Stacks>,
    texts: LoadedTexts,
}

impl Results {
    pub(crate) fn new(
        entries: Vec<Entry>,
        origins: Origins,
        stacks: Stacks,
        texts: LoadedTexts,
    ) -> Self {
        Self { entries, origins, stacks: Mutex::new(stacks), texts }
    }
}

/// An equation: the index of the one that called its jaxpr, and for each result the indices of the
/// equation and the result in JAX, and the names of its values.
type Row = (Option<u32>, Vec<(Option<(u32, u32)>, Vec<String>)>);

#[pymethods]
impl Results {
    /// Returns the equations of the main graph, with callers before callees.
    fn rows(&self) -> Vec<Row> {
        let names = |values: &Vec<Value>| values.iter().map(|v| v.name.clone()).collect();
        let row = |e: &Entry| {
            let results = e.made_by.iter().zip(&e.values);
            (e.caller, results.map(|(made_by, values)| (*made_by, names(values))).collect())
        };
        self.entries.iter().map(row).collect()
    }

    /// Returns the position of an equation in the program, with an excerpt; empty if it is unknown.
    fn place(&self, py: Python<'_>, row: usize) -> PyResult<String> {
        let Some(entry) = self.entries.get(row) else { return Ok(String::new()) };
        let mut stacks = self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places =
            Places { origins: &self.origins, stacks: &mut stacks, resolve: &|_, _| {} };
        let places = places.of_call(entry.call, entry.scope).into_iter().collect();
        let diagnostic = Diagnostic { code: "", message: String::new(), places, help: None };
        Ok(self.texts.render(py, &diagnostic))
    }

    /// Returns the rule that lowered an equation, with the line that emitted the node of a result.
    /// If a rewrite emitted that node, returns the rewrite, and the rule before it.
    fn rule(&self, row: usize, result: usize) -> Option<String> {
        let entry = self.entries.get(row)?;
        let value = entry.values.get(result).and_then(|values| values.first());
        Some(match value.and_then(|value| value.emitter) {
            Some(emitter) if emitter.function() == entry.rule => emitter.to_string(),
            Some(emitter) => format!("{emitter}, after {}", entry.rule),
            None => entry.rule.clone(),
        })
    }
}
