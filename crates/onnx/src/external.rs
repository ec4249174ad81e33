//! Moves tensors out of a model's message into a file beside it.

use crate::proto::{
    DataLocation, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto,
};
use crate::tensor_proto::Contents;
use crate::{Error, LARGE, Result};

/// Every tensor is aligned to this, so that it can be mapped into memory.
const ALIGNMENT: u64 = 4096;

/// Contents for the data file, to be written at `offset`.
pub(crate) struct Placed {
    pub(crate) offset: u64,
    pub(crate) data: Contents,
}

/// `model` with its large tensors referring to the file `location`, and the contents of that file.
///
/// Those are initializers and the values of `Constant` nodes; runtimes expect the tensors of other
/// attributes in the model itself.
pub(crate) fn move_out(model: &ModelProto, location: &str) -> Result<(ModelProto, Vec<Placed>)> {
    let mut model = model.clone();
    let mut mover = Mover { location, end: 0, placed: Vec::new(), foreign: None };
    if let Some(graph) = &mut model.graph {
        mover.graph(graph);
    }
    for function in &mut model.functions {
        mover.nodes(&mut function.node);
    }
    match mover.foreign {
        Some(name) if !mover.placed.is_empty() => Err(Error::Graph(format!(
            "`{name}` refers to `{location}`, which other tensors would overwrite"
        ))),
        _ => Ok((model, mover.placed)),
    }
}

struct Mover<'a> {
    location: &'a str,
    end: u64,
    placed: Vec<Placed>,
    /// A tensor that was in a file of the same name before.
    foreign: Option<String>,
}

impl Mover<'_> {
    fn graph(&mut self, graph: &mut GraphProto) {
        for tensor in &mut graph.initializer {
            self.tensor(tensor);
        }
        self.nodes(&mut graph.node);
    }

    fn nodes(&mut self, nodes: &mut [NodeProto]) {
        for node in nodes {
            let constant = node.op_type == "Constant" && node.domain.is_empty();
            for attribute in &mut node.attribute {
                if let Some(tensor) = attribute.t.as_mut().filter(|_| constant) {
                    self.tensor(tensor);
                }
                let graphs = attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs);
                graphs.for_each(|graph| self.graph(graph));
            }
        }
    }

    fn tensor(&mut self, tensor: &mut TensorProto) {
        if tensor.data_location() == DataLocation::External {
            if location(tensor).is_some_and(|l| same_file(l, self.location)) {
                self.foreign.get_or_insert_with(|| tensor.name.clone());
            }
            return;
        }
        let Some(data) = tensor.take_contents(LARGE) else { return };
        let (offset, length) = (self.end.next_multiple_of(ALIGNMENT), data.len() as u64);
        self.end = offset + length;
        let entries = [
            ("location", self.location.to_owned()),
            ("offset", offset.to_string()),
            ("length", length.to_string()),
        ];
        let entry = |(key, value): (&str, _)| StringStringEntryProto { key: key.to_owned(), value };
        tensor.external_data = entries.into_iter().map(entry).collect();
        tensor.set_data_location(DataLocation::External);
        self.placed.push(Placed { offset, data });
    }
}

fn location(tensor: &TensorProto) -> Option<&str> {
    tensor.external_data.iter().find(|e| e.key == "location").map(|e| e.value.as_str())
}

/// Whether `location`, relative to the model's folder, is its file `name`.
pub(crate) fn same_file(location: &str, name: &str) -> bool {
    location.trim_start_matches("./") == name
}
