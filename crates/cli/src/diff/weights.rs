//! Differences between parameters: name, type and contents.

use onnx_file::proto::TensorProto;
use rustc_hash::{FxHashMap, FxHashSet};

use super::compare::{ChangeKind, Difference, Weight};
use super::contents::same;
use super::matching::Matching;
use super::pattern::is_constant;
use super::side::Side;
use crate::failure::Failure;
use crate::model::tensor_text;

/// Adds the differences between the parameters of matched bodies.
pub(super) fn compare(
    a: &Side<'_>,
    b: &Side<'_>,
    matching: &Matching,
    contents: bool,
    difference: &mut Difference,
) -> Result<(), Failure> {
    let mut entry = |kind, name: &str, detail: String| {
        // Program constants are reported as inputs of the nodes that read them.
        if is_constant(name) && kind != ChangeKind::Changed {
            return;
        }
        difference.weights.push(Weight { kind, name: name.to_owned(), detail });
    };
    for &(body_a, body_b) in &matching.bodies {
        let (old, new) = (a.tensors[body_a], b.tensors[body_b]);
        let known: FxHashMap<&str, &TensorProto> =
            new.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        let names: FxHashSet<&str> = old.iter().map(|t| t.name.as_str()).collect();
        for tensor in old {
            let name = tensor.name.as_str();
            let Some(other) = known.get(name) else {
                entry(ChangeKind::Removed, name, tensor_text(tensor));
                continue;
            };
            let (before, after) = (tensor_text(tensor), tensor_text(other));
            if before != after {
                entry(ChangeKind::Changed, name, format!("{before} → {after}"));
            } else if contents {
                match same(tensor, &a.path, other, &b.path)? {
                    Some(true) => {}
                    Some(false) => {
                        entry(ChangeKind::Changed, name, format!("{before}, different values"));
                    }
                    None => {
                        let remark = format!("the values of `{name}` were not compared");
                        difference.remarks.push(remark);
                    }
                }
            }
        }
        for tensor in new.iter().filter(|tensor| !names.contains(tensor.name.as_str())) {
            entry(ChangeKind::Added, &tensor.name, tensor_text(tensor));
        }
    }
    Ok(())
}
