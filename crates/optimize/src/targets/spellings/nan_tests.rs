//! `IsNaN` and comparisons of a value with itself → comparisons with `inf`, for targets that have no `IsNaN` and
//! take NaN to be equal to itself.

use onnx::NodeId;
use onnx::formula::formulas;

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static NAN_TESTS: Bug =
    Bug { name: "nan_tests", roots: Roots::Named(&["Equal", "IsNaN"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id);
    let (is_negated, other) = (node.is("IsNaN"), node.input(1));
    let Some(x) = node.input(0).filter(|x| is_negated || other == Some(*x)) else { return Ok(()) };
    if !work.graph().ty(x).dtype.is_float() {
        return Ok(());
    }
    let result = formulas(&mut work.builder(id), [x], |[x]| {
        let is_number = x.at_most(f64::INFINITY);
        [if is_negated { !is_number } else { is_number }]
    })?;
    Ok(work.substitute(id, &result)?)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    #[test]
    fn nan_is_not_at_most_infinity() {
        let test = |node: &str, target| {
            let text = format!("g (float[B] x, float[B] z) => (bool[B] y) {{ y = {node} }}");
            spelled(&text, target).unwrap()
        };
        let text = test("IsNaN (x)", "mnn");
        assert!(text.contains("LessOrEqual") && text.contains("Not"), "{text}");
        let text = test("Equal (x, x)", "mnn");
        assert!(text.contains("LessOrEqual") && !text.contains("Not"), "{text}");
        assert!(test("Equal (x, z)", "mnn").contains("Equal (x, z)"));
        assert!(test("IsNaN (x)", "tract").contains("IsNaN"));
    }
}
