//! Tests of computations that are folded at export, and of those that are not.

use super::{REWRITE, ROUNDED};
use crate::testing::{operators, rewrites_to, stays};

fn folds_to(body: &str, expected: &str) {
    let start = "g (float[B,3,4] x)";
    let (results, statements) = body.split_once(':').unwrap();
    rewrites_to(
        &REWRITE,
        &format!("{start} => ({results} y) {{ {statements} y = Identity (r) }}"),
        &format!("{start} => ({results} y) {{ {expected} y = Identity (r) }}"),
    );
}

#[test]
fn shapes_fold() {
    folds_to(
        "int64[1]: s = Shape <start = 1, end = 2> (x) c = Constant <value_ints = [5]> ()
         r = Add (s, c)",
        "r = Constant <value_ints = [8]> ()",
    );
    folds_to(
        "int64: s = Shape (x) i = Constant <value_int = 2> () r = Gather (s, i)",
        "r = Constant <value_int = 4> ()",
    );
}

#[test]
fn layouts_fold() {
    let c = "c = Constant <value = int32[2,3] {1, 2, 3, 4, 5, 6}> ()";
    for (result, op, expected) in [
        ("int32[3,2]", "r = Transpose (c)", "int32[3,2] {1, 4, 2, 5, 3, 6}"),
        (
            "int32[3,1,2]",
            "t = Transpose (c) a = Constant <value_ints = [1]> () r = Unsqueeze (t, a)",
            "int32[3,1,2] {1, 4, 2, 5, 3, 6}",
        ),
        (
            "int32[2,2,3]",
            "s = Constant <value_ints = [2, 1, 1]> () r = Expand (c, s)",
            "int32[2,2,3] {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}",
        ),
        (
            "int32[2,2]",
            "b = Constant <value_ints = [-1]> () e = Constant <value_ints = [-9]> ()
             a = Constant <value_ints = [1]> () s = Constant <value_ints = [-2]> ()
             r = Slice (c, b, e, a, s)",
            "int32[2,2] {3, 1, 6, 4}",
        ),
        (
            "int32[2,6]",
            "r = Concat <axis = -1> (c, c)",
            "int32[2,6] {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}",
        ),
        (
            "int32[2,1,2]",
            "i = Constant <value = int64[1,2] {2, -3}> () r = Gather <axis = 1> (c, i)",
            "int32[2,1,2] {3, 1, 6, 4}",
        ),
    ] {
        let expected = format!("r = Constant <value = {expected}> ()");
        folds_to(&format!("{result}: {c} {op}"), &expected);
    }
}

#[test]
fn arithmetic_folds() {
    let c = "a = Constant <value_floats: floats = [1.5, -2.0]> ()
             b = Constant <value_float: float = 0.1> ()";
    for (result, op, expected) in [
        ("float[2]", "r = Add (a, b)", "<value_floats = [1.6, -1.9]>"),
        ("float[2]", "r = Mul (b, a)", "<value_floats = [0.15, -0.2]>"),
        ("float[2]", "r = Div (a, b)", "<value_floats: floats = [15.0, -20.0]>"),
        ("float", "r = Sqrt (b)", "<value_float: float = 0.31622776>"),
        ("float[2]", "r = Reciprocal (a)", "<value_floats = [0.6666667, -0.5]>"),
        ("bool[2]", "r = Less (a, b)", "<value = bool[2] {0, 1}>"),
        ("float[2]", "l = Less (a, b) r = Where (l, a, b)", "<value_floats = [0.1, -2.0]>"),
        ("int8[2]", "r = Cast <to = 3> (a)", "<value = int8[2] {1, -2}>"),
        ("float[2]", "r = Floor (a)", "<value_floats: floats = [1.0, -2.0]>"),
        ("bool[2]", "r = IsNaN (a)", "<value = bool[2] {0, 0}>"),
        ("bool[2]", "r = IsInf (a)", "<value = bool[2] {0, 0}>"),
        ("float[2]", "r = Max (a, b)", "<value_floats = [1.5, 0.1]>"),
        ("float[2]", "r = Min (a, b)", "<value_floats = [0.1, -2.0]>"),
        ("float[2]", "r = Sign (a)", "<value_floats: floats = [1.0, -1.0]>"),
        ("float[2]", "n = Neg (b) r = Clip (a, n, b)", "<value_floats = [0.1, -0.1]>"),
    ] {
        folds_to(&format!("{result}: {c} {op}"), &format!("r = Constant {expected} ()"));
    }
    folds_to(
        "int64[3]: a = Constant <value_ints = [-5, 3, 20]> () l = Constant <value_int = 0> ()
         h = Constant <value_int = 9> () r = Clip (a, l, h)",
        "r = Constant <value_ints = [0, 3, 9]> ()",
    );
    let wide = "a = Constant <value = int32[2] {300, -1}> ()";
    folds_to(
        &format!("uint8[2]: {wide} r = Cast <to = 2> (a)"),
        "r = Constant <value = uint8[2] {44, 255}> ()",
    );
}

#[test]
fn fillers_fold() {
    folds_to(
        "int64[3]: a = Constant <value_int = 2> () b = Constant <value_int = 9> ()
         c = Constant <value_int = 3> () r = Range (a, b, c)",
        "r = Constant <value_ints = [2, 5, 8]> ()",
    );
    folds_to(
        "int32[2,2]: s = Constant <value_ints = [2, 2]> ()
         r = ConstantOfShape <value = int32[1] {7}> (s)",
        "r = Constant <value = int32[2,2] {7, 7, 7, 7}> ()",
    );
}

/// Returns consecutive floats from zero on.
fn table(rows: usize, columns: usize) -> String {
    format!(
        "zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
         rows = Constant <value_int = {rows}> () columns = Constant <value_int = {columns}> ()
         i = Range (zero, rows, one) j = Range (zero, columns, one)
         s = Constant <value_ints = [-1, 1]> () k = Reshape (i, s)
         t = Mul (k, j)"
    )
}

#[test]
fn tables_fold_up_to_a_megabyte() {
    let model = |rows, columns| {
        let table = table(rows, columns);
        format!(
            "g (int64[{rows},{columns}] x) => (int64[{rows},{columns}] y) {{
                {table} y = Add (x, t)
            }}"
        )
    };
    assert_eq!(operators(&REWRITE, &model(200, 100)), ["Add"]);
    assert_eq!(operators(&REWRITE, &model(2000, 100)), ["Mul", "Add"]);
}

#[test]
fn tables_share_a_megabyte() {
    let table = table(700, 100);
    let text = format!(
        "g (int64[700,100] x) => (int64[700,100] y) {{
            {table} u = Sub (k, j) z = Add (x, t) y = Add (z, u)
        }}"
    );
    let operators = operators(&REWRITE, &text);
    let tables: Vec<_> = operators.iter().filter(|name| **name != "Add").collect();
    assert_eq!(tables.len(), 1, "{operators:?}");
}

#[test]
fn repeated_numbers_are_not_materialised() {
    stays(
        &REWRITE,
        "g (float[2000] x) => (float[2000] y) {
            s = Constant <value_ints = [2000]> () one = Constant <value_float: float = 1> ()
            t = Expand (one, s) y = Add (x, t)
        }",
    );
}

#[test]
fn a_slice_replaces_the_whole_constant() {
    let many = vec!["1"; 600_000].join(", ");
    let text = format!(
        "g (int64[300000] x) => (int64[300000] y) {{
            c = Constant <value = int64[600000] {{{many}}}> ()
            start = Constant <value_ints = [0]> () end = Constant <value_ints = [300000]> ()
            t = Slice (c, start, end) y = Add (x, t)
        }}"
    );
    assert_eq!(operators(&REWRITE, &text), ["Add"]);
}

#[test]
fn empty_results_fold_without_constants() {
    folds_to(
        "float[0,4]: b = Constant <value_ints = [2]> () e = Constant <value_ints = [2]> ()
         a = Constant <value_ints = [0]> () f = Constant <value_ints = [5, 4]> ()
         z = Constant <value_float: float = 1> () t = Expand (z, f) r = Slice (t, b, e, a)",
        "r = Constant <value = float[0,4] {}> ()",
    );
    rewrites_to(
        &REWRITE,
        "g (float[1,4] x) => (float[0,4] y) {
            s = Constant <value_ints = [0, 4]> () r = Expand (x, s) y = Identity (r) }",
        "g (float[1,4] x) => (float[0,4] y) {
            r = Constant <value = float[0,4] {}> () y = Identity (r) }",
    );
}

#[test]
fn integers_are_rounded_once() {
    rewrites_to(
        &REWRITE,
        "g (float x) => (float y) {
            n = Constant <value = int64 {9007199791611905}> () c = Cast <to = 1> (n) y = Add (x, c)
        }",
        "g (float x) => (float y) {
            c = Constant <value = float {9007200328482816}> () y = Add (x, c)
        }",
    );
}

#[test]
fn results_that_may_differ_at_run_time_are_unchanged() {
    for text in [
        // Overflow, division by zero, NaN, and the sign of zero.
        "g () => (int32 y) { a = Constant <value = int32 {2147483647}> () y = Add (a, a) }",
        "g () => (int32 y) { a = Constant <value = int32 {0}> () y = Div (a, a) }",
        "g () => (float y) { a = Constant <value = float {0}> () y = Div (a, a) }",
        "g () => (float y) {
            a = Constant <value = float {0}> () b = Constant <value = float {-0.0}> ()
            y = Max (a, b)
        }",
        "g () => (float y) { a = Constant <value = float {0}> () y = Sign (a) }",
        "g () => (int8 y) { a = Constant <value = float {1e9}> () y = Cast <to = 3> (a) }",
        "g () => (float y) {
            a = Constant <value = float {-0.0}> () c = Constant <value = bool {1}> ()
            y = Where (c, a, a)
        }",
        "g () => (float y) { a = Constant <value = float {-1}> () y = Sqrt (a) }",
        // Functions without standardised rounding, and sums that depend on the order.
        "g () => (float y) { a = Constant <value = float {1}> () y = Exp (a) }",
        "g () => (float[1] y) {
            a = Constant <value = float[3] {0.1, 0.2, 0.3}> () y = ReduceSum (a)
        }",
        "g () => (float y) { a = Constant <value = float[2] {1, 2}> () y = MatMul (a, a) }",
        // Duplicate updates, and indices out of range.
        "g () => (int32[2] y) {
            a = Constant <value = int32[2] {1, 2}> () i = Constant <value = int64[2,1] {1, 1}> ()
            y = ScatterND (a, i, a)
        }",
        "g () => (int32[1] y) {
            a = Constant <value = int32[2] {1, 2}> () i = Constant <value = int64[1,1] {2}> ()
            y = GatherND (a, i)
        }",
        // A large result, and a parameter.
        "g () => (float[2000] y) {
            a = Constant <value_ints = [2000]> () y = ConstantOfShape (a)
        }",
        "g () => (float[2] y) <float[1,2] w = {1.0, 2.0}> {
            a = Constant <value_ints = [2]> () y = Reshape (w, a)
        }",
    ] {
        stays(&REWRITE, text);
    }
}

#[test]
fn functions_are_rounded_once() {
    let folds = |body: &str, expected: &str| {
        let graph = |body: &str| format!("g () => (float[2] y) {{ {body} y = Identity (b) }}");
        rewrites_to(&ROUNDED, &graph(body), &graph(expected));
    };
    folds(
        "a = Constant <value = float[2] {0, 1}> () b = Exp (a)",
        "b = Constant <value = float[2] {1, 2.7182817}> ()",
    );
    folds(
        "a = Constant <value = float {10000}> () e = Constant <value = float[2] {-1, 0.5}> ()
            b = Pow (a, e)",
        "b = Constant <value = float[2] {0.0001, 100}> ()",
    );
}

#[test]
fn nan_and_overflow_are_not_folded() {
    for text in [
        "g () => (float y) { a = Constant <value = float {-1}> () y = Log (a) }",
        "g () => (float[1] y) <float[1] v = {3}> { y = Exp (v) }",
        // Finite in one order of summation, infinite in another.
        "g () => (float[1] y) {
            a = Constant <value = float[3] {3e38, 3e38, -3e38}> () y = ReduceSum (a)
        }",
        "g () => (float[1] y) {
            a = Constant <value = float[2] {inf, -inf}> () y = ReduceSum (a)
        }",
        "g () => (float[1] y) {
            a = Constant <value = float[3] {-3e38, -3e38, inf}> () y = ReduceSum (a)
        }",
        "g () => (float[1,1,3] y) {
            a = Constant <value = float[1,1,3] {1, 2, 3}> ()
            w = Constant <value = float[1,1,3] {inf, 1, 1}> ()
            y = Conv <pads = [1, 1]> (a, w)
        }",
        "g () => (float[1] y) {
            a = Constant <value = float[3] {1e-30, 1e-30, 1e30}> () y = ReduceProd (a)
        }",
        "g () => (float[1] y) {
            a = Constant <value = float[3] {0, 1e30, 1e30}> () y = ReduceProd (a)
        }",
    ] {
        stays(&ROUNDED, text);
    }
}

#[test]
fn sums_and_products_are_rounded_once() {
    for (ty, body, expected) in [
        (
            "float[1]",
            "a = Constant <value = float[3] {1e8, 1, -1e8}> () r = ReduceSum (a)",
            "float[1] {1}",
        ),
        (
            "double[1]",
            "a = Constant <value = double[3] {1e16, 1, -1e16}> () r = ReduceSum (a)",
            "double[1] {1}",
        ),
        (
            "float[1]",
            "a = Constant <value = float[2] {inf, 1}> () r = ReduceSum (a)",
            "float[1] {inf}",
        ),
        (
            "float[2]",
            "a = Constant <value = float[2,2] {1, 2, 3, 5}> ()
             x = Constant <value_ints = [0]> () r = ReduceMean <keepdims = 0> (a, x)",
            "float[2] {2, 3.5}",
        ),
        (
            "float[1,1]",
            "a = Constant <value = float[1,2] {3, 4}> () r = ReduceL2 (a)",
            "float[1,1] {5}",
        ),
        (
            "float[2]",
            "a = Constant <value = float[2] {1, 2}> ()
             i = Constant <value = int64[4] {0, 0, 0, 1}> ()
             u = Constant <value = float[4] {3e38, 3e38, -3e38, 1}> ()
             r = ScatterElements <reduction = \"add\"> (a, i, u)",
            "float[2] {inf, 3}",
        ),
        (
            "float[3]",
            "a = Constant <value = float[3] {1, 2, 3}> () x = Constant <value_int = 0> ()
             r = CumSum <exclusive = 1, reverse = 1> (a, x)",
            "float[3] {5, 3, 0}",
        ),
        (
            "float[2,1,2]",
            "a = Constant <value = float[2,1,2] {1, 2, 3, 4}> ()
             b = Constant <value = float[2,2] {1, 10, 100, 1000}> () r = MatMul (a, b)",
            "float[2,1,2] {201, 2010, 403, 4030}",
        ),
        (
            "float16[1]",
            "a = Constant <value = float16[1] {1.0}> () r = Exp (a)",
            "float16[1] {2.71875}",
        ),
        (
            "float[3]",
            "a = Constant <value = float[2,3] {2, 3, 4, 5, 6, 7}> ()
             v = Constant <value = float[2] {1, 10}> () r = MatMul (v, a)",
            "float[3] {52, 63, 74}",
        ),
    ] {
        rewrites_to(
            &ROUNDED,
            &format!("g () => ({ty} y) {{ {body} y = Identity (r) }}"),
            &format!(
                "g () => ({ty} y) {{ r = Constant <value = {expected}> () y = Identity (r) }}"
            ),
        );
    }
}

#[test]
fn indices_and_orders_fold() {
    let c = "c = Constant <value = int32[2,3] {1, 2, 3, 4, 5, 6}> ()";
    for (result, op, expected) in [
        (
            "int32[2,3]",
            "i = Constant <value = int64[2,1] {1, -2}> () u = Neg (c) r = ScatterND (c, i, u)",
            "int32[2,3] {-4, -5, -6, -1, -2, -3}",
        ),
        (
            "int32[2,3]",
            "i = Constant <value = int64[2,2] {0, 1, 0, 1}> ()
             u = Constant <value = int32[2] {10, 20}> ()
             r = ScatterND <reduction = \"add\"> (c, i, u)",
            "int32[2,3] {1, 32, 3, 4, 5, 6}",
        ),
        (
            "int32[2,3]",
            "i = Constant <value = int64[1,2] {-1, 0}> ()
             u = Constant <value = int32[1,2] {7, 8}> ()
             r = ScatterElements <axis = 1> (c, i, u)",
            "int32[2,3] {8, 2, 7, 4, 5, 6}",
        ),
        (
            "int32[2]",
            "i = Constant <value = int64[2,1] {2, 0}> () r = GatherND <batch_dims = 1> (c, i)",
            "int32[2] {3, 4}",
        ),
        (
            "int32[2,1]",
            "i = Constant <value = int64[2,1] {2, 0}> () r = GatherElements <axis = 1> (c, i)",
            "int32[2,1] {3, 4}",
        ),
        (
            "int32[2,4]",
            "p = Constant <value_ints = [-1, 2]> () v = Constant <value = int32 {9}> ()
             axes = Constant <value_ints = [1]> () r = Pad (c, p, v, axes)",
            "int32[2,4] {2, 3, 9, 9, 5, 6, 9, 9}",
        ),
        (
            "int32[2,6]",
            "p = Constant <value_ints = [1, 2]> () r = Tile (c, p)",
            "int32[2,6] {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}",
        ),
        ("int32[2,3]", "r = Trilu <upper = 0> (c)", "int32[2,3] {1, 0, 0, 4, 5, 0}"),
        (
            "int32[2,1]",
            "p = Constant <value_ints = [2, 1]> () a, r = Split <axis = 1> (c, p)",
            "int32[2,1] {3, 6}",
        ),
        (
            "int32[2,2]",
            "k = Constant <value_ints = [2]> () r, i = TopK (c, k)",
            "int32[2,2] {3, 2, 6, 5}",
        ),
        (
            "int64[1,3]",
            "k = Constant <value_ints = [1]> () a, r = TopK <axis = 0> (c, k)",
            "int64[1,3] {1, 1, 1}",
        ),
        ("int64[3]", "r = ArgMax <axis = 0, keepdims = 0> (c)", "int64[3] {1, 1, 1}"),
        (
            "int32[2]",
            "axes = Constant <value_ints = [1]> () r = ReduceSum <keepdims = 0> (c, axes)",
            "int32[2] {6, 15}",
        ),
        (
            "int32[2,3]",
            "axes = Constant <value_int = 1> () r = CumSum (c, axes)",
            "int32[2,3] {1, 3, 6, 4, 9, 15}",
        ),
        (
            "int32[2,3]",
            "n = Neg (c) t = Constant <value = int32 {4}> () r = Mod (n, t)",
            "int32[2,3] {3, 2, 1, 0, 3, 2}",
        ),
        (
            "int32[2,3]",
            "n = Neg (c) t = Constant <value = int32 {4}> () r = Mod <fmod = 1> (n, t)",
            "int32[2,3] {-1, -2, -3, 0, -1, -2}",
        ),
        (
            "int32[2,3]",
            "t = Constant <value = int32 {6}> () n = BitwiseNot (c) r = BitwiseAnd (n, t)",
            "int32[2,3] {6, 4, 4, 2, 2, 0}",
        ),
    ] {
        let expected = format!("r = Constant <value = {expected}> ()");
        folds_to(&format!("{result}: {c} {op}"), &expected);
    }
    folds_to(
        "uint32[2]: a = Constant <value = uint32[2] {4294967295, 3}> ()
         one = Constant <value = uint32 {1}> () b = Add (a, one)
         r = BitShift <direction = \"LEFT\"> (a, one)",
        "r = Constant <value = uint32[2] {4294967294, 6}> ()",
    );
}

#[test]
fn folding_looks_through_repeated_numbers() {
    assert_eq!(
        operators(
            &REWRITE,
            "g (float[2000] x) => (float[2000] y) {
                s = Constant <value_ints = [2000]> () one = Constant <value_float: float = 1> ()
                t = Expand (one, s) i = Constant <value = int64[1,1] {5}> ()
                u = Constant <value = float[1] {7}> ()
                w = ScatterND (t, i, u) y = Add (x, w)
            }"
        ),
        ["Add"]
    );
}

/// Masks do not share the room for tables.
#[test]
fn masks_fold_up_to_a_million_elements() {
    let table = table(1000, 1000).replace("t = Mul (k, j)", "");
    let text = format!(
        "g (float[1000,1000] x, bool[1000,1000] p) => (float[1000,1000] y, bool[1000,1000] q) {{
            {table} none = Constant <value_float: float = 0> ()
            low = Constant <value_float: float = -1e9> () t = Less (k, j) u = LessOrEqual (k, j)
            w = Where (u, none, low) y = Add (x, w) q = And (p, t)
        }}"
    );
    let mut operators = operators(&REWRITE, &text);
    operators.sort_unstable();
    assert_eq!(operators, ["Add", "And"]);
}

#[test]
fn another_layout_of_a_large_constant_replaces_it() {
    let text = |other: &str| {
        let many = vec!["1"; 600_000].join(", ");
        format!(
            "g (int64[1000,600] x, int64[600,1000] z) => (int64[1000,600] y, int64[600,1000] w) {{
                c = Constant <value = int64[600,1000] {{{many}}}> () d = Neg (z)
                t = Transpose <perm = [1, 0]> (c) y = Add (x, t) w = Add (z, {other})
            }}"
        )
    };
    assert_eq!(operators(&REWRITE, &text("d")), ["Neg", "Add", "Add"]);
    assert_eq!(operators(&REWRITE, &text("c")), ["Neg", "Transpose", "Add", "Add"]);
}

/// Results are reused for the same operator with the same attributes only.
#[test]
fn operators_with_other_attributes_have_their_own_results() {
    let c = "c = Constant <value = int32[2,2,2] {1, 2, 3, 4, 5, 6, 7, 8}> ()";
    let numbers = |elements: &str| format!("Constant <value = int32[2,2,2] {{{elements}}}> ()");
    folds_to(
        &format!(
            "int32[2,2,2]: {c} a = Transpose <perm = [1, 0, 2]> (c) b = Transpose <perm = [0, 2, 1]> (c)
             d = Transpose <perm = [1, 0, 2]> (c) e = Sub (a, b) r = Add (e, d)"
        ),
        &format!("r = {}", numbers("1, 1, 8, 8, 1, 1, 8, 8")),
    );
}
