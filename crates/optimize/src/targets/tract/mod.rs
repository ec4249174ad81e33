//! tract, an inference engine in Rust.

use super::spellings::{COUNTED_LOOPS, HALF_GEMM, INITIAL_STATES};
use super::{Spec, openvino};

pub(super) static SPEC: Spec = Spec {
    name: "tract",
    title: "tract",
    bugs: &[&COUNTED_LOOPS, &HALF_GEMM, &INITIAL_STATES],
    ..openvino::SPEC
};
