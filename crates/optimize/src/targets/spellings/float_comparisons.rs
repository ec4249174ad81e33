//! Comparisons of floats → equality with their maximum, for targets that compare some negative numbers as integers.

use onnx::NodeId;
use onnx::formula::formulas;
use tensor::Tensor;

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static FLOAT_COMPARISONS: Bug = Bug {
    name: "float_comparisons",
    roots: Roots::Named(&["Greater", "GreaterOrEqual", "Less", "LessOrEqual"]),
    avoid,
};

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id);
    let (Some(x), Some(y)) = (node.input(0), node.input(1)) else { return Ok(()) };
    // The order with respect to infinity is right, and NaN are found by it.
    let is_limit = work.graph().constant(y).and_then(Tensor::splat) == Some(f64::INFINITY);
    if is_limit || !work.graph().ty(x).dtype.is_float() {
        return Ok(());
    }
    let (is_strict, largest) = match node.op.name {
        "Less" => (true, x),
        "Greater" => (true, y),
        "LessOrEqual" => (false, y),
        _ => (false, x),
    };
    let result = formulas(&mut work.builder(id), [x, y, largest], |[x, y, largest]| {
        let is_largest = x.max(y).equals(largest);
        [if is_strict { !is_largest } else { is_largest }]
    })?;
    Ok(work.substitute(id, &result)?)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    #[test]
    fn numbers_are_compared_with_their_maximum() {
        let compared = |ty: &str, op: &str| {
            let text = format!("g ({ty}[B] x, {ty}[B] z) => (bool[B] y) {{ y = {op} (x, z) }}");
            spelled(&text, "mnn").unwrap()
        };
        for (op, largest) in [("Less", "x"), ("Greater", "z"), ("LessOrEqual", "z")] {
            let text = compared("float", op);
            assert!(text.contains("Max (x, z)"), "{text}");
            assert!(text.contains(&format!("Equal (v0, {largest})")), "{text}");
            assert_eq!(text.contains("Not"), op != "LessOrEqual", "{text}");
        }
        assert!(compared("float", "GreaterOrEqual").contains("Equal (v0, x)"));
        assert!(compared("int32", "Less").contains("Less (x, z)"));
    }
}
