//! OpenVINO's CPU plugin, which reads ONNX files. It runs what the models for onnxruntime consist of.

use super::{Spec, onnxruntime};

pub(super) static SPEC: Spec = Spec {
    name: "openvino",
    title: "OpenVINO",
    bugs: &[],
    convolutions: None,
    resizes_identities_fast: false,
    fuses_sums_with_norms: false,
    limits_biased_sums: false,
    mistakes_matrices_for_signals: false,
    contrib: &[],
    ..onnxruntime::SPEC
};
