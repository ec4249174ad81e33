//! Scores of attention: products of two bounded values, up to scales, biases and casts.

use super::Facts;
use super::norm::{NormBound, is_finite};
use crate::{Node, ValueId};

/// A bounded operand of a product.
#[derive(Clone, Debug)]
pub struct Factor {
    /// The operand.
    pub value: ValueId,
    /// Its bound.
    pub bound: NormBound,
}

/// A bound on scores.
#[derive(Clone, Debug)]
pub struct ScoreBound {
    /// The first factor.
    pub queries: Factor,
    /// The second factor.
    pub keys: Factor,
    /// An upper bound on the absolute values of the scores and of all values between them and the
    /// product, with room for rounding and for weights that are stored in fewer bits.
    pub largest: f64,
}

/// The room for rounding, as a factor.
const ROOM: f64 = 4.0;

impl Facts<'_> {
    /// Returns the bound of `scores`, if they follow from a product of two bounded values.
    pub fn score_bound(&self, scores: ValueId) -> Option<ScoreBound> {
        let node = self.node(scores)?;
        let find = || self.find_score_bound(node, scores);
        self.answer(|answers| &mut answers.scores, &scores, find)?
    }

    fn find_score_bound(&self, node: &Node, scores: ValueId) -> Option<ScoreBound> {
        let a = node.input(0)?;
        let (x, found) = match node.op.name {
            "MatMul" => return self.scored(a, node.input(1)?, scores),
            "Cast" if self.graph.ty(a).dtype.is_float() => (a, self.score_bound(a)?),
            "Div" => {
                let divisor = self.stored(node.input(1)?)?.splat().filter(|by| *by != 0.0)?;
                (a, self.score_bound(a)?.scaled(divisor.abs().recip()))
            }
            "Add" | "Mul" | "Sub" => {
                let b = node.input(1)?;
                let sides = [(a, b), (b, a)];
                let mut sides = sides.into_iter();
                let (x, by) = sides.find_map(|(x, by)| Some((x, self.magnitude(by)?)))?;
                let found = self.score_bound(x)?;
                let largest = found.largest + by;
                match node.is("Mul") {
                    true => (x, found.scaled(by)),
                    false => (x, ScoreBound { largest, ..found }),
                }
            }
            _ => return None,
        };
        let is_bounded = self.shape(x) == self.shape(scores)
            && is_finite(found.largest, self.graph.ty(scores).dtype);
        is_bounded.then_some(found)
    }

    /// Bounds a product whose summed axes belong to no rows.
    fn scored(&self, a: ValueId, b: ValueId, product: ValueId) -> Option<ScoreBound> {
        let (queries, keys) = (self.factor(a)?, self.factor(b)?);
        let is_summed = |factor: &Factor, place: usize| {
            let rank = self.shape(factor.value).len();
            !factor.bound.rows_from_end(rank).contains(&Some(place))
        };
        let largest = ROOM * queries.bound.norm * keys.bound.norm;
        let is_bounded = is_summed(&queries, 1)
            && is_summed(&keys, 2)
            && is_finite(largest, self.graph.ty(product).dtype);
        is_bounded.then_some(ScoreBound { queries, keys, largest })
    }

    fn factor(&self, value: ValueId) -> Option<Factor> {
        Some(Factor { value, bound: self.norm_bound(value)? })
    }
}

impl ScoreBound {
    fn scaled(self, by: f64) -> Self {
        Self { largest: self.largest * by, ..self }
    }
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use crate::Graph;
    use crate::text::parse;

    /// Returns the largest score of `node`, where all elements of queries and keys are at most 2 and 4.
    fn largest(ty: &str, node: &str) -> Option<f64> {
        let text = format!(
            "g (float[B,4,4] x) => ({ty} y) {{
                two = Constant <value = float[4] {{2, 2, 2, 2}}> () four = Constant <value = float[4] {{4, 4, 4, 4}}> ()
                q = RMSNormalization <axis = -1> (x, two) k = RMSNormalization <axis = -1> (x, four)
                t = Transpose <perm = [0, 2, 1]> (k) s = MatMul (q, t)
                half = Constant <value_float = 0.5> () zero = Constant <value_float = 0.0> ()
                rows = Constant <value = float[2,1,1,1] {{1, 2}}> () y = {node} }}"
        );
        let graph = parse(&text, &mut Origins::default()).unwrap();
        let found = graph.facts().score_bound(graph.block(Graph::MAIN).outputs()[0])?;
        assert_eq!([&found.queries, &found.keys].map(|f| f.bound.rows.len()), [2, 2]);
        Some(found.largest)
    }

    #[test]
    fn scores_are_bounded_by_the_norms_of_queries_and_keys() {
        // Rows of four elements have norms of 4 and 8.
        let product = 4.0 * 4.0 * 8.0;
        for (ty, node, expected) in [
            ("float[B,4,4]", "MatMul (q, t)", product),
            ("float16[B,4,4]", "Cast <to = 10> (s)", product),
            ("float[B,4,4]", "Mul (s, half)", product * 0.5),
            ("float[B,4,4]", "Mul (half, s)", product * 0.5),
            ("float[B,4,4]", "Div (s, half)", product * 2.0),
            ("float[B,4,4]", "Add (s, four)", product + 4.0),
            ("float[B,4,4]", "Sub (four, s)", product + 4.0),
        ] {
            assert_eq!(largest(ty, node), Some(expected), "{node}");
        }
    }

    #[test]
    fn other_products_are_no_scores() {
        for (ty, node) in [
            ("float[B,4,4]", "MatMul (q, x)"),
            ("float[B,4,4]", "MatMul (q, k)"),
            ("float[B,4,4]", "MatMul (t, t)"),
            ("float[B,4,4]", "Div (s, zero)"),
            ("float[B,4,4]", "Mul (s, x)"),
            ("float[2,B,4,4]", "Add (s, rows)"),
            ("int32[B,4,4]", "Cast <to = 6> (s)"),
            ("float[B,4,4]", "Exp (s)"),
        ] {
            assert_eq!(largest(ty, node), None, "{node}");
        }
    }
}
