//! Adds to the mean of a power with `Sum` instead of `Add`, except for the mean of squares in
//! single or half precision.
//!
//! onnxruntime's `LayerNormFusion` and `SimplifiedLayerNormFusion` treat `d / sqrt(mean(d ** p) +
//! c)` as a layer norm for every `p`, and store `c` in single precision. They match an `Add`.

use onnx::{Graph, NodeId, ValueId};
use tensor::{DType, Tensor};

use crate::Roots;
use crate::legalize::{Error, Legalizer, made_by};
use crate::targets::{Bug, add_by_sum};

pub(super) static BUG: Bug =
    Bug { name: "power_before_mean", roots: Roots::Named(&["Add"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id);
    if node.inputs.iter().flatten().any(|x| is_mean_of_power(work.graph(), *x)) {
        add_by_sum(work, id)?;
    }
    Ok(())
}

/// Returns `true` if a value is such a mean, with or without a cast in between.
fn is_mean_of_power(graph: &Graph, value: ValueId) -> bool {
    let from = |value, op| made_by(graph, value, op);
    let past_cast = |value| from(value, "Cast").and_then(|cast| cast.input(0)).unwrap_or(value);
    let mean = from(past_cast(value), "ReduceMean").and_then(|mean| mean.input(0));
    let Some(power) = mean.and_then(|x| from(past_cast(x), "Pow")) else { return false };
    let square = power.input(1).and_then(|p| graph.tensor(p)).and_then(Tensor::splat);
    square != Some(2.0) || graph.ty(value).dtype == DType::F64
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing::legalized;

    #[test]
    fn only_means_of_squares_become_norms() {
        let added = |dtype: &str, power: &str| {
            let text = format!(
                "g ({dtype}[2,3] x) => ({dtype}[2,1] y) {{
                    p = Constant <value = {dtype} {{{power}}}> () c = Constant <value = {dtype} {{0.5}}> ()
                    a = Constant <value_ints = [1]> () s = Pow (x, p) m = ReduceMean (s, a) y = Add (m, c) }}"
            );
            legalized(&text, Target::default())
        };
        assert!(added("float", "2").ends_with("Add:f32"));
        assert!(added("float", "3").ends_with("Sum:f32"));
        assert!(added("double", "2").ends_with("Sum:f64"));
    }
}
