//! Tests of spellings, written as text before and after recognition.

mod attention;
mod caches;
mod rotary;
mod rotations;

use onnx::Graph;
use onnx::text::print;
use provenance::Origins;
use tensor::DType;

use super::{all, operators};
use crate::runner::Rules;
use crate::testing::graph;
use crate::{Editor, Form, Forms, Options, Report, Target};

fn run(text: &str, forms: Forms) -> (String, Report) {
    let (graph, report) = recognized(text, forms);
    (print(&graph), report)
}

fn recognized(text: &str, forms: Forms) -> (Graph, Report) {
    recognized_in(text, forms, |_| {})
}

/// Recognises operators after a change of the graph.
fn recognized_in(text: &str, forms: Forms, change: impl Fn(&mut Graph)) -> (Graph, Report) {
    let mut origins = Origins::default();
    let mut graph = graph(text, &mut origins);
    change(&mut graph);
    let options = Options { forms, report_missed: true, ..Options::default() };
    let mut edit = Editor::new(&mut graph, &mut origins, &options);
    Rules::new("recognition", all().unwrap()).run(&mut edit).unwrap();
    let report = edit.finish();
    onnx::verify(&graph, None).unwrap();
    (graph, report)
}

/// Selects one node for every operator, even if it is inexact in the runtime.
fn native() -> Forms {
    Forms { default: Form::Measured, ..Forms::auto(onnx::schema::NEWEST) }
}

/// Asserts that `body` is rewritten to `expected`, using one node where possible.
fn becomes(signature: &str, body: &str, expected: &str) {
    let text = |body: &str| format!("g {signature} {{ {body} }}");
    let (actual, report) = run(&text(body), native());
    let wanted = print(&graph(&text(expected), &mut Origins::default()));
    assert!(actual == wanted, "got:\n{actual}\nexpected:\n{wanted}\n{:?}", report.missed);
}

/// Does the same as [`becomes`], but ignores the names of intermediate values.
fn becomes_alike(signature: &str, body: &str, expected: &str) {
    let text = |body: &str| format!("g {signature} {{ {body} }}");
    let operators = |text: &str| {
        let lines = text.lines().filter_map(|line| line.split_once(" = ")?.1.split_once(')'));
        lines.map(|(node, _)| node.split('(').next().unwrap_or_default().to_owned()).collect()
    };
    let (actual, report) = run(&text(body), native());
    let wanted: Vec<String> = operators(&print(&graph(&text(expected), &mut Origins::default())));
    let found: Vec<String> = operators(&actual);
    assert!(found == wanted, "got:\n{actual}\nexpected:\n{wanted:?}\n{:?}", report.missed);
}

fn stays(signature: &str, body: &str) -> Report {
    let text = format!("g {signature} {{ {body} }}");
    let (actual, report) = run(&text, native());
    let wanted = print(&graph(&text, &mut Origins::default()));
    assert!(actual == wanted, "got:\n{actual}\nexpected:\n{wanted}");
    report
}

const SAME: &str = "(float[B,4] x) => (float[B,4] y)";

/// Returns statements that define scalar constants.
fn constants(values: &[(&str, &str)]) -> String {
    let one = |(name, value): &(&str, &str)| {
        format!("{name} = Constant <value_float: float = {value}> () ")
    };
    values.iter().map(one).collect()
}

#[test]
fn the_patterns_can_be_read() {
    all().unwrap();
    for op in ["Relu", "LayerNormalization", "Softmax", "Gelu", "ReduceMean"] {
        assert!(operators().contains(&op), "{op}");
    }
}

#[test]
fn a_maximum_with_zero_is_a_relu() {
    let zero = constants(&[("o", "0")]);
    for body in ["y = Max (x, o)", "y = Max (o, x)"] {
        becomes(SAME, &format!("{zero} {body}"), "y = Relu (x)");
    }
    // The constant may have any shape that broadcasts without changing the result.
    let zeros = "o = Constant <value = float[1,4] {0, 0, 0, 0}> ()";
    becomes(SAME, &format!("{zeros} y = Max (x, o)"), "y = Relu (x)");
    stays("(float[4] x) => (float[1,4] y)", &format!("{zeros} y = Max (x, o)"));
    stays(SAME, &format!("{} y = Max (x, o)", constants(&[("o", "0.5")])));
    stays("(int32[B] x) => (int32[B] y)", "o = Constant <value = int32 {0}> () y = Max (x, o)");
    // This spelling turns NaN into zero.
    stays(SAME, &format!("{zero} p = Greater (x, o) y = Where (p, x, o)"));
}

#[test]
fn parameters_are_not_constants() {
    stays("(float[B,4] x) => (float[B,4] y) <float o = {0}>", "y = Max (x, o)");
}

#[test]
fn two_bounds_are_a_clip() {
    let bounds = constants(&[("l", "-1"), ("h", "2")]);
    let clip = constants(&[("l", "-1"), ("h", "2")]) + "y = Clip (x, l, h)";
    for body in [
        "t = Max (l, x) y = Min (h, t)",
        "t = Min (x, h) y = Max (t, l)",
        "p = Greater (x, h) q = Less (x, l) t = Where (q, l, x) y = Where (p, h, t)",
    ] {
        becomes(SAME, &format!("{bounds} {body}"), &clip);
    }
    let six = constants(&[("o", "0"), ("s", "6")]);
    becomes(
        SAME,
        &format!("{six} t = Max (x, o) y = Min (t, s)"),
        &format!("{six} y = Clip (x, o, s)"),
    );
    let wrong = constants(&[("l", "3"), ("h", "2")]);
    stays(SAME, &format!("{wrong} t = Max (l, x) y = Min (h, t)"));
    let same = constants(&[("l", "2")]);
    becomes(
        SAME,
        &format!("{same} t = Max (l, x) y = Min (l, t)"),
        &format!("{same} y = Clip (x, l, l)"),
    );
}

#[test]
fn integers_have_bounds_too() {
    let text = |ty: &str, low: &str, high: &str, body: &str| {
        let bounds = format!(
            "l = Constant <value = {ty} {{{low}}}> () h = Constant <value = {ty} {{{high}}}> ()"
        );
        (format!("({ty}[B,4] x) => ({ty}[B,4] y)"), format!("{bounds} {body}"))
    };
    let between = "t = Max (l, x) y = Min (h, t)";
    for ty in ["int8", "uint8", "int32", "uint32", "uint64"] {
        for body in [between, "t = Min (x, h) y = Max (t, l)"] {
            let (signature, body) = text(ty, "0", "100", body);
            becomes(&signature, &body, &text(ty, "0", "100", "y = Clip (x, l, h)").1);
        }
    }
    // The kernel for 64 bits compares large numbers incorrectly, and 16 bits have no kernel.
    for ty in ["int16", "uint16", "int64"] {
        let (signature, body) = text(ty, "0", "100", between);
        stays(&signature, &body);
    }
    let (signature, body) = text("int32", "3", "2", between);
    stays(&signature, &body);
    // These constants have more digits than a float.
    let (signature, body) = text("uint64", "0", "9007199254740993", between);
    stays(&signature, &body);
}

#[test]
fn a_slope_below_zero_is_a_leaky_relu() {
    let start = constants(&[("o", "0"), ("a", "0.01")]);
    for (comparison, product) in
        [("GreaterOrEqual", "Mul (a, x)"), ("Greater", "Mul (x, a)"), ("Greater", "Div (x, r)")]
    {
        let more =
            if product.starts_with("Div") { constants(&[("r", "100")]) } else { String::new() };
        let body =
            format!("{start}{more} p = {comparison} (x, o) t = {product} y = Where (p, x, t)");
        becomes(SAME, &body, "y = LeakyRelu <alpha: float = 0.01> (x)");
    }
    let prelu = "(float[B,4] x) => (float[B,4] y) <float[4] slope = {1, 2, 3, 4}>";
    let zero = constants(&[("o", "0")]);
    let body = "p = GreaterOrEqual (x, o) t = Mul (slope, x) y = Where (p, x, t)";
    becomes(prelu, &format!("{zero}{body}"), "y = PRelu (x, slope)");
}

#[test]
fn a_prelu_may_be_spelled_as_a_sum() {
    let zero = constants(&[("o", "0")]);
    let signature =
        |slope: &str| format!("(float[B,2] x) => (float[B,2] y) <float[2] slope = {{{slope}}}>");
    let keras = "r = Max (x, o) n = Neg (x) b = Max (n, o) s = Neg (slope) t = Mul (s, b)
        y = Add (r, t)";
    for body in [
        keras,
        "r = Relu (x) n = Neg (x) b = Relu (n) t = Mul (b, slope) y = Sub (r, t)",
        "r = Max (x, o) b = Min (x, o) t = Mul (b, slope) y = Add (t, r)",
    ] {
        becomes(&signature("1, -2"), &format!("{zero}{body}"), "y = PRelu (x, slope)");
    }
    // Zero times infinity is NaN.
    let (text, report) = run(&format!("g {} {{ {zero}{keras} }}", signature("1, inf")), native());
    assert!(!text.contains("PRelu"), "{text}");
    assert_eq!(report.missed[0].reason, "the slope is not finite");
    // If a sum is requested, it reads the parameter itself.
    let elementary = Forms { default: Form::Elementary, ..native() };
    let (text, _) = run(&format!("g {} {{ {zero}{keras} }}", signature("1, -2")), elementary);
    assert!(text.contains("Mul (slope, ") && !text.contains("Neg"), "{text}");
}

/// Returns `exp(x) - 1` as lowering writes it.
fn expm1(x: &str, y: &str) -> String {
    format!(
        "e{y} = Exp ({x}) s{y} = Sub (e{y}, one) m{y} = Mul (s{y}, {x}) l{y} = Log (e{y})
        d{y} = Div (m{y}, l{y}) a{y} = Abs (s{y}) g{y} = Greater (a{y}, o)
        w{y} = Where (g{y}, d{y}, {x}) b{y} = Abs ({x}) h{y} = GreaterOrEqual (b{y}, half)
        {y} = Where (h{y}, s{y}, w{y}) "
    )
}

#[test]
fn exponentials_below_zero() {
    let start = constants(&[
        ("o", "0"),
        ("one", "1"),
        ("half", "0.5"),
        ("two", "2"),
        ("alpha", "1.6732632"),
        ("gamma", "1.050701"),
    ]);
    let below = format!("p = Greater (x, o) n = Where (p, o, x) {}", expm1("n", "t"));
    becomes(SAME, &format!("{start}{below} y = Where (p, x, t)"), "y = Elu (x)");
    becomes(
        SAME,
        &format!("{start}{below} u = Mul (two, t) y = Where (p, x, u)"),
        "y = Elu <alpha: float = 2> (x)",
    );
    becomes(
        SAME,
        &format!("{start}{below} u = Mul (alpha, t) v = Where (p, x, u) y = Mul (gamma, v)"),
        "y = Selu (x)",
    );
    let celu = format!(
        "r = Max (x, o) n = Min (x, o) q = Div (n, two) {} u = Mul (two, t) y = Add (r, u)",
        expm1("q", "t")
    );
    becomes(SAME, &format!("{start}{celu}"), "y = Celu <alpha: float = 2> (x)");
}

#[test]
fn gelus() {
    let start = constants(&[
        ("one", "1"),
        ("half", "0.5"),
        ("c", "0.044715"),
        ("k", "0.7978846"),
        ("r", "0.70710677"),
        ("q", "1.4142135"),
    ]);
    let tanh = "s = Mul (x, x) t = Mul (x, s) u = Mul (c, t) v = Add (x, u) w = Mul (k, v)
        z = Tanh (w) i = Add (one, z)";
    for end in [
        "h = Mul (half, i) y = Mul (x, h)",
        "h = Mul (x, half) y = Mul (h, i)",
        "h = Mul (i, x) y = Mul (half, h)",
    ] {
        let body = format!("{start}{tanh} {end}");
        becomes(SAME, &body, "y = Gelu <approximate: string = \"tanh\"> (x)");
    }
    for body in [
        "h = Mul (half, x) n = Neg (x) t = Mul (n, r) e = Erf (t) i = Sub (one, e) y = Mul (h, i)",
        "t = Div (x, q) e = Erf (t) i = Add (e, one) h = Mul (x, i) y = Mul (h, half)",
        "t = Mul (r, x) e = Erf (t) i = Add (e, one) h = Mul (half, i) y = Mul (x, h)",
    ] {
        becomes(SAME, &format!("{start}{body}"), "y = Gelu (x)");
    }
}

#[test]
fn hard_activations() {
    let start = constants(&[("o", "0"), ("three", "3"), ("six", "6")]);
    let hard = "a = Add (x, three) b = Max (a, o) c = Min (b, six)";
    becomes(
        SAME,
        &format!("{start}{hard} y = Div (c, six)"),
        "y = HardSigmoid <alpha: float = 0.16666667, beta: float = 0.5> (x)",
    );
    becomes(SAME, &format!("{start}{hard} d = Div (c, six) y = Mul (x, d)"), "y = HardSwish (x)");
    becomes(SAME, &format!("{start}{hard} d = Mul (c, x) y = Div (d, six)"), "y = HardSwish (x)");
}

/// `log(1 + exp(x))` as `jax.nn.softplus` writes it.
const SOFTPLUS: &str = "r = Max (x, o) q = Equal (x, x) nq = Not (q) p = Add (x, o)
    a = Abs (x) m = Neg (a) u = Exp (m) w = Add (u, one) l = Log (w) t = Sub (w, one)
    d = Div (u, t) c = Mul (l, d) b = Abs (t) g = Greater (b, o) v = Where (g, c, u)
    e = Abs (u) h = GreaterOrEqual (e, half) k = Where (h, l, v) s = Add (r, k)";

#[test]
fn softplus_and_operators_built_on_it() {
    let start = constants(&[("o", "0"), ("one", "1"), ("half", "0.5")]) + SOFTPLUS;
    becomes(SAME, &format!("{start} y = Where (nq, p, s)"), "y = Softplus (x)");
    let mish = format!("{start} z = Where (nq, p, s) f = Tanh (z) y = Mul (x, f)");
    becomes(SAME, &mish, "y = Mish (x)");
    // If neither operator is requested, the spelling becomes shorter.
    let elementary = Forms { default: Form::Elementary, ..native() };
    let (text, _) = run(&format!("g {SAME} {{ {mish} }}"), elementary.clone());
    assert!(!text.contains("Where") && text.contains("Tanh"), "{text}");
    // The shorter spelling is still recognised.
    let named = [("Mish".to_owned(), Form::Native)].into();
    let (text, _) = run(&format!("g {SAME} {{ {mish} }}"), Forms { named, ..elementary });
    assert!(text.contains("y = Mish (x)"), "{text}");
}

#[test]
fn a_sum_that_is_divided_is_a_mean() {
    let reduce = |keep: &str| {
        format!("a = Constant <value_ints = [-1]> () s = ReduceSum <keepdims = {keep}> (x, a)")
    };
    let four = constants(&[("n", "4")]);
    let mean = |keep: &str| {
        format!("a = Constant <value_ints = [1]> () y = ReduceMean <keepdims: int = {keep}> (x, a)")
    };
    let kept = "(float[B,4] x) => (float[B,1] y)";
    becomes(kept, &format!("{four}{} y = Div (s, n)", reduce("1")), &mean("1"));
    let gone = "(float[B,4] x) => (float[B] y)";
    becomes(gone, &format!("{four}{} y = Div (s, n)", reduce("0")), &mean("0"));
    let quarter = constants(&[("n", "0.25")]);
    becomes(gone, &format!("{quarter}{} y = Mul (n, s)", reduce("0")), &mean("0"));
    stays(gone, &format!("{}{} y = Div (s, n)", constants(&[("n", "5")]), reduce("0")));
    // The size is only known at run time.
    let body = "b = Constant <value_ints = [0]> () s = ReduceSum <keepdims = 0> (x, b)
        d = Shape <start = 0, end = 1> (x) q = Squeeze (d) i = Cast <to = 6> (q)
        n = Cast <to = 1> (i) y = Div (s, n)";
    // The mean of an empty axis is NaN, but zero in the runtime.
    stays("(float[B,4] x) => (float[4] y)", body);
}

#[test]
fn spellings_with_rounded_intermediates_are_unchanged() {
    let kept = |to: &str| {
        constants(&[("n", "4")])
            + &format!(
                "a = Constant <value_ints = [-1]> () s = ReduceSum <keepdims = 0> (x, a)
                r = Cast <to = 16> (s) w = Cast <to = 1> (r) {to}"
            )
    };
    let report = stays("(float[B,4] x) => (float[B] y)", &kept("y = Div (w, n)"));
    let missed = format!("{:?}", report.missed);
    assert!(missed.contains("rounded to a smaller type"), "{missed}");
    // The result has no more digits than the rounded value.
    let small = constants(&[("z", "0"), ("n", "4")])
        + "a = Constant <value_ints = [-1]> () w = Cast <to = 1> (x)
        s = ReduceSum <keepdims = 0> (w, a) m = Cast <to = 16> (n) r = Cast <to = 16> (s)
        y = Div (r, m)";
    let signature = "(bfloat16[B,4] x) => (bfloat16[B] y)";
    let (text, _) = run(&format!("g {signature} {{ {small} }}"), native());
    assert!(text.contains("ReduceMean"), "{text}");
}

const NORM: &str = "(float[B,T,4] x) => (float[B,T,4] y) \
    <float[4] scale = {1, 2, 3, 4}, float[4] bias = {1, 2, 3, 4}>";

fn norm_constants() -> String {
    constants(&[("o", "0"), ("n", "4"), ("eps", "1e-6"), ("one", "1")])
        + "a = Constant <value_ints = [2]> () k = Constant <value_ints = [0, 0, 1]> () "
}

/// A layer norm as Flax writes it: means are restored by a reshape, and the variance is computed
/// from squares.
const FLAX: &str = "q = Mul (x, x) s = ReduceSum <keepdims = 0> (x, a) m = Div (s, n)
    t = ReduceSum <keepdims = 0> (q, a) u = Div (t, n) mm = Mul (m, m) d = Sub (u, mm)
    v = Max (o, d) mk = Reshape (m, k) vk = Reshape (v, k) c = Sub (x, mk) e = Add (vk, eps)
    r = Sqrt (e) i = Reciprocal (r) ";

/// A layer norm that follows the definition.
const PLAIN: &str = "s = ReduceSum <keepdims = 1> (x, a) m = Div (s, n) c = Sub (x, m)
    q = Mul (c, c) t = ReduceSum <keepdims = 1> (q, a) v = Div (t, n) e = Add (v, eps)
    r = Sqrt (e) ";

#[test]
fn layer_norms() {
    let whole = "y = LayerNormalization <axis: int = -1, epsilon: float = 1e-6> (x, scale, bias)";
    for body in [
        format!("{FLAX} g = Mul (i, scale) w = Mul (c, g) y = Add (w, bias)"),
        format!("{PLAIN} i = Reciprocal (r) g = Mul (scale, i) w = Mul (g, c) y = Add (w, bias)"),
        format!("{PLAIN} i = Div (one, r) w = Mul (c, i) g = Mul (scale, w) y = Add (bias, g)"),
        format!("{PLAIN} w = Div (c, r) g = Mul (w, scale) y = Add (g, bias)"),
        format!(
            "{PLAIN} i = Reciprocal (r) g = Mul (i, scale) f = Neg (m) h = Mul (f, g)
            l = Add (h, bias) z = Mul (x, g) y = Add (z, l)"
        ),
    ] {
        becomes(NORM, &(norm_constants() + &body), whole);
    }
    let plain = norm_constants() + PLAIN + " y = Div (c, r)";
    becomes(
        "(float[B,T,4] x) => (float[B,T,4] y)",
        &plain,
        "one = Constant <value_floats: floats = [1, 1, 1, 1]> ()
        y = LayerNormalization <axis: int = -1, epsilon: float = 1e-6> (x, one)",
    );
}

#[test]
fn a_number_is_the_bias_of_each_element() {
    let constants = norm_constants();
    becomes_alike(
        NORM,
        &(constants.clone() + PLAIN + " i = Div (c, r) w = Mul (i, scale) y = Add (w, o)"),
        &(constants
            + "b = Constant <value_floats: floats = [0, 0, 0, 0]> ()
           y = LayerNormalization <axis: int = -1, epsilon: float = 1e-6> (x, scale, b)"),
    );
}

#[test]
fn a_scale_of_each_example_is_one_of_the_norm() {
    let text = |shape: &str, of_bias: &str| {
        format!(
            "g (float[B,T,4] x, float[{shape},4] s, float[{of_bias}4] b) => (float[B,T,4] y) {{
                one = Constant <value_floats: floats = [1, 1, 1, 1]> ()
                n = LayerNormalization <axis = -1, epsilon = 1e-5> (x, one) m = Mul (n, s) y = Add (m, b) }}"
        )
    };
    let is_fast = |target: &Target| {
        target.measured.is_better("LayerNormalization", "scales of rows", DType::F32, false)
    };
    let fast = Target::all().find(is_fast).unwrap();
    let ops = |text: &str, target: Target| {
        let (text, _) = run(text, Forms { target, ..Forms::auto(23) });
        ["LayerNormalization", "Mul (", "Add ("].map(|op| text.matches(op).count())
    };
    for shape in ["B,1", "1,T", "B,T"] {
        assert_eq!(ops(&text(shape, &format!("{shape},")), fast), [1, 0, 0], "{shape}");
        assert_eq!(
            ops(&text(shape, &format!("{shape},")), Target::default()),
            [1, 1, 1],
            "{shape}"
        );
    }
    // The kernel requires one shape.
    assert_eq!(ops(&text("B,1", ""), fast), [1, 0, 1]);
    assert_eq!(ops(&text("B,1", "B,T,"), fast), [1, 0, 1]);
}

#[test]
fn norms_that_share_their_statistics_are_recognised() {
    let body = norm_constants() + PLAIN
        + " g = Constant <value_floats: floats = [1, 2, 3, 4]> () h = Constant <value_floats: floats = [4, 3, 2, 1]> ()
        f = Reciprocal (r) fg = Mul (f, g) fh = Mul (f, h) p = Mul (c, fg) w = Mul (c, fh) y = Add (p, w)";
    let (text, report) =
        run(&format!("g (float[B,T,4] x) => (float[B,T,4] y) {{ {body} }}"), native());
    assert_eq!(text.matches("LayerNormalization").count(), 2, "{text}");
    assert!(report.missed.is_empty());
    // Another node reads the statistics, so they must be preserved.
    let body = body.replace("y = Add (p, w)", "z = Add (p, w) y = Mul (z, r)");
    let (text, _) = run(&format!("g (float[B,T,4] x) => (float[B,T,4] y) {{ {body} }}"), native());
    assert!(!text.contains("LayerNormalization"), "{text}");
}

#[test]
fn near_misses_are_not_layer_norms() {
    // The mean is over another axis of the same length.
    let squares = "(float[4,4] x) => (float[4,4] y)";
    let body = constants(&[("n", "4"), ("eps", "1e-6")])
        + "a = Constant <value_ints = [1]> () s = ReduceSum <keepdims = 0> (x, a) m = Div (s, n)
        c = Sub (x, m) q = Mul (c, c) t = ReduceSum <keepdims = 1> (q, a) v = Div (t, n)
        e = Add (v, eps) r = Sqrt (e) y = Div (c, r)";
    let (text, _) = run(&format!("g {squares} {{ {body} }}"), native());
    assert!(!text.contains("LayerNormalization"), "{text}");
    // The variance has another consumer.
    let two = "(float[B,T,4] x) => (float[B,T,4] y, float[B,T,1] v)";
    let body = norm_constants() + PLAIN + " y = Div (c, r)";
    let (text, report) = run(&format!("g {two} {{ {body} }}"), native());
    assert!(!text.contains("LayerNormalization"), "{text}");
    let missed: Vec<_> = report.missed.iter().map(|m| (m.op, m.reason.as_str())).collect();
    assert_eq!(missed, [("LayerNormalization", "the variance on the way is used elsewhere")]);
    // The first axis is not among the last axes.
    let first = "(float[4,T] x) => (float[4,T] y)";
    let body = constants(&[("n", "4"), ("eps", "1e-6")])
        + "a = Constant <value_ints = [0]> ()"
        + PLAIN
        + " y = Div (c, r)";
    let (text, report) = run(&format!("g {first} {{ {body} }}"), native());
    assert!(!text.contains("LayerNormalization"), "{text}");
    assert_eq!(report.missed[0].reason, "the axes are not the last ones");
}

#[test]
fn a_scale_per_row_remains_a_separate_node() {
    let adaptive = "(float[B,T,4] x, float[B,1,4] z) => (float[B,T,4] y)";
    let body = norm_constants() + PLAIN + " w = Div (c, r) y = Mul (w, z)";
    becomes(
        adaptive,
        &body,
        "one = Constant <value_floats: floats = [1, 1, 1, 1]> ()
        w = LayerNormalization <axis: int = -1, epsilon: float = 1e-6> (x, one)
        y = Mul (w, z)",
    );
}

#[test]
fn rms_norms() {
    let whole = "y = RMSNormalization <axis: int = -1, epsilon: float = 1e-6> (x, scale)";
    let size = "q = Mul (x, x) s = ReduceSum <keepdims = 1> (q, a) m = Div (s, n)
        e = Add (m, eps) r = Sqrt (e)";
    let norm = "(float[B,T,4] x) => (float[B,T,4] y) <float[4] scale = {1, 2, 3, 4}>";
    for end in [
        "i = Reciprocal (r) w = Mul (x, i) y = Mul (w, scale)",
        "i = Reciprocal (r) w = Mul (scale, i) y = Mul (x, w)",
        "i = Reciprocal (r) w = Mul (x, scale) y = Mul (w, i)",
        "w = Div (x, r) y = Mul (scale, w)",
    ] {
        becomes(norm, &format!("{} {size} {end}", norm_constants()), whole);
    }
}

#[test]
fn several_axes_are_normalised() {
    let signature = "(float[B,2,3] x) => (float[B,2,3] y) <float[2,3] g = {1, 2, 3, 4, 5, 6}>";
    let body = constants(&[("n", "6"), ("eps", "1e-5")])
        + "a = Constant <value_ints = [1, 2]> ()"
        + PLAIN
        + " w = Div (c, r) y = Mul (w, g)";
    becomes(
        signature,
        &body,
        "y = LayerNormalization <axis: int = -2, epsilon: float = 1e-5> (x, g)",
    );
}

#[test]
fn instance_norms() {
    let signature = "(float[B,2,3,4] x) => (float[B,2,3,4] y) \
        <float[4] scale = {1, 2, 3, 4}, float[4] bias = {1, 2, 3, 4}>";
    let start = constants(&[("o", "0"), ("n", "6"), ("eps", "1e-6")])
        + "a = Constant <value_ints = [1, 2]> () k = Constant <value_ints = [0, 1, 1, 4]> () ";
    let body = format!("{start}{FLAX} g = Mul (i, scale) w = Mul (c, g) y = Add (w, bias)");
    let norm = |operands: &str| {
        format!(
            "t = Transpose <perm: ints = [0, 3, 1, 2]> (x)
            u = InstanceNormalization <epsilon: float = 1e-6> (t, {operands})
            y = Transpose <perm: ints = [0, 2, 3, 1]> (u)"
        )
    };
    becomes_alike(signature, &body, &norm("scale, bias"));
    let plain = format!("{start}{PLAIN} w = Div (c, r) g = Mul (w, scale) y = Add (bias, g)");
    becomes_alike(signature, &plain, &norm("scale, bias"));
}

const GROUPS_SIGNATURE: &str = "(float[B,2,3,4] x) => (float[B,2,3,4] y) \
    <float[4] scale = {1, 2, 3, 4}, float[4] bias = {1, 2, 3, 4}>";

/// Returns a group norm as Flax writes it, with two groups of two channels.
fn flax_group_norm() -> String {
    constants(&[("o", "0"), ("n", "12"), ("eps", "1e-6")])
        + "a = Constant <value_ints = [1, 2, 4]> () gs = Constant <value_ints = [0, 2, 3, 2, 2]> ()
        p = Reshape (x, gs) q = Mul (p, p) s = ReduceSum <keepdims = 0> (p, a) m = Div (s, n)
        t = ReduceSum <keepdims = 0> (q, a) u = Div (t, n) mm = Mul (m, m) d = Sub (u, mm)
        v = Max (o, d) one = Constant <value_ints = [0, 2, 1]> () m1 = Reshape (m, one)
        b = Shape <start = 0, end = 1> (x) f = Constant <value_ints = [2, 2]> ()
        e = Concat <axis = 0> (b, f) m2 = Expand (m1, e) v1 = Reshape (v, one)
        v2 = Expand (v1, e) k = Constant <value_ints = [0, 1, 1, 4]> () m3 = Reshape (m2, k)
        v3 = Reshape (v2, k) c = Sub (x, m3) z = Add (v3, eps) r = Sqrt (z) i = Reciprocal (r)
        g = Mul (i, scale) w = Mul (c, g) y = Add (w, bias)"
}

#[test]
fn group_norms() {
    let (signature, body) = (GROUPS_SIGNATURE, flax_group_norm());
    becomes_alike(
        signature,
        &body,
        "t = Transpose <perm: ints = [0, 3, 1, 2]> (x)
        u = GroupNormalization <epsilon: float = 1e-6, num_groups: int = 2> (t, scale, bias)
        y = Transpose <perm: ints = [0, 2, 3, 1]> (u)",
    );
    let named = [("InstanceNormalization".to_owned(), Form::Native)].into();
    let forms = Forms { default: Form::Elementary, named, ..native() };
    let (text, _) = run(&format!("g {signature} {{ {body} }}"), forms);
    assert!(text.contains("InstanceNormalization <epsilon: float = 1e-6>"), "{text}");
    assert!(!text.contains("ReduceSum"), "{text}");
    // The variance of large numbers cancels in `GroupNormalization`, even if the user requests it.
    let forms = Forms { default: Form::Native, ..native() };
    let (text, _) = run(&format!("g {signature} {{ {body} }}"), forms);
    assert!(text.contains("InstanceNormalization <epsilon: float = 1e-6>"), "{text}");
    assert!(!text.contains("GroupNormalization"), "{text}");
}

/// Returns a group norm as Keras writes it, with two groups of `each` channels.
fn keras_group_norm(each: usize, end: &str) -> String {
    let count = 6 * each;
    constants(&[("n", &count.to_string()), ("eps", "1e-6")])
        + &format!(
            "a = Constant <value_ints = [1, 2, 4]> ()
            gs = Constant <value_ints = [0, 2, 3, 2, {each}]> () p = Reshape (x, gs)
            s = ReduceSum <keepdims = 1> (p, a) m = Div (s, n) c = Sub (p, m) q = Mul (c, c)
            t = ReduceSum <keepdims = 1> (q, a) v = Div (t, n) e = Add (v, eps) r = Sqrt (e)
            i = Reciprocal (r) f = Neg (m) {end}
            os = Constant <value_ints = [0, 2, 3, {}]> () y = Reshape (w, os)",
            2 * each
        )
}

const SCALE_AND_BIAS: &str = "g = Mul (i, scale) h = Mul (f, g) l = Add (h, bias)
    z = Mul (p, g) w = Add (z, l)";

#[test]
fn group_norms_that_subtract_the_mean_last() {
    let signature = "(float[B,2,3,4] x) => (float[B,2,3,4] y) \
        <float[1,1,1,2,2] scale = {1, 2, 3, 4}, float[1,1,1,2,2] bias = {1, 2, 3, 4}>";
    let scale = "g = Mul (i, scale) h = Mul (f, g) z = Mul (p, g) w = Add (z, h)";
    let bias = "h = Mul (f, i) l = Add (h, bias) z = Mul (p, i) w = Add (z, l)";
    let named = [("InstanceNormalization".to_owned(), Form::Native)].into();
    let forms = Forms { default: Form::Elementary, named, ..native() };
    for (end, outside) in [(SCALE_AND_BIAS, "Mul Add"), (scale, "Mul"), (bias, "Add")] {
        let text = format!("g {signature} {{ {} }}", keras_group_norm(2, end));
        let (after, _) = run(&text, native());
        let norm = "GroupNormalization <epsilon: float = 1e-6, num_groups: int = 2>";
        assert!(after.contains(norm) && !after.contains("Reduce"), "{after}");
        let (after, _) = run(&text, forms.clone());
        let (_, rest) = after.split_once("InstanceNormalization <epsilon: float = 1e-6>").unwrap();
        assert!(!after.contains("Reduce"), "{after}");
        let ops = rest.split(" = ").filter_map(|node| node.split_once(" (")).map(|(op, _)| op);
        let ops: Vec<_> = ops.filter(|op| ["Mul", "Add"].contains(op)).collect();
        assert_eq!(ops.join(" "), outside, "{after}");
    }
    // A group of one channel has its own scale.
    let single = "(float[B,2,3,2] x) => (float[B,2,3,2] y) \
        <float[1,1,1,2,1] scale = {1, 2}, float[1,1,1,2,1] bias = {1, 2}>";
    let text = format!("g {single} {{ {} }}", keras_group_norm(1, SCALE_AND_BIAS));
    let (after, _) = run(&text, forms);
    assert!(after.contains("InstanceNormalization") && !after.contains("Mul"), "{after}");
}

#[test]
fn a_single_group_covers_the_whole_example() {
    let statistics = constants(&[("n", "24"), ("eps", "1e-6")])
        + "a = Constant <value_ints = [1, 2, 3]> () s = ReduceSum <keepdims = 0> (x, a)
        m = Div (s, n) k = Constant <value_ints = [0, 1, 1, 1]> () mk = Reshape (m, k)
        c = Sub (x, mk) q = Mul (c, c) t = ReduceSum <keepdims = 0> (q, a) v = Div (t, n)
        e = Add (v, eps) r = Sqrt (e) i = Reciprocal (r) f = Neg (m)
        two = Constant <value_ints = [0, 1]> () ik = Reshape (i, two) fk = Reshape (f, two)
        g = Mul (ik, scale) h = Mul (fk, g) l = Add (h, bias) ";
    // The channels are last, then second.
    for (sizes, back) in [("2,3,4", "0, 1, 1, 4"), ("4,2,3", "0, 4, 1, 1")] {
        let signature = format!(
            "(float[B,{sizes}] x) => (float[B,{sizes}] y) \
            <float[4] scale = {{1, 2, 3, 4}}, float[4] bias = {{1, 2, 3, 4}}>"
        );
        let body = format!(
            "{statistics} w = Constant <value_ints = [{back}]> () gw = Reshape (g, w)
            lw = Reshape (l, w) z = Mul (x, gw) y = Add (z, lw)"
        );
        let (text, report) = run(&format!("g {signature} {{ {body} }}"), native());
        assert!(text.contains("InstanceNormalization") && !text.contains("Reduce"), "{text}");
        assert!(report.missed.is_empty(), "{:?}", report.missed);
    }
}

#[test]
fn softmaxes() {
    let axes = "a = Constant <value_ints = [1]> ()";
    let start = format!("{axes} m = ReduceMax <keepdims = 1> (x, a) d = Sub (x, m) e = Exp (d)");
    let sum = "s = ReduceSum <keepdims = 1> (e, a)";
    let softmax = "y = Softmax <axis: int = -1> (x)";
    becomes(SAME, &format!("{start} {sum} y = Div (e, s)"), softmax);
    becomes(SAME, &format!("{start} {sum} i = Reciprocal (s) y = Mul (i, e)"), softmax);
    let log = format!("{start} {sum} l = Log (s) y = Sub (d, l)");
    becomes(SAME, &log, "y = LogSoftmax <axis: int = -1> (x)");
    // Without subtracting the maximum, large numbers overflow, so the result differs.
    stays(SAME, &format!("{axes} e = Exp (x) {sum} y = Div (e, s)"));
    let square = "(float[4,4] x) => (float[4,4] y)";
    let other = "b = Constant <value_ints = [0]> () s = ReduceSum <keepdims = 1> (e, b)";
    stays(square, &format!("{start} {other} y = Div (e, s)"));
}

#[test]
fn sums_in_a_wider_type() {
    let body = "a = Constant <value_ints = [1]> () m = ReduceMax <keepdims = 1> (x, a)
        d = Sub (x, m) e = Exp (d) w = Cast <to = 1> (e) v = ReduceSum <keepdims = 1> (w, a)
        s = Cast <to = 16> (v) y = Div (e, s)";
    let signature = "(bfloat16[B,4] x) => (bfloat16[B,4] y)";
    becomes(signature, body, "y = Softmax <axis: int = -1> (x)");
}

#[test]
fn masked_softmaxes() {
    let signature = "(float[B,4] x, bool[B,4] p, bool[B,4] q) => (float[B,4] y)";
    let body = |second: &str| {
        constants(&[("least", "-inf"), ("o", "0")])
            + "a = Constant <value_ints = [1]> () w = Where (p, x, least)
            m = ReduceMax <keepdims = 1> (w, a) d = Sub (w, m) e = Exp (d) "
            + &format!(
                "v = Where ({second}, e, o) s = ReduceSum <keepdims = 1> (v, a)
            z = Div (e, s) y = Where ({second}, z, o)"
            )
    };
    becomes(
        signature,
        &body("p"),
        &(constants(&[("least", "-inf"), ("o", "0")])
            + "w = Where (p, x, least) z = Softmax <axis: int = -1> (w) y = Where (p, z, o)"),
    );
    stays(signature, &body("q"));
}

#[test]
fn the_user_decides() {
    let text = "g (float[B,4] x) => (float[B,4] y) {
        o = Constant <value_float: float = 0> () y = Max (x, o)
    }";
    let elementary = Forms { default: Form::Elementary, ..native() };
    assert!(run(text, elementary.clone()).0.contains("Max"));
    let named = [("Relu".to_owned(), Form::Native)].into();
    assert!(run(text, Forms { named, ..elementary }).0.contains("Relu"));
    // Operators that the opset lacks are not used.
    let gelu = "g (float[B,4] x) => (float[B,4] y) {
        h = Constant <value_float: float = 0.5> () r = Constant <value_float: float = 0.70710677> ()
        one = Constant <value_float: float = 1> ()
        t = Mul (x, r) e = Erf (t) i = Add (e, one) s = Mul (x, h) y = Mul (s, i)
    }";
    assert!(run(gelu, Forms { opset: 19, ..native() }).0.contains("Erf"));
    assert!(run(gelu, Forms { opset: 20, ..native() }).0.contains("Gelu"));
}

#[test]
fn operators_without_measurements_are_requested() {
    let swish = "g (float[B,4] x) => (float[B,4] y) { s = Sigmoid (x) y = Mul (s, x) }";
    let named = [("Swish".to_owned(), Form::Native)];
    let forms = |opset, target| {
        let named = named.clone().into();
        Forms { named, target, ..Forms::auto(opset) }
    };
    let missed = |forms| run(swish, forms).1.missed.pop().unwrap().reason;
    assert!(run(swish, forms(24, Target::any())).0.contains("Swish"));
    assert_eq!(missed(forms(23, Target::any())), "it needs opset 24");
    assert!(missed(forms(24, Target::default())).ends_with("has no kernel for it in f32"));
    let auto = Forms { target: Target::any(), ..Forms::auto(24) };
    assert!(run(swish, auto.clone()).0.contains("Sigmoid"));
    assert!(run(swish, Forms { default: Form::Native, ..auto }).0.contains("Swish"));
}

#[test]
fn types_without_a_kernel_are_unchanged() {
    let text = |ty: &str, code: &str| {
        format!(
            "g ({ty}[B,4] x) => ({ty}[B,4] y) {{
                o = Constant <value = {ty} {{0.0}}> () a = Constant <value = {ty} {{0.25}}> ()
                p = Greater (x, o) t = Mul (x, a) y = Where (p, x, t)
            }} {code}"
        )
    };
    for (ty, recognised) in
        [("float", true), ("float16", true), ("bfloat16", true), ("double", false)]
    {
        let (after, _) = run(&text(ty, ""), native());
        assert_eq!(after.contains("LeakyRelu"), recognised, "{after}");
    }
}

#[test]
fn operators_are_recognised_inside_bodies_and_functions() {
    let text = r#"g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <
            then_branch = then_branch () => (float[2] a) { a = local.f (x) },
            else_branch = else_branch () => (float[2] b) {
                o = Constant <value_float: float = 0> () b = Max (x, o)
            }
        >
    }
    <domain: "local"> f (float[2] p) => (float[2] q) {
        o = Constant <value_float: float = 0> ()
        q = Max (p, o)
    }"#;
    let (after, _) = run(text, native());
    assert_eq!(after.matches("Relu").count(), 2, "{after}");
}

#[test]
fn groups_of_channels_need_a_scale_for_each_channel() {
    let signature = "(float[B,2,3,4] x) => (float[B,2,3,4] y) \
        <float[1,1,1,2,2] scale = {1, 2, 3, 4}, float[1,1,1,2,2] bias = {1, 2, 3, 4}>";
    let keras = format!("g {signature} {{ {} }}", keras_group_norm(2, SCALE_AND_BIAS));
    let flax = format!("g {GROUPS_SIGNATURE} {{ {} }}", flax_group_norm());
    for text in [keras, flax] {
        let found =
            |opset| run(&text, Forms { opset, ..native() }).0.contains("GroupNormalization");
        assert_eq!([20, 21].map(found), [false, true], "{text}");
    }
}

#[test]
fn other_groups_are_not_those_of_channels() {
    let group = |shape: &str, scale: &str, changes: &[(&str, &str)]| {
        let signature = format!(
            "(float[{shape}] x) => (float[{shape}] y) \
            <float[{scale}] scale = {{1, 2, 3, 4}}, float[{scale}] bias = {{1, 2, 3, 4}}>"
        );
        let mut body = keras_group_norm(2, SCALE_AND_BIAS);
        for (old, new) in changes {
            assert!(body.contains(old), "{old} in {body}");
            body = body.replace(old, new);
        }
        let (text, _) = run(&format!("g {signature} {{ {body} }}"), native());
        text.contains("GroupNormalization")
    };
    let channels = "1,1,1,2,2";
    assert!(group("B,2,3,4", channels, &[]));
    // Statistics of the batch, of each position or of each element of a group.
    assert!(!group("5,2,3,4", channels, &[("[1, 2, 4]", "[0, 1, 2, 4]"), ("= 12>", "= 60>")]));
    assert!(!group("B,2,3,4", channels, &[("[1, 2, 4]", "[1, 4]")]));
    assert!(!group("B,2,3,4", channels, &[("[1, 2, 4]", "[1, 2, 3]")]));
    let second = [
        ("[0, 2, 3, 2, 2]", "[0, 2, 2, 3]"),
        ("[1, 2, 4]", "[2, 3]"),
        ("= 12>", "= 6>"),
        ("[0, 2, 3, 4]", "[0, 4, 3]"),
    ];
    assert!(group("B,4,3", "1,2,2,1", &second));
    // Rows are split, or several axes.
    let whole = ("[0, 2, 3, 4]", "[0, 4, 3, 2]");
    assert!(!group("B,4,3,2", channels, &[whole]));
    let wide = ("[0, 2, 3, 4]", "[0, 3, 2, 4]");
    assert!(!group("B,3,2,4", channels, &[wide]));
}

#[test]
fn a_scale_of_ones_is_small() {
    let norm = |size: usize| {
        let n = size.to_string();
        let body = constants(&[("n", &n), ("eps", "1e-6")])
            + "a = Constant <value_ints = [1]> ()"
            + PLAIN
            + " y = Div (c, r)";
        let (text, report) =
            run(&format!("g (float[B,{size}] x) => (float[B,{size}] y) {{ {body} }}"), native());
        (text.contains("LayerNormalization"), report.missed.into_iter().map(|m| m.reason).collect())
    };
    assert_eq!(norm(1 << 14), (true, Vec::new()));
    assert_eq!(norm((1 << 14) + 1), (false, vec!["a scale of ones would be large".to_owned()]));
}

#[test]
fn a_number_is_not_the_scale_of_each_element() {
    let start = norm_constants();
    becomes(
        "(float[B,T,4] x) => (float[B,T,4] y)",
        &(start.clone() + PLAIN + " w = Div (c, r) y = Mul (w, n)"),
        &(constants(&[("n", "4")])
            + "one = Constant <value_floats: floats = [1, 1, 1, 1]> ()
            w = LayerNormalization <axis: int = -1, epsilon: float = 1e-6> (x, one) y = Mul (w, n)"),
    );
}

#[test]
fn scales_may_add_unit_axes_in_front() {
    let norm = |front: usize| {
        let signature =
            format!("(float[T,4] x, float[{front},1,4] scale) => (float[{front},T,4] y)");
        let body = constants(&[("n", "4"), ("eps", "1e-6")])
            + "a = Constant <value_ints = [1]> ()"
            + PLAIN
            + " w = Div (c, r) y = Mul (w, scale)";
        run(&format!("g {signature} {{ {body} }}"), native()).0
    };
    let (added, repeated) = (norm(1), norm(2));
    assert!(added.contains("LayerNormalization") && !added.contains("Mul"), "{added}");
    assert!(repeated.contains("LayerNormalization") && repeated.contains("Mul"), "{repeated}");
}

#[test]
fn sequences_have_instance_norms() {
    let body = constants(&[("o", "0"), ("n", "3"), ("eps", "1e-6")])
        + "a = Constant <value_ints = [1]> () k = Constant <value_ints = [0, 1, 4]> () "
        + PLAIN
        + " w = Div (c, r) g = Mul (w, scale) y = Add (bias, g)";
    let signature = "(float[B,3,4] x) => (float[B,3,4] y) \
        <float[4] scale = {1, 2, 3, 4}, float[4] bias = {1, 2, 3, 4}>";
    becomes_alike(
        signature,
        &body,
        "t = Transpose <perm: ints = [0, 2, 1]> (x)
        u = InstanceNormalization <epsilon: float = 1e-6> (t, scale, bias)
        y = Transpose <perm: ints = [0, 2, 1]> (u)",
    );
    // There is nothing to normalise beside the channels.
    let matrix = "(float[B,4] x) => (float[B,4] y)";
    let body = constants(&[("n", "4"), ("eps", "1e-6")])
        + "a = Constant <value_ints = [0]> ()"
        + PLAIN
        + " y = Div (c, r)";
    let (text, _) = run(&format!("g {matrix} {{ {body} }}"), native());
    assert!(!text.contains("Normalization"), "{text}");
}

#[test]
fn numbers_are_compared_as_they_were_rounded() {
    let gelu = |ty: &str, root: &str, one: &str| {
        let text = format!(
            "g ({ty}[B,4] x) => ({ty}[B,4] y) {{
                h = Constant <value = {ty} {{0.5}}> () r = Constant <value = {ty} {{{root}}}> ()
                one = Constant <value = {ty} {{{one}}}> ()
                t = Mul (x, r) e = Erf (t) i = Add (e, one) s = Mul (x, h) y = Mul (s, i) }}"
        );
        run(&text, native()).0.contains("Gelu")
    };
    // The root of a half is rounded, and one is not.
    assert!(gelu("float", "0.70710677", "1.0") && gelu("float", "0.7071067", "1.0"));
    assert!(!gelu("float", "0.70711", "1.0") && !gelu("float", "0.70710677", "1.0000001"));
    assert!(gelu("float16", "0.7070", "1.0") && !gelu("float16", "0.70", "1.0"));
}

#[test]
fn nodes_of_other_blocks_are_not_a_part_of_a_match() {
    let text = |inner: &str, outer: &str| {
        format!(
            "g (bool c, float[B,4] x) => (float[B,4] y) {{
                zero = Constant <value_float: float = 0> () {outer}
                y = If (c) <
                    then_branch = then_branch () => (float[B,4] a) {{ {inner} }},
                    else_branch = else_branch () => (float[B,4] b) {{ b = Identity (x) }} > }}"
        )
    };
    let is_found = |text: &str| run(text, native()).0.contains("LeakyRelu");
    let parts =
        "p = Greater (x, zero) half = Constant <value_float: float = 0.5> () t = Mul (x, half)";
    assert!(is_found(&text(&format!("{parts} a = Where (p, x, t)"), "")));
    assert!(!is_found(&text("a = Where (p, x, t)", parts)));
}

#[test]
fn a_maximum_with_minus_zero_is_not_a_relu() {
    stays(SAME, "o = Constant <value_float: float = -0.0> () y = Max (x, o)");
}

#[test]
fn constants_may_be_broadcast() {
    for (zero, sizes) in [("float {0}", "[1, 4]"), ("float {0}", "[4]"), ("float[1] {0}", "[4]")] {
        let body = format!(
            "o = Constant <value = {zero}> () s = Constant <value_ints = {sizes}> ()
            w = Expand (o, s) y = Max (x, w)"
        );
        becomes(SAME, &body, "y = Relu (x)");
    }
}

/// Frameworks sum small floats in float32, and nothing in float64.
#[test]
fn sums_in_double_precision_are_unchanged() {
    stays(
        SAME,
        "a = Constant <value_ints = [1]> () m = ReduceMax <keepdims = 1> (x, a)
        d = Sub (x, m) e = Exp (d) w = Cast <to = 11> (e) v = ReduceSum <keepdims = 1> (w, a)
        s = Cast <to = 1> (v) y = Div (e, s)",
    );
}

#[test]
fn statistics_of_groups_are_repeated_for_each_channel() {
    let is_group = |text: &str| {
        let (text, _) = run(&format!("g {GROUPS_SIGNATURE} {{ {text} }}"), native());
        text.contains("GroupNormalization")
    };
    let text = flax_group_norm();
    assert!(is_group(&text));
    // The groups alternate between channels.
    assert!(!is_group(&text.replace(
        "one = Constant <value_ints = [0, 2, 1]>",
        "one = Constant <value_ints = [0, 1, 2]>"
    )));
}
