//! `1 - Erf(x)` → a formula for the complementary error function. The difference has no correct
//! digits for large `x`.
//!
//! Products with the argument itself, as in Gelu, are excluded: there the absolute precision of the
//! factor is sufficient.

use onnx::formula::formulas;
use onnx::{Builder, Graph, Node, NodeId, Use, ValueId};
use tensor::{DType, Tensor};

use super::{Error, Legalizer, made_by};

/// Interpolates `(x + 3) exp(x²) erfc(x)` in `(x - 3) / (x + 3)` at Chebyshev nodes, from 0 to
/// where erfc vanishes. The highest power comes first.
const SINGLE: [f64; 10] = [
    -0.0003342244062,
    -0.000500258783,
    0.003077058,
    -0.001216889072,
    -0.02683621734,
    0.1195273334,
    -0.3104666589,
    0.5902284103,
    -0.88339446,
    1.074006906,
];
const SINGLE_END: f64 = 10.0;

const DOUBLE: [f64; 22] = [
    -2.8859077542120998e-9,
    -1.1057699072953121e-9,
    3.6985006537570775e-8,
    4.182491592493751e-8,
    -2.1598269333891025e-7,
    -4.001937352397039e-7,
    9.8541976340114e-7,
    2.7587257190432903e-6,
    -4.742664418311735e-6,
    -1.7467278115863077e-5,
    3.039609585838619e-5,
    0.00010756050325600694,
    -0.0002767774285227392,
    -0.0005483095146093471,
    0.0030340619492183604,
    -0.0012124166454168183,
    -0.026827234620832217,
    0.11952776128823552,
    -0.31046726190068796,
    0.590228357104083,
    -0.8833944531698824,
    1.0740069070883398,
];
const DOUBLE_END: f64 = 27.0;

/// Replaces all occurrences.
pub(super) fn expand(work: &mut Legalizer<'_>) -> Result<(), Error> {
    for block in work.graph().live_blocks() {
        let nodes: Vec<_> = work.graph().nodes_of(block).collect();
        for id in nodes {
            let Some(x) = work.graph().get(id).and_then(|_| find(work.graph(), id)) else {
                continue;
            };
            let result = erfc(&mut work.builder(id), x)?;
            work.substitute(id, &[result])?;
        }
    }
    Ok(())
}

/// Returns the argument of the error function, if `id` is one minus it.
fn find(graph: &Graph, id: NodeId) -> Option<ValueId> {
    let node = graph.node(id);
    if !node.is("Sub") || graph.constant(node.input(0)?).and_then(Tensor::splat) != Some(1.0) {
        return None;
    }
    let x = made_by(graph, node.input(1)?, "Erf")?.input(0)?;
    (!only_scales(graph, node, x)).then_some(x)
}

/// Returns `true` if a result is only used to scale the value that it is computed from.
fn only_scales(graph: &Graph, node: &Node, x: ValueId) -> bool {
    let result = node.outputs[0];
    let scales = |place| {
        let Use::Operand(user, _) = place else { return false };
        let user = graph.node(user);
        let mut factors = user.inputs.iter().flatten().filter(|factor| **factor != result);
        user.is("Mul") && factors.any(|factor| origin(graph, *factor) == origin(graph, x))
    };
    let value = graph.value(result);
    value.is_used() && value.uses().all(scales)
}

/// Returns the value that `value` is a multiple of.
fn origin(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Some(id) = graph.producer(value) {
        let node = graph.node(id);
        let is_number = |v: &ValueId| graph.constant(*v).is_some_and(|c| c.splat().is_some());
        let mut inputs = node.inputs.iter().flatten().copied();
        let next = match node.op.name {
            "Neg" | "Cast" | "Identity" => inputs.next(),
            "Mul" if inputs.clone().any(|v| is_number(&v)) => inputs.find(|v| !is_number(v)),
            "Div" if inputs.clone().nth(1).is_some_and(|v| is_number(&v)) => inputs.next(),
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => break,
        }
    }
    value
}

fn erfc(b: &mut Builder<'_>, x: ValueId) -> onnx::Result<ValueId> {
    let dtype = b.dtype(x);
    let (wide, fit, end) = match dtype {
        DType::F64 => (DType::F64, &DOUBLE[..], DOUBLE_END),
        _ => (DType::F32, &SINGLE[..], SINGLE_END),
    };
    let [result] = formulas(b, [x], |[x]| {
        let x = x.cast(wide);
        let near = x.abs().min(end);
        let (below, scale) = (near - 3.0, near + 3.0);
        let fit = (below / scale).polynomial(fit);
        let right = (-x.squared()).exp() * fit / scale;
        let left = 2.0 - right;
        [x.less(0.0).select(left, right).cast(dtype)]
    })?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing;

    fn legalized(body: &str, target: Target) -> String {
        let text =
            format!("g (float[3] x) => (float[3] y) {{
                one = Constant <value = float {{1}}> () c = Constant <value = float {{0.7}}> () {body} }}");
        testing::legalized(&text, target)
    }

    #[test]
    fn it_is_written_out() {
        for target in [Target::any(), Target::default()] {
            let nodes = legalized("e = Erf (x) y = Sub (one, e)", target);
            assert!(nodes.contains("Exp") && !nodes.contains("Erf"), "{nodes}");
        }
    }

    #[test]
    fn small_complements_are_exact() {
        let text = "g (double x) => (double y) {
            one = Constant <value = double {1}> () e = Erf (x) y = Sub (one, e)
        }";
        for (x, expected) in [
            (0.0, 1.0),
            (0.5, 0.479_500_122_186_953_5),
            (-1.0, 1.842_700_792_949_714_8),
            (2.0, 0.004_677_734_981_047_266),
            (5.0, 1.537_459_794_428_035e-12),
            (10.0, 2.088_487_583_762_545e-45),
        ] {
            let found = testing::value_of(text, x);
            assert!((found - expected).abs() <= 1e-13 * expected, "{x}: {found:e}");
        }
    }

    #[test]
    fn an_error_function_that_is_needed_stays() {
        let nodes = legalized("e = Erf (x) f = Sub (one, e) y = Add (e, f)", Target::any());
        assert!(nodes.contains("Exp") && nodes.starts_with("Erf"), "{nodes}");
    }

    #[test]
    fn a_scale_stays() {
        let gelu =
            "h = Mul (c, x) n = Neg (x) s = Mul (n, c) e = Erf (s) f = Sub (one, e) y = Mul (h, f)";
        let nodes = "Mul:f32 Neg:f32 Mul:f32 Erf:f32 Sub:f32 Mul:f32";
        assert_eq!(legalized(gelu, Target::default()), nodes);
    }

    #[test]
    fn other_differences_stay() {
        for body in ["e = Erf (x) y = Sub (e, one)", "e = Erf (x) y = Sub (c, e)"] {
            assert_eq!(legalized(body, Target::default()), "Erf:f32 Sub:f32");
        }
    }

    #[test]
    fn only_multiples_of_the_argument_scale() {
        let is_expanded = |scale: &str| {
            let body = format!(
                "half = Constant <value = float {{0.5}}> () s = Sin (x) e = Erf (x) f = Sub (one, e) {scale}"
            );
            legalized(&body, Target::any()).contains("Exp")
        };
        for scale in [
            "h = Mul (half, x) y = Mul (h, f)",
            "h = Mul (x, half) y = Mul (f, h)",
            "h = Div (x, half) y = Mul (h, f)",
            "h = Neg (x) y = Mul (h, f)",
        ] {
            assert!(!is_expanded(scale), "{scale}");
        }
        for scale in [
            "h = Mul (x, half) y = Add (h, f)",
            "y = Mul (s, f)",
            "h = Mul (x, s) y = Mul (h, f)",
            "h = Div (x, s) y = Mul (h, f)",
            "h = Exp (x) y = Mul (h, f)",
        ] {
            assert!(is_expanded(scale), "{scale}");
        }
    }
}
