//! tract, an inference engine in Rust.

use super::spellings::{COUNTED_LOOPS, HALF_GEMM};
use super::{Spec, openvino};

pub(super) static SPEC: Spec =
    Spec { name: "tract", title: "tract", bugs: &[&COUNTED_LOOPS, &HALF_GEMM], ..openvino::SPEC };
