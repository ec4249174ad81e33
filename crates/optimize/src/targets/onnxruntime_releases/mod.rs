//! Releases of onnxruntime from one on: their opsets and versions of the file format end earlier
//! than the newest one's.

use super::spellings::NORM_BIASES;
use super::{Bug, Spec, onnxruntime};

/// The releases that load other opsets than those before them, the oldest first.
pub(super) static SPECS: [Spec; 7] = [
    Spec { bugs: OLDEST, ..from("onnxruntime>=1.17", 20, 9) },
    Spec { bugs: OLDEST, ..from("onnxruntime>=1.18", 21, 10) },
    from("onnxruntime>=1.19", 21, 10),
    from("onnxruntime>=1.20", 21, 10),
    from("onnxruntime>=1.21", 22, 10),
    from("onnxruntime>=1.22", 22, 10),
    from("onnxruntime>=1.23", 23, 11),
];

/// The bugs of releases up to 1.18, whose `AttentionFusion` reads the bias of each norm.
const OLDEST: &[&[&Bug]] = &[&onnxruntime::BUGS, &[&NORM_BIASES]];

const fn from(name: &'static str, opset: i64, newest_ir_version: i64) -> Spec {
    Spec {
        name,
        title: name,
        runtime: "this release of onnxruntime and newer ones",
        opset,
        newest_opset: opset,
        newest_ir_version,
        contrib: &[],
        ..onnxruntime::SPEC
    }
}
