//! Functions shared by the tests of saving.

use std::fs;
use std::path::Path;

use crate::Model;
use crate::proto::{GraphProto, ModelProto, OperatorSetIdProto, TensorProto};

/// Returns a model that consists of weights, given by their names and bytes.
pub(crate) fn model_of(weights: &[(&str, Vec<u8>)]) -> Model {
    let tensor = |(name, bytes): &(&str, Vec<u8>)| TensorProto {
        name: (*name).to_owned(),
        dims: vec![i64::try_from(bytes.len()).unwrap()],
        data_type: 2,
        raw_data: Some(bytes.clone().into()),
        ..TensorProto::default()
    };
    let initializer = weights.iter().map(tensor).collect();
    let graph = Some(GraphProto { initializer, ..GraphProto::default() });
    let opset_import = vec![OperatorSetIdProto { version: 23, ..OperatorSetIdProto::default() }];
    Model::from(ModelProto { ir_version: 10, graph, opset_import, ..ModelProto::default() })
}

/// Returns the names of the files in a folder, in alphabetical order.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Kills the process if the environment variable names this step.
pub(crate) fn abort_at(step: &str, variable: &str) {
    if std::env::var(variable).is_ok_and(|killed| killed == step) {
        std::process::abort(); // nothing is cleaned up
    }
}
