//! Folds arithmetic on parameters at export if users would not look for the operands: a kernel is
//! stored in ONNX's layout, and `sqrt(var + eps)` becomes a number.
//!
//! A parameter that only changes its layout or its float type keeps its name. It is permuted and
//! rounded while it is written. It is unchanged if it is large and has other consumers, or if it
//! would take more bytes than its source array. The transpose of a table that is looked up, as in a
//! tied embedding, is not stored either, whatever its size. Concatenated parameters are unchanged, too. Other
//! results are named after their first parameter and the operator. Keys and counters are preserved,
//! except that comparisons with a counter are folded.

use onnx::ValueId;

use super::fold_constants::{folded_shape, is_within};
use crate::{Match, Rewrite, Skip};
use onnx::fold::{self, Exactness, Operation};
use onnx::operators::Operator;
use tensor::DType;

pub(crate) static REWRITE: Rewrite = Rewrite::with("fold_parameters", Operator::folds, try_at);

/// The maximum size of a result that is computed at export, in bytes.
const LIMIT: usize = 1 << 16;

/// The maximum size of a parameter that is stored in a wider type than its own, in bytes.
const WIDENED: usize = 1 << 12;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let (result, node, graph) = (m.result()?, m.root(), m.graph());
    let operands = || node.inputs.iter().flatten().copied();
    Skip::when(!operands().all(|v| graph.tensor(v).is_some()), "an operand is not a constant")?;
    let named = |v: &ValueId| graph.parameter(*v).is_some();
    let parameter = operands().find(named).ok_or("no operand is a parameter")?;
    if node.is("Concat") && operands().filter(named).nth(1).is_some() {
        return Err("several parameters would become one".into());
    }
    let (dtype, shape) = (m.ty(result).dtype, folded_shape(m.ty(result))?);
    let inputs = node.inputs.iter().map(|input| input.and_then(|v| m.graph().tensor(v)));
    let inputs: Vec<_> = inputs.collect();
    // Elementwise functions may be rounded differently than by runtimes, which differ from each
    // other anyway. Sums are excluded because they can take long.
    let count: usize = shape.iter().product();
    let is_sum = inputs.iter().flatten().any(|tensor| tensor.len() > count);
    let exactness = if is_sum || node.is("MatMul") || node.is("Conv") {
        Exactness::EachBit
    } else {
        Exactness::Rounded
    };
    let operation = Operation { node, inputs: &inputs, dtype, shape: &shape, result: 0, exactness };
    let is_small = is_within(dtype, &shape, LIMIT);
    let is_first = node.input(0) == Some(parameter);
    if let Some(view) = fold::view(&operation)?.filter(|_| is_first) {
        // A tensor of a checkpoint may have been widened before.
        let already = inputs.first().copied().flatten().map_or(0, tensor::Tensor::byte_len);
        if view.byte_len() > view.source_len().max(WIDENED).max(already) {
            return Err("the parameter would take more bytes".into());
        }
        let is_lookup = |id| m.graph().node(id).is("Gather");
        let is_table = m.graph().value(parameter).consumers().any(is_lookup);
        if node.is("Transpose") && is_table {
            return Err("a table that is looked up as well is stored once".into());
        }
        return match (m.is_used_once(parameter), is_small) {
            (true, _) => Ok(vec![m.rename(parameter, view)]),
            (false, true) => Ok(vec![m.derived(parameter, view)]),
            (false, false) => Err("the parameter has other consumers".into()),
        };
    }
    if m.ty(parameter).dtype.is_integer() {
        // Equinox's batch norms compare a counter to find out if the model was trained.
        let is_test_of_counter = dtype == DType::Bool && m.ty(parameter).rank() == 0;
        Skip::when(!is_test_of_counter, "keys and counters are state that people look for")?;
        let tensor = fold::evaluate(&operation)?;
        return Ok(vec![m.tensor(tensor)]);
    }
    Skip::when(!is_small, "the result is large")?;
    let tensor = fold::evaluate(&operation)?;
    Ok(vec![m.derived(parameter, tensor)])
}

#[cfg(test)]
mod tests {
    use super::REWRITE;
    use crate::testing::{rewrites_to, rewritten, stays};

    #[test]
    fn another_layout_keeps_the_name() {
        for (node, shape, elements) in [
            ("Transpose <perm = [1, 0]> (w)", "3,2", "1, 4, 2, 5, 3, 6"),
            ("Reshape (w, s)", "3,2", "1, 2, 3, 4, 5, 6"),
            ("Slice (w, start, end, axes, steps)", "2,3", "3, 2, 1, 6, 5, 4"),
        ] {
            rewrites_to(
                &REWRITE,
                &format!(
                    "g (float[{shape}] x) => (float[{shape}] y) <float[2,3] w = {{1, 2, 3, 4, 5, 6}}> {{
                        s = Constant <value_ints = [3, 2]> ()
                        start = Constant <value_ints = [-1]> ()
                        end = Constant <value_ints = [-9]> ()
                        axes = Constant <value_ints = [1]> ()
                        steps = Constant <value_ints = [-1]> ()
                        t = {node}
                        y = Add (x, t)
                    }}"
                ),
                &format!(
                    "g (float[{shape}] x) => (float[{shape}] y) <float[{shape}] w = {{{elements}}}> {{
                        y = Add (x, w)
                    }}"
                ),
            );
        }
    }

    #[test]
    fn large_parameters_keep_their_size() {
        let elements = vec!["1"; 2 * super::WIDENED].join(", ");
        let text = |shape: &str, node: &str, operand: &str| {
            format!(
                "g (float[2,W] x) => (float[2,W] y) <float[{shape}] w = {{{elements}}}> {{
                    {node} y = Add (x, {operand})
                }}"
            )
            .replace('W', &super::WIDENED.to_string())
        };
        let transposed = "t = Transpose <perm = [1, 0]> (w)";
        rewrites_to(&REWRITE, &text("W,2", transposed, "t"), &text("2,W", "", "w"));
    }

    #[test]
    fn counters_are_compared_and_preserved() {
        rewrites_to(
            &REWRITE,
            "g (float[2] x) => (float[2] y) <int32 n = {0}> {
                zero = Constant <value = int32 {0}> ()
                c = Equal (n, zero)
                y = Where (c, x, x)
            }",
            "g (float[2] x) => (float[2] y) {
                c = Constant <value = bool {1}> ()
                y = Where (c, x, x)
            }",
        );
        stays(
            &REWRITE,
            "g (int32 x) => (int32 y) <int32 n = {0}> {
                one = Constant <value = int32 {1}> ()
                c = Add (n, one)
                y = Mul (x, c)
            }",
        );
        stays(
            &REWRITE,
            "g (bool[2] x) => (bool[2] y) <uint32[2] n = {0, 1}> {
                zero = Constant <value = uint32 {0}> ()
                c = Equal (n, zero)
                y = And (x, c)
            }",
        );
    }

    #[test]
    fn concatenated_parameters_stay_apart() {
        let text = |operands: &str| {
            format!(
                "g (float[4] x) => (float[4] y) <float[2] w = {{1, 2}}, float[2] v = {{3, 4}}> {{
                    c = Constant <value = float[2] {{5, 6}}> ()
                    t = Concat <axis = 0> ({operands}) y = Add (x, t) }}"
            )
        };
        assert!(!rewritten(&REWRITE, &text("w, c")).contains("Concat <"));
        stays(&REWRITE, &text("w, v").replace("c = Constant <value = float[2] {5, 6}> ()", ""));
    }

    #[test]
    fn functions_of_parameters_are_computed() {
        rewrites_to(
            &REWRITE,
            "g (float[3] x) => (float[3] y) <float[3] w = {0, 1, -inf}> {
                e = Exp (w)
                n = Neg (e)
                y = Mul (x, n)
            }",
            "g (float[3] x) => (float[3] y) <float[3] \"w/Exp/Neg\" = {-1, -2.7182817, -0.0}> {
                y = Mul (x, \"w/Exp/Neg\")
            }",
        );
    }

    #[test]
    fn another_type_keeps_the_name() {
        rewrites_to(
            &REWRITE,
            "g (bfloat16[2,2] x) => (bfloat16[2,2] y) <float[2,2] w = {1, 2.0078125, 1e39, 4}> {
                c = Cast <to = 16> (w)
                t = Transpose <perm = [1, 0]> (c)
                y = Add (x, t)
            }",
            "g (bfloat16[2,2] x) => (bfloat16[2,2] y) <bfloat16[2,2] w = {1.0, inf, 2.0, 4.0}> {
                y = Add (x, w)
            }",
        );
    }

    #[test]
    fn rounding_is_preserved_if_the_type_changes_back() {
        rewrites_to(
            &REWRITE,
            "g (float[2] x) => (float[2] y) <float[2] w = {2.0078125, 0.1}> {
                c = Cast <to = 10> (w)
                d = Cast <to = 16> (c)
                e = Cast <to = 1> (d)
                y = Add (x, e)
            }",
            "g (float[2] x) => (float[2] y) <float[2] w = {2, 0.100097656}> {
                y = Add (x, w)
            }",
        );
    }

    #[test]
    fn a_large_parameter_does_not_grow() {
        let many = vec!["1.0"; 4000].join(", ");
        let reads = |from: &str, to: &str, code: i32| {
            format!(
                "g ({to}[4000] x) => ({to}[4000] y) <{from}[4000] w = {{{many}}}> {{
                    c = Cast <to = {code}> (w)
                    y = Add (x, c)
                }}"
            )
        };
        stays(&REWRITE, &reads("bfloat16", "float", 1));
        rewrites_to(
            &REWRITE,
            &reads("double", "float", 1),
            &format!(
                "g (float[4000] x) => (float[4000] y) <float[4000] w = {{{many}}}> {{
                    y = Add (x, w)
                }}"
            ),
        );
    }

    #[test]
    fn results_are_named_after_the_parameter() {
        rewrites_to(
            &REWRITE,
            "g (float[2] x) => (float[2] y) <float[2] v = {3, 8}> {
                one = Constant <value_float: float = 1> ()
                a = Add (v, one)
                b = Sqrt (a)
                y = Div (x, b)
            }",
            "g (float[2] x) => (float[2] y) <float[2] \"v/Add/Sqrt\" = {2, 3}> {
                y = Div (x, \"v/Add/Sqrt\")
            }",
        );
    }

    #[test]
    fn a_large_parameter_is_not_written_twice() {
        let many = vec!["1"; 20000].join(", ");
        stays(
            &REWRITE,
            &format!(
                "g (float[2,10000] x, float[10000,2] z) => (float[2,10000] y, float[10000,2] u)
                <float[2,10000] w = {{{many}}}> {{
                    t = Transpose <perm = [1, 0]> (w)
                    y = Add (x, w)
                    u = Add (z, t)
                }}"
            ),
        );
    }

    #[test]
    fn a_tied_embedding_is_not_written_twice() {
        stays(
            &REWRITE,
            "g (int64[2] i, float[2,3] x) => (float[2,3] y, float[2,2] z)
            <float[2,3] w = {1, 2, 3, 4, 5, 6}> {
                y = Gather (w, i)
                t = Transpose <perm = [1, 0]> (w)
                z = MatMul (x, t)
            }",
        );
    }

    #[test]
    fn concatenated_parameters_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[4] x) => (float[4] y) <float[2] v = {1, 2}, float[2] w = {3, 4}> {
                a = Concat <axis = 0> (v, w)
                y = Add (x, a)
            }",
        );
    }

    #[test]
    fn sums_are_unchanged() {
        stays(
            &REWRITE,
            "g (float[2] x) => (float[2] y) <float[3] v = {0.1, 0.2, 0.3}> {
                a = ReduceSum (v)
                y = Add (x, a)
            }",
        );
    }
}
