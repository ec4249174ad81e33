//! Releases of onnxruntime from one on: their opsets end earlier than the newest one's.

use super::{Spec, onnxruntime};

/// The releases that load other opsets than those before them, the oldest first.
pub(super) static SPECS: [Spec; 7] = [
    from("onnxruntime>=1.17", 20),
    from("onnxruntime>=1.18", 21),
    from("onnxruntime>=1.19", 21),
    from("onnxruntime>=1.20", 21),
    from("onnxruntime>=1.21", 22),
    from("onnxruntime>=1.22", 22),
    from("onnxruntime>=1.23", 23),
];

const fn from(name: &'static str, opset: i64) -> Spec {
    Spec { name, title: name, opset, newest_opset: opset, contrib: &[], ..onnxruntime::SPEC }
}
