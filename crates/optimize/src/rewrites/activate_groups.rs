//! A group norm in half precision, weighted by its sigmoid → the same in float32, between casts.
//!
//! In half precision, kernels compute the sigmoid of a negative number as a difference from one, with the
//! digits of one. XLA rounds only the product.

use onnx::{ValueId, attrs};
use tensor::DType;

use crate::rewrite::either_order;
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite = Rewrite::of("activate_groups", &["Mul"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let dtype = m.ty(m.result()?).dtype;
    Skip::when(!matches!(dtype, DType::F16 | DType::BF16), "it is not in half precision")?;
    Skip::when(!m.forms().target.rounds_once, "the target rounds more often")?;
    let sigmoid_of = |v| m.producer(v, &["Sigmoid"]).and_then(|node| node.input(0));
    let (x, sigmoid) =
        either_order(m.root(), |x, y| sigmoid_of(y) == Some(x)).ok_or("it is another product")?;
    // Groups of channels are rows of a norm, so a reshape follows it.
    let reshape = m.producer(x, &["Reshape"]).cloned().ok_or("it does not follow a group norm")?;
    let groups = reshape.input(0).filter(|groups| m.is_used_once(*groups));
    let norm = groups.and_then(|groups| m.producer(groups, &["LayerNormalization"])).cloned();
    let norm = norm.ok_or("it does not follow a group norm")?;
    Skip::when(m.graph().value(x).uses().len() != 2, "the norm has other readers")?;
    let sigmoid = m.producer(sigmoid, &["Sigmoid"]).cloned().ok_or("it is another product")?;
    let mut inputs = norm.inputs.clone();
    for input in inputs.iter_mut().flatten() {
        *input = m.op("Cast", &[*input], attrs! { to: DType::F32 })?;
    }
    let groups = m.like(&norm, inputs)?;
    let wide = m.like_with(&reshape, 0, groups)?;
    let sigmoid = m.like(&sigmoid, vec![Some(wide)])?;
    let product = m.op("Mul", &[wide, sigmoid], attrs! {})?;
    Ok(vec![m.op("Cast", &[product], attrs! { to: dtype })?])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{edited_with, run};
    use crate::{Forms, Options, Target};

    fn after(body: &str, rounds_once: bool) -> String {
        let is_meant = |target: &Target| target.rounds_once == rounds_once;
        let target = Target::all().find(is_meant).unwrap();
        let options = Options { forms: Forms { target, ..Forms::auto(23) }, ..Options::default() };
        let text = format!(
            "g (float16[2,2,2,3] x, float16[1,2,2,3] s) => (float16[2,4,3] y) {{
                to = Constant <value_ints = [0, 4, 3]> ()
                n = LayerNormalization <axis = -2> (x, s, s) {body} }}"
        );
        edited_with(&options, &text, |edit| run(edit, [&REWRITE]).unwrap()).0
    }

    #[test]
    fn a_norm_and_its_activation_are_rounded_once() {
        for order in ["r, p", "p, r"] {
            let body = format!("r = Reshape (n, to) p = Sigmoid (r) y = Mul ({order})");
            let text = after(&body, true);
            assert_eq!(text.matches("Cast <to: int = 1>").count(), 3, "{text}");
            assert_eq!(text.matches("Cast <to: int = 10>").count(), 1, "{text}");
            assert!(!after(&body, false).contains("Cast"));
        }
    }

    #[test]
    fn other_products_are_unchanged() {
        for body in [
            "r = Reshape (n, to) p = Sigmoid (r) y = Mul (p, p)",
            "r = Reshape (n, to) p = Tanh (r) y = Mul (r, p)",
            "r = Reshape (n, to) p = Sigmoid (r) q = Mul (r, p) y = Add (q, r)",
            "e = Exp (n) r = Reshape (e, to) p = Sigmoid (r) y = Mul (r, p)",
        ] {
            let text = after(body, true);
            assert!(!text.contains("Cast"), "{text}");
        }
    }
}
