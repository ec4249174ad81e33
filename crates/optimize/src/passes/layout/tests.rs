//! What the pass makes of small networks.
use super::PASS;
use crate::testing::passes_to;

/// Two convolutions, with channels last between them.
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
fn axes_move() {
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
fn what_gains_nothing_stays() {
    for text in [
        // One transpose either way.
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
fn what_follows_a_convolution_stays_with_it() {
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
fn one_transpose_serves_all_who_want_the_old_order() {
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
fn bodies_are_blocks_of_their_own() {
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
fn axes_of_size_one_move_like_others() {
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
