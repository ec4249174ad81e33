//! `RMSNormalization(a + b)` → `SkipSimplifiedLayerNormalization(a, b)`, a contributed operator, which
//! also returns the sum.

use onnx::schema::CONTRIB;
use onnx::{Attr, Op, ValueId};
use tensor::{Dim, Type};

use crate::recognize::check_contrib;
use crate::rewrite::operands;
use crate::{Match, Rewrite, Skip};

const NAME: &str = "SkipSimplifiedLayerNormalization";

pub(crate) static REWRITE: Rewrite = Rewrite::of(NAME, &["RMSNormalization"], try_at);

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (x, scale, y) = (m.operand(0)?, m.operand(1)?, m.result()?);
    let ty = m.ty(y).clone();
    check_contrib(m.forms(), NAME, ty.dtype)?;
    let axis = onnx::fold::axis(m.root().int("axis", -1), ty.rank())?;
    if !matches!(ty.rank(), 2 | 3) || axis + 1 != ty.rank() || m.ty(scale).rank() != 1 {
        return Err("the operator normalises the last of two or three axes".into());
    }
    let sum = m.graph().producer(x).ok_or("it does not normalise a sum")?;
    let node = m.graph().node(sum);
    Skip::when(!node.is("Add"), "it does not normalise a sum")?;
    Skip::when(node.block() != m.root().block(), "the sum is in another block")?;
    Skip::when(m.ty(scale).dtype != ty.dtype, "the scale has another type")?;
    let [a, b] = operands(node)?;
    Skip::when([a, b].iter().any(|v| *m.ty(*v) != ty), "the sum broadcasts an operand")?;
    // Of several norms of a sum, the first computes it.
    let is_first = m
        .graph()
        .value(x)
        .consumers()
        .all(|reader| reader == m.id() || !m.graph().node(reader).is("RMSNormalization"));
    Skip::when(!is_first, "the sum is normalised twice")?;
    let mut statistics = ty.shape.clone();
    statistics[axis] = Dim::Known(1);
    let statistics = Type::new(ty.dtype, statistics);
    let epsilon = m.root().attr("epsilon").cloned().unwrap_or(Attr::Float(1e-5));
    let op = Op { domain: CONTRIB, name: NAME };
    let inputs = [a, b, scale].map(Some).to_vec();
    let types = vec![ty.clone(), statistics.clone(), statistics, ty];
    let outputs = m.op_typed(op, inputs, vec![("epsilon", epsilon)], types);
    let &[normalized, _, _, new_sum] = outputs.as_slice() else {
        return Err("the node has four results".into());
    };
    m.replace_too(sum, new_sum);
    Ok(vec![normalized])
}

#[cfg(test)]
mod tests {
    use super::{NAME, REWRITE};
    use crate::testing::{edited_with, run};
    use crate::{Form, Forms, Options};

    fn after(text: &str, forms: Forms) -> String {
        let options = Options { forms, ..Options::default() };
        edited_with(&options, text, |edit| run(edit, [&REWRITE]).unwrap()).0
    }

    fn requested() -> Forms {
        Forms { named: [(NAME.to_owned(), Form::Native)].into(), ..Forms::auto(23) }
    }

    const NORM: &str =
        "g (float[B,S,8] a, float[B,S,8] b, float[8] w) => (float[B,S,8] y, float[B,S,8] z) {
        x = Add (a, b) y = RMSNormalization <axis = -1, epsilon = 0.001> (x, w) z = Add (x, a)
    }";

    #[test]
    fn the_norm_of_a_sum_returns_the_sum() {
        let text = after(NORM, requested());
        assert!(
            text.contains(
                "com.microsoft.SkipSimplifiedLayerNormalization <epsilon: float = 0.001> (a, b, w)"
            ),
            "{text}"
        );
        assert_eq!(text.matches("Add").count(), 1, "{text}");
    }

    #[test]
    fn it_is_named_explicitly() {
        let native = Forms { default: Form::Native, ..Forms::auto(23) };
        assert!(after(NORM, native).contains("RMSNormalization"));
    }

    #[test]
    fn other_norms_are_unchanged() {
        for text in [
            NORM.replace("float[B,S,8] b", "float[8] b"),
            NORM.replace("axis = -1", "axis = 1").replace("float[8] w", "float[S,8] w"),
            NORM.replace("Add (a, b)", "Mul (a, b)"),
            NORM.replace("z = Add (x, a)", "z = RMSNormalization (x, w)"),
        ] {
            assert!(!after(&text, requested()).contains(NAME), "{text}");
        }
    }

    #[test]
    fn norms_of_other_ranks_and_types_are_unchanged() {
        for text in [
            NORM.replace("axis = -1", "axis = 1"),
            NORM.replace("B,S,8", "B,S,2,8"),
            NORM.replace("B,S,8", "8"),
            NORM.replace("float[8] w", "float[1,8] w"),
        ] {
            assert!(!after(&text, requested()).contains(NAME), "{text}");
        }
        assert!(after(&NORM.replace("B,S,8", "B,8"), requested()).contains(NAME));
    }
}
