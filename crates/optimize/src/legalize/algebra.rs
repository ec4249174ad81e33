//! What an operator does with its elements, which decides the types in which it computes the same.

use onnx::{Attr, Node};
use tensor::{DType, Kind};

use crate::by_operator::{self, Rows};

/// What an operator does with the elements that its results are made of.
///
/// On floats all but [`Algebra::Reads`] agree: compute in a wider type and round once at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algebra {
    /// Elements are moved, but their values do not matter.
    Movement,
    /// Sums, products and bits, which wrap around: the low bits of a result depend on the low bits
    /// of the operands only.
    Ring,
    /// Elements are compared.
    Order,
    /// Integers are divided, shifted to the right, or raised to a power.
    Integer,
    /// Functions of real numbers.
    Real,
    /// Results have a type of their own; operands are read by value.
    Reads,
}

use Algebra::{Integer, Movement, Order, Reads, Real, Ring};

/// One row per operator, sorted by name. Operators that are not here run on the types they have.
const TABLE: &Rows<Algebra> = &[
    ("Abs", Order),
    ("Acos", Real),
    ("Acosh", Real),
    ("Add", Ring),
    ("AffineGrid", Real),
    ("ArgMax", Reads),
    ("ArgMin", Reads),
    ("Asin", Real),
    ("Asinh", Real),
    ("Atan", Real),
    ("Atanh", Real),
    ("Attention", Real),
    ("AveragePool", Real),
    ("BatchNormalization", Real),
    ("BitShift", Integer),
    ("BitwiseAnd", Ring),
    ("BitwiseNot", Ring),
    ("BitwiseOr", Ring),
    ("BitwiseXor", Ring),
    ("Cast", Reads),
    ("Ceil", Real),
    ("Celu", Real),
    ("CenterCropPad", Movement),
    ("Clip", Order),
    ("Col2Im", Ring),
    ("Compress", Movement),
    ("Concat", Movement),
    ("Conv", Real),
    ("ConvTranspose", Real),
    ("Cos", Real),
    ("Cosh", Real),
    ("CumProd", Ring),
    ("CumSum", Ring),
    ("DFT", Real),
    ("DeformConv", Real),
    ("DepthToSpace", Movement),
    ("Det", Real),
    ("Div", Integer),
    ("Einsum", Ring),
    ("Elu", Real),
    ("Equal", Reads),
    ("Erf", Real),
    ("Exp", Real),
    ("Expand", Movement),
    ("Flatten", Movement),
    ("Floor", Real),
    ("GRU", Real),
    ("Gather", Movement),
    ("GatherElements", Movement),
    ("GatherND", Movement),
    ("Gelu", Real),
    ("Gemm", Real),
    ("GlobalAveragePool", Real),
    ("GlobalLpPool", Real),
    ("GlobalMaxPool", Order),
    ("Greater", Reads),
    ("GreaterOrEqual", Reads),
    ("GridSample", Real),
    ("GroupNormalization", Real),
    ("HardSigmoid", Real),
    ("HardSwish", Real),
    ("Hardmax", Order),
    ("Identity", Movement),
    ("InstanceNormalization", Real),
    ("IsInf", Reads),
    ("IsNaN", Reads),
    ("LRN", Real),
    ("LSTM", Real),
    ("LayerNormalization", Real),
    ("LeakyRelu", Real),
    ("Less", Reads),
    ("LessOrEqual", Reads),
    ("Log", Real),
    ("LogSoftmax", Real),
    ("LpNormalization", Real),
    ("LpPool", Real),
    ("MatMul", Ring),
    ("Max", Order),
    ("MaxPool", Order),
    ("Mean", Real),
    ("MeanVarianceNormalization", Real),
    ("Min", Order),
    ("Mish", Real),
    ("Mod", Integer),
    ("Mul", Ring),
    ("Neg", Ring),
    ("NonZero", Reads),
    ("OneHot", Movement),
    ("PRelu", Real),
    ("Pad", Movement),
    ("Pow", Integer),
    ("RMSNormalization", Real),
    ("RNN", Real),
    ("Range", Integer),
    ("Reciprocal", Real),
    ("ReduceL1", Integer),
    ("ReduceL2", Real),
    ("ReduceLogSum", Real),
    ("ReduceLogSumExp", Real),
    ("ReduceMax", Order),
    ("ReduceMean", Real),
    ("ReduceMin", Order),
    ("ReduceProd", Ring),
    ("ReduceSum", Ring),
    ("ReduceSumSquare", Ring),
    ("Relu", Order),
    ("Reshape", Movement),
    ("Resize", Real),
    ("ReverseSequence", Movement),
    ("RoiAlign", Real),
    ("RotaryEmbedding", Real),
    ("Round", Real),
    ("STFT", Real),
    ("Selu", Real),
    ("Shape", Reads),
    ("Shrink", Real),
    ("Sigmoid", Real),
    ("Sign", Order),
    ("Sin", Real),
    ("Sinh", Real),
    ("Size", Reads),
    ("Slice", Movement),
    ("Softmax", Real),
    ("Softplus", Real),
    ("Softsign", Real),
    ("SpaceToDepth", Movement),
    ("Split", Movement),
    ("Sqrt", Real),
    ("Squeeze", Movement),
    ("Sub", Ring),
    ("Sum", Ring),
    ("Swish", Real),
    ("Tan", Real),
    ("Tanh", Real),
    ("TensorScatter", Movement),
    ("ThresholdedRelu", Real),
    ("Tile", Movement),
    ("TopK", Order),
    ("Transpose", Movement),
    ("Trilu", Movement),
    ("Unique", Order),
    ("Unsqueeze", Movement),
    ("Where", Movement),
];

impl Algebra {
    /// What `node` does; `None` if no other type gives the same results.
    pub(super) fn of(node: &Node) -> Option<Self> {
        if matches!(node.op.name, "ScatterElements" | "ScatterND") {
            return match node.attr("reduction") {
                Some(Attr::String(how)) if &**how == "add" || &**how == "mul" => Some(Ring),
                Some(Attr::String(how)) if &**how == "max" || &**how == "min" => Some(Order),
                _ => Some(Movement),
            };
        }
        by_operator::find(TABLE, node.op.name)
    }

    /// Whether casting to `to`, computing there and casting back gives what `from` would give.
    pub(super) fn carries(self, from: DType, to: DType) -> bool {
        match (self, from.kind()) {
            (Reads, _) | (Real | Integer | Ring, Kind::Bool) | (_, Kind::Complex) => false,
            (_, Kind::Float) => holds(from, to),
            (Movement | Order, Kind::Bool) => holds(from, to),
            // Casts between integers of one width keep the bits.
            (Movement, _) => (to.is_integer() && to.bits() >= from.bits()) || holds(from, to),
            (Ring, _) => to.is_integer() && to.bits() >= from.bits(),
            (Order, _) => holds(from, to),
            (Integer, _) => to.is_integer() && holds(from, to),
            (Real, _) => false,
        }
    }
}

/// Whether `to` has every value of `from`. Floats below 32 bits and integers below 8 do not count,
/// since nothing is computed in them.
pub(super) fn holds(from: DType, to: DType) -> bool {
    let mantissa = match to {
        DType::F32 => 24,
        DType::F64 => 53,
        _ => 0,
    };
    match (from.kind(), to.kind()) {
        (Kind::Complex, _) | (_, Kind::Bool | Kind::Complex) => false,
        (Kind::Float, Kind::Float) => mantissa > 0 && to.bits() > from.bits(),
        (Kind::Float, _) => false,
        (Kind::Bool, Kind::Float) => mantissa > 0,
        (Kind::Bool, _) => to.bits() >= 8,
        (_, Kind::Float) => from.bits() <= mantissa,
        _ => match (from.int_range(), to.int_range()) {
            (Some((low, high)), Some((least, most))) => {
                to.bits() >= 8 && from != to && least <= low && high <= most
            }
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::DType::{BF16, Bool, F8E5M2, F16, F32, F64, I4, I8, I16, I32, I64, U8, U32, U64};

    #[test]
    fn the_table_is_sorted_and_its_operators_exist() {
        by_operator::check(TABLE);
    }

    #[test]
    fn floats_widen_and_never_narrow() {
        for algebra in [Movement, Ring, Order, Integer, Real] {
            for small in [F8E5M2, F16, BF16] {
                assert!(algebra.carries(small, F32), "{algebra:?} {small}");
                assert!(!algebra.carries(F32, small), "{algebra:?} {small}");
            }
            assert!(algebra.carries(F32, F64));
            assert!(!algebra.carries(F64, F32));
            assert!(!algebra.carries(F16, BF16), "not a type to compute in");
            assert!(!algebra.carries(F32, I64));
        }
    }

    #[test]
    fn wrap_around_needs_width_only() {
        assert!(Ring.carries(U64, I64));
        assert!(Ring.carries(I8, U32));
        assert!(Ring.carries(I4, I8));
        assert!(!Ring.carries(I64, I32));
        assert!(!Ring.carries(I8, F64), "a product may not fit");
        assert!(!Ring.carries(Bool, U8), "1 + 1 is not a boolean");
    }

    #[test]
    fn comparing_needs_the_values() {
        assert!(!Order.carries(U64, I64));
        assert!(!Order.carries(I8, U32));
        assert!(Order.carries(U32, I64));
        assert!(Order.carries(I32, F64));
        assert!(!Order.carries(I32, F32));
        assert!(Order.carries(Bool, U8));
    }

    #[test]
    fn moving_needs_the_bits() {
        assert!(Movement.carries(U64, I64));
        assert!(Movement.carries(I64, U64));
        assert!(Movement.carries(Bool, U8));
        assert!(Movement.carries(I16, F32));
        assert!(!Movement.carries(I64, F64));
    }

    #[test]
    fn dividing_needs_the_values_as_integers() {
        assert!(Integer.carries(I8, I32));
        assert!(Integer.carries(U8, I16));
        assert!(!Integer.carries(U32, I32));
        assert!(!Integer.carries(I8, F32));
        assert!(!Real.carries(I8, F32));
        assert!(!Reads.carries(BF16, F32), "the type of the results is the point");
    }
}
