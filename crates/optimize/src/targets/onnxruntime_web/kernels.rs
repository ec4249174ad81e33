//! Generated from onnxruntime-web 1.30.0 by `python scripts/gen_web_table.py`.

use crate::targets::kernels::{Runs, numbers, row, small};

/// The newest opset that onnxruntime-web loads.
pub(super) const NEWEST: i64 = 26;

/// The combinations that the WebAssembly build runs, for operators that lack types there.
#[rustfmt::skip]
pub(in crate::targets) static KERNELS: &[Runs] = &[
    Runs { op: "Attention", versions: &[23], rows: &[row("", &[0x80000, 0x80000, 0x80001]), row("", &[0x200000, 0x200000, 0x200001]), row("", &[0x400000, 0x400000, 0x200001])] },
    Runs { op: "Attention", versions: &[24, 25], rows: &[row("", &[0x80000, 0x80000, 0x80001, 0x40]), row("", &[0x200000, 0x200000, 0x200001, 0x40]), row("", &[0x400000, 0x400000, 0x200001, 0x40])] },
    Runs { op: "Bernoulli", versions: &[15], rows: &[row("", &[0x680000, 0x681e79])] },
    Runs { op: "BitCast", versions: &[26], rows: &[row("", &[0x208, 0x208]), row("", &[0x180410, 0x80410]), row("", &[0x200820, 0x200820]), row("", &[0x401040, 0x401040])] },
    Runs { op: "Cast", versions: &[13], rows: &[row("", &[0x781e79, 0x681e79])] },
    Runs { op: "Cast", versions: &[19], rows: &[row("", &[0x7bde79, 0x681e79])] },
    Runs { op: "Cast", versions: &[21, 23], rows: &[row("", &[0x7bdf7d, 0x681f7d])] },
    Runs { op: "Cast", versions: &[24], rows: &[row("", &[0x7fdf7d, 0x681f7d])] },
    Runs { op: "Cast", versions: &[25], rows: &[row("", &[0x7fdfff, 0x681f7d])] },
    Runs { op: "CastLike", versions: &[15], rows: &[row("", &[0x781e79, 0x681e79])] },
    Runs { op: "CastLike", versions: &[19], rows: &[row("", &[0x7bde79, 0x681e79])] },
    Runs { op: "CastLike", versions: &[21, 23], rows: &[row("", &[0x7bdf7d, 0x681f7d])] },
    Runs { op: "CastLike", versions: &[24], rows: &[row("", &[0x7fdf7d, 0x681f7d])] },
    Runs { op: "CastLike", versions: &[25], rows: &[row("", &[0x7fdfff, 0x681f7d])] },
    Runs { op: "Concat", versions: &[13], rows: &[row("", &[0x681e79])] },
    Runs { op: "ConstantOfShape", versions: &[20, 21, 23, 24, 25], rows: &[row("", &[0x40, 0x681e79])] },
    Runs { op: "Flatten", versions: &[13, 21, 23, 24, 25], rows: &[row("", &[0x681e79])] },
    Runs { op: "Gather", versions: &[13], rows: &[row("", &[0x681e79, 0x60])] },
    Runs { op: "GatherElements", versions: &[13], rows: &[row("", &[0x681e79, 0x60])] },
    Runs { op: "GatherND", versions: &[13], rows: &[row("", &[0x681e79, 0x40])] },
    Runs { op: "Identity", versions: &[13, 14, 16, 19, 21, 23, 24, 25], rows: &[row("", &[0x681e79])] },
    Runs { op: "LayerNormalization", versions: &[17], rows: &[row("", &[0x680000, 0x300000])] },
    Runs { op: "QuantizeLinear", versions: &[19], rows: &[row("", &[0x280000, 0x208])] },
    Runs { op: "QuantizeLinear", versions: &[21], rows: &[row("", &[0x280000, 0x71c])] },
    Runs { op: "QuantizeLinear", versions: &[23, 24, 25], rows: &[row("", &[0x80000, 0x80000, 0x71c]), row("", &[0x200000, 0x200000, 0x71c])] },
    Runs { op: "Reshape", versions: &[13, 14, 19, 21, 23, 24, 25], rows: &[row("", &[0x681e79, 0x40])] },
    Runs { op: "ScatterElements", versions: &[13], rows: &[row("none", &[0x681e79, 0x60])] },
    Runs { op: "ScatterElements", versions: &[16, 18], rows: &[row("add", &[0x601e79, 0x60]), row("max", &[0x1e78, 0x60]), numbers("max", &[0x680000, 0x60]), row("min", &[0x1e78, 0x60]), numbers("min", &[0x680000, 0x60]), row("mul", &[0x601e79, 0x60]), row("none", &[0x681e79, 0x60])] },
    Runs { op: "ScatterND", versions: &[13], rows: &[row("none", &[0x681e79, 0x40])] },
    Runs { op: "ScatterND", versions: &[16, 18], rows: &[row("add", &[0x601e79, 0x40]), row("max", &[0x1e78, 0x40]), numbers("max", &[0x600000, 0x40]), row("min", &[0x1e78, 0x40]), numbers("min", &[0x600000, 0x40]), row("mul", &[0x601e79, 0x40]), row("none", &[0x681e79, 0x40])] },
    Runs { op: "Sign", versions: &[13], rows: &[row("", &[0x601e38]), small("", &[0x40]), numbers("", &[0x80000])] },
    Runs { op: "Slice", versions: &[13], rows: &[row("", &[0x681e79, 0x60])] },
    Runs { op: "Split", versions: &[13, 18], rows: &[row("", &[0x681e79, 0x40])] },
    Runs { op: "Squeeze", versions: &[13, 21, 23, 24, 25], rows: &[row("", &[0x681e79, 0x40])] },
    Runs { op: "TensorScatter", versions: &[24], rows: &[row("", &[0x681e79, 0x40])] },
    Runs { op: "Transpose", versions: &[13], rows: &[row("", &[0x681e79])] },
    Runs { op: "Transpose", versions: &[21, 23, 24, 25], rows: &[row("", &[0x681f7d])] },
    Runs { op: "Unsqueeze", versions: &[13, 21, 23, 24, 25], rows: &[row("", &[0x681e79, 0x40])] },
];
