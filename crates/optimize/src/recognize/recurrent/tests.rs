//! Tests of cells in many spellings, and of loops that are no layers.

use super::RULES;
use crate::testing::edited_with;
use crate::{Form, Forms, Options};

/// A layer with the cell `body`, which reads the state `h` and the elements `e` of the sequence.
struct Scan<'a> {
    inputs: &'a str,
    parameters: &'a str,
    before: &'a str,
    attrs: &'a str,
    body: &'a str,
    /// The type of the elements.
    element: &'a str,
    sequence: &'a str,
}

const PARAMETERS: &str =
    "float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2,2] r = {7, 8, 9, 10}, float[2] b = {11, 12}";
const CELL: &str = "i = MatMul (e, w) j = MatMul (h, r) k = Add (i, j) l = Add (k, b) n = Tanh (l) f = Identity (n)";
const SCAN: Scan<'_> = Scan {
    inputs: "float[2,2] s, float[5,2,3] x",
    parameters: PARAMETERS,
    before: "",
    attrs: "",
    body: CELL,
    element: "float[2,3]",
    sequence: "x",
};

impl Scan<'_> {
    fn text(&self) -> String {
        let Self { inputs, parameters, before, attrs, body, element, sequence } = self;
        format!(
            "g ({inputs}) => (float[2,2] u, float[5,2,2] z) <{parameters}> {{ {before}
                u, z = Scan <num_scan_inputs = 1, {attrs} body = body (float[2,2] h, {element} e)
                    => (float[2,2] n, float[2,2] f) {{ {body} }}> (s, {sequence}) }}"
        )
    }

    fn found(&self) -> Result<String, String> {
        layer(&self.text())
    }
}

/// Returns the model, or the reasons why there is no layer.
fn layer(text: &str) -> Result<String, String> {
    let forms = Forms { default: Form::Measured, ..Forms::auto(onnx::schema::NEWEST) };
    let options = Options { forms, report_missed: true, ..Options::default() };
    let run = |edit: &mut crate::Editor<'_>| RULES.as_ref().unwrap().run(edit).unwrap();
    let (after, _, report) = edited_with(&options, text, run);
    let reasons: Vec<_> = report.missed.into_iter().map(|missed| missed.reason).collect();
    if after.contains("Scan") { Err(reasons.join(", ")) } else { Ok(after) }
}

fn with_body(body: &str) -> Scan<'_> {
    Scan { body, ..SCAN }
}

const WEIGHTS: [&str; 2] = ["= {1.0, 3.0, 5.0, 2.0, 4.0, 6.0}", "= {7.0, 9.0, 8.0, 10.0}"];

#[track_caller]
fn has(scan: &Scan<'_>, parts: &[&str]) {
    let text = scan.found().unwrap_or_else(|reason| panic!("{reason}\n{}", scan.text()));
    for part in parts {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[track_caller]
fn stays(scan: &Scan<'_>, reason: &str) {
    let found = scan.found();
    let reasons = found.as_ref().err();
    let fits =
        |found: &String| if reason.is_empty() { found.is_empty() } else { found.contains(reason) };
    assert!(reasons.is_some_and(fits), "{found:?}\n{}", scan.text());
}

#[test]
fn sums_are_read_in_any_spelling() {
    let identities = |count: usize| {
        let next = |i: usize| format!("k{} = Identity (k{i}) ", i + 1);
        let nodes: String = (0..count).map(next).collect();
        CELL.replace("l = Add (k, b)", &format!("k0 = Add (k, b) {nodes} l = Identity (k{count})"))
    };
    let sum = "k = Add (i, j) l = Add (k, b)";
    for body in [
        CELL.to_owned(),
        CELL.replace("Add (k, b)", "Add (b, k)").replace("Add (i, j)", "Add (j, i)"),
        CELL.replace(sum, "k = Add (i, b) l = Add (j, k)"),
        CELL.replace("i = MatMul (e, w)", "i = Gemm (e, w, b)").replace(sum, "l = Add (i, j)"),
        CELL.replace("i = MatMul (e, w)", "").replace(sum, "i = Gemm (e, w, j) l = Add (i, b)"),
        CELL.replace("i = MatMul (e, w)", "g = Identity (e) i = MatMul (g, w)"),
        // Unit axes come and go.
        CELL.replace(
            "k = Add (i, j)",
            "one = Constant <value_ints = [1]> () i3 = Unsqueeze (i, one) j3 = Unsqueeze (j, one)
            k3 = Add (i3, j3) k = Squeeze (k3, one)",
        ),
        identities(20),
    ] {
        has(
            &with_body(&body),
            &["RNN <hidden_size: int = 2>", WEIGHTS[0], WEIGHTS[1], "{11.0, 12.0, 0.0, 0.0}"],
        );
    }
    stays(&with_body(&identities(40)), "a gate is more than a sum of products");
    // The product of the transposed operands.
    let transposed = CELL.replace(
        "i = MatMul (e, w)",
        "et = Transpose <perm = [1, 0]> (e) it = MatMul (v, et) i = Transpose <perm = [1, 0]> (it)",
    );
    let before = "v = Transpose <perm = [1, 0]> (w)";
    has(&Scan { before, ..with_body(&transposed) }, &WEIGHTS);
}

#[test]
fn inputs_and_states_may_be_concatenated() {
    let parameters = "float[5,2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, float[2] b = {11, 12}";
    let body = |joined: &str| {
        format!("{joined} k = MatMul (c, w) l = Add (k, b) n = Tanh (l) f = Identity (n)")
    };
    for axis in ["1", "-1"] {
        let body = body(&format!("c = Concat <axis = {axis}> (e, h)"));
        has(&Scan { parameters, ..with_body(&body) }, &WEIGHTS);
    }
    // The state of another example.
    let rows = "float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {11, 12}";
    let body = "c = Concat <axis = 0> (h, h) first = Constant <value_ints = [1]> () two = Constant <value_ints = [3]> ()
        zero = Constant <value_ints = [0]> () o = Slice (c, first, two, zero)
        i = MatMul (e, w) k = Add (i, o) l = Add (k, b) n = Tanh (l) f = Identity (n)";
    assert!(Scan { parameters: rows, ..with_body(body) }.found().is_err());
}

#[test]
fn biases_are_the_same_for_all_examples() {
    let bias = |shape: &str, numbers: &str| {
        PARAMETERS.replace("float[2] b = {11, 12}", &format!("float[{shape}] b = {{{numbers}}}"))
    };
    for (shape, numbers, expected) in [
        ("1,2", "11, 12", "{11.0, 12.0, 0.0, 0.0}"),
        ("1", "11", "{11.0, 11.0, 0.0, 0.0}"),
        ("1,1", "11", "{11.0, 11.0, 0.0, 0.0}"),
    ] {
        has(&Scan { parameters: &bias(shape, numbers), ..SCAN }, &[expected]);
    }
    for (shape, numbers) in [("2,2", "11, 12, 13, 14"), ("2,1", "11, 12")] {
        stays(&Scan { parameters: &bias(shape, numbers), ..SCAN }, "a gate is more than a sum");
    }
}

#[test]
fn gates_are_sums_of_products_with_stored_weights() {
    let sums = "a gate is more than a sum of products";
    for body in [
        CELL.replace("MatMul (h, r)", "MatMul (g, r)").replace("i =", "g = Exp (h) i ="),
        // The state is added twice, or multiplied twice.
        CELL.replace("l = Add (k, b)", "m = Add (k, b) l = Add (m, h)"),
        CELL.replace("l = Add (k, b)", "g = MatMul (h, r) m = Add (k, b) l = Add (m, g)"),
    ] {
        stays(&with_body(&body), sums);
    }
    // A factor with a bias, and weights of another layout.
    let biased =
        CELL.replace("MatMul (e, w)", "MatMul (g, w)").replace("i =", "g = Add (e, d) i =");
    let parameters = format!("{PARAMETERS}, float[3] d = {{1, 2, 3}}");
    assert!(Scan { parameters: &parameters, ..with_body(&biased) }.found().is_err());
    let transposed = CELL.replace("MatMul (h, r)", "Gemm <transB = 1> (h, r)");
    stays(&with_body(&transposed), sums);
    let batches = CELL
        .replace("MatMul (h, r)", "Squeeze (j3, zero)")
        .replace("j =", "j3 = MatMul (h, r) j =");
    let parameters = PARAMETERS.replace("float[2,2] r", "float[1,2,2] r");
    let before = "zero = Constant <value_ints = [0]> ()";
    stays(&Scan { parameters: &parameters, before, ..with_body(&batches) }, sums);
    let exponential =
        CELL.replace("MatMul (e, w)", "MatMul (g, w)").replace("i =", "g = Exp (e) i =");
    stays(&with_body(&exponential), "its input is multiplied by weights before the scan");
    let computed = "its weights are computed in the model";
    let inputs = "float[2,2] s, float[5,2,3] x, float[3,2] w";
    let parameters = PARAMETERS.replace("float[3,2] w = {1, 2, 3, 4, 5, 6}, ", "");
    stays(&Scan { inputs, parameters: &parameters, ..SCAN }, computed);
}

#[test]
fn gates_without_the_input_have_weights_of_zero() {
    let body = "j = MatMul (h, r) l = Add (j, b) n = Tanh (l) f = Identity (n)";
    has(&with_body(body), &["float[1,2,3] {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}", WEIGHTS[1]]);
}

#[test]
fn layers_return_their_hidden_states() {
    stays(&with_body(&CELL.replace("f = Identity", "f = Exp")), "it returns more of each step");
    stays(
        &with_body(&CELL.replace("f = Identity (n)", "f = Identity (h)")),
        "it returns more of each step",
    );
    for attrs in ["scan_input_axes = [0],", "scan_output_axes = [0],"] {
        stays(&Scan { attrs, ..SCAN }, "");
    }
    for (attrs, parts, slices) in [
        (
            "scan_input_directions = [1], scan_output_directions = [1],",
            "direction: string = \"reverse\"",
            0,
        ),
        ("scan_input_directions = [1],", "direction: string = \"reverse\"", 1),
        ("scan_output_directions = [1],", "RNN <hidden_size: int = 2>", 1),
    ] {
        let text = Scan { attrs, ..SCAN }.found().unwrap();
        assert!(text.contains(parts), "{text}");
        assert_eq!(text.matches("Slice (").count(), slices, "{text}");
    }
}

#[test]
fn masks_of_the_state_are_reported() {
    let kept = "a mask keeps its old state in some steps";
    let mask = "zero = Constant <value_float = 0.0> () t = MatMul (e, w) p = Greater (t, zero)";
    for choice in ["n = Where (p, y, h)", "n = Where (p, h, y)"] {
        let body = CELL.replace("n = Tanh (l)", &format!("y = Tanh (l) {mask} {choice}"));
        stays(&with_body(&body), kept);
    }
    let reset = CELL
        .replace("j = MatMul (h, r)", &format!("{mask} o = Where (p, h, zero) j = MatMul (o, r)"));
    stays(&with_body(&reset), "its state is reset in some steps");
    // The choice is between two other values.
    let other = CELL.replace("n = Tanh (l)", &format!("y = Tanh (l) {mask} n = Where (p, y, k)"));
    stays(&with_body(&other), "");
}

#[test]
fn initial_states_of_zeros_are_omitted() {
    let initial = |value: &str| {
        let before = format!(
            "c = Constant <value_float = {value}> () sizes = Constant <value_ints = [2, 2]> ()
            s = Expand (c, sizes)"
        );
        let text = Scan { before: &before, inputs: "float[5,2,3] x", ..SCAN }.found().unwrap();
        text.contains("Unsqueeze")
    };
    assert_eq!([initial("0.0"), initial("1.0")], [false, true]);
    let text = Scan {
        before: "c = Constant <value_float = 0.0> () s = Mul (t, c)",
        inputs: "float[2,2] t, float[5,2,3] x",
        ..SCAN
    };
    assert!(text.found().unwrap().contains("Unsqueeze"));
}

const PROJECTED: &str = "j = MatMul (h, r) k = Add (e, j) n = Tanh (k) f = Identity (n)";

fn projected<'a>(before: &'a str, parameters: &'a str) -> Scan<'a> {
    Scan { before, parameters, body: PROJECTED, element: "float[2,2]", sequence: "p", ..SCAN }
}

#[test]
fn inputs_may_be_multiplied_before_the_loop() {
    let product = "m = MatMul (x, w) p = Add (m, b)";
    for before in [
        product,
        "m = MatMul (x, w) p = Add (b, m)",
        "one = Constant <value_ints = [1, 1, 2]> () c = Reshape (b, one) m = MatMul (x, w) p = Add (m, c)",
    ] {
        let mut parts = WEIGHTS.to_vec();
        parts.push("{11.0, 12.0, 0.0, 0.0}");
        has(&projected(before, PARAMETERS), &parts);
    }
    let turned = Scan {
        inputs: "float[2,2] s, float[2,5,3] x",
        ..projected(
            "m = MatMul (x, w) a = Add (m, b) p = Transpose <perm = [1, 0, 2]> (a)",
            PARAMETERS,
        )
    };
    has(&turned, &["Transpose <perm: ints = [1, 0, 2]> (x)"]);
    let missed = "its input is multiplied by weights before the scan";
    for before in [
        "m = MatMul (x, w) a = Add (m, b) p = Exp (a)",
        "m = MatMul (x, w) p = Mul (m, b)",
        // A bias for each step.
        "c = Constant <value = float[5,1,1] {1, 2, 3, 4, 5}> () m = MatMul (x, w) p = Add (m, c)",
        "c = Constant <value = float[5,1,2] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}> () m = MatMul (x, w) p = Add (m, c)",
    ] {
        stays(&projected(before, PARAMETERS), missed);
    }
    // Something else reads the product.
    let text = projected(product, PARAMETERS).text();
    let read = text
        .replace("float[5,2,2] z)", "float[5,2,2] z, float[5,2,2] q)")
        .replace("p = Add (m, b)", "p = Add (m, b) q = Exp (p)");
    assert!(layer(&read).unwrap_err().contains(missed));
}

#[test]
fn weights_keep_the_names_that_nothing_else_needs() {
    let named = |text: &str| text.contains("float[1,2,3] w");
    assert!(named(&SCAN.found().unwrap()));
    let read = SCAN
        .text()
        .replace("float[5,2,2] z)", "float[5,2,2] z, float[3,2] q)")
        .replace("u, z = Scan", "q = Exp (w) u, z = Scan");
    let text = layer(&read).unwrap();
    assert!(!named(&text) && text.contains("float[3,2] w"), "{text}");
    // A node that only the loop reads.
    let before = "t = Transpose <perm = [1, 0]> (w) v = Transpose <perm = [1, 0]> (t)";
    let body = CELL.replace("MatMul (e, w)", "MatMul (e, v)");
    assert!(named(&Scan { before, ..with_body(&body) }.found().unwrap()));
}

/// A layer with four gates whose sum is `k`, which become `i`, `o`, `g` and `c`.
fn lstm(gates: &str, stacked: &str) -> Result<String, String> {
    let numbers = |count: usize| (0..count).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    layer(&format!(
        "g (float[2,2] s, float[2,2] q, float[5,2,3] x) => (float[2,2] u, float[2,2] v, float[5,2,2] z)
        <float[3,8] w = {{{}}}, float[2,8] r = {{{}}}> {{
            u, v, z = Scan <num_scan_inputs = 1, body = body (float[2,2] h, float[2,2] d, float[2,3] e)
                => (float[2,2] n, float[2,2] a, float[2,2] y) {{
                left = MatMul (e, w) right = MatMul (h, r) k = Add (left, right)
                {gates}
                gd = Mul (g, d) ic = Mul (i, c) a = Add (gd, ic) t = Tanh (a) n = Mul (o, t)
                y = {stacked} }}> (s, q, x) }}",
        numbers(24),
        numbers(16)
    ))
}

#[test]
fn gates_are_parts_of_a_sum() {
    let sizes = "sizes = Constant <value_ints = [2, 2, 2, 2]> ()";
    let split = format!(
        "{sizes} i0, o0, g0, c0 = Split <axis = 1> (k, sizes)
        i = Sigmoid (i0) o = Sigmoid (o0) g = Sigmoid (g0) c = Tanh (c0)"
    );
    let whole = lstm(&split, "Identity (n)").unwrap();
    assert!(whole.contains("LSTM <hidden_size: int = 2>"), "{whole}");
    let weights = |text: &str| {
        text.split_once("[1,8,3]").map(|(_, rest)| rest.split('}').next().unwrap().to_owned())
    };
    // The sigmoid may come before the split.
    let before = format!(
        "{sizes} all = Sigmoid (k) i, o, g, unused = Split <axis = 1> (all, sizes)
        p, q0, r0, c0 = Split <axis = 1> (k, sizes) c = Tanh (c0)"
    );
    assert_eq!(weights(&lstm(&before, "Identity (n)").unwrap()), weights(&whole));
    // The gates are parts along the axis of examples, or other functions.
    let other = split.replace("i = Sigmoid (i0)", "i = Tanh (i0)");
    assert!(lstm(&other, "Identity (n)").unwrap_err().contains("a gate is more than a sum"));
    let reason =
        "it returns the cell state of every step, and the operator only that of the last one";
    assert_eq!(lstm(&split, "Identity (a)").unwrap_err(), reason);
    assert_eq!(
        lstm(&split, "Exp (a)").unwrap_err(),
        "it returns more of each step than the hidden state"
    );
}

/// A layer with an update gate `u` and a reset gate.
fn gru(cell: &str) -> Result<String, String> {
    layer(&format!(
        "g (float[2,2] s, float[5,2,3] x) => (float[2,2] u, float[5,2,2] z)
        <{PARAMETERS}, float[2] d = {{13, 14}}> {{
            one = Constant <value_float = 1.0> ()
            u, z = Scan <num_scan_inputs = 1, body = body (float[2,2] h, float[2,3] e)
                => (float[2,2] n, float[2,2] f) {{
                i = MatMul (e, w) j = MatMul (h, r) k = Add (i, j) gate = Sigmoid (k)
                {cell} m = Sub (one, gate) mt = Mul (m, t) gh = Mul (gate, h) n = Add (mt, gh)
                f = Identity (n) }}> (s, x) }}"
    ))
}

#[test]
fn the_reset_gate_multiplies_the_state_or_its_product() {
    let after = "jd = Add (j, d) rj = Mul (gate, jd) l = Add (i, rj) t = Tanh (l)";
    let text = gru(after).unwrap();
    assert!(text.contains("linear_before_reset: int = 1"), "{text}");
    for state in ["Mul (gate, h)", "Mul (h, gate)"] {
        let text =
            gru(&format!("rh = {state} j2 = MatMul (rh, r) l = Add (i, j2) t = Tanh (l)")).unwrap();
        assert!(text.contains("GRU") && !text.contains("linear_before_reset"), "{text}");
    }
    for cell in [
        // The gate multiplies something else, or its input is the state.
        "rh = Mul (gate, gate) j2 = MatMul (rh, r) l = Add (i, j2) t = Tanh (l)",
        "rj = Mul (gate, i) l = Add (j, rj) t = Tanh (l)",
        "ij = Add (i, j) rj = Mul (gate, ij) l = Add (i, rj) t = Tanh (l)",
    ] {
        assert!(gru(cell).is_err(), "{cell}");
    }
}
