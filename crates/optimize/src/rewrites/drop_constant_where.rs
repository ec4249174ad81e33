//! `Where(true, a, b)` → `a` and `Where(false, a, b)` → `b`, for a constant condition. `Where(c, a,
//! a)` → `a`.
//!
//! onnxruntime's `Where` returns `0.0` for a selected `-0.0`. This rewrite preserves the sign, as
//! the specification requires.

use onnx::ValueId;

use crate::{Match, Rewrite, Roots, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite { name: "drop_constant_where", roots: Roots::Named(&["Where"]), try_at };

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let chosen = match m.constant(m.operand(0)?) {
        _ if m.operand(1)? == m.operand(2)? => m.operand(1)?,
        None => return Err("the condition is not a constant".into()),
        Some(condition) => {
            let holds = condition.splat().ok_or("the condition varies")?;
            m.operand(if holds == 0.0 { 2 } else { 1 })?
        }
    };
    if m.ty(chosen) != m.ty(m.result()?) {
        return Err("the choice is broadcast".into());
    }
    Ok(vec![chosen])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    #[test]
    fn a_known_choice_is_made() {
        rewrites_to(
            &REWRITE,
            "g (float[2] a, float[2] b) => (float[2] y) {
                yes = Constant <value = bool[2] {1, 1}> ()
                no = Constant <value = bool {0}> ()
                t = Where (yes, a, b)
                u = Where (no, a, t)
                v = Where (no, u, b)
                y = Sub (u, v)
            }",
            "g (float[2] a, float[2] b) => (float[2] y) { y = Sub (a, b) }",
        );
    }

    #[test]
    fn equal_branches_need_no_condition() {
        rewrites_to(
            &REWRITE,
            "g (bool[2] c, float[2] a) => (float[2] y) { w = Where (c, a, a) y = Neg (w) }",
            "g (bool[2] c, float[2] a) => (float[2] y) { y = Neg (a) }",
        );
        stays(
            &REWRITE,
            "g (bool[2] c, float a) => (float[2] y) { w = Where (c, a, a) y = Neg (w) }",
        );
    }

    #[test]
    fn a_varying_condition_is_unchanged() {
        stays(
            &REWRITE,
            "g (float a, float[2] b) => (float[2] y, float[2] z) {
                some = Constant <value = bool[2] {1, 0}> ()
                yes = Constant <value = bool {1}> ()
                y = Where (some, a, b)
                z = Where (yes, a, b)
            }",
        );
    }
}
