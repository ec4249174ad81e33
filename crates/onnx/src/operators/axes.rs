//! The column of the table that describes axes.

/// The correspondence between the axes of an operator's operands and those of its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes {
    /// All operands broadcast against one another, and corresponding elements are combined.
    Elementwise,
    /// Like `Elementwise` in the first operand. The others are scalars.
    First,
    /// All operands are concatenated along the attribute `axis`.
    Concat,
    /// The first operand is divided along the attribute `axis`, whose default is this number.
    Along(i64),
    /// `Gather`: the attribute `axis` is replaced by the axes of the indices.
    Gather,
    /// Axes are reduced, by the second operand.
    Reduce,
    /// One axis is reduced, by the attribute `axis`.
    ArgReduce,
    /// This operand lists the axes; without it, all from the first on.
    AxesAt(usize),
    /// `Pad`: two numbers for each axis, or for those that the fourth operand lists.
    Pad,
    /// `MatMul`: the last axis is contracted.
    MatMul,
    /// `Resize`: sizes or factors for each axis, or for those of an attribute.
    Resize,
    /// This operand has a number for each axis.
    EachAxis(usize),
    /// This operand is the axis.
    AxisAt(usize),
    /// `Shape`: the result lists the sizes.
    Shape,
    /// The elements keep their order, and the shape changes.
    Reshape,
    /// `Transpose`: the axes are permuted.
    Transpose,
    /// Elements are normalised along the attribute `axis`, whose default is the last one.
    Softmax,
    /// Any other correspondence, or none.
    Opaque,
}
