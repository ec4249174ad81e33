//! The properties of ONNX's own operators: one row each, in `table.rs`.
//!
//! Code that treats a family of operators alike queries the row, so that a new operator needs one
//! line. Properties that depend on the version of an operator are in its [`Schema`]s.

mod algebra;
mod axes;
mod table;

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use tensor::{Dim, Tensor, Type};

pub use algebra::{Algebra, holds};
pub use axes::Axes;

use crate::fold::{Operation, Reason};
use crate::infer::Call;
use crate::schema::{self, Arity, CONTRIB, Param, Schema};
use crate::{Node, Op, Result};

/// A function that infers the types of a node's results.
pub(crate) type Infer = fn(&Call<'_>) -> Result<Vec<Type>>;

/// A function that computes the elements of a short integer vector as dimensions.
pub(crate) type Content = fn(&Call<'_>) -> Option<Vec<Dim>>;

/// A function that evaluates an operator on constants.
pub(crate) type Evaluate = fn(&Operation<'_>) -> std::result::Result<Tensor, Reason>;

/// The evaluation of an operator on constants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fold {
    /// The operator is not evaluated.
    Never,
    /// A function evaluates the whole operator.
    Whole(Evaluate),
    /// A function is applied to each element. Its last bits differ between runtimes.
    Function(fn(f64) -> f64),
}

/// The type that an operator computes in if the user asks for float16 or bfloat16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrecisionClass {
    /// A product, which takes nearly all the time. It computes in the small type, whatever the
    /// types of its operands.
    Product,
    /// An operator that combines few numbers and preserves their magnitude. It computes in the
    /// small type if all its operands have that type.
    Light,
    /// A data movement. It uses the small type if all its operands have that type, or if all its
    /// consumers want it.
    Follow,
    /// An operator that sums many numbers or changes their magnitude a lot. It computes in float32.
    Wide,
}

/// A property that an operator may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trait {
    /// Each element of the result has the same bits in every layout. This excludes approximated
    /// functions, because a runtime may round the last elements of a row differently, and `Max` of
    /// floats, because the sign of a zero may depend on the layout.
    Exact,
    /// The first two operands can be swapped.
    Commutative,
    /// The second operand that leaves the first one unchanged, down to the sign of a zero.
    Neutral(f64),
    /// Two nodes with the same operands give different results.
    Random,
    /// Every element of a result is an element of the first operand. Operators that only reorder or
    /// reshape it need not say so.
    Selects,
    /// The second operand holds indices into the first one.
    Indexes,
    /// A sum, a mean or a norm, whose terms a kernel may accumulate in a wider type before it rounds
    /// the result.
    Sums,
}

/// An operator and its properties.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The name in the specification.
    pub name: &'static str,
    /// A small number that no other operator of ONNX has, or 0 for operators of other domains.
    pub number: usize,
    pub(crate) infer: Option<Infer>,
    pub(crate) content: Option<Content>,
    pub(crate) fold: Fold,
    /// The correspondence between axes of operands and axes of results.
    pub axes: Axes,
    /// The operations on elements, which decide the types that give the same results.
    pub algebra: Algebra,
    /// The type to compute in if the user asks for a small float.
    pub precision: PrecisionClass,
    traits: &'static [Trait],
    /// The versions of the operator, oldest first.
    pub versions: &'static [Schema],
}

#[expect(clippy::too_many_arguments, reason = "the columns of the table")]
const fn row(
    name: &'static str,
    infer: Option<Infer>,
    content: Option<Content>,
    fold: Fold,
    axes: Axes,
    algebra: Algebra,
    precision: PrecisionClass,
    traits: &'static [Trait],
) -> Operator {
    let number = 0;
    Operator { name, number, infer, content, fold, axes, algebra, precision, traits, versions: &[] }
}

/// The row for operators of other domains and operators without a row. It assumes nothing.
const UNKNOWN: Operator =
    row("", None, None, Fold::Never, Axes::Opaque, Algebra::Fixed, PrecisionClass::Wide, &[]);

/// The row for the contributed norm of a sum, which computes like other norms.
const NORM_OF_SUM: Operator = Operator { traits: &[Trait::Sums], ..UNKNOWN };

/// All operators by name, with their schemas.
static OPERATORS: LazyLock<FxHashMap<&str, Operator>> = LazyLock::new(|| {
    let versions = schema::by_name();
    let mut operators: FxHashMap<&str, Operator> = versions
        .map(|all| (all[0].name, Operator { name: all[0].name, versions: all, ..UNKNOWN }))
        .collect();
    for row in table::TABLE {
        let versions = operators.get(row.name).map_or(&[][..], |known| known.versions);
        operators.insert(row.name, Operator { versions, ..row.clone() });
    }
    for (number, operator) in (1..).zip(operators.values_mut()) {
        operator.number = number;
    }
    operators
});

/// Returns the names of the operators that satisfy `predicate`, in alphabetical order.
pub fn names(predicate: impl Fn(&Operator) -> bool) -> Vec<&'static str> {
    let rows = table::TABLE.iter().map(|row| find(row.name));
    rows.filter(|row| predicate(row)).map(|row| row.name).collect()
}

/// Returns the row of ONNX's own operator `name`.
pub fn find(name: &str) -> &'static Operator {
    OPERATORS.get(name).unwrap_or(&UNKNOWN)
}

impl Op {
    /// Returns the row of the operator. Most operators of other domains have no known properties.
    pub fn operator(&self) -> &'static Operator {
        match (self.domain, self.name) {
            ("", name) => find(name),
            (CONTRIB, "SkipSimplifiedLayerNormalization") => &NORM_OF_SUM,
            _ => &UNKNOWN,
        }
    }
}

impl Node {
    /// Returns all versions of the node's operator, as [`schema::versions`] does.
    pub fn versions(&self) -> &'static [Schema] {
        match self.op.domain {
            CONTRIB => schema::versions(&self.op),
            _ => self.operator().versions,
        }
    }

    /// Returns the version of the node's operator that is current at `opset`.
    pub fn schema(&self, opset: i64) -> Option<&'static Schema> {
        schema::current(self.versions(), opset)
    }

    /// Returns `true` if the node changes the shape of its first operand and nothing else.
    pub fn is_reshape(&self) -> bool {
        self.operator().is_reshape()
    }

    /// Returns `true` if the node reorders or reshapes its first operand and nothing else.
    pub fn is_movement(&self) -> bool {
        self.operator().is_movement()
    }

    /// Returns the operations that the node applies to elements. A scatter may combine them.
    pub fn algebra(&self) -> Algebra {
        match self.string("reduction", "none") {
            "add" | "mul" => Algebra::Ring,
            "max" | "min" => Algebra::Order,
            _ => self.operator().algebra,
        }
    }

    /// Returns the precision class of the node. A scatter that adds is a sum with any number of terms.
    pub fn precision(&self) -> PrecisionClass {
        match self.string("reduction", "none") {
            "none" => self.operator().precision,
            _ => PrecisionClass::Wide,
        }
    }
}

/// The newest opset whose versions inference handles. Later versions only accept more types.
const INFERRED: i64 = 26;

impl Operator {
    /// Returns `true` if the operator has the property.
    pub fn has(&self, property: Trait) -> bool {
        self.traits.contains(&property)
    }

    /// Returns the second operand that leaves the first one unchanged.
    pub fn neutral(&self) -> Option<f64> {
        self.traits.iter().find_map(|property| match property {
            Trait::Neutral(number) => Some(*number),
            _ => None,
        })
    }

    /// Returns `true` if the operator broadcasts its operands and combines corresponding elements.
    pub fn is_elementwise(&self) -> bool {
        matches!(self.axes, Axes::Elementwise | Axes::First)
    }

    /// Returns `true` if the operator broadcasts two operands or more.
    pub fn broadcasts(&self) -> bool {
        self.axes == Axes::Elementwise && *self.operands().end() > 1
    }

    /// Returns `true` if the operator changes the shape of its first operand and nothing else.
    pub fn is_reshape(&self) -> bool {
        self.axes == Axes::Reshape
    }

    /// Returns `true` if the operator reorders or reshapes its first operand and nothing else.
    pub fn is_movement(&self) -> bool {
        matches!(self.axes, Axes::Reshape | Axes::Transpose)
    }

    /// Returns `true` if every element of a result is an element of the first operand.
    pub fn selects(&self) -> bool {
        self.is_movement() || self.has(Trait::Selects)
    }

    /// Returns `true` if the operator reduces axes to one element each.
    pub fn is_reduction(&self) -> bool {
        matches!(self.axes, Axes::Reduce | Axes::ArgReduce)
    }

    /// Returns `true` if the operator reduces axes to their largest or smallest element.
    pub fn is_extremum(&self) -> bool {
        self.axes == Axes::Reduce && self.algebra == Algebra::Order
    }

    /// Returns `true` if the operator can be evaluated on constants.
    pub fn folds(&self) -> bool {
        !matches!(self.fold, Fold::Never)
    }

    /// Returns the number of operands that the operator may have.
    pub fn operands(&self) -> RangeInclusive<usize> {
        self.version().map_or(0..=usize::MAX, |schema| arity(schema.inputs))
    }

    /// Returns the number of results that a node may have. Trailing results may be omitted.
    pub fn results(&self) -> RangeInclusive<usize> {
        self.version().map_or(1..=usize::MAX, |schema| 1..=*arity(schema.outputs).end())
    }

    fn version(&self) -> Option<&'static Schema> {
        self.versions.iter().rfind(|schema| schema.since <= INFERRED)
    }
}

/// Returns the number of values that a list of parameters accepts.
fn arity(params: &[Param]) -> RangeInclusive<usize> {
    let (mut least, mut most) = (0, params.len());
    for (index, param) in params.iter().enumerate() {
        match param.arity {
            Arity::One => least = index + 1,
            Arity::Optional => {}
            Arity::Many(count) | Arity::Mixed(count) => {
                most = usize::MAX;
                least = least.max(index + count);
            }
        }
    }
    least..=most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_their_operators_exist() {
        assert!(table::TABLE.is_sorted_by(|a, b| a.name < b.name));
        for row in table::TABLE {
            assert!(!Op::onnx(row.name).operator().versions.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn columns_agree() {
        for row in table::TABLE.iter().map(|row| Op::onnx(row.name).operator()) {
            let name = row.name;
            // Folding and contents need the types of the results.
            assert!(row.infer.is_some() || !row.folds() && row.content.is_none(), "{name}");
            assert_eq!(
                row.precision == PrecisionClass::Follow,
                row.algebra == Algebra::Movement
                    && row.infer.is_some()
                    && name != "Compress"
                    && name != "OneHot",
                "{name}"
            );
            assert!(!row.has(Trait::Exact) || row.is_elementwise(), "{name}");
            assert!(!row.has(Trait::Commutative) || row.broadcasts(), "{name}");
            assert!(
                row.is_reduction() == (name.starts_with("Reduce") || name.starts_with("Arg")),
                "{name}"
            );
            assert!(!row.selects() || row.algebra == Algebra::Movement, "{name}");
        }
    }

    #[test]
    fn arities_follow_from_the_schema() {
        let of = |name| (Op::onnx(name).operator().operands(), Op::onnx(name).operator().results());
        assert_eq!(of("Clip"), (1..=3, 1..=1));
        assert_eq!(of("Concat"), (1..=usize::MAX, 1..=1));
        assert_eq!(of("Scan"), (1..=usize::MAX, 1..=usize::MAX));
        assert_eq!(of("LSTM"), (3..=8, 1..=3));
        assert_eq!(of("Constant"), (0..=0, 1..=1));
    }

    #[test]
    fn operators_of_other_domains_have_no_properties() {
        let op = Op { domain: "com.microsoft", name: "Add" };
        assert!(!op.operator().is_elementwise());
        assert!(Op::onnx("Add").operator().is_elementwise());
    }

    /// The operators of each family. Rewrites and passes ask for these.
    #[test]
    fn families_are_complete() {
        type Property = fn(&Operator) -> bool;
        let families: [(Property, &str); 7] = [
            (Operator::is_reshape, "Flatten Reshape Squeeze Unsqueeze"),
            (Operator::is_movement, "Flatten Reshape Squeeze Transpose Unsqueeze"),
            (
                Operator::selects,
                "Compress DepthToSpace Expand Flatten Gather GatherElements GatherND Identity \
                Reshape ReverseSequence Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze",
            ),
            (
                Operator::is_reduction,
                "ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean \
                ReduceMin ReduceProd ReduceSum ReduceSumSquare",
            ),
            (Operator::is_extremum, "ReduceMax ReduceMin"),
            (
                |op| op.has(Trait::Indexes),
                "Gather GatherElements GatherND ScatterElements ScatterND",
            ),
            (|op| op.neutral().is_some(), "Add And Div Max Min Mul Or Sub"),
        ];
        for (property, expected) in families {
            assert_eq!(names(property).join(" "), expected);
        }
    }

    #[test]
    fn only_elementwise_operators_of_several_operands_broadcast() {
        for name in ["Add", "Where", "Max"] {
            assert!(find(name).broadcasts(), "{name}");
        }
        for name in ["Neg", "Clip", "MatMul", "Concat"] {
            assert!(!find(name).broadcasts(), "{name}");
        }
    }
}
