//! Comparisons of NaN in the forms that most runtimes compute correctly, at no cost:
//!
//! - `Equal(x, x)` → `LessOrEqual(x, inf)`. Some runtimes take NaN to be equal to itself, and some take it to be
//!   at least `-inf`.
//! - `Where(IsNaN(x), a, b)` → `Where(LessOrEqual(x, inf), b, a)`. Some have no `IsNaN`.
//! - `Greater(a, b)` → `Less(b, a)`, `GreaterOrEqual(a, b)` → `LessOrEqual(b, a)`. Some take NaN to be greater than
//!   any number.

use onnx::formula::formulas;
use onnx::{Attrs, Graph, NodeId, ValueId};
use tensor::DType;

use super::{Error, Legalizer, made_by, nan};

/// The first opset with `LessOrEqual`.
const SINCE: i64 = 12;

/// Another form of a node.
enum Form {
    /// A test that this value is not NaN.
    Test(ValueId),
    /// A choice by such a test: the value, the choice if it is NaN, and the other one.
    Choice(ValueId, ValueId, ValueId),
    /// A comparison of these values by this operator.
    Swapped(&'static str, ValueId, ValueId),
}

/// Converts all such comparisons in float32 and float64.
pub(super) fn convert(work: &mut Legalizer<'_>) -> Result<(), Error> {
    // Shaders may assume that there is no NaN.
    let is_shader = work.target.on_device.is_some() && !work.target.keeps_on_device;
    if work.opset < SINCE || is_shader {
        return Ok(());
    }
    for id in work.graph().all_nodes() {
        let Some(form) = form_of(work.graph(), id) else { continue };
        let b = &mut work.builder(id);
        let result = match form {
            Form::Test(x) => formulas(b, [x], |[x]| [x.at_most(f64::INFINITY)])?,
            Form::Choice(x, nan, other) => formulas(b, [x, nan, other], |[x, nan, other]| {
                [x.at_most(f64::INFINITY).select(other, nan)]
            })?,
            Form::Swapped(op, x, y) => [b.op(op, &[y, x], Attrs::new())?],
        };
        work.substitute(id, &result)?;
    }
    Ok(())
}

/// Returns the other form of a node, if it needs one.
fn form_of(graph: &Graph, id: NodeId) -> Option<Form> {
    let node = graph.node(id);
    if !node.op.domain.is_empty() {
        return None;
    }
    let is_wide = |x: ValueId| matches!(graph.ty(x).dtype, DType::F32 | DType::F64);
    let (x, y) = (node.input(0)?, node.input(1)?);
    let swapped = |op| {
        let is_needed = is_wide(x) && (nan::is_possible(graph, x) || nan::is_possible(graph, y));
        is_needed.then_some(Form::Swapped(op, x, y))
    };
    match node.op.name {
        "Equal" => (x == y && is_wide(x)).then_some(Form::Test(x)),
        "Greater" => swapped("Less"),
        "GreaterOrEqual" => swapped("LessOrEqual"),
        "Where" => {
            let test = made_by(graph, x, "IsNaN")?;
            let tested = test.input(0).filter(|tested| is_wide(*tested))?;
            let is_own = test.block() == node.block() && graph.only_reader(x).is_some();
            is_own.then_some(Form::Choice(tested, y, node.input(2)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing::{legalized, legalized_text};

    #[test]
    fn numbers_are_at_most_infinity() {
        let text = "g (float[3] x) => (bool[3] y) { y = Equal (x, x) }";
        let found = legalized_text(text, Target::default());
        assert!(found.contains("LessOrEqual (x, "), "{found}");
        assert!(found.contains("= inf>"), "{found}");
        let other = "g (float[3] x, float[3] z) => (bool[3] y) { y = Equal (x, z) }";
        assert_eq!(legalized(other, Target::default()), "Equal:bool");
        let half = "g (float16[3] x) => (bool[3] y) { y = Equal (x, x) }";
        assert!(!legalized(half, Target::default()).contains("LessOrEqual"));
    }

    #[test]
    fn choices_by_nan_are_swapped() {
        let text = "g (float[3] x, float[3] a, float[3] b) => (float[3] y) {
            n = IsNaN (x) y = Where (n, a, b) }";
        let found = legalized_text(text, Target::default());
        assert!(found.contains("LessOrEqual (x, "), "{found}");
        assert!(found.contains(", b, a)"), "{found}");
        assert_eq!(legalized(text, Target::default()), "LessOrEqual:bool Where:f32");
    }

    #[test]
    fn greater_numbers_are_those_that_others_are_less_than() {
        let compared = |op: &str, x: &str| {
            let text = format!(
                "g (float[3] a, float[3] b) => (bool[3] y) {{ c = Sigmoid (a) y = {op} ({x}, c) }}"
            );
            legalized_text(&text, Target::default())
        };
        assert!(compared("Greater", "b").contains("Less (c, b)"));
        assert!(compared("GreaterOrEqual", "b").contains("LessOrEqual (c, b)"));
        assert!(compared("Less", "b").contains("Less (b, c)"));
        let text = "g (int32[3] a, int32[3] b) => (bool[3] y) { y = Greater (a, b) }";
        assert_eq!(legalized(text, Target::default()), "Greater:bool");
    }

    #[test]
    fn other_tests_stay() {
        let twice = "g (float[3] x, float[3] a) => (float[3] y, bool[3] n) {
            n = IsNaN (x) y = Where (n, a, x) }";
        assert_eq!(legalized(twice, Target::default()), "IsNaN:bool Where:f32");
        let counted = "g (float[3] x) => (float[3] y) { n = IsNaN (x) y = Cast <to = 1> (n) }";
        assert_eq!(legalized(counted, Target::default()), "IsNaN:bool Cast:f32");
    }
}
