//! `Concat(Expand(c), x, …)` → `Pad(x)`, if all operands except `x` are the same number, expanded
//! to computed sizes. A `Pad` does not need these sizes.

use onnx::{ValueId, attrs, fold};
use tensor::{DType, Tensor};

use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("pad_with_one_number", &["Concat"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let parts: Option<Vec<ValueId>> = m.root().inputs.iter().copied().collect();
    let parts = parts.ok_or("an operand is missing")?;
    let rank = m.ty(m.result()?).rank();
    let axis = fold::axis(m.root().int("axis", 0), rank)?;
    let dtype = m.ty(m.result()?).dtype;
    let runs = [DType::F16, DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool];
    Skip::when(!runs.contains(&dtype), "runtimes pad other types by way of another one")?;
    let mut whole = None;
    let mut number: Option<Tensor> = None;
    let mut amounts = vec![0; 2 * rank];
    for part in parts {
        let Some(repeated) = repeated(m, part) else {
            Skip::when(whole.replace(part).is_some(), "several operands are computed")?;
            continue;
        };
        if number.as_ref().is_some_and(|number| number.bytes() != repeated.bytes()) {
            return Err("the numbers are different".into());
        }
        number = Some(repeated);
        let size = m.ty(part).shape[axis].as_known().ok_or("a size is not known")?;
        amounts[if whole.is_none() { axis } else { rank + axis }] += size;
    }
    let (x, number) = whole.zip(number).ok_or("nothing is expanded")?;
    let (amounts, number) = (m.i64s(&amounts), m.tensor(number));
    Ok(vec![m.op("Pad", &[x, amounts, number], attrs! { mode: "constant" })?])
}

/// Returns the only number of an expanded constant, as a scalar.
fn repeated(m: &Match<'_>, part: ValueId) -> Option<Tensor> {
    let expanded = m.producer(part, &["Expand"])?.input(0)?;
    let number = m.constant(expanded)?;
    number.shape().iter().all(|size| *size == 1).then(|| number.reshaped(&[]).ok())?
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, stays};

    fn text(parts: &str) -> String {
        format!(
            "g (float[B,4,3] x) => (float[B,N,3] y) {{
                zero = Constant <value = float[1,1,1] {{0}}> ()
                b = Shape <start = 0, end = 1> (x)
                s1 = Constant <value_ints = [1, 3]> () s2 = Constant <value_ints = [2, 3]> ()
                t1 = Concat <axis = 0> (b, s1) t2 = Concat <axis = 0> (b, s2)
                e1 = Expand (zero, t1) e2 = Expand (zero, t2)
                {parts}
            }}"
        )
    }

    #[test]
    fn expanded_numbers_around_a_tensor_become_padding() {
        rewrites_to(
            &REWRITE,
            &text("y = Concat <axis = 1> (e1, x, e2)").replace("B,N", "B,7"),
            "g (float[B,4,3] x) => (float[B,7,3] y) {
                pads = Constant <value_ints = [0, 1, 0, 0, 2, 0]> ()
                zero = Constant <value_float = 0.0> ()
                y = Pad <mode = \"constant\"> (x, pads, zero)
            }",
        );
    }

    #[test]
    fn different_numbers_and_several_tensors_are_unchanged() {
        let stays = |parts: &str, size: &str| {
            stays(&REWRITE, &text(parts).replace("B,N", &format!("B,{size}")));
        };
        let other = "one = Constant <value_float = 1.0> () o = Expand (one, t1)";
        stays(&format!("{other} y = Concat <axis = 1> (e1, x, o)"), "6");
        stays("y = Concat <axis = 1> (e1, x, x)", "9");
        stays("y = Concat <axis = 1> (e1, e2)", "3");
    }
}
