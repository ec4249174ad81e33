//! The column of the table that relates the axes of operands to those of results.

/// The correspondence between the axes of an operator's operands and those of its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes {
    /// All operands broadcast against one another, and corresponding elements are combined.
    Elementwise,
    /// The first operand is processed elementwise. The others are scalars.
    First,
    /// All operands are concatenated along the attribute `axis`.
    Concat,
    /// The first operand is split along the attribute `axis`, which defaults to this number.
    Along(i64),
    /// `Gather`: the axes of the indices replace the axis in the attribute `axis`.
    Gather,
    /// The axes in the second operand are reduced.
    Reduce,
    /// The axis in the attribute `axis` is reduced.
    ArgReduce,
    /// The operand at this index lists the axes. If it is absent, they are counted from the first
    /// axis.
    AxesAt(usize),
    /// `Pad`: the second operand has two elements for each axis, or for each axis that the fourth
    /// operand lists.
    Pad,
    /// `MatMul`: the last axis is contracted.
    MatMul,
    /// `Resize`: sizes or factors are given for each axis, or for the axes in an attribute.
    Resize,
    /// The operand at this index has one element per axis.
    EachAxis(usize),
    /// The operand at this index is the axis.
    AxisAt(usize),
    /// `Shape`: the result lists the sizes.
    Shape,
    /// The order of the elements is preserved, and the shape changes.
    Reshape,
    /// `Transpose`: the axes are permuted.
    Transpose,
    /// Elements are normalised along the attribute `axis`, which defaults to the last axis.
    Softmax,
    /// Any other correspondence, or none.
    Opaque,
}
