use onnx::text::print;
use provenance::{Origins, Stacks};

use super::{Compute, narrow};
use crate::Target;
use crate::testing::graph;

/// Returns the graph after conversion for the default target, or the error.
fn narrowed(text: &str, compute: &str) -> Result<String, String> {
    narrowed_for(Target::default(), text, compute)
}

fn narrowed_for(target: Target, text: &str, compute: &str) -> Result<String, String> {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    let compute = Compute::parse(compute).unwrap();
    let stacks = Stacks::default();
    narrow(&mut graph, &mut origins, &stacks, &compute, 23, target).map_err(|e| e.to_string())?;
    onnx::verify(&graph, None).unwrap();
    Ok(print(&graph))
}

/// Returns one operator per line, with the element type of its result.
fn operators(text: &str) -> Vec<String> {
    let node = |line: &str| {
        let (_, call) = line.trim().split_once(" = ")?;
        Some(call.split([' ', '<', '(']).next()?.to_owned())
    };
    text.lines().filter_map(node).collect()
}

fn small(text: &str) -> Vec<String> {
    operators(&narrowed(text, "*=float16").unwrap())
}

#[test]
fn the_wider_type_wins_and_borders_have_one_cast() {
    let text = "g (float[2,2] x, float[2,2] w) => (float[2,2] y) {
        a = MatMul (x, w)
        b = Relu (a)
        c = MatMul (b, w)
        d = Add (c, x)
        y = MatMul (d, w)
    }";
    let expected = ["Cast", "Cast", "MatMul", "Relu", "MatMul", "Cast", "Add", "MatMul"];
    assert_eq!(small(text), expected);
}

#[test]
fn computed_cosines_are_rounded_for_all_rotary_embeddings() {
    let text = |cosine: &str| {
        format!(
            "g (float[1,2,8] x, float[1,2,2] a, float[8,8] w) => (float[1,2,8] y) {{
                to = Constant <value_ints = [1, 2, 2]> () b = {cosine} c = Reshape (b, to) s = Sin (a)
                m = MatMul (x, w)
                q = RotaryEmbedding <num_heads = 2> (m, c, s)
                k = RotaryEmbedding <num_heads = 2> (q, c, s)
                y = MatMul (k, w) }}"
        )
    };
    let casts = |cosine: &str, rounds_once: bool| {
        let target = Target::all().find(|target| target.rounds_once == rounds_once).unwrap();
        let graph = narrowed_for(target, &text(cosine), "*=float16").unwrap();
        operators(&graph).iter().filter(|op| *op == "Cast").count()
    };
    // Two operands, both waves, and the operand of the last product.
    assert_eq!(casts("Cos (a)", true), 5);
    let operand_and_result = 3;
    for (cosine, rounds_once) in [("Exp (a)", true), ("Cos (a)", false)] {
        assert_eq!(casts(cosine, rounds_once), operand_and_result, "{cosine}");
    }
}

#[test]
fn operands_of_sums_are_computed_in_float32() {
    let text = "g (float[2,2] x, float[2,2] w) => (float[1,1] y, float[2,2] z) {
        a = MatMul (x, w)
        b = Mul (a, a)
        y = ReduceSum (b)
        z = MatMul (a, w)
    }";
    assert_eq!(small(text), ["Cast", "Cast", "MatMul", "Cast", "Mul", "ReduceSum", "MatMul"]);
}

#[test]
fn constants_that_do_not_fit_keep_their_consumer_wide() {
    let text = |value: &str| {
        format!(
            "g (float[2,2] x, bool[2,2] m) => (float[2,2] y) <float big = {{{value}}}> {{
                a = MatMul (x, x)
                b = Where (m, a, big)
                c = MatMul (b, x)
                y = MatMul (c, x)
            }}"
        )
    };
    let count = |value: &str| {
        let found = small(&text(value));
        found.iter().filter(|op| *op == "Cast").count()
    };
    // One cast of `x` to the small type and one of the last product's operand back. The choice in
    // float32 adds two more casts.
    assert_eq!(count("-1e4"), 2);
    assert_eq!(count("-1e30"), 4);
}

#[test]
fn a_half_boundary_costs_no_casts() {
    let text = "g (float16[2,2] h, float[2,2] x) => (float16[4,2] y, float[4,2] z) {
        wide = Cast <to: int = 1> (h)
        new = MatMul (x, x)
        all = Concat <axis: int = 0> (wide, new)
        y = Cast <to: int = 10> (all)
        z = MatMul (all, x)
    }";
    let found = narrowed(text, "*=float16:all").unwrap();
    assert!(found.contains("Concat <axis: int = 0> (h, new)"), "{found}");
}

#[test]
fn unknown_and_useless_patterns_are_errors() {
    let text = "g (float[2,2] x) => (float[2,2] y) { y = MatMul (x, x) }";
    assert_eq!(
        narrowed(text, "head=float16").unwrap_err(),
        "`compute` names `head`, which matches no module, line, function or parameter"
    );
    assert_eq!(
        narrowed(text, "*=float16").unwrap_err(),
        "nothing in the model can compute in float16"
    );
    assert!(narrowed(text, "*=float16:all").is_ok());
    assert!(narrowed(text, "*=float32").is_ok());
}

#[test]
fn texts_survive_a_round_trip() {
    let text = "blocks.*=float16:all\nmodel.py:3=float32\n*=bfloat16";
    assert_eq!(Compute::parse(text).unwrap().to_text().as_deref(), Some(text));
    for wrong in ["*=int8", "*=float32:all", "*=float16:some", "float16"] {
        assert!(Compute::parse(wrong).is_none(), "{wrong}");
    }
}

#[test]
fn norms_of_sums_follow_their_operands_if_the_target_rounds_once() {
    let text = "g (float[2,2] x, float[2,2] w) => (float[2,2] y) <
        float[2] gamma = {1, 2}, float[2,2] n, float[2,1] mean, float[2,1] scale, float[2,2] s
    > {
        a = MatMul (x, w)
        b = MatMul (a, w)
        n, mean, scale, s = com.microsoft.SkipSimplifiedLayerNormalization (a, b, gamma)
        c = MatMul (n, w)
        d = Add (c, s)
        y = MatMul (d, w)
    }";
    let casts = |target: Target| {
        let found = narrowed_for(target, text, "*=float16").unwrap();
        operators(&found).iter().filter(|op| *op == "Cast").count()
    };
    // The operands of the first product, and the operand of the last one.
    assert_eq!(casts(Target::all().find(|target| target.rounds_once).unwrap()), 3);
    assert!(casts(Target::default()) > 3);
}

#[test]
fn products_in_functions_follow_products() {
    let text = |inside: &str| {
        format!(
            "g (float[2,2] x, float[2,2] w) => (float[2,2] y) {{
                a = MatMul (x, w) b = local.f (a, w) y = local.h (b) }}
             <domain: \"local\"> f (float[2,2] p, float[2,2] v) => (float[2,2] q) {{ {inside} }}
             <domain: \"local\"> h (float[2,2] r) => (float[2,2] s) {{ s = Sin (r) }}"
        )
    };
    let halves = |inside: &str| {
        narrowed(&text(inside), "*=float16").map(|text| text.matches("MatMul (").count())
    };
    // The first product is followed by the one in the function, which is the last one.
    let found = narrowed(&text("q = MatMul (p, v)"), "*=float16").unwrap();
    assert!(found.contains("a = MatMul") && found.contains("# float16[2,2]"), "{found}");
    assert!(halves("q = MatMul (p, v)").is_ok());
    // No product follows it in a function without one.
    assert!(halves("q = Add (p, v)").is_err());
}

#[test]
fn products_in_functions_are_followed_by_those_behind_the_call() {
    let text = |behind: &str| {
        format!(
            "g (float[2,2] x, float[2,2] w) => (float[2,2] y) {{ b = local.f (x, w) {behind} }}
             <domain: \"local\"> h (float[2,2] r) => (float[2,2] s) {{ s = Sin (r) }}
             <domain: \"local\"> f (float[2,2] p, float[2,2] v) => (float[2,2] q) {{ t = MatMul (p, v) q = Relu (t) }}"
        )
    };
    assert!(narrowed(&text("y = MatMul (b, w)"), "*=float16").is_ok());
    assert!(narrowed(&text("y = local.h (b)"), "*=float16").is_err());
}

#[test]
fn products_in_branches_follow_products() {
    let text = |inside: &str| {
        format!(
            "g (bool c, float[2,2] x, float[2,2] w) => (float[2,2] y) {{
                a = MatMul (x, w)
                t = Relu (a)
                y = If (c) <then_branch = yes () => (float[2,2] p) {{ p = {inside} }},
                            else_branch = no () => (float[2,2] q) {{ q = Identity (x) }}> }}"
        )
    };
    assert!(narrowed(&text("MatMul (t, w)"), "*=float16").is_ok());
    assert!(narrowed(&text("Add (t, w)"), "*=float16").is_err());
}

#[test]
fn constants_that_overflow_keep_their_product_wide() {
    let text = |number: &str| {
        format!(
            "g (float[2,2] x, float[2,2] w) => (float[2,2] y) {{
                c = Constant <value = float[2,2] {{{number}, 1, 2, 3}}> () a = MatMul (x, c) y = MatMul (a, w) }}"
        )
    };
    assert!(narrowed(&text("1000"), "*=float16").is_ok());
    assert!(narrowed(&text("inf"), "*=float16").is_ok());
    for number in ["1e9", "-1e9", "1e-9"] {
        assert!(narrowed(&text(number), "*=float16").is_err(), "{number}");
        assert!(narrowed_for(Target::any(), &text(number), "*=bfloat16").is_ok(), "{number}");
    }
}

#[test]
fn parameters_are_named_by_patterns() {
    let text = "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}> {
        a = MatMul (x, w) y = MatMul (a, w) }";
    assert!(narrowed(text, "w=float16").is_ok());
    let error = narrowed(text, "v=float16").unwrap_err();
    assert_eq!(error, "`compute` names `v`, which matches no module, line, function or parameter");
}
