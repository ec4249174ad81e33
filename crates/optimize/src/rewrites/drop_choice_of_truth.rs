//! `Cast<bool>(Where(c, 1, 0))` → `c`, a mask that was written as numbers.

use onnx::ValueId;
use tensor::DType;

use crate::rewrite::operands;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::of("drop_choice_of_truth", &["Cast", "Where"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    Skip::when(m.ty(y).dtype != DType::Bool, "the result is not a boolean")?;
    let choice = if m.root().is("Where") {
        m.root()
    } else {
        m.producer(m.operand(0)?, &["Where"]).ok_or("the operand is not a Where")?
    };
    let [condition, yes, no] = operands(choice)?;
    match (m.number(yes), m.number(no)) {
        (Some(1.0), Some(0.0)) if m.ty(condition) == m.ty(y) => Ok(vec![condition]),
        _ => Err("the choice is not between one and zero".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn a_mask_is_its_condition() {
        for (one, cast) in [("float", "y = Cast <to = 9> (w)"), ("bool", "y = Identity (w)")] {
            rewrites_to(
                &REWRITE,
                &format!(
                    "g (int32[3,1] i, int32[3] j) => (bool[3,3] y) {{
                        c = Less (i, j)
                        one = Constant <value = {one} {{1}}> ()
                        zero = Constant <value = {one} {{0}}> ()
                        w = Where (c, one, zero)
                        {cast}
                    }}"
                ),
                &format!(
                    "g (int32[3,1] i, int32[3] j) => (bool[3,3] y) {{ {} }}",
                    if one == "bool" {
                        "c = Less (i, j) y = Identity (c)"
                    } else {
                        "y = Less (i, j)"
                    }
                ),
            );
        }
    }

    #[test]
    fn other_choices_are_unchanged() {
        stays(
            &REWRITE,
            "g (bool[3] c) => (bool[3] y) {
                one = Constant <value = bool {1}> ()
                zero = Constant <value = bool {0}> ()
                y = Where (c, zero, one)
            }",
        );
    }

    #[test]
    fn a_condition_that_is_broadcast_is_unchanged() {
        stays(
            &REWRITE,
            "g (bool[3] c) => (bool[2,3] y) {
                one = Constant <value = float[2,1] {1, 1}> ()
                zero = Constant <value = float {0}> ()
                w = Where (c, one, zero)
                y = Cast <to = 9> (w)
            }",
        );
        stays(
            &REWRITE,
            "g (bool[3] c) => (bool[3] y) {
                two = Constant <value = float {2}> ()
                zero = Constant <value = float {0}> ()
                w = Where (c, two, zero)
                y = Cast <to = 9> (w)
            }",
        );
    }
}
