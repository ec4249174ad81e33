//! Tests of the runner and the pipeline: provenance, fuel, failures and complexity.

use onnx::text::print;
use onnx::{Graph, ValueId, attrs};
use provenance::Origins;

use crate::runner::Rules;
use crate::testing::graph;
use crate::{Editor, Error, Match, Options, Problem, Report, Rewrite, Skip, Verify, optimize};

fn optimized(text: &str, options: &Options) -> (Graph, Origins, Report) {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    let report = optimize(&mut graph, &mut origins, options).unwrap();
    (graph, origins, report)
}

/// Returns the scopes of a node, its own first.
fn scopes(graph: &Graph, origins: &Origins, node: usize) -> Vec<String> {
    let origin = origins.get(graph.node(graph.all_nodes()[node]).origin);
    let also = origin.also.iter().map(|id| origins.get(*id).scope);
    let all = std::iter::once(origin.scope).chain(also);
    let mut all: Vec<_> = all.map(|scope| origins.scope_path(scope).to_owned()).collect();
    all[1..].sort();
    all
}

const DENSE: &str = r#"g (float[B,3] x) => (float[B,4] y)
    <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[4] b = {1,2,3,4}> {
        ["/cast/C"] c = Cast <to = 11> (x)
        ["/back/C"] d = Cast <to = 1> (c)
        ["/matmul/M"] t = MatMul (d, w)
        s = Constant <value_ints = [1, 4]> ()
        ["/reshape/R"] r = Reshape (b, s)
        ["/add/A"] y = Add (t, r)
    }"#;

#[test]
fn everything_works_together() {
    let (graph, _, report) = optimized(DENSE, &Options::default());
    assert_eq!(
        print(&graph),
        "g (float[B,3] x) => (float[B,4] y)
<
  float[3,4] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0},
  float[4] b = {1.0, 2.0, 3.0, 4.0}
>
{
  y = Gemm (x, w, b)  # float[B,4]
}
"
    );
    let applied: Vec<_> = report.applied.into_iter().collect();
    let expected = [("compose_casts", 1), ("drop_operand_broadcast", 1), ("matmul_add_to_gemm", 1)];
    assert_eq!(applied, expected);
    assert!(report.skipped.contains_key(&("compose_casts", "the operand is not a Cast")));
}

#[test]
fn a_replacement_has_the_origin_of_the_replaced_nodes() {
    let (graph, origins, _) = optimized(DENSE, &Options::default());
    assert_eq!(scopes(&graph, &origins, 0), ["add", "back", "cast", "matmul", "reshape"]);
    let emitter = origins.get(graph.node(graph.all_nodes()[0]).origin).emitter;
    assert_eq!(emitter.name, "matmul_add_to_gemm");
    assert!(emitter.at.file().ends_with("matmul_add_to_gemm.rs"), "{}", emitter.at.file());
}

#[test]
fn consumers_of_a_folded_constant_inherit_its_sources() {
    let text = r#"g (float[2] x) => (float[2] y, float[2] z) {
        a = Constant <value_floats: floats = [1.5, -2.0]> ()
        ["/double/Add"] b = Add (a, a)
        ["/back/Neg"] c = Neg (b)
        ["/y/Mul"] y = Mul (x, c)
        ["/z/Add"] z = Add (x, c)
    }"#;
    let (graph, origins, _) = optimized(text, &Options::default());
    assert_eq!(scopes(&graph, &origins, 0), ["y", "back", "double"]);
    assert_eq!(scopes(&graph, &origins, 1), ["z", "back", "double"]);
}

#[test]
fn remaining_nodes_inherit_the_sources_of_removed_ones() {
    let text = r#"g (float[2] x) => (float[2] y) {
        ["/a/Exp"] a = Exp (x)
        ["/b/Exp"] b = Exp (x)
        ["/c/Identity"] c = Identity (a)
        ["/d/Add"] d = Add (b, c)
        ["/e/Identity"] y = Identity (d)
    }"#;
    let (graph, origins, _) = optimized(text, &Options::default());
    assert_eq!(scopes(&graph, &origins, 0), ["a", "b", "c"]);
    assert_eq!(scopes(&graph, &origins, 1), ["d", "e"]);
    assert_eq!(origins.get(graph.node(graph.all_nodes()[0]).origin).emitter.name, "text");
}

#[test]
fn the_last_consumer_of_a_shared_node_does_not_inherit_all_sources() {
    let text = r#"g (float[B,3] x) => (float[B,1] y, float[B,1] z) {
        ["/first/Shape"] n = Shape <start = 0, end = 1> (x)
        one = Constant <value_ints = [1]> ()
        ["/first/Concat"] s = Concat <axis = 0> (n, one)
        ["/first/ReduceSum"] a = ReduceSum <keepdims = 0> (x, one)
        ["/first/Reshape"] y = Reshape (a, s)
        ["/cos/Cos"] c = Cos (x)
        ["/second/ReduceSum"] b = ReduceSum <keepdims = 0> (c, one)
        ["/second/Reshape"] z = Reshape (b, s)
    }"#;
    let (graph, origins, _) = optimized(text, &Options::default());
    assert_eq!(graph.all_nodes().len(), 3);
    assert_eq!(scopes(&graph, &origins, 0), ["first"]);
    assert_eq!(scopes(&graph, &origins, 2), ["second"]);
}

#[test]
fn a_moved_operator_keeps_its_own_origin() {
    let text = r#"g (float[2,3] x) => (float[2,1] y, float[2,3] z) {
        one = Constant <value_ints = [1]> ()
        ["/sum/ReduceSum"] a = ReduceSum <keepdims = 0> (x, one)
        ["/axis/Unsqueeze"] y = Unsqueeze (a, one)
        ["/first/Transpose"] b = Transpose (x)
        ["/relu/Relu"] c = Relu (b)
        ["/second/Transpose"] z = Transpose (c)
    }"#;
    let (graph, origins, _) = optimized(text, &Options::default());
    assert_eq!(scopes(&graph, &origins, 0), ["sum", "axis"]);
    assert_eq!(scopes(&graph, &origins, 1), ["relu", "first", "second"]);
}

#[test]
fn fuel_limits_the_number_of_changes() {
    let none = Options { fuel: Some(0), ..Options::default() };
    let (graph, _, report) = optimized(DENSE, &none);
    assert_eq!(report.total(), 0);
    let before = crate::testing::graph(DENSE, &mut Origins::default());
    assert_eq!(print(&graph), print(&before));
    for fuel in 1..=3 {
        let some = Options { fuel: Some(fuel), ..Options::default() };
        assert_eq!(optimized(DENSE, &some).2.total(), fuel);
    }
}

#[test]
fn fusions_can_be_disabled() {
    let (graph, ..) = optimized(DENSE, &Options { fuse: false, ..Options::default() });
    let ops: Vec<_> = graph.all_nodes().iter().map(|id| graph.node(*id).op.name).collect();
    assert_eq!(ops, ["MatMul", "Add"]);
}

#[test]
fn names_of_inputs_and_outputs_are_preserved() {
    let text = "g (float[2] x) => (float[2] y, float[2] z, float[2] w) {
        a = Cast <to = 1> (x)
        y = Identity (a)
        b = Exp (a)
        z = Identity (b)
        w = Identity (b)
    }";
    let (graph, ..) = optimized(text, &Options::default());
    assert_eq!(
        print(&graph),
        "g (float[2] x) => (float[2] y, float[2] z, float[2] w)
{
  y = Identity (x)  # float[2]
  z = Exp (x)  # float[2]
  w = Identity (z)  # float[2]
}
"
    );
}

#[test]
fn functions_and_branches_are_optimised_inside() {
    let text = r#"g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <
            then_branch = then_branch () => (float[2] a) { s = Identity (x) a = local.f (s) },
            else_branch = else_branch () => (float[2] b) { b = local.f (x) }
        >
    }
    <domain: "local"> f (float[2] p) => (float[2] q) {
        one = Constant <value_float: float = 1> ()
        t = Mul (p, one)
        q = Neg (t)
    }"#;
    let (graph, ..) = optimized(text, &Options::default());
    let printed = print(&graph);
    assert!(printed.contains("a = local.f (x)"), "{printed}");
    assert!(printed.contains("{\n  q = Neg (p)  # float[2]\n}"), "{printed}");
}

type TryAt = fn(&mut Match<'_>) -> Result<Vec<ValueId>, Skip>;

/// Runs a rewrite of `Exp` on a graph that contains one.
fn run(try_at: TryAt) -> (String, Result<(), Error>) {
    run_verifying(Verify::EachRewrite, try_at)
}

fn run_verifying(verify: Verify, try_at: TryAt) -> (String, Result<(), Error>) {
    let mut origins = Origins::default();
    let mut graph = graph("g (float[2] x) => (float[2] y) { y = Exp (x) }", &mut origins);
    let options = Options { verify, ..Options::default() };
    let mut edit = Editor::new(&mut graph, &mut origins, &options);
    let rewrite = Rewrite::of("test", &["Exp"], try_at);
    let result = Rules::new("rewrites", [&rewrite]).run(&mut edit).map(drop);
    drop(edit);
    (print(&graph), result)
}

#[test]
fn a_rewrite_that_skips_leaves_nothing_behind() {
    let emit_and_skip: TryAt = |m: &mut Match<'_>| {
        let x = m.operand(0)?;
        let first = m.op("Neg", &[x], attrs! {})?;
        m.op("Neg", &[first], attrs! {})?;
        Err(Skip::Because("second thoughts"))
    };
    let (text, result) = run(emit_and_skip);
    result.unwrap();
    assert_eq!(text, "g (float[2] x) => (float[2] y)\n{\n  y = Exp (x)  # float[2]\n}\n");
}

#[test]
fn unused_emitted_nodes_are_removed() {
    let emit_too_much: TryAt = |m: &mut Match<'_>| {
        let x = m.operand(0)?;
        m.op("Neg", &[x], attrs! {})?;
        Ok(vec![m.op("Abs", &[x], attrs! {})?])
    };
    let (text, result) = run(emit_too_much);
    result.unwrap();
    assert_eq!(text, "g (float[2] x) => (float[2] y)\n{\n  y = Abs (x)  # float[2]\n}\n");
}

#[test]
fn wrong_rewrites_are_named() {
    let cast: TryAt = |m: &mut Match<'_>| {
        let x = m.operand(0)?;
        Ok(vec![m.op("Cast", &[x], attrs! { to: 11 })?])
    };
    let error = run(cast).1.unwrap_err();
    let message = "`test` replaced a value of type f32[2] by one of type f64[2]";
    assert_eq!(error.to_string(), message);
    assert!(error.origin.is_some());

    let unknown: TryAt = |m: &mut Match<'_>| {
        let x = m.operand(0)?;
        Ok(vec![m.op("NoSuchOp", &[x], attrs! {})?])
    };
    let error = run(unknown).1.unwrap_err();
    assert!(matches!(error.problem, Problem::Node(_)), "{error}");

    let invalid: TryAt = |m: &mut Match<'_>| {
        let x = m.operand(0)?;
        Ok(vec![m.op("Neg", &[x], attrs! { axis: 1 })?])
    };
    let error = run(invalid).1.unwrap_err();
    let message = "`test` made the graph invalid: Neg #1: unknown attribute `axis`";
    assert_eq!(error.to_string(), message);

    let none: TryAt = |_: &mut Match<'_>| Ok(Vec::new());
    let error = run(none).1.unwrap_err();
    assert_eq!(error.to_string(), "`test` replaced 1 results by 0");
}

#[test]
fn rewrites_without_a_fixed_point_are_stopped() {
    let again: TryAt = |m: &mut Match<'_>| {
        let x = m.operand(0)?;
        Ok(vec![m.op("Exp", &[x], attrs! {})?])
    };
    let error = run_verifying(Verify::EachPass, again).1.unwrap_err();
    assert_eq!(error.to_string(), "`test` does not reach a fixed point with other rewrites");
}

/// Returns a model of `layers` layers in the form that lowering produces, with 17 nodes each.
fn layers(layers: usize) -> String {
    use std::fmt::Write as _;
    let mut text = String::from("g (float[B,4] x0) => (float[B,4] y) <float[4,4] w = {");
    text += &"1,".repeat(16);
    text += "}, float[4] b = {1,2,3,4}> {\n";
    for i in 0..layers {
        let _ = write!(
            text,
            "a{i} = Cast <to = 11> (x{i})
            b{i} = Cast <to = 1> (a{i})
            c{i} = Transpose <perm = [1, 0]> (b{i})
            d{i} = Transpose <perm = [1, 0]> (c{i})
            s{i} = Constant <value_ints = [-1, 2, 2]> ()
            e{i} = Reshape (d{i}, s{i})
            t{i} = Constant <value_ints = [-1, 4]> ()
            f{i} = Reshape (e{i}, t{i})
            g{i} = MatMul (f{i}, w)
            u{i} = Constant <value_ints = [1, 4]> ()
            h{i} = Reshape (b, u{i})
            j{i} = Add (g{i}, h{i})
            k{i} = Sigmoid (j{i})
            l{i} = Mul (k{i}, j{i})
            m{i} = Sigmoid (j{i})
            n{i} = Shape (m{i})
            o{i} = Constant <value_floats: floats = [1, 1]> ()
            p{i} = Constant <value_floats: floats = [0.5, 1]> ()
            q{i} = Mul (o{i}, p{i})
            v{i} = Constant <value_ints = [1, 2, 1]> ()
            r{i} = Reshape (q{i}, v{i})
            z{i} = Identity (l{i})
            x{} = Add (z{i}, m{i})\n",
            i + 1
        );
    }
    text + &format!("y = Neg (x{layers}) }}")
}

/// Returns the number of remaining nodes, and the number of attempts by rewrites and passes.
fn work(count: usize) -> (usize, u64) {
    let mut origins = Origins::default();
    let mut graph = graph(&layers(count), &mut origins);
    let report = optimize(&mut graph, &mut origins, &Options::default()).unwrap();
    (graph.all_nodes().len(), report.total() + report.skipped.values().sum::<u64>())
}

#[test]
fn work_is_linear() {
    let (left, small) = work(5);
    assert_eq!(left, 4 * 5 + 1);
    let (_, large) = work(16 * 5);
    assert!(large < 17 * small, "{small} looks became {large}");
}

/// The form that JAX produces: computed in 32 bits and clamped.
#[test]
fn the_last_index_of_a_symbolic_axis_becomes_a_number() {
    let mut origins = Origins::default();
    let mut graph = graph(
        "g (float[B,T,16] x) => (float[B,16] y) {
            s = Shape <start = 1, end = 2> (x)
            one = Constant <value_ints = [-1]> ()
            a = Add (s, one)
            zero = Constant <value_ints = [0]> ()
            q = Squeeze (a, zero)
            c = Cast <to = 6> (q)
            n = Constant <value_ints = [1]> ()
            e = Expand (c, n)
            d = Cast <to = 7> (e)
            low = Constant <value_int = 0> ()
            l = Max (d, low)
            m = Min (l, a)
            i = Squeeze (m, zero)
            y = Gather <axis = 1> (x, i)
        }",
        &mut origins,
    );
    optimize(&mut graph, &mut origins, &Options::default()).unwrap();
    let found: Vec<_> = graph.all_nodes().into_iter().map(|id| graph.node(id).op.name).collect();
    assert_eq!(found, ["Gather"]);
}
