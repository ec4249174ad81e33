//! Tests of the pass on small networks.
use super::PASS;
use crate::testing::{edited, edited_with, passes_to};
use crate::{Form, Forms, Options};

/// Returns two convolutions, with channels last between them.
fn between(middle: &str) -> String {
    format!(
        "g (float[1,2,8,8] x) => (float[1,2,8,8] y)
        <float[2,2,1,1] v = {{1, 2, 3, 4}}, float[2,2,1,1] w = {{1, 2, 3, 4}}> {{
            a = Conv (x, v)
            {middle}
            y = Conv (z, w)
        }}"
    )
}

#[test]
fn elementwise_operators_move() {
    passes_to(
        &PASS,
        &between(
            "b = Transpose <perm = [0, 2, 3, 1]> (a)
             zero = Constant <value_float: float = 0> ()
             c = Max (b, zero)
             z = Transpose <perm = [0, 3, 1, 2]> (c)",
        ),
        &between("zero = Constant <value_float: float = 0> () z = Max (a, zero)"),
    );
}

#[test]
fn operands_along_an_axis_are_reshaped() {
    passes_to(
        &PASS,
        &between(
            "b = Transpose <perm = [0, 2, 3, 1]> (a)
             s = Constant <value_floats: floats = [1, 2]> ()
             c = Mul (b, s)
             z = Transpose <perm = [0, 3, 1, 2]> (c)",
        ),
        &between(
            "s = Constant <value_floats: floats = [1, 2]> ()
             t = Constant <value_ints = [2, 1, 1]> ()
             v2 = Reshape (s, t)
             z = Mul (a, v2)",
        ),
    );
}

#[test]
fn residual_branches_move_together() {
    passes_to(
        &PASS,
        &between(
            "b = Transpose <perm = [0, 2, 3, 1]> (a)
             c = Relu (b)
             d = Transpose <perm = [0, 3, 1, 2]> (c)
             e = Conv (d, w)
             f = Transpose <perm = [0, 2, 3, 1]> (e)
             h = Add (f, c)
             z = Transpose <perm = [0, 3, 1, 2]> (h)",
        ),
        &between(
            "d = Relu (a)
             e = Conv (d, w)
             z = Add (e, d)",
        ),
    );
}

#[test]
fn axes_are_adjusted() {
    passes_to(
        &PASS,
        &between(
            "b = Transpose <perm = [0, 2, 3, 1]> (a)
             axes = Constant <value_ints = [1, 2]> ()
             m = ReduceMean <keepdims = 1> (b, axes)
             n = Sigmoid (m)
             c = Mul (b, n)
             j = Concat <axis = -1> (c, b)
             sizes = Constant <value_ints = [2, 2]> ()
             p, q = Split <axis = 3> (j, sizes)
             pads = Constant <value_ints = [0, 1, 0, 0, 0, 0, 2, 0]> ()
             o = Pad (p, pads)
             start = Constant <value_ints = [1, 0]> ()
             end = Constant <value_ints = [9, 8]> ()
             along = Constant <value_ints = [1, 2]> ()
             u = Slice (o, start, end, along)
             d = Add (u, q)
             z = Transpose <perm = [0, 3, 1, 2]> (d)",
        ),
        &between(
            "axes = Constant <value_ints = [2, 3]> ()
             m = ReduceMean <keepdims = 1> (a, axes)
             n = Sigmoid (m)
             c = Mul (a, n)
             j = Concat <axis = 1> (c, a)
             sizes = Constant <value_ints = [2, 2]> ()
             p, q = Split <axis = 1> (j, sizes)
             pads = Constant <value_ints = [0, 0, 1, 0, 0, 0, 0, 2]> ()
             o = Pad (p, pads)
             start = Constant <value_ints = [1, 0]> ()
             end = Constant <value_ints = [9, 8]> ()
             u = Slice (o, start, end, axes)
             z = Add (u, q)",
        ),
    );
}

#[test]
fn a_mean_over_space_needs_no_transpose() {
    passes_to(
        &PASS,
        "g (float[1,2,8,8] x) => (float[1,2] y) <float[2,2,1,1] v = {1, 2, 3, 4}> {
            a = Conv (x, v)
            b = Transpose <perm = [0, 2, 3, 1]> (a)
            c = Relu (b)
            axes = Constant <value_ints = [1, 2]> ()
            y = ReduceMean <keepdims = 0> (c, axes)
        }",
        "g (float[1,2,8,8] x) => (float[1,2] y) <float[2,2,1,1] v = {1, 2, 3, 4}> {
            a = Conv (x, v)
            c = Relu (a)
            axes = Constant <value_ints = [2, 3]> ()
            y = ReduceMean <keepdims = 0> (c, axes)
        }",
    );
}

#[test]
fn nodes_without_gain_are_unchanged() {
    for text in [
        // One transpose in either layout.
        "g (float[1,8,8,2] x) => (float[1,2,8,8] y) <float[2,2,1,1] v = {1, 2, 3, 4}> {
            a = Relu (x)
            b = Transpose <perm = [0, 3, 1, 2]> (a)
            y = Conv (b, v)
        }",
        // A normalisation over the channels between a convolution and a product.
        "g (float[1,2,8,8] x) => (float[1,8,8,2] y)
        <float[2,2,1,1] v = {1, 2, 3, 4}, float[2,2] w = {1, 2, 3, 4}> {
            a = Conv (x, v)
            b = Transpose <perm = [0, 2, 3, 1]> (a)
            axes = Constant <value_ints = [-1]> ()
            m = ReduceMean (b, axes)
            c = Sub (b, m)
            y = MatMul (c, w)
        }",
        // Maxima over an axis whose result would have another order.
        "g (float[1,2,8,8] x) => (float[8,8,2] y) {
            b = Transpose <perm = [0, 2, 3, 1]> (x)
            axes = Constant <value_ints = [0]> ()
            y = ReduceMax <keepdims = 0> (b, axes)
        }",
    ] {
        passes_to(&PASS, text, text);
    }
}

#[test]
fn nodes_after_a_convolution_stay_with_it() {
    passes_to(
        &PASS,
        "g (float[1,2,8,8] x) => (float[1,8,8,2] y)
        <float[2,2,1,1] v = {1, 2, 3, 4}, float[2] w = {1, 2}> {
            a = Conv (x, v)
            b = Transpose <perm = [0, 2, 3, 1]> (a)
            c = Add (b, w)
            y = Exp (c)
        }",
        "g (float[1,2,8,8] x) => (float[1,8,8,2] y)
        <float[2,2,1,1] v = {1, 2, 3, 4}, float[2] w = {1, 2}> {
            a = Conv (x, v)
            s = Constant <value_ints = [2, 1, 1]> ()
            v1 = Reshape (w, s)
            c = Add (a, v1)
            v2 = Exp (c)
            y = Transpose <perm = [0, 2, 3, 1]> (v2)
        }",
    );
}

#[test]
fn one_transpose_serves_all_consumers_of_the_old_order() {
    passes_to(
        &PASS,
        "g (float[1,2,8,8] x) => (float[1,8,8,2] y, float[1,2,8,8] z) <float[2,2] w = {1, 2, 3, 4}> {
            b = Transpose <perm = [0, 2, 3, 1]> (x)
            c = Relu (b)
            y = MatMul (c, w)
            d = Exp (c)
            z = Transpose <perm = [0, 3, 1, 2]> (d)
        }",
        "g (float[1,2,8,8] x) => (float[1,8,8,2] y, float[1,2,8,8] z) <float[2,2] w = {1, 2, 3, 4}> {
            v0 = Relu (x)
            c = Transpose <perm = [0, 2, 3, 1]> (v0)
            y = MatMul (c, w)
            z = Exp (v0)
        }",
    );
}

#[test]
fn sizes_are_read_in_any_order() {
    passes_to(
        &PASS,
        "g (float[B,2,H,W] x) => (float[B,2,H,W] y, int64[1] n, int64[3] s) {
            b = Transpose <perm = [0, 2, 3, 1]> (x)
            c = Relu (b)
            n = Shape <start = 1, end = 2> (c)
            s = Shape <start = 1> (c)
            y = Transpose <perm = [0, 3, 1, 2]> (c)
        }",
        "g (float[B,2,H,W] x) => (float[B,2,H,W] y, int64[1] n, int64[3] s) {
            y = Relu (x)
            n = Shape <start = 2, end = 3> (y)
            v0 = Shape (y)
            i = Constant <value_ints = [2, 3, 1]> ()
            s = Gather <axis = 0> (v0, i)
        }",
    );
}

#[test]
fn bodies_are_separate_blocks() {
    passes_to(
        &PASS,
        "g (bool c, float[1,2,8,8] x) => (float[1,2,8,8] y) {
            y = If (c) <
                then_branch = then_branch () => (float[1,2,8,8] a) {
                    b = Transpose <perm = [0, 2, 3, 1]> (x)
                    d = Exp (b)
                    a = Transpose <perm = [0, 3, 1, 2]> (d)
                },
                else_branch = else_branch () => (float[1,2,8,8] e) { e = Neg (x) }
            >
        }",
        "g (bool c, float[1,2,8,8] x) => (float[1,2,8,8] y) {
            y = If (c) <
                then_branch = then_branch () => (float[1,2,8,8] a) { a = Exp (x) },
                else_branch = else_branch () => (float[1,2,8,8] e) { e = Neg (x) }
            >
        }",
    );
}

#[test]
fn unit_axes_move_like_others() {
    passes_to(
        &PASS,
        &between(
            "b = Transpose <perm = [0, 2, 3, 1]> (a)
             axes = Constant <value_ints = [1, 2]> ()
             m = ReduceMean <keepdims = 1> (b, axes)
             s = Constant <value_ints = [1, 2, 1, 1]> ()
             n = Reshape (m, s)
             c = Conv (n, w)
             t = Constant <value_ints = [1, 1, 1, 2]> ()
             d = Reshape (c, t)
             e = Relu (d)
             f = Mul (b, e)
             z = Transpose <perm = [0, 3, 1, 2]> (f)",
        ),
        &between(
            "axes = Constant <value_ints = [2, 3]> ()
             n = ReduceMean <keepdims = 1> (a, axes)
             c = Conv (n, w)
             e = Relu (c)
             z = Mul (a, e)",
        ),
    );
}

/// Returns matrices of 16 × 16 and their consumers between two convolutions.
fn products(signature: &str, middle: &str) -> String {
    let many = vec!["1"; 256].join(", ");
    let matrices = ["v", "w", "u"].map(|name| format!("float[16,16] {name} = {{{many}}}"));
    format!(
        "g ({signature}) <float[16,16,1,1] k = {{{many}}}, {}> {{ {middle} }}",
        matrices.join(", ")
    )
}

#[test]
fn products_between_convolutions_become_convolutions() {
    for sizes in ["1,16,4,4", "B,16,H,W"] {
        let signature = format!("float[{sizes}] x) => (float[{sizes}] y");
        passes_to(
            &PASS,
            &products(
                &signature,
                "a = Conv (x, k)
                 b = Transpose <perm = [0, 2, 3, 1]> (a)
                 c = MatMul (b, w)
                 d = Relu (c)
                 e = MatMul (d, w)
                 z = Transpose <perm = [0, 3, 1, 2]> (e)
                 y = Conv (z, k)",
            ),
            &products(
                &signature,
                "a = Conv (x, k)
                 v0 = Transpose <perm = [1, 0]> (w)
                 axes = Constant <value_ints = [2, 3]> ()
                 v2 = Unsqueeze (v0, axes)
                 c = Conv (a, v2)
                 d = Relu (c)
                 z = Conv (d, v2)
                 y = Conv (z, k)",
            ),
        );
    }
}

/// Returns a depthwise or other convolution, followed by a normalisation and two products, with a
/// shortcut.
fn block(number: usize, x: &str) -> String {
    let n = number;
    format!(
        "a{n} = Transpose <perm = [0, 3, 1, 2]> ({x})
         b{n} = Conv (a{n}, k)
         c{n} = Transpose <perm = [0, 2, 3, 1]> (b{n})
         d{n} = LayerNormalization (c{n}, s)
         e{n} = MatMul (d{n}, w)
         f{n} = Gelu (e{n})
         h{n} = MatMul (f{n}, v)
         x{n} = Add ({x}, h{n})"
    )
}

#[test]
fn products_pay_for_transposes_of_a_normalisation() {
    let signature = "float[1,32,32,16] x, float[16] s) => (float[1,32,32,16] y";
    let operators = |count: usize| {
        let blocks: String = (1..=count).map(|n| block(n, &format!("x{}", n - 1))).collect();
        let ends =
            ["x0 = LayerNormalization (x, s)", &format!("y = LayerNormalization (x{count}, s)")];
        let text = products(signature, &format!("{} {blocks} {}", ends[0], ends[1]));
        let (text, ..) = edited(&text, |edit| (PASS.run)(edit).unwrap());
        ["MatMul", "Conv", "Transpose"].map(|op| text.matches(&format!("= {op} ")).count())
    };
    assert_eq!(operators(1), [2, 1, 2]);
    // Two more transposes at the ends, of which the first occurs twice until equal nodes are
    // merged, and one for each weight.
    assert_eq!(operators(2), [0, 6, 4 + 3 + 2]);
}

#[test]
fn other_products_are_unchanged() {
    let convolved = "a = Conv (x, k) b = Transpose <perm = [0, 2, 3, 1]> (a)";
    let image = "float[1,16,8,8] x) => (float[1,8,8,16] y";
    for (signature, middle) in [
        // The weight has other consumers.
        (
            "float[1,16,8,8] x, float[16,16] q) => (float[1,16,8,8] y, float[16,16] r",
            format!(
                "{convolved} c = MatMul (b, w) d = Transpose <perm = [0, 3, 1, 2]> (c) y = Conv (d, k) r = MatMul (q, w)"
            ),
        ),
        // The weight is not a parameter.
        (
            "float[1,16,8,8] x, float[16,16] q) => (float[1,16,8,8] y",
            format!(
                "{convolved} c = MatMul (b, q) d = Transpose <perm = [0, 3, 1, 2]> (c) y = Conv (d, k)"
            ),
        ),
        // Few pixels.
        (
            "float[B,16,3,3] x) => (float[B,16,3,3] y",
            format!(
                "{convolved} c = MatMul (b, w) d = Transpose <perm = [0, 3, 1, 2]> (c) y = Conv (d, k)"
            ),
        ),
        // A transformer on patches.
        (
            image,
            format!(
                "{convolved} s = Constant <value = float[16] {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}> ()
                 c = LayerNormalization (b, s)
                 d = MatMul (c, w)
                 e = MatMul (c, v)
                 f = Mul (d, e)
                 h = MatMul (f, u)
                 i = Add (b, h)
                 y = LayerNormalization (i, s)"
            ),
        ),
    ] {
        let text = products(signature, &middle);
        passes_to(&PASS, &text, &text);
    }
}

#[test]
fn products_of_few_channels_are_unchanged() {
    let text = between(
        "b = Transpose <perm = [0, 2, 3, 1]> (a)
         m = Constant <value = float[2,2] {1, 2, 3, 4}> ()
         c = MatMul (b, m)
         z = Transpose <perm = [0, 3, 1, 2]> (c)",
    );
    passes_to(&PASS, &text, &text);
}

/// Returns a dense layer followed by a batch norm, with the matrix and the vectors of the given
/// number.
fn normed(number: usize, x: &str) -> String {
    let n = number;
    format!(
        "a{n} = MatMul ({x}, w{n})
         c{n} = Add (a{n}, b{n})
         d{n} = Sub (c{n}, m{n})
         e{n} = Add (v{n}, epsilon)
         f{n} = Sqrt (e{n})
         g{n} = Reciprocal (f{n})
         h{n} = Mul (g{n}, s{n})
         i{n} = Mul (d{n}, h{n})
         j{n} = Add (i{n}, b{n})
         x{n} = Relu (j{n})"
    )
}

/// Counts the products, convolutions and transposes in the result, with parameters for layers with
/// the given numbers of channels.
fn with_norms(signature: &str, channels: &[usize], middle: &str) -> [usize; 3] {
    let tensor = |shape: &str, name: &str, size: usize| {
        format!("float[{shape}] {name} = {{{}}}", vec!["1"; size].join(", "))
    };
    let mut parameters = vec!["float epsilon = {0.001}".to_owned()];
    for (n, pair) in channels.windows(2).enumerate() {
        let (from, into) = (pair[0], pair[1]);
        parameters.push(tensor(&format!("{from},{into}"), &format!("w{n}"), from * into));
        for name in ["b", "m", "v", "s"] {
            parameters.push(tensor(&into.to_string(), &format!("{name}{n}"), into));
        }
    }
    let text = format!("g ({signature}) <{}> {{ {middle} }}", parameters.join(", "));
    let (text, ..) = edited(&text, |edit| (PASS.run)(edit).unwrap());
    let count = |op: &str| text.matches(&format!("= {op} ")).count();
    // Each weight of a convolution has its own transpose.
    [count("MatMul"), count("Conv"), count("Transpose") - count("Conv")]
}

#[test]
fn products_with_norms_become_convolutions() {
    let layers: String = [(0, "x"), (1, "x0")].map(|(n, x)| normed(n, x)).concat();
    for sizes in ["2,256", "B,N", "1,16,16", "1,8,8,8"] {
        let signature = format!("float[{sizes},6] x) => (float[{sizes},10] y");
        let counts = with_norms(&signature, &[6, 10, 10], &format!("{layers} y = Neg (x1)"));
        assert_eq!(counts, [0, 2, 2], "{sizes}");
    }
    // A maximum over the points needs no transpose after it.
    let body = format!(
        "{} axes = Constant <value_ints = [1]> () y = ReduceMax <keepdims = 0> (x0, axes)",
        normed(0, "x")
    );
    assert_eq!(with_norms("float[2,256,3] x) => (float[2,32] y", &[3, 32], &body), [0, 1, 1]);
}

#[test]
fn products_with_norms_and_little_gain_are_unchanged() {
    let one = |x: &str| format!("{} y = Neg (x0)", normed(0, x));
    let same = "float[2,256,16] x) => (float[2,256,16] y";
    let two = [(0, "x"), (1, "x0")].map(|(n, x)| normed(n, x)).concat() + " y = Neg (x1)";
    assert_eq!(with_norms(same, &[16, 16, 16], &two), [0, 2, 2]);
    for (signature, channels, middle) in [
        // Transposes before and after a single product.
        (same, &[16, 16][..], one("x")),
        // Many channels.
        ("float[1,64,256] x) => (float[1,64,256] y", &[256, 256, 256], two.clone()),
        // Few pixels.
        ("float[128,8,16] x) => (float[128,8,16] y", &[16, 16, 16], two.clone()),
        // More axes than a convolution has, and fewer.
        ("float[2,2,2,2,32,16] x) => (float[2,2,2,2,32,16] y", &[16, 16, 16], two.clone()),
        ("float[512,16] x) => (float[512,16] y", &[16, 16, 16], two.clone()),
        // Nothing is divided by a deviation, so this is not a norm.
        (same, &[16, 16, 16], two.replace("Sqrt", "Exp")),
        // The deviation is not known.
        (
            "float[2,256,16] x, float[16] q) => (float[2,256,16] y",
            &[16, 16, 16],
            two.replace("Add (v0", "Add (q").replace("Add (v1", "Add (q"),
        ),
        // The normalised value has other consumers.
        (
            "float[2,256,16] x) => (float[2,256,16] y, float[2,256,16] a0, float[2,256,16] a1",
            &[16, 16, 16],
            two.clone(),
        ),
        // The weight has other consumers.
        (
            "float[2,256,16] x, float[4,16] q) => (float[2,256,16] y, float[4,16] r, float[4,16] t",
            &[16, 16, 16],
            format!("{two} r = MatMul (q, w0) t = MatMul (q, w1)"),
        ),
    ] {
        let products = middle.matches("MatMul").count();
        let counts = with_norms(signature, channels, &middle);
        assert_eq!(counts, [products, 0, 0], "{signature} {middle}");
    }
}

#[test]
fn a_transpose_behind_a_reshape_is_absorbed() {
    let text = |middle: &str| {
        format!(
            "g (float[1,2,8,8] x, float[1,1,1,2] c) => (float[1,2,1,8,8] y) <float[2,2,1,1] v = {{1, 2, 3, 4}}> {{
                a = Conv (x, v) {middle} }}"
        )
    };
    let grouped = "to = Constant <value_ints = [1, 8, 8, 2, 1]> () g = Reshape (s, to)";
    passes_to(
        &PASS,
        &text(&format!(
            "b = Transpose <perm = [0, 2, 3, 1]> (a) s = Add (b, c) {grouped}
             y = Transpose <perm = [0, 3, 4, 1, 2]> (g)"
        )),
        &text(&format!(
            "v0 = Constant <value_ints = [1, 2, 1, 1]> () v1 = Reshape (c, v0) v2 = Add (a, v1)
             s = Transpose <perm = [0, 2, 3, 1]> (v2) {grouped}
             y = Transpose <perm = [0, 3, 4, 1, 2]> (g)"
        )),
    );
}

#[test]
fn the_factors_of_each_axis_move() {
    let text = |middle: &str| {
        format!(
            "g (float[1,2,8,8] x) => (float[1,2,16,24] y) <float[2,2,1,1] v = {{1, 2, 3, 4}}> {{
                a = Conv (x, v) {middle} }}"
        )
    };
    let resize = "Resize <mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\">";
    passes_to(
        &PASS,
        &text(&format!(
            "b = Transpose <perm = [0, 2, 3, 1]> (a)
             scales = Constant <value_floats = [1.0, 2.0, 3.0, 1.0]> ()
             c = {resize} (b, , scales) y = Transpose <perm = [0, 3, 1, 2]> (c)"
        )),
        &text(&format!(
            "scales = Constant <value_floats = [1.0, 1.0, 2.0, 3.0]> () y = {resize} (a, , scales)"
        )),
    );
}

#[test]
fn sizes_are_counted_from_either_end() {
    passes_to(
        &PASS,
        "g (float[B,2,H,W] x) => (float[B,2,H,W] y, int64[1] n, int64[1] m) {
            b = Transpose <perm = [0, 2, 3, 1]> (x)
            c = Relu (b)
            n = Shape <start = -1> (c)
            m = Shape <start = -2, end = -1> (c)
            y = Transpose <perm = [0, 3, 1, 2]> (c)
        }",
        "g (float[B,2,H,W] x) => (float[B,2,H,W] y, int64[1] n, int64[1] m) {
            y = Relu (x)
            n = Shape <start = 1, end = 2> (y)
            m = Shape <start = 3, end = 4> (y)
        }",
    );
}

#[test]
fn norms_divide_by_a_deviation_or_multiply_by_its_reciprocal() {
    let two = [(0, "x"), (1, "x0")].map(|(n, x)| normed(n, x)).concat() + " y = Neg (x1)";
    let divided = |order: &str| {
        let text = [0, 1].iter().fold(two.clone(), |text, n| {
            text.replace(
                &format!("i{n} = Mul (d{n}, h{n})"),
                &format!("i{n} = Div ({})", order.replace('#', &n.to_string())),
            )
            .replace(&format!("h{n} = Mul (g{n}, s{n})"), &format!("h{n} = Identity (f{n})"))
        });
        with_norms("float[2,256,6] x) => (float[2,256,10] y", &[6, 10, 10], &text)
    };
    assert_eq!(divided("d#, f#"), [0, 2, 2]);
    // A quotient of the deviation is no norm.
    assert_eq!(divided("f#, d#"), [2, 0, 0]);
}

#[test]
fn weights_in_another_layout_belong_to_one_product() {
    let convolutions = |signature: &str, weight: &str, product: &str| {
        let text = products(
            signature,
            &format!(
                "a = Conv (x, k) b = Transpose <perm = [0, 2, 3, 1]> (a) {weight}
                 c = MatMul (b, m) d = Relu (c) z = Transpose <perm = [0, 3, 1, 2]> (d) y = Conv (z, k)
                 {product}"
            ),
        );
        edited(&text, |edit| (PASS.run)(edit).unwrap()).0.matches("= Conv ").count()
    };
    let image = "float[1,16,4,4] x) => (float[1,16,4,4] y";
    assert_eq!(convolutions(image, "m = Transpose <perm = [1, 0]> (w)", ""), 3);
    assert_eq!(convolutions(image, "m = Neg (w)", ""), 2);
    let two = "float[1,16,4,4] x, float[16,16] q) => (float[1,16,4,4] y, float[16,16] r";
    let other = "r = MatMul (q, w)";
    assert_eq!(convolutions(two, "m = Transpose <perm = [1, 0]> (w)", other), 2);
}

#[test]
fn products_stay_if_convolutions_are_not_wanted() {
    let signature = "float[1,16,4,4] x) => (float[1,16,4,4] y";
    let text = products(
        signature,
        "a = Conv (x, k) b = Transpose <perm = [0, 2, 3, 1]> (a) c = MatMul (b, w)
         z = Transpose <perm = [0, 3, 1, 2]> (c) y = Conv (z, k)",
    );
    let usual = Options::default().forms;
    let named = [("Conv".to_owned(), Form::Elementary)].into();
    for (forms, products) in [
        (usual.clone(), 0),
        (Forms { convolves: false, ..usual.clone() }, 1),
        (Forms { named, ..usual }, 1),
    ] {
        let options = Options { forms, ..Options::default() };
        let (text, ..) = edited_with(&options, &text, |edit| (PASS.run)(edit).unwrap());
        assert_eq!(text.matches("= MatMul ").count(), products, "{text}");
    }
}
