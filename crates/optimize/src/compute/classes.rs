//! What operators do with small floats, which decides where they compute in them.

use onnx::{Attr, Node};

use crate::by_operator::{self, Rows};

/// What becomes of an operator where float16 is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Products, which take nearly all the time: they compute in float16, whatever their operands are.
    Product,
    /// Works on few numbers at a time and stays in their range: float16 if all its operands are.
    Light,
    /// Moves elements: float16 if all its operands are, or if all its readers want that.
    Movement,
    /// Sums up, or changes the size of numbers a lot: float32.
    Wide,
}

use Class::{Light, Movement, Product};

/// In alphabetical order. All other operators are wide.
const TABLE: &Rows<Class> = &[
    ("Abs", Light),
    ("Add", Light),
    ("Attention", Product),
    ("Ceil", Light),
    ("Celu", Light),
    ("Clip", Light),
    ("Concat", Movement),
    ("Conv", Product),
    ("ConvTranspose", Product),
    ("DepthToSpace", Movement),
    ("Div", Light),
    ("Einsum", Product),
    ("Elu", Light),
    ("Erf", Light),
    ("Expand", Movement),
    ("Flatten", Movement),
    ("Floor", Light),
    ("Gather", Movement),
    ("GatherElements", Movement),
    ("GatherND", Movement),
    ("Gelu", Light),
    ("Gemm", Product),
    ("GlobalMaxPool", Light),
    ("HardSigmoid", Light),
    ("HardSwish", Light),
    ("Identity", Movement),
    ("LeakyRelu", Light),
    ("MatMul", Product),
    ("Max", Light),
    ("MaxPool", Light),
    ("Min", Light),
    ("Mish", Light),
    ("Mul", Light),
    ("Neg", Light),
    ("PRelu", Light),
    ("Pad", Movement),
    ("ReduceMax", Light),
    ("ReduceMin", Light),
    ("Relu", Light),
    ("Reshape", Movement),
    ("Resize", Light),
    ("ReverseSequence", Movement),
    ("RotaryEmbedding", Light),
    ("Round", Light),
    ("ScatterElements", Movement),
    ("ScatterND", Movement),
    ("Selu", Light),
    ("Sigmoid", Light),
    ("Sign", Light),
    ("Slice", Movement),
    ("Softsign", Light),
    ("SpaceToDepth", Movement),
    ("Split", Movement),
    ("Squeeze", Movement),
    ("Sub", Light),
    ("Swish", Light),
    ("Tanh", Light),
    ("TensorScatter", Movement),
    ("ThresholdedRelu", Light),
    ("Tile", Movement),
    ("Transpose", Movement),
    ("Trilu", Movement),
    ("Unsqueeze", Movement),
    ("Where", Movement),
];

impl Class {
    pub(super) fn of(node: &Node) -> Self {
        // Scattering that adds up is a sum of any number of terms.
        let adds = matches!(node.attr("reduction"), Some(Attr::String(how)) if &**how != "none");
        if !node.op.domain.is_empty() || adds {
            return Class::Wide;
        }
        by_operator::find(TABLE, node.op.name).unwrap_or(Class::Wide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_operators_exist() {
        by_operator::check(TABLE);
    }
}
