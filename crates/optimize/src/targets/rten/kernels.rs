//! What rten 0.27 runs of the operators that its users met, found by running models of one node.

use crate::targets::kernels::{Runs, numbers, row, small};

/// The combinations that rten runs, for operators that lack types there.
#[rustfmt::skip]
pub(super) static KERNELS: &[Runs] = &[
    Runs { op: "MatMul", versions: &[9, 13], rows: &[row("", &[0x280000])] },
    Runs { op: "ReduceMax", versions: &[13], rows: &[row("", &[0x20]), small("", &[0x40]), numbers("", &[0x680000])] },
    Runs { op: "ReduceMax", versions: &[18, 20], rows: &[row("", &[0x20, 0x40]), small("", &[0x40, 0x40]), numbers("", &[0x680000, 0x40])] },
    Runs { op: "ReduceMin", versions: &[13], rows: &[row("", &[0x20]), small("", &[0x40]), numbers("", &[0x680000])] },
    Runs { op: "ReduceMin", versions: &[18, 20], rows: &[row("", &[0x20, 0x40]), small("", &[0x40, 0x40]), numbers("", &[0x680000, 0x40])] },
    Runs { op: "ReduceSum", versions: &[1, 11], rows: &[row("", &[0x600060])] },
    Runs { op: "ReduceSum", versions: &[13], rows: &[row("", &[0x680060, 0x40])] },
];
